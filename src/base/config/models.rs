//! Accounts with model providers: the built-in facts about each provider, and the operator's settings.

use crate::base::config::model_choice::{FALLBACKS, provider_of};
use crate::base::config::reader::{ConventionalSecret, SettingsReader};
use crate::base::config::settings::ProviderSettings;
use crate::base::model::Secret;
use std::collections::{BTreeMap, BTreeSet};

/// The built-in facts about a provider.
#[derive(Debug)]
pub struct KnownProvider {
    /// The provider.
    pub id: ProviderId,
    /// The name, which is also the name of its section.
    pub name: &'static str,
    /// Aliases of the name.
    pub aliases: &'static [&'static str],
    /// The address of its API; `None` if every account has its own address.
    pub base_url: Option<&'static str>,
    /// The wire format of its API.
    pub wire: WireFormat,
    /// The variables in which the provider's own tools look for the key; empty if it needs no key.
    pub variables: &'static [&'static str],
    /// The default model of a terminal session.
    pub usual_model: Option<&'static str>,
}

/// Defines the wire formats from one list, so that each has exactly one word.
macro_rules! wire_formats {
    ($($(#[$about:meta])* $format:ident = $word:literal,)+) => {
        /// A wire format: the form of requests and answers of an API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WireFormat {
            $($(#[$about])* $format,)+
        }

        impl WireFormat {
            /// The wire formats.
            pub const ALL: &'static [Self] = &[$(Self::$format,)+];
            /// The words of the formats, as in the configuration.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// Returns the word of the format.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$format => $word,)+
                }
            }
        }
    };
}

wire_formats! {
    /// Anthropic's Messages.
    AnthropicMessages = "anthropic-messages",
    /// OpenAI's chat completions, which many services support.
    OpenaiChat = "openai-chat",
    /// OpenAI's Responses.
    OpenaiResponses = "openai-responses",
    /// Gemini's `generateContent`.
    GeminiGenerate = "gemini-generate",
}

/// The end of the address at which Gemini supports chat completions.
const GEMINI_CHAT_PATH: &str = "/openai";

/// Defines the providers and their facts from one list, so that each provider has exactly one entry.
macro_rules! known_providers {
    ($($(#[$about:meta])* $id:ident { $($fact:ident: $value:expr,)+ })+) => {
        /// A provider with a built-in API client. Services with a name of the operator's own are
        /// [`ProviderId::Custom`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProviderId {
            $($(#[$about])* $id,)+
        }

        /// The known providers, in the order in which a terminal session looks for a key.
        pub const KNOWN_PROVIDERS: &[KnownProvider] = &[
            $(KnownProvider { id: ProviderId::$id, $($fact: $value,)+ },)+
        ];
    };
}

known_providers! {
    /// `anthropic`
    Anthropic {
        name: "anthropic",
        aliases: &[],
        base_url: Some("https://api.anthropic.com"),
        wire: WireFormat::AnthropicMessages,
        variables: &["ANTHROPIC_API_KEY"],
        usual_model: Some("claude-opus-4-6"),
    }
    /// `openai`
    Openai {
        name: "openai",
        aliases: &[],
        base_url: Some("https://api.openai.com/v1"),
        wire: WireFormat::OpenaiResponses,
        variables: &["OPENAI_API_KEY"],
        usual_model: Some("gpt-4o"),
    }
    /// `google`
    Google {
        name: "google",
        aliases: &["gemini"],
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        wire: WireFormat::GeminiGenerate,
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        usual_model: Some("gemini-3.5-flash"),
    }
    /// `openrouter`
    Openrouter {
        name: "openrouter",
        aliases: &[],
        base_url: Some("https://openrouter.ai/api/v1"),
        wire: WireFormat::OpenaiChat,
        variables: &["OPENROUTER_API_KEY"],
        usual_model: None,
    }
    /// `azure`
    Azure {
        name: "azure",
        aliases: &[],
        base_url: None,
        wire: WireFormat::OpenaiChat,
        variables: &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
        usual_model: None,
    }
    /// `ollama`
    Ollama {
        name: "ollama",
        aliases: &[],
        base_url: Some("http://localhost:11434/v1"),
        wire: WireFormat::OpenaiChat,
        variables: &[],
        usual_model: None,
    }
    /// `custom`
    Custom {
        name: "custom",
        aliases: &[],
        base_url: None,
        wire: WireFormat::OpenaiChat,
        variables: &["CUSTOM_API_KEY"],
        usual_model: None,
    }
}

impl ProviderId {
    /// Returns the provider of a configured name.
    pub fn of(name: &str) -> Self {
        known_provider(name).map_or(Self::Custom, |known| known.id)
    }
}

/// Returns the known provider of this name or alias.
pub fn known_provider(provider: &str) -> Option<&'static KnownProvider> {
    KNOWN_PROVIDERS
        .iter()
        .find(|known| known.name == provider || known.aliases.contains(&provider))
}

/// Returns the default model of a provider that was chosen without a model: `gpt-4o` for `openai`.
pub fn usual_model(provider: &str) -> Option<&'static str> {
    known_provider(provider)?.usual_model
}

/// Returns the known providers whose key is in one of its usual variables, or stored. One that needs an address has to be
/// configured.
pub(super) fn with_conventional_key(reader: &SettingsReader<'_>) -> BTreeSet<String> {
    let stored = reader.providers_stored();
    let has_all = |known: &&KnownProvider| {
        let has_key = reader.has_conventional(known.variables) || stored.contains(known.name);
        known.base_url.is_some() && has_key
    };
    let found = KNOWN_PROVIDERS.iter().filter(has_all);
    found.map(|known| known.name.to_owned()).collect()
}

/// Reads the accounts of these providers.
pub(super) fn providers(
    reader: &mut SettingsReader<'_>,
    names: &BTreeSet<String>,
) -> BTreeMap<String, ProviderSettings> {
    let settings = names
        .iter()
        .filter_map(|name| Some((name.clone(), provider(reader, name)?)));
    settings.collect()
}

fn provider(reader: &mut SettingsReader<'_>, name: &str) -> Option<ProviderSettings> {
    let section = format!("providers.{name}");
    let known = known_provider(name);
    let keyless = format!("{section}.keyless");
    let key_need = match reader.boolean(&keyless) {
        true => KeyNeed::Refused,
        // A refused value does not say whether a key is needed.
        false if reader.refused(&keyless) => KeyNeed::Accepted,
        false if known.is_some_and(|known| known.variables.is_empty()) => KeyNeed::Accepted,
        false => KeyNeed::Required,
    };
    let api_key = api_key(reader, name, key_need);
    let url_path = format!("{section}.base_url");
    let base_url = match reader.url(&url_path) {
        Some(url) => Some(url.as_str().to_owned()),
        None => known.and_then(|known| known.base_url).map(str::to_owned),
    };
    if base_url.is_none() {
        let why = "is required: an https URL, or an http URL to this machine";
        reader.problem(&url_path, why);
    }
    let base_url = base_url?;
    Some(ProviderSettings {
        wire: wire(reader, &format!("{section}.wire"), known, &base_url)?,
        api_key,
        needs_key: key_need == KeyNeed::Required,
        base_url,
        request_seconds_max: reader.integer(&format!("{section}.request_seconds_max")),
        idle_seconds_max: reader.integer(&format!("{section}.idle_seconds_max")),
        attempts_max: reader.integer(&format!("{section}.attempts_max")),
    })
}

/// Returns the configured wire format, or that of the provider. A service with a name of its own usually supports chat
/// completions.
fn wire(
    reader: &mut SettingsReader<'_>,
    path: &str,
    known: Option<&KnownProvider>,
    base_url: &str,
) -> Option<WireFormat> {
    if reader.is_set(path) {
        let words = WireFormat::ALL.iter().map(|format| (format.word(), *format));
        return reader.choice(path, &words.collect::<Vec<_>>());
    }
    let usual = known.map_or(WireFormat::OpenaiChat, |known| known.wire);
    let is_chat = base_url.trim_end_matches('/').ends_with(GEMINI_CHAT_PATH);
    Some(match usual {
        WireFormat::GeminiGenerate if is_chat => WireFormat::OpenaiChat,
        usual => usual,
    })
}

/// The need of a provider for a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyNeed {
    /// Requests without a key would fail.
    Required,
    Accepted,
    /// The operator has said that there is none.
    Refused,
}

/// Returns the configured key, or the key from a variable of the provider's own tools, or the stored one. A missing key is a
/// problem if the provider needs one, because requests without it would fail.
fn api_key(reader: &mut SettingsReader<'_>, name: &str, key_need: KeyNeed) -> Option<Secret> {
    let path = format!("providers.{name}.api_key");
    if reader.is_set(&path) {
        if key_need == KeyNeed::Refused {
            reader.problem(
                &path,
                "a provider with keyless = true needs no key; remove one of the two",
            );
        }
        return reader.secret(&path);
    }
    if key_need != KeyNeed::Required {
        return None;
    }
    let variables = variables(name);
    let found = match reader.conventional(&path, &variables) {
        ConventionalSecret::NotSet => reader.stored_key(&path, name),
        found => found,
    };
    match found {
        ConventionalSecret::Secret(secret) => Some(secret),
        ConventionalSecret::Refused => None,
        ConventionalSecret::NotSet => {
            let mut why = format!(
                "the API key is missing; set {} or this key",
                variables.join(" or ")
            );
            if known_provider(name).is_none_or(|known| known.base_url.is_none()) {
                why.push_str(", or keyless = true for a service that needs none");
            }
            // The key is needed because of the model setting from the layer of the highest priority.
            let cause = ["model.provider", "model.default"]
                .into_iter()
                .max_by_key(|key| reader.layer(key));
            let cause = cause.filter(|_| !is_fallback(reader, name)).unwrap_or(FALLBACKS);
            reader.problem_because_of(cause, &path, why);
            None
        }
    }
}

/// Returns true if one of the fallback models is of this provider.
fn is_fallback(reader: &mut SettingsReader<'_>, name: &str) -> bool {
    let fallbacks = reader.list(FALLBACKS);
    let mut providers = fallbacks.iter().filter_map(|model| provider_of(model));
    providers
        .any(|provider| provider == name || known_provider(provider).is_some_and(|known| known.name == name))
}

/// Returns the variables that may hold the key of a provider: `GROQ_API_KEY` for `groq`.
pub(super) fn variables(name: &str) -> Vec<String> {
    match known_provider(name) {
        Some(known) => known.variables.iter().map(|name| (*name).to_owned()).collect(),
        None => vec![format!("{}_API_KEY", name.replace('-', "_").to_uppercase())],
    }
}
