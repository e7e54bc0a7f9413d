//! `[models."<provider>/<model>"]`: limits and prices of models. The built-in ones are in `config/models.toml`, and the
//! operator can add or replace each of them.

use crate::base::config::models::known_provider;
use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::Config;
use crate::base::model::{LongPromptPrices, MediaType, MediaTypes, ModelPrice, TokenPrice, TokenPrices};
use jiff::civil::Date;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The maximum number of characters of a model's name with its provider.
const NAME_CHARS_MAX: usize = 200;

/// The least number of digits that make a number behind a name a snapshot: `gpt-4-0613` is one of `gpt-4`, and
/// `claude-opus-4-5` is none of `claude-opus-4`.
const SNAPSHOT_DIGITS_MIN: usize = 3;

/// Facts about a model. A fact that is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// The number of tokens of prompt and answer together.
    pub context_tokens: Option<u32>,
    /// The number of tokens of the longest answer.
    pub answer_tokens_max: Option<u32>,
    /// The prices; 0 for a model that costs nothing.
    pub price: Option<ModelPrice>,
    /// The types of files that it takes beside text.
    pub attachments: Option<MediaTypes>,
}

/// The facts about all models: those of the operator, and the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTable {
    /// The operator's entries, by `provider/model`.
    entries: BTreeMap<String, ModelEntry>,
}

/// The facts under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelEntry {
    context_tokens: Option<u32>,
    answer_tokens_max: Option<u32>,
    #[serde(deserialize_with = "media_types")]
    attachments: Option<MediaTypes>,
    #[serde(deserialize_with = "price")]
    price_input: Option<TokenPrice>,
    #[serde(deserialize_with = "price")]
    price_output: Option<TokenPrice>,
    #[serde(deserialize_with = "price")]
    price_cache_read: Option<TokenPrice>,
    #[serde(deserialize_with = "price")]
    price_cache_write: Option<TokenPrice>,
    long_prompt: Option<LongPromptEntry>,
    #[serde(deserialize_with = "date")]
    as_of: Option<Date>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPromptEntry {
    above_tokens: u64,
    #[serde(deserialize_with = "price")]
    price_input: Option<TokenPrice>,
    #[serde(deserialize_with = "price")]
    price_output: Option<TokenPrice>,
    #[serde(default, deserialize_with = "price")]
    price_cache_read: Option<TokenPrice>,
    #[serde(default, deserialize_with = "price")]
    price_cache_write: Option<TokenPrice>,
}

/// The built-in entries. A test parses them, so they are never empty.
static BUILT_IN: LazyLock<BTreeMap<String, ModelEntry>> = LazyLock::new(|| built_in().unwrap_or_default());

fn built_in() -> Result<BTreeMap<String, ModelEntry>, toml::de::Error> {
    toml::from_str(include_str!("../../../config/models.toml"))
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TokenPrice>, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    let price = TokenPrice::parse(&dollars.to_string());
    price
        .map(Some)
        .ok_or_else(|| serde::de::Error::custom("no price"))
}

fn media_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MediaTypes>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let types = words.iter().map(|word| MediaType::of_word(word));
    let types: Option<MediaTypes> = types.collect();
    types
        .map(Some)
        .ok_or_else(|| serde::de::Error::custom("no type of a file"))
}

fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    let date = toml::value::Datetime::deserialize(deserializer)?;
    date.to_string()
        .parse()
        .map(Some)
        .map_err(serde::de::Error::custom)
}

impl ModelTable {
    /// Returns the facts about a model of a provider.
    pub fn facts(&self, provider: &str, model: &str) -> ModelFacts {
        let name = canonical(provider, model);
        let own = longest(&self.entries, &name).unwrap_or_default();
        let known = longest(&BUILT_IN, &name).unwrap_or_default();
        ModelFacts {
            context_tokens: own.context_tokens.or(known.context_tokens),
            answer_tokens_max: own.answer_tokens_max.or(known.answer_tokens_max),
            price: own.price_over(&known),
            attachments: own.attachments.or(known.attachments),
        }
    }

    /// Returns true if an entry of the operator names a model of a provider.
    pub fn is_listed(&self, provider: &str, model: &str) -> bool {
        longest(&self.entries, &canonical(provider, model)).is_some()
    }

