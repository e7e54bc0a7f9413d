//! `drydock models`: lists the models of the configured providers with their limits and prices. With `--check`, it asks
//! each provider once.

use super::output::Output;
use super::{CliError, Global};
use crate::base::config::{Config, ModelFacts, ProviderSettings, usual_model};
use crate::base::http_client;
use crate::base::model::{History, MediaType, ModelPrice, TokenPrice, group_thousands, pluralize};
use crate::interfaces::provider::{self, Completion, Patience, Providers, ToolChoice, TurnRequest};
use crate::state::access::Access;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock models
  drydock models --check
  drydock models --config drydock.toml --json

It lists every provider with a section or a key. Prices are US dollars for a million tokens; `*`
marks the default model, and a number its fallbacks in order. [models] in the configuration file
adds models and replaces their facts. --check asks each provider once, and each model that may
answer, with a request of a few tokens and a wait of at most 30 s.

Without --config, the configuration file is ~/.config/drydock/drydock.toml; a drydock.toml in the
working directory is not read.

Exit codes: 0 all providers answered, or none was asked; 1 a provider did not answer; 78 wrong
configuration.";

/// The longest wait for the answer of one provider.
const CHECK_SECONDS_MAX: u64 = 30;

/// The limit of an answer to a check, in tokens.
const CHECK_TOKENS_MAX: u32 = 16;

#[derive(Debug, Args)]
pub(super) struct ModelsArguments {
    /// Asks each provider once, and says what failed and what to set
    #[arg(long)]
    check: bool,
}

pub(super) async fn run(
    arguments: ModelsArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let config = Config::for_models(global.model_sources()?).map_err(CliError::config)?;
    let listed = listed(&config);
    let checks = match arguments.check {
        true => Some(check_all(&config).await?),
        false => None,
    };
    match output.json() {
        true => output.value(&as_json(&config, &listed, checks.as_deref())),
        false => {
            print_models(&listed, output);
            if let Some(checks) = &checks {
                output.line("");
                print_checks(checks, output);
            }
        }
    }
    let failed = checks.iter().flatten().filter(|check| check.outcome.is_err());
    match unanswered(&failed.collect::<Vec<_>>()) {
        None => Ok(()),
        Some(why) => Err(CliError::failed(why)),
    }
}

/// Returns the number of providers that did not answer, and of their models if these are more; `None` if all answered.
fn unanswered(failed: &[&ProviderCheck]) -> Option<String> {
    let providers: BTreeSet<&str> = failed.iter().map(|check| check.provider.as_str()).collect();
    let counted = pluralize(providers.len(), "provider", "providers");
    match (providers.len(), failed.len()) {
        (0, _) => None,
        (providers, models) if models > providers => {
            Some(format!("{models} models of {counted} did not answer"))
        }
        _ => Some(format!("{counted} did not answer")),
    }
}

/// A model of a configured provider.
struct ListedModel {
    provider: String,
    /// The name without the provider; none if no model of the provider is known.
    model: Option<String>,
    wire: &'static str,
    /// The place among the models that may answer: 0 for the default model, then its fallbacks.
    place: Option<usize>,
    facts: ModelFacts,
}

impl ListedModel {
    fn name(&self) -> String {
        format!("{}/{}", self.provider, self.model.as_deref().unwrap_or("*"))
    }
}

/// Returns the known models of each configured provider, and the default model.
fn listed(config: &Config) -> Vec<ListedModel> {
    let mut listed = Vec::new();
    for (provider, settings) in &config.providers {
        let chosen = chosen_of(config, provider);
        let mut models = config.models.models_of(provider);
        models.extend(&chosen);
        models.sort_unstable();
        models.dedup();
        let models: Vec<Option<&str>> = match models.as_slice() {
            [] => vec![None],
            models => models.iter().copied().map(Some).collect(),
        };
        listed.extend(models.into_iter().map(|model| ListedModel {
            provider: provider.clone(),
            model: model.map(str::to_owned),
            wire: settings.wire.word(),
            place: model.and_then(|model| place(config, provider, model)),
            facts: config.model_facts(provider, model.unwrap_or_default()),
        }));
    }
    listed
}

