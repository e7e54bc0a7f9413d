//! Builds the providers and resolves `provider/model` to one of them. The built-in facts about each provider are in
//! [`KNOWN_PROVIDERS`].

use super::gate::ProviderGate;
use super::http::HttpProvider;
use super::refusals::ModelRefusals;
use super::{Provider, codec};
use crate::base::config::{
    AnswerMode, Config, KNOWN_PROVIDERS, ProviderId, ProviderSettings, known_provider,
};
use crate::base::http_client::api_client;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The configured providers.
pub struct Providers {
    // A provider with a problem holds its message, which callers get when they request it; the others work.
    by_name: BTreeMap<String, Result<Arc<dyn Provider>, String>>,
}

/// Builds the configured providers. A provider with invalid settings is reported by [`Providers::resolve`] when one
/// of its models is requested.
pub fn build(
    settings: &BTreeMap<String, ProviderSettings>,
    client: reqwest::Client,
    answer_mode: AnswerMode,
) -> Providers {
    let built = |(name, settings): (&String, &ProviderSettings)| {
        let provider = build_one(name, settings, client.clone(), answer_mode);
        (
            name.clone(),
            provider.map(|provider| Arc::new(provider) as Arc<dyn Provider>),
        )
    };
    Providers {
        by_name: settings.iter().map(built).collect(),
    }
}

/// Returns the provider and the default model of a configuration, with an HTTP client of their own. The error says what
/// to set.
pub fn default_model(config: &Config) -> Result<(Arc<dyn Provider>, String), String> {
    let client = api_client().map_err(|error| error.to_string())?;
    build(&config.providers, client, config.model.answer_mode).resolve(&config.model.default)
}

impl Providers {
    /// Returns the provider and model of a `provider/model` name. The error names the key to set.
    pub fn resolve(&self, name: &str) -> Result<(Arc<dyn Provider>, String), String> {
        let (prefix, model) = match name.split_once('/') {
            Some((prefix, model)) if !prefix.is_empty() && !model.trim().is_empty() => (prefix, model.trim()),
            Some(_) | None => {
                return Err(format!(
                    "`{name}` is not `provider/model`, such as `anthropic/claude-sonnet-4-5`"
                ));
            }
        };
        // A configured section takes precedence over an alias of a known provider.
        let known = known_provider(prefix);
        let by_alias = || self.by_name.get(known?.name);
        match self.by_name.get(prefix).or_else(by_alias) {
            Some(provider) => Ok((provider.clone()?, model.to_owned())),
            None if known.is_none() => Err(format!(
                "there is no provider `{prefix}`; there are {}, and `[providers.{prefix}]` in the configuration adds it",
                known_names()
            )),
            None => Err(format!(
                "`{name}` needs `[providers.{prefix}]` in the configuration"
            )),
        }
    }
}

fn build_one(
    name: &str,
    settings: &ProviderSettings,
    client: reqwest::Client,
    answer_mode: AnswerMode,
) -> Result<HttpProvider, String> {
    let known = known_provider(name);
    let api_key = settings
        .api_key
        .clone()
        .filter(|key| !key.expose().trim().is_empty());
    if api_key.is_none() && settings.needs_key {
        return Err(format!("`{name}` needs a key: set `providers.{name}.api_key`"));
    }
    let codec = codec(settings.wire, ProviderId::of(name), name);
    if codec.headers(api_key.as_ref()).is_none() {
        return Err(format!(
            "`providers.{name}.api_key` has characters a header cannot carry"
        ));
    }
    Ok(HttpProvider {
        id: name.to_owned(),
        base_url: base_url(name, known.and_then(|known| known.base_url), settings)?,
        codec,
        api_key,
        answer_mode,
        attempt_time_max: Duration::from_secs(settings.request_seconds_max.max(1)),
        idle_time_max: Duration::from_secs(settings.idle_seconds_max.max(1)),
        attempts_max: settings.attempts_max.max(1),
        gate: ProviderGate::default(),
        refusals: ModelRefusals::default(),
        client,
    })
}

/// Returns the base URL without a slash at the end.
fn base_url(name: &str, usual_base_url: Option<&str>, settings: &ProviderSettings) -> Result<String, String> {
    let base_url = Some(settings.base_url.trim())
        .filter(|url| !url.is_empty())
        .or(usual_base_url)
        .ok_or_else(|| format!("`{name}` needs an address: set `providers.{name}.base_url`"))?;
    match reqwest::Url::parse(base_url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            Ok(base_url.trim_end_matches('/').to_owned())
        }
        Ok(_) | Err(_) => Err(format!("`providers.{name}.base_url` is not an http address")),
    }
}