    /// Returns the models of a provider that have facts, by name.
    pub fn models_of(&self, provider: &str) -> Vec<&str> {
        let prefix = canonical(provider, "");
        let names = BUILT_IN.keys().chain(self.entries.keys());
        let mut models: Vec<&str> = names
            .filter_map(|name| name.strip_prefix(&prefix))
            .filter(|model| !model.ends_with('*'))
            .collect();
        models.sort_unstable();
        models.dedup();
        models
    }
}

impl ModelEntry {
    /// Returns the prices of this entry; what it leaves out is taken from `known`. The other prices of `known` for long
    /// prompts do not apply to an operator's prices.
    fn price_over(&self, known: &Self) -> Option<ModelPrice> {
        let own = [
            self.price_input,
            self.price_output,
            self.price_cache_read,
            self.price_cache_write,
        ];
        let is_own = own.iter().any(Option::is_some);
        let long_prompt = known.long_prompt.filter(|_| !is_own);
        Some(ModelPrice {
            prices: TokenPrices {
                input: self.price_input.or(known.price_input)?,
                output: self.price_output.or(known.price_output)?,
                cache_read: self.price_cache_read.or(known.price_cache_read),
                cache_write: self.price_cache_write.or(known.price_cache_write),
            },
            long_prompt: long_prompt.and_then(|long| long.prices()),
            as_of: known.as_of.filter(|_| !is_own),
        })
    }
}

impl LongPromptEntry {
    fn prices(self) -> Option<LongPromptPrices> {
        Some(LongPromptPrices {
            above_tokens: self.above_tokens,
            prices: TokenPrices {
                input: self.price_input?,
                output: self.price_output?,
                cache_read: self.price_cache_read,
                cache_write: self.price_cache_write,
            },
        })
    }
}

/// Returns `provider/model` with the provider's own name instead of an alias.
fn canonical(provider: &str, model: &str) -> String {
    let provider = known_provider(provider).map_or(provider, |known| known.name);
    format!("{provider}/{model}")
}

/// Returns the entry with the longest name that covers a model. A name without `*` goes before others.
fn longest(entries: &BTreeMap<String, ModelEntry>, name: &str) -> Option<ModelEntry> {
    let covering = entries.iter().filter_map(|(pattern, entry)| {
        let rank = match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix).then_some((false, pattern.len())),
            None => is_snapshot(name, pattern).then_some((true, pattern.len())),
        };
        Some((rank?, entry))
    });
    covering.max_by_key(|(rank, _)| *rank).map(|(_, entry)| *entry)
}

/// Returns true if a name is that of a model, or of one of its snapshots.
fn is_snapshot(name: &str, model: &str) -> bool {
    let Some(rest) = name.strip_prefix(model) else {
        return false;
    };
    let Some(version) = rest.strip_prefix(['-', '@']) else {
        return rest.is_empty();
    };
    let digits = version.bytes().take_while(u8::is_ascii_digit).count();
    let is_date = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    version == "latest" || (is_date && digits >= SNAPSHOT_DIGITS_MIN)
}

impl Config {
    /// Returns the facts about a model of a provider.
    pub fn model_facts(&self, provider: &str, model: &str) -> ModelFacts {
        self.models.facts(provider, model)
    }
}

/// Reads the operator's entries.
pub(super) fn model_table(reader: &mut SettingsReader<'_>) -> ModelTable {
    let mut entries = BTreeMap::new();
    for name in reader.dotted_names("models") {
        let section = format!("models.{name}");
        let Some((provider, model)) = name.split_once('/').filter(|_| is_name(&name)) else {
            reader.problem(
                &section,
                "expected provider/model, such as [models.\"openai/gpt-4o\"]",
            );
            continue;
        };
        let is_configured = reader.names("providers").contains(provider);
        if known_provider(provider).is_none() && !is_configured {
            let why =
                format!("there is no provider {provider}; add [providers.{provider}], or correct the name");
            reader.problem(&section, why);
        }
        let name = canonical(provider, model);
        let entry = entry(reader, &section);
        let known = longest(&BUILT_IN, &name).unwrap_or_default();
        check_prices(reader, &section, &entry, &known);
        entries.insert(name, entry);
    }
    ModelTable { entries }
}

fn is_name(name: &str) -> bool {
    let is_printable = |char: char| !char.is_whitespace() && !char.is_control();
    let is_whole = |part: &str| !part.is_empty();
    name.len() <= NAME_CHARS_MAX && name.chars().all(is_printable) && name.split('/').all(is_whole)
}