/// Returns the place of a model among those that may answer.
fn place(config: &Config, provider: &str, model: &str) -> Option<usize> {
    let is_it = |name: &str| name.split_once('/') == Some((provider, model));
    config.model.in_order().position(is_it)
}

/// Returns the models of a provider that may answer, in order.
fn chosen_of<'a>(config: &'a Config, provider: &str) -> Vec<&'a str> {
    let models = config.model.in_order().filter_map(|name| name.split_once('/'));
    let own = models.filter(|(of, _)| *of == provider);
    own.map(|(_, model)| model).collect()
}

fn print_models(listed: &[ListedModel], output: &Output) {
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|listed| {
            let tokens =
                |tokens: Option<u32>| tokens.map_or("-".to_owned(), |tokens| group_thousands(tokens.into()));
            let price = listed.facts.price.as_ref();
            let mut row = vec![
                match listed.place {
                    None => listed.name(),
                    Some(0) => format!("{} *", listed.name()),
                    Some(place) => format!("{} {place}", listed.name()),
                },
                listed.wire.to_owned(),
                tokens(listed.facts.context_tokens),
                tokens(listed.facts.answer_tokens_max),
            ];
            row.extend(
                prices(price)
                    .map(|price| price.map_or("-".to_owned(), |price| price.of_a_million().to_string())),
            );
            row.push(price_source(price));
            row
        })
        .collect();
    let header = [
        "MODEL",
        "WIRE",
        "WINDOW",
        "ANSWER",
        "INPUT",
        "OUTPUT",
        "CACHE READ",
        "CACHE WRITE",
        "PRICE OF",
    ];
    output.table(&header, &rows);
}

/// Returns the prices of input, output, and of reading and writing the cache.
fn prices(price: Option<&ModelPrice>) -> [Option<TokenPrice>; 4] {
    let prices = price.map(|price| price.prices);
    [
        prices.map(|prices| prices.input),
        prices.map(|prices| prices.output),
        prices.and_then(|prices| prices.cache_read),
        prices.and_then(|prices| prices.cache_write),
    ]
}

/// Returns the date of a price, or its source; more if long prompts have another price.
fn price_source(price: Option<&ModelPrice>) -> String {
    let Some(price) = price else {
        return "-".to_owned();
    };
    let mut source = price
        .as_of
        .map_or("configuration".to_owned(), |date| date.to_string());
    if let Some(long) = price.long_prompt {
        let above = group_thousands(long.above_tokens);
        source.push_str(&format!(", more above {above} tokens"));
    }
    source
}

/// The answer of a provider to a check.
pub(super) struct ProviderCheck {
    pub(super) provider: String,
    /// The model that was asked; none if no model of the provider is known.
    pub(super) model: Option<String>,
    /// The answer; else the reason, with what to set.
    pub(super) outcome: Result<Completion, String>,
}

/// Asks each provider once, and each of its models that may answer.
pub(super) async fn check_all(config: &Config) -> Result<Vec<ProviderCheck>, CliError> {
    let client = http_client::api_client().map_err(CliError::failed)?;
    let bounded = |settings: &ProviderSettings| ProviderSettings {
        attempts_max: 1,
        request_seconds_max: settings.request_seconds_max.min(CHECK_SECONDS_MAX),
        ..settings.clone()
    };
    let settings = config.providers.iter();
    let settings = settings.map(|(name, settings)| (name.clone(), bounded(settings)));
    let providers = provider::build(&settings.collect(), client, config.model.answer_mode);
    let providers = &providers;
    let checks = config.providers.keys().flat_map(|provider| {
        let models = checked_models(config, provider).into_iter();
        models.map(move |model| check(providers, provider, model))
    });
    Ok(futures_util::future::join_all(checks).await)
}

