//! The models that may answer the calls of a turn, in order: the default model, then its fallbacks.

use super::CallSize;
use super::context::ContextBudget;
use crate::base::config::{Config, ModelFacts};
use crate::base::model::{AgentBounds, Attachment, Limits, MediaType, MediaTypes, Spending};
use crate::interfaces::provider::{Provider, Providers};
use std::sync::Arc;

/// A model that may answer the calls of a turn.
#[derive(Clone, Copy)]
pub struct TurnModel<'a> {
    /// The provider of the model.
    pub provider: &'a dyn Provider,
    /// The name of the model, without its provider.
    pub name: &'a str,
    /// The limits and prices of the model.
    pub facts: ModelFacts,
}

impl TurnModel<'_> {
    /// Returns the name as `provider/model`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider.id(), self.name)
    }

    /// Returns the maximum number of tokens of an answer.
    pub(super) fn answer_tokens_max(&self, limits: &Limits) -> u32 {
        let tokens = limits.answer_tokens_max;
        let tokens = self
            .facts
            .answer_tokens_max
            .map_or(tokens, |most| tokens.min(most));
        // An answer that takes the whole window leaves no room for a request.
        match self.facts.context_tokens {
            Some(window) if tokens >= window => window / 2,
            Some(_) | None => tokens,
        }
    }

    /// Returns true if the model takes an attachment. A model about which this is not known takes none.
    pub(super) fn takes(&self, attachment: &Attachment) -> bool {
        let types = self.facts.attachments.unwrap_or_default();
        types.contains(attachment.media_type())
    }

    /// Returns the reason why the model cannot be asked about these attachments, with what to do; `None` if it takes all.
    pub fn refusal_of(&self, attachments: &[Attachment]) -> Option<String> {
        let refused = attachments.iter().find(|attachment| !self.takes(attachment))?;
        let (file, model) = (refused.file(), self.full_name());
        let kind = refused.media_type().name();
        Some(match self.facts.attachments {
            None => format!(
                "it is not known which files `{model}` takes, so {file} was not sent; set `attachments` of \
                 [models.\"{model}\"] to the types that it takes, or use another model"
            ),
            Some(types) => format!(
                "`{model}` does not take files of the type {kind}, so {file} was not sent; {}",
                remedy(types)
            ),
        })
    }

    /// Returns the bounds of requests with `fixed` bytes of instructions and tools.
    pub(super) fn budget(&self, limits: &Limits, fixed: usize) -> ContextBudget {
        let limits = Limits {
            answer_tokens_max: self.answer_tokens_max(limits),
            ..limits.clone()
        };
        ContextBudget::new(&limits, self.facts.context_tokens, fixed)
    }
}

/// Returns what to do about a file that a model with these types does not take.
fn remedy(types: MediaTypes) -> String {
    let known: Vec<&str> = types.iter().map(MediaType::word).collect();
    match known.is_empty() {
        true => "use another model".to_owned(),
        false => format!(
            "it takes {}; convert the file, or use another model",
            known.join(", ")
        ),
    }
}

/// The configured models, in order. There is at least the default model.
#[derive(Clone)]
pub struct ModelChain {
    models: Vec<ChainedModel>,
}

#[derive(Clone)]
struct ChainedModel {
    provider: Arc<dyn Provider>,
    name: String,
    facts: ModelFacts,
}

impl ModelChain {
    /// Finds the providers of the configured models. The error names the key to set.
    pub fn resolve(config: &Config, providers: &Providers) -> Result<Self, String> {
        let models = config.model.in_order().map(|model| {
            let (provider, name) = providers.resolve(model)?;
            let facts = config.model_facts(provider.id(), &name);
            Ok(ChainedModel {
                provider,
                name,
                facts,
            })
        });
        Ok(Self {
            models: models.collect::<Result<_, String>>()?,
        })
    }

    /// Finds the model of an agent step of a pipeline, and no fallbacks. The definition comes from a repository, so it may
    /// name only what the operator has configured, and never where a key of the operator is sent. An error says what to do.
    pub fn of_step(config: &Config, providers: &Providers, bounds: &AgentBounds) -> Result<Self, String> {
        let model = &bounds.model;
        let (provider, name) = providers.resolve(model)?;
        let is_in_order = config.model.in_order().any(|known| {
            let known = providers.resolve(known);
            known.is_ok_and(|(known, known_name)| known.id() == provider.id() && known_name == name)
        });
        if !is_in_order && !config.models.is_listed(provider.id(), &name) {
            return Err(format!(
                "the operator of this server has not configured the model `{model}`; use one of {}, or ask for an entry \
                 [models.\"{model}\"]",
                config.model.in_order().collect::<Vec<_>>().join(", ")
            ));
        }
        if let Some(base_url) = &bounds.base_url {
            let prefix = model.split_once('/').map_or("", |(prefix, _)| prefix);
            let own = config
                .providers
                .get(provider.id())
                .map(|settings| settings.base_url.as_str());
            if own.map(|own| own.trim_end_matches('/')) != Some(base_url.trim_end_matches('/')) {
                return Err(format!(
                    "`base_url` is not the address that the operator of this server has set for `{prefix}`; leave it out"
                ));
            }
        }
        let facts = config.model_facts(provider.id(), &name);
        if bounds.max_cents > 0 && facts.price.is_none() {
            return Err(format!(
                "the prices of `{model}` are not known, so a bound in cents cannot be kept; bound tokens instead, or ask the \
                 operator for price_input and price_output in [models.\"{model}\"]"
            ));
        }
        Ok(Self {
            models: vec![ChainedModel {
                provider,
                name,
                facts,
            }],
        })
    }

