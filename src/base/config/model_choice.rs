//! Chooses the model from `model.default` and `model.provider`. Either may be set alone, and both may come from the
//! same layer or from different ones.

use crate::base::config::models::{KNOWN_PROVIDERS, KnownProvider, known_provider, usual_model};
use crate::base::config::reader::{SettingLayer, SettingsReader};
use crate::base::config::settings::{AnswerMode, ModelSettings};
use crate::base::model::edit_distance;
use std::collections::BTreeSet;

pub(super) const DEFAULT: &str = "model.default";
pub(super) const PROVIDER: &str = "model.provider";
pub(super) const FALLBACKS: &str = "model.fallbacks";
/// The maximum number of fallback models.
const FALLBACKS_MAX: usize = 4;

/// Returns the provider of `provider/model`.
pub(super) fn provider_of(model: &str) -> Option<&str> {
    model.split_once('/').map(|(provider, _)| provider)
}

/// Returns the model of a server: the configured one, or the default.
pub(super) fn for_server(reader: &mut SettingsReader<'_>) -> ModelSettings {
    let default = match reader.is_set(PROVIDER) || reader.is_set(DEFAULT) {
        true => chosen(reader),
        false => reader.text(DEFAULT),
    };
    settings(reader, default, ListedDefault::Problem)
}

/// Returns the model of a terminal session: the configured one, or that of the provider whose key is present.
pub(super) fn for_terminal(reader: &mut SettingsReader<'_>) -> ModelSettings {
    let default = match reader.is_set(PROVIDER) || reader.is_set(DEFAULT) {
        true => chosen(reader),
        false => usual(reader),
    };
    settings(reader, default, ListedDefault::LeftOut)
}

/// The handling of a fallback that the same layer makes the default model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListedDefault {
    /// It is a mistake.
    Problem,
    /// It is left out: a person has chosen it for a session.
    LeftOut,
}

fn settings(
    reader: &mut SettingsReader<'_>,
    default: Option<String>,
    listed_default: ListedDefault,
) -> ModelSettings {
    let default = default.unwrap_or_default();
    ModelSettings {
        fallbacks: fallbacks(reader, &default, listed_default),
        default,
        answer_mode: match reader.boolean("model.stream") {
            true => AnswerMode::Streamed,
            false => AnswerMode::Whole,
        },
    }
}

/// Returns the fallback models as `provider/model`, in order. If another layer makes one of them the default model, the
/// rest remains.
fn fallbacks(reader: &mut SettingsReader<'_>, default: &str, listed_default: ListedDefault) -> Vec<String> {
    let listed = reader.list(FALLBACKS);
    if listed.len() > FALLBACKS_MAX {
        reader.problem(FALLBACKS, format!("has more than {FALLBACKS_MAX} models"));
    }
    let of_default = reader.layer(DEFAULT).max(reader.layer(PROVIDER));
    let is_mistake = listed_default == ListedDefault::Problem && reader.layer(FALLBACKS) == of_default;
    let configured = reader.names("providers");
    let choice = Choice {
        model: None,
        provider: None,
        configured: &configured,
    };
    let mut models: Vec<String> = Vec::new();
    for (index, name) in listed.iter().enumerate() {
        // A problem never repeats a value, which may be a secret in the wrong place.
        let place = format!("model {}", index + 1);
        let model = choice
            .check_shape(name)
            .and_then(|()| choice.without_provider(name));
        let problem = match model {
            Ok(model) if models.contains(&model) => format!("{place} is listed twice"),
            Ok(model) if model == default && is_mistake => {
                format!("{place} is the default model; remove it here")
            }
            Ok(model) if model == default => continue,
            Ok(model) => {
                models.push(model);
                continue;
            }
            Err(why) => format!("{place}: {why}"),
        };
        reader.problem(FALLBACKS, problem);
    }
    models
}

/// Returns the operator's choice as `provider/model`, with the name of a known or configured provider.
fn chosen(reader: &mut SettingsReader<'_>) -> Option<String> {
    if reader.refused(DEFAULT) || reader.refused(PROVIDER) {
        return None;
    }
    let configured = reader.names("providers");
    let choice = Choice {
        model: set(reader, DEFAULT),
        provider: set(reader, PROVIDER),
        configured: &configured,
    };
    match choice.resolve() {
        Ok(model) => Some(model),
        Err((key, why)) => {
            reader.problem(key, why);
            None
        }
    }
}

fn set(reader: &mut SettingsReader<'_>, key: &str) -> Option<(SettingLayer, String)> {
    Some((reader.layer(key)?, reader.text(key)?))
}

/// The settings and the layers that set them.
struct Choice<'a> {
    model: Option<(SettingLayer, String)>,
    provider: Option<(SettingLayer, String)>,
    configured: &'a BTreeSet<String>,
}