fn known_names() -> String {
    let names: Vec<&str> = KNOWN_PROVIDERS.iter().map(|known| known.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{build, build_one};
    use crate::base::config::{AnswerMode, KNOWN_PROVIDERS, ProviderSettings, WireFormat};
    use crate::base::http_client::api_client;
    use crate::base::model::Secret;
    use std::collections::BTreeMap;

    fn settings(api_key: Option<&str>, base_url: &str) -> ProviderSettings {
        ProviderSettings {
            api_key: api_key.map(|key| Secret::new(key.to_owned())),
            needs_key: false,
            wire: WireFormat::OpenaiChat,
            base_url: base_url.to_owned(),
            request_seconds_max: 120,
            idle_seconds_max: 30,
            attempts_max: 5,
        }
    }

    fn resolved(name: &str) -> Result<(String, String), String> {
        let settings = BTreeMap::from([
            ("anthropic".to_owned(), settings(Some("k"), "")),
            ("openrouter".to_owned(), settings(Some("k"), "")),
            ("ollama".to_owned(), settings(None, "")),
            (
                "openai".to_owned(),
                ProviderSettings {
                    needs_key: true,
                    ..settings(None, "")
                },
            ),
            ("google".to_owned(), settings(Some("a\nb"), "")),
            ("custom".to_owned(), settings(None, "")),
            ("azure".to_owned(), settings(Some("k"), "ftp://x")),
            (
                "house".to_owned(),
                settings(None, "https://models.example.com/v1"),
            ),
            ("barn".to_owned(), settings(None, "")),
        ]);
        let providers = build(&settings, api_client().expect("client"), AnswerMode::Streamed);
        providers
            .resolve(name)
            .map(|(provider, model)| (provider.id().to_owned(), model))
    }

    /// CI-20
    #[test]
    fn a_model_is_named_by_provider_and_name() {
        let both = |provider: &str, model: &str| Ok((provider.to_owned(), model.to_owned()));
        assert_eq!(
            resolved("anthropic/claude-sonnet-4-5"),
            both("anthropic", "claude-sonnet-4-5")
        );
        assert_eq!(
            resolved("openrouter/qwen/qwen3:free"),
            both("openrouter", "qwen/qwen3:free")
        );
        assert_eq!(resolved("ollama/llama3.2"), both("ollama", "llama3.2"));
        assert_eq!(resolved("house/qwen3"), both("house", "qwen3"));
        // An alias is the provider itself, whose key is wrong here.
        let why = "`providers.google.api_key` has characters a header cannot carry";
        assert_eq!(resolved("gemini/gemini-2.5-pro"), Err(why.to_owned()));
    }

    /// CI-21
    #[test]
    fn what_is_missing_is_named() {
        let names = [
            "openai/gpt",
            "google/gemini",
            "custom/x",
            "azure/x",
            "barn/x",
            "mystery/x",
            "claude",
            "openai/",
        ];
        let errors: Vec<String> = names.iter().filter_map(|name| resolved(name).err()).collect();
        let known: Vec<&str> = KNOWN_PROVIDERS.iter().map(|known| known.name).collect();
        let unknown = format!(
            "there is no provider `mystery`; there are {}, and `[providers.mystery]` in the configuration adds it",
            known.join(", ")
        );
        assert_eq!(
            errors,
            [
                "`openai` needs a key: set `providers.openai.api_key`",
                "`providers.google.api_key` has characters a header cannot carry",
                "`custom` needs an address: set `providers.custom.base_url`",
                "`providers.azure.base_url` is not an http address",
                "`barn` needs an address: set `providers.barn.base_url`",
                &unknown,
                "`claude` is not `provider/model`, such as `anthropic/claude-sonnet-4-5`",
                "`openai/` is not `provider/model`, such as `anthropic/claude-sonnet-4-5`",
            ]
        );
        let none = build(
            &BTreeMap::new(),
            api_client().expect("client"),
            AnswerMode::Streamed,
        );
        let error = none.resolve("anthropic/claude").err();
        let expected = "`anthropic/claude` needs `[providers.anthropic]` in the configuration";
        assert_eq!(error.as_deref(), Some(expected));
    }

    /// Returns the address of requests to `model`.
    fn url(name: &str, wire: WireFormat, base_url: &str) -> Result<String, String> {
        let settings = ProviderSettings {
            wire,
            ..settings(None, base_url)
        };
        let client = api_client().expect("client");
        let provider = build_one(name, &settings, client, AnswerMode::Whole)?;
        Ok(provider.url("m"))
    }

    /// CI-20
    #[test]
    fn each_format_has_its_address_and_the_version_may_be_part_of_the_base_url_or_not() {
        for base in ["", "https://api.anthropic.com/", "https://api.anthropic.com/v1/"] {
            let expected = Ok("https://api.anthropic.com/v1/messages".to_owned());
            assert_eq!(url("anthropic", WireFormat::AnthropicMessages, base), expected);
        }
        for (name, wire, expected) in [
            (
                "openai",
                WireFormat::OpenaiResponses,
                "https://api.openai.com/v1/responses",
            ),
            (
                "openai",
                WireFormat::OpenaiChat,
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "google",
                WireFormat::GeminiGenerate,
                "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
            ),
            (
                "openrouter",
                WireFormat::OpenaiChat,
                "https://openrouter.ai/api/v1/chat/completions",
            ),
            (
                "ollama",
                WireFormat::OpenaiChat,
                "http://localhost:11434/v1/chat/completions",
            ),
        ] {
            assert_eq!(url(name, wire, "").as_deref(), Ok(expected));
        }
        for (name, base, expected) in [
            (
                "azure",
                "https://ours.openai.azure.com/openai/v1/",
                "https://ours.openai.azure.com/openai/v1/chat/completions",
            ),
            (
                "house",
                "https://models.example.com",
                "https://models.example.com/chat/completions",
            ),
        ] {
            assert_eq!(url(name, WireFormat::OpenaiChat, base).as_deref(), Ok(expected));
        }
    }
}