    /// Returns the default model alone.
    #[must_use]
    pub fn without_fallbacks(mut self) -> Self {
        self.models.truncate(1);
        self
    }

    /// Returns the models, in order.
    pub fn models(&self) -> Vec<TurnModel<'_>> {
        let models = self.models.iter().map(|model| TurnModel {
            provider: model.provider.as_ref(),
            name: &model.name,
            facts: model.facts,
        });
        models.collect()
    }

    /// Returns the facts about the default model.
    pub fn default_facts(&self) -> ModelFacts {
        self.models.first().map(|model| model.facts).unwrap_or_default()
    }
}

/// Returns the most that a call costs, whichever of the models answers it.
pub fn call_cost_max(models: &[ModelFacts], call: CallSize) -> Spending {
    let costs = models.iter().map(|facts| {
        Spending::of_call_max(
            call.request_bytes,
            call.bytes_per_1000_tokens,
            call.answer_tokens_max,
            facts.price.as_ref(),
        )
    });
    costs.reduce(Spending::max).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ModelChain;
    use crate::base::config::{Config, ConfigSources, SourceFile};
    use crate::base::http_client::api_client;
    use crate::base::model::AgentBounds;
    use crate::interfaces::provider::build;
    use std::time::Duration;

    fn chain(model: &str, base_url: Option<&str>, max_cents: u64) -> Result<Vec<String>, String> {
        let config = Config::load(ConfigSources {
            file: Some(SourceFile {
                path: "drydock.toml".into(),
                text: "[model]\ndefault = \"anthropic/claude-sonnet-4-5\"\nfallbacks = [\"house/large\"]\n\
                       [providers.anthropic]\napi_key = { env = \"KEY\" }\n\
                       [providers.house]\nbase_url = \"http://127.0.0.1:9/v1\"\nkeyless = true\n\
                       [models.\"anthropic/claude-opus-*\"]\nanswer_tokens_max = 4_000\n"
                    .to_owned(),
            }),
            environment: [("KEY".to_owned(), "8f742231b10e8888abcd99".to_owned())].into(),
            ..ConfigSources::default()
        });
        let config = config.unwrap();
        let providers = build(&config.providers, api_client().unwrap(), config.model.answer_mode);
        let bounds = AgentBounds {
            model: model.to_owned(),
            base_url: base_url.map(str::to_owned),
            max_steps: 20,
            max_tokens: 0,
            max_cents,
            timeout: Duration::from_secs(600),
            truncate_head: 4_096,
            truncate_tail: 61_440,
            tools: ["file_read".to_owned()].into(),
            may_edit: false,
            environments: None,
        };
        let chain = ModelChain::of_step(&config, &providers, &bounds)?;
        Ok(chain.models().iter().map(|model| model.full_name()).collect())
    }

    /// CI-20
    #[test]
    fn a_step_has_the_model_that_it_names_if_the_operator_has_configured_it() {
        for model in [
            "anthropic/claude-sonnet-4-5",
            "house/large",
            "anthropic/claude-opus-4-1",
        ] {
            assert_eq!(chain(model, None, 0), Ok(vec![model.to_owned()]));
        }
        assert_eq!(
            chain("anthropic/claude-haiku-4-5", None, 0),
            Err(
                "the operator of this server has not configured the model `anthropic/claude-haiku-4-5`; use one of \
                 anthropic/claude-sonnet-4-5, house/large, or ask for an entry [models.\"anthropic/claude-haiku-4-5\"]"
                    .to_owned()
            )
        );
        assert_eq!(
            chain("openai/gpt-5", None, 0),
            Err("`openai/gpt-5` needs `[providers.openai]` in the configuration".to_owned())
        );
    }

    #[test]
    fn a_definition_sends_no_key_of_the_operator_elsewhere() {
        let own = chain("house/large", Some("http://127.0.0.1:9/v1/"), 0);
        assert_eq!(own, Ok(vec!["house/large".to_owned()]));
        assert_eq!(
            chain("house/large", Some("https://models.example.com/v1"), 0),
            Err("`base_url` is not the address that the operator of this server has set for `house`; leave it out".to_owned())
        );
    }

    #[test]
    fn a_bound_in_cents_needs_prices() {
        assert!(chain("anthropic/claude-sonnet-4-5", None, 5).is_ok());
        assert_eq!(
            chain("house/large", None, 5),
            Err(
                "the prices of `house/large` are not known, so a bound in cents cannot be kept; bound tokens instead, or \
                 ask the operator for price_input and price_output in [models.\"house/large\"]"
                    .to_owned()
            )
        );
    }
}