/// Returns the models of a provider that are asked: those that may answer, or else one that is known; `None` if no model
/// is known.
fn checked_models<'a>(config: &'a Config, provider: &str) -> Vec<Option<&'a str>> {
    let chosen = chosen_of(config, provider);
    let known = || config.models.models_of(provider).first().copied();
    match chosen.is_empty() {
        true => vec![usual_model(provider).or_else(known)],
        false => chosen.into_iter().map(Some).collect(),
    }
}

async fn check(providers: &Providers, provider: &str, model: Option<&str>) -> ProviderCheck {
    let outcome = match model {
        Some(model) => ask(providers, provider, model).await,
        None => Err(format!(
            "no model is known; set model.default to one of its models, or add [models.\"{provider}/<model>\"]"
        )),
    };
    ProviderCheck {
        provider: provider.to_owned(),
        model: model.map(str::to_owned),
        outcome,
    }
}

async fn ask(providers: &Providers, provider: &str, model: &str) -> Result<Completion, String> {
    let (provider, model) = providers.resolve(&format!("{provider}/{model}"))?;
    let mut history = History::default();
    history
        .begin("Answer with: ok")
        .map_err(|error| error.to_string())?;
    let request = TurnRequest {
        identity: &Access::terminal_identity("you"),
        model: &model,
        system: "This is a check of the connection.",
        tools: &[],
        tool_choice: ToolChoice::Free,
        turns: history.turns(),
        answer_tokens_max: CHECK_TOKENS_MAX,
        patience: Patience::Full,
    };
    let cancel = CancellationToken::new();
    let mut sink = |_| ();
    let answer = provider.turn(request, &mut sink, &cancel);
    match tokio::time::timeout(Duration::from_secs(CHECK_SECONDS_MAX), answer).await {
        Ok(Ok(completion)) => Ok(completion),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("there was no answer within {CHECK_SECONDS_MAX} s")),
    }
}

fn print_checks(checks: &[ProviderCheck], output: &Output) {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let (result, detail) = match (&check.outcome, check.model.as_deref()) {
                (Ok(completion), model) => {
                    let tokens = completion.usage().total();
                    let tokens = format!("{} tokens", group_thousands(tokens));
                    ("ok", format!("{} answered, {tokens}", model.unwrap_or_default()))
                }
                (Err(why), Some(model)) => ("FAILED", format!("{model}: {why}")),
                (Err(why), None) => ("FAILED", why.clone()),
            };
            vec![check.provider.clone(), result.to_owned(), detail]
        })
        .collect();
    output.table(&["PROVIDER", "RESULT", "DETAIL"], &rows);
}

fn as_json(config: &Config, listed: &[ListedModel], checks: Option<&[ProviderCheck]>) -> Value {
    let models = listed.iter().map(|listed| {
        let price = listed.facts.price.as_ref();
        let [input, output, cache_read, cache_write] =
            prices(price).map(|price| price.map(|price| price.of_a_million().nano_dollars()));
        json!({
            "model": listed.name(), "wire": listed.wire, "default": listed.place == Some(0),
            "context_tokens": listed.facts.context_tokens, "answer_tokens_max": listed.facts.answer_tokens_max,
            "attachments": listed.facts.attachments.map(|types| types.iter().map(MediaType::word).collect::<Vec<_>>()),
            "price_nano_dollars_per_million_tokens": price.map(|_| json!({
                "input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write,
            })),
            "price_as_of": price.and_then(|price| price.as_of).map(|date| date.to_string()),
        })
    });
    let mut value = json!({"default": config.model.default, "fallbacks": config.model.fallbacks, "models": models.collect::<Vec<_>>()});
    if let Some(checks) = checks {
        let checks = checks.iter().map(|check| {
            json!({
                "provider": check.provider, "ok": check.outcome.is_ok(),
                "model": check.model,
                "error": check.outcome.as_ref().err(),
            })
        });
        value["checks"] = checks.collect();
    }
    value
}