impl Choice<'_> {
    fn resolve(&self) -> Result<String, (&'static str, String)> {
        let provider = match &self.provider {
            Some((layer, name)) => Some((*layer, self.known(name).map_err(|why| (PROVIDER, why))?)),
            None => None,
        };
        let model = match &self.model {
            Some((layer, model)) => {
                self.check_shape(model).map_err(|why| (DEFAULT, why))?;
                Some((*layer, model.as_str()))
            }
            None => None,
        };
        match (provider, model) {
            // A layer of higher priority sets only the provider: the model of a lower layer belongs to another
            // provider.
            (Some((strong, provider)), Some((weak, _))) if strong > weak => provider_default(&provider),
            (Some((_, provider)), None) => provider_default(&provider),
            (Some((weak, provider)), Some((strong, model))) if strong > weak => {
                self.resolve_override(&provider, model)
            }
            (Some((_, provider)), Some((_, model))) => Ok(self.joined(&provider, model)),
            (None, Some((_, model))) => self.without_provider(model).map_err(|why| (DEFAULT, why)),
            (None, None) => Err((DEFAULT, EXPECTED.to_owned())),
        }
    }

    fn check_shape(&self, model: &str) -> Result<(), String> {
        let is_shaped = !model.is_empty() && !model.contains(char::is_whitespace);
        match is_shaped && !model.starts_with('/') && !model.ends_with('/') {
            true => Ok(()),
            false => Err(EXPECTED.to_owned()),
        }
    }

    /// Resolves a model from a layer that does not set the provider. The model's name may contain a provider, or
    /// imply one by its maker's prefix.
    fn resolve_override(&self, provider: &str, model: &str) -> Result<String, (&'static str, String)> {
        let names_one = provider_of(model).is_some_and(|name| self.known(name).is_ok());
        let maker = maker_of(model).filter(|maker| *maker != provider);
        let is_of_another_maker = maker.is_some() && MAKERS.iter().any(|(name, _)| *name == provider);
        match names_one || is_of_another_maker {
            true => self.without_provider(model).map_err(|why| (DEFAULT, why)),
            false => Ok(self.joined(provider, model)),
        }
    }

    /// Returns `provider/model`. The model's name may already begin with the provider.
    fn joined(&self, provider: &str, model: &str) -> String {
        let rest = model
            .split_once('/')
            .filter(|(name, _)| self.known(name).is_ok_and(|name| name == provider));
        format!("{provider}/{}", rest.map_or(model, |(_, rest)| rest))
    }

    fn without_provider(&self, model: &str) -> Result<String, String> {
        match model.split_once('/') {
            Some((provider, rest)) => Ok(format!("{}/{rest}", self.known(provider)?)),
            None => match maker_of(model) {
                Some(maker) => Ok(format!("{maker}/{model}")),
                None => Err(format!("names no provider; {EXPECTED}")),
            },
        }
    }

    /// Returns the provider's name as used in its section. A configured section takes precedence over an alias of a
    /// known provider.
    fn known(&self, provider: &str) -> Result<String, String> {
        if self.configured.contains(provider) {
            return Ok(provider.to_owned());
        }
        if let Some(known) = known_provider(provider) {
            return Ok(known.name.to_owned());
        }
        let names = KNOWN_PROVIDERS
            .iter()
            .flat_map(|known| [&[known.name], known.aliases].concat())
            .chain(self.configured.iter().map(String::as_str));
        let near = names
            .min_by_key(|name| edit_distance(name, provider))
            .unwrap_or_default();
        Err(format!(
            "its provider is neither known nor configured; did you mean {near}?"
        ))
    }
}

const EXPECTED: &str = "expected provider/model, such as anthropic/claude-sonnet-4-5";

/// Makers of models with the prefixes of their models' names.
const MAKERS: [(&str, &[&str]); 3] = [
    ("anthropic", &["claude"]),
    ("openai", &["gpt", "chatgpt"]),
    ("google", &["gemini"]),
];

/// Returns the maker of a model by the prefix of its name: `gpt-4o` is of `openai`. A name with a provider has no
/// maker here.
fn maker_of(model: &str) -> Option<&'static str> {
    if model.contains('/') {
        return None;
    }
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| model.starts_with(beginning));
    let maker = MAKERS.iter().find(|(_, beginnings)| begins(beginnings));
    // Names such as o1 and o3-mini.
    let mut letters = model.chars();
    let is_o = letters.next() == Some('o') && letters.next().is_some_and(|next| next.is_ascii_digit());
    maker.map(|(maker, _)| *maker).or(is_o.then_some("openai"))
}

/// Returns the default model of a provider that was set without a model.
fn provider_default(provider: &str) -> Result<String, (&'static str, String)> {
    match usual_model(provider) {
        Some(model) => Ok(format!("{provider}/{model}")),
        None => Err((
            PROVIDER,
            "this provider has no known default model; set model.default as well".to_owned(),
        )),
    }
}

fn usual(reader: &mut SettingsReader<'_>) -> Option<String> {
    let stored = reader.providers_stored();
    let has_own = |known: &&KnownProvider| {
        reader.is_set(&format!("providers.{}.api_key", known.name))
            || reader.has_conventional(known.variables)
    };
    // A stored key of any provider comes after the keys of the configuration and the environment.
    let with_usual = || KNOWN_PROVIDERS.iter().filter(|known| known.usual_model.is_some());
    let own = with_usual().find(has_own);
    let found = own.or_else(|| with_usual().find(|known| stored.contains(known.name)));
    if let Some(KnownProvider {
        name,
        usual_model: Some(model),
        ..
    }) = found
    {
        return Some(format!("{name}/{model}"));
    }
    let why = "no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, run `drydock auth login`, or choose a model with DRYDOCK_MODEL__DEFAULT";
    reader.problem(DEFAULT, why);
    None
}
