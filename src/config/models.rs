//! Which model answers, and the account it is reached with.

use crate::config::reader::{Conventional, Reader};
use crate::config::settings::{ModelSettings, ProviderSettings};
use crate::model::edits;
use std::collections::{BTreeMap, BTreeSet};

/// A provider whose API we know.
pub struct KnownProvider {
    /// Its name, and that of its section.
    pub name: &'static str,
    /// Where its API is; nothing if every account has its own address.
    pub base_url: Option<&'static str>,
    /// Where its own tools look for the key; empty if it needs none.
    pub variables: &'static [&'static str],
    /// What a terminal session uses when nobody chose a model.
    pub usual_model: Option<&'static str>,
}

/// In the order in which a terminal session looks for a key.
pub const KNOWN_PROVIDERS: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        base_url: Some("https://api.anthropic.com"),
        variables: &["ANTHROPIC_API_KEY"],
        usual_model: Some("claude-opus-4-6"),
    },
    KnownProvider {
        name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        variables: &["OPENAI_API_KEY"],
        usual_model: Some("gpt-4o"),
    },
    KnownProvider {
        name: "google",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        usual_model: Some("gemini-2.0-flash"),
    },
    KnownProvider {
        name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        variables: &["OPENROUTER_API_KEY"],
        usual_model: None,
    },
    KnownProvider {
        name: "azure",
        base_url: None,
        variables: &["AZURE_OPENAI_API_KEY"],
        usual_model: None,
    },
    KnownProvider {
        name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        variables: &[],
        usual_model: None,
    },
    KnownProvider {
        name: "custom",
        base_url: None,
        variables: &[],
        usual_model: None,
    },
];

/// What is known of a provider of this name.
pub fn known_provider(provider: &str) -> Option<&'static KnownProvider> {
    KNOWN_PROVIDERS.iter().find(|known| known.name == provider)
}

/// The model a provider answers with when only the provider was chosen: `gpt-4o` for `openai`.
pub fn usual_model(provider: &str) -> Option<&'static str> {
    known_provider(provider)?.usual_model
}

/// The provider of `provider/model`.
pub(super) fn provider_of(model: &str) -> Option<&str> {
    model.split_once('/').map(|(provider, _)| provider)
}

/// The model of a server: the one that was set, or the default.
pub(super) fn for_server(reader: &mut Reader<'_>) -> ModelSettings {
    ModelSettings {
        default: chosen(reader).unwrap_or_default(),
        stream: reader.boolean("model.stream"),
    }
}

/// The model of a terminal session: the one that was set, or that of the provider whose key is here.
pub(super) fn for_terminal(reader: &mut Reader<'_>) -> ModelSettings {
    let default = if reader.is_set("model.default") {
        chosen(reader)
    } else {
        usual(reader)
    };
    ModelSettings {
        default: default.unwrap_or_default(),
        stream: reader.boolean("model.stream"),
    }
}

fn chosen(reader: &mut Reader<'_>) -> Option<String> {
    let model = reader.text("model.default")?;
    let shaped = |model: &str| {
        let (provider, name) = model.split_once('/')?;
        let fits = !provider.is_empty() && !name.is_empty() && !model.contains(char::is_whitespace);
        fits.then(|| provider.to_owned())
    };
    let Some(provider) = shaped(&model) else {
        reader.problem(
            "model.default",
            "expected provider/model, such as anthropic/claude-sonnet-4-5",
        );
        return None;
    };
    let configured = reader.names("providers");
    if known_provider(&provider).is_some() || configured.contains(&provider) {
        return Some(model);
    }
    let names = KNOWN_PROVIDERS
        .iter()
        .map(|known| known.name)
        .chain(configured.iter().map(String::as_str));
    let near = names
        .min_by_key(|name| edits(name, &provider))
        .unwrap_or_default();
    reader.problem(
        "model.default",
        format!("its provider is neither known nor configured; did you mean {near}/...?"),
    );
    None
}

fn usual(reader: &mut Reader<'_>) -> Option<String> {
    for known in KNOWN_PROVIDERS {
        let Some(model) = known.usual_model else {
            continue;
        };
        let key = format!("providers.{}.api_key", known.name);
        if reader.is_set(&key) || reader.has_conventional(known.variables) {
            return Some(format!("{}/{model}", known.name));
        }
    }
    let why = "no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or choose a model with DRYDOCK_MODEL__DEFAULT";
    reader.problem("model.default", why);
    None
}

/// The accounts of these providers.
pub(super) fn providers(
    reader: &mut Reader<'_>,
    names: &BTreeSet<String>,
) -> BTreeMap<String, ProviderSettings> {
    let settings = names
        .iter()
        .filter_map(|name| Some((name.clone(), provider(reader, name)?)));
    settings.collect()
}

fn provider(reader: &mut Reader<'_>, name: &str) -> Option<ProviderSettings> {
    let section = format!("providers.{name}");
    let known = known_provider(name);
    let variables = known.map_or(&[] as &[&str], |known| known.variables);
    let key_path = format!("{section}.api_key");
    let api_key = match (reader.is_set(&key_path), variables) {
        (true, _) => reader.secret(&key_path),
        (false, []) => None,
        (false, variables) => match reader.conventional(&key_path, variables) {
            Conventional::Secret(secret) => Some(secret),
            Conventional::Refused => None,
            Conventional::NotSet => {
                let variables = variables.join(" or ");
                let why = format!("the API key is missing; set {variables} or this key");
                reader.problem_because_of("model.default", &key_path, why);
                None
            }
        },
    };
    let url_path = format!("{section}.base_url");
    let base_url = match reader.url(&url_path) {
        Some(url) => Some(url.as_str().to_owned()),
        None => known.and_then(|known| known.base_url).map(str::to_owned),
    };
    if base_url.is_none() {
        let why = "is required: an https URL, or an http URL to this machine";
        reader.problem(&url_path, why);
    }
    Some(ProviderSettings {
        api_key,
        base_url: base_url?,
        request_seconds_max: reader.integer(&format!("{section}.request_seconds_max")),
        idle_seconds_max: reader.integer(&format!("{section}.idle_seconds_max")),
        attempts_max: reader.integer(&format!("{section}.attempts_max")),
    })
}