fn entry(reader: &mut SettingsReader<'_>, section: &str) -> ModelEntry {
    let key = |key: &str| format!("{section}.{key}");
    let entry = ModelEntry {
        context_tokens: reader.optional_integer(&key("context_tokens")),
        answer_tokens_max: reader.optional_integer(&key("answer_tokens_max")),
        attachments: attachments(reader, &key("attachments")),
        price_input: reader.price(&key("price_input")),
        price_output: reader.price(&key("price_output")),
        price_cache_read: reader.price(&key("price_cache_read")),
        price_cache_write: reader.price(&key("price_cache_write")),
        long_prompt: None,
        as_of: None,
    };
    if let (Some(context), Some(answer)) = (entry.context_tokens, entry.answer_tokens_max)
        && answer > context
    {
        reader.problem(&key("answer_tokens_max"), "is more than context_tokens");
    }
    entry
}

/// Reads the types of files that a model takes; an empty list if it takes none.
fn attachments(reader: &mut SettingsReader<'_>, key: &str) -> Option<MediaTypes> {
    if !reader.is_set(key) || reader.refused(key) {
        return None;
    }
    let mut types = Vec::new();
    for word in reader.list(key) {
        match MediaType::of_word(&word) {
            Some(media) => types.push(media),
            None => {
                let known = MediaType::ALL.map(MediaType::word).join(", ");
                reader.problem(
                    key,
                    format!("`{word}` is no type of a file; the types are {known}"),
                );
            }
        }
    }
    Some(types.into_iter().collect())
}

/// Reports prices that cannot be used, because the price of the input or of the output is not known.
fn check_prices(reader: &mut SettingsReader<'_>, section: &str, entry: &ModelEntry, known: &ModelEntry) {
    let prices = [
        ("price_input", entry.price_input),
        ("price_output", entry.price_output),
        ("price_cache_read", entry.price_cache_read),
        ("price_cache_write", entry.price_cache_write),
    ];
    let key = |key: &str| format!("{section}.{key}");
    let Some((first, _)) = prices.into_iter().find(|(_, price)| price.is_some()) else {
        return;
    };
    let is_refused = reader.refused(&key("price_input")) || reader.refused(&key("price_output"));
    if entry.price_over(known).is_none() && !is_refused {
        let why = "needs price_input and price_output: the other prices of this model are not known";
        reader.problem(&key(first), why);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{built_in, is_snapshot};
    use crate::base::config::KNOWN_PROVIDERS;

    #[test]
    fn every_built_in_fact_is_usable() {
        let entries = built_in().unwrap();
        assert!(entries.len() > 30, "{}", entries.len());
        for (name, entry) in &entries {
            let (provider, _) = name.split_once('/').unwrap();
            assert!(
                KNOWN_PROVIDERS.iter().any(|known| known.name == provider),
                "{name}"
            );
            assert!(entry.price_over(entry).is_some(), "{name} has no price");
            assert!(
                provider == "ollama" || entry.attachments.is_some(),
                "{name} has no attachments"
            );
            assert!(
                provider == "ollama" || entry.as_of.is_some(),
                "{name} has no date"
            );
            let has_all = entry.long_prompt.is_none_or(|long| long.prices().is_some());
            assert!(has_all, "{name} has no price for long prompts");
            let both = entry.answer_tokens_max.zip(entry.context_tokens);
            assert!(both.is_none_or(|(answer, context)| answer < context), "{name}");
        }
    }

    #[test]
    fn a_snapshot_is_its_model_and_a_later_version_is_another() {
        for (name, model) in [
            ("gpt-4o", "gpt-4o"),
            ("gpt-4o-2024-08-06", "gpt-4o"),
            ("gpt-4-0613", "gpt-4"),
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("gpt-5-latest", "gpt-5"),
        ] {
            assert!(is_snapshot(name, model), "{name}");
        }
        for (name, model) in [
            ("gpt-4o-mini", "gpt-4o"),
            ("gpt-5.4", "gpt-5"),
            ("claude-opus-5-5", "claude-opus-5"),
            ("gemini-2.5-flash-lite-001", "gemini-2.5-flash"),
            ("gpt-5-", "gpt-5"),
            ("gpt", "gpt-5"),
        ] {
            assert!(!is_snapshot(name, model), "{name}");
        }
    }
}
