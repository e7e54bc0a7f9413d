//! The keys of model providers by their sources, in the order in which the sources are used: the configuration, the
//! variables of the providers' own tools, and the stored keys of the user.

use crate::base::config::error::ConfigError;
use crate::base::config::models::{KNOWN_PROVIDERS, known_provider, variables};
use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::Config;
use crate::base::config::sources::ConfigSources;
use crate::base::model::Secret;
use std::collections::BTreeSet;

/// A key of a provider, and its source.
#[derive(Clone)]
pub struct ProviderKey {
    /// The name of the provider.
    pub provider: String,
    /// The source.
    pub origin: KeyOrigin,
    /// The key, or the reason why it cannot be used.
    pub key: Result<Secret, String>,
}

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// `providers.<name>.api_key`, which refers to this variable or file.
    Configuration(String),
    /// This variable of the provider's own tools.
    Environment(String),
    /// The stored keys of this user.
    Stored,
}

impl Config {
    /// Returns true if a provider is known, or has a section of its own.
    pub fn has_provider(sources: &ConfigSources, name: &str) -> bool {
        known_provider(name).is_some() || SettingsReader::new(sources).names("providers").contains(name)
    }

    /// Returns every key of a provider. Of several keys of one provider, the first one is used.
    pub fn provider_keys(sources: &ConfigSources) -> Result<Vec<ProviderKey>, ConfigError> {
        let mut reader = SettingsReader::new(sources);
        let known = KNOWN_PROVIDERS.iter().map(|known| known.name.to_owned());
        let mut names: Vec<String> = known.collect();
        let others: BTreeSet<String> = &reader.names("providers") | &reader.providers_stored();
        names.extend(
            others
                .into_iter()
                .filter(|name| known_provider(name).is_none_or(|known| known.name != name)),
        );
        let mut keys = Vec::new();
        for provider in names {
            for (origin, key) in keys_of(&mut reader, &provider) {
                keys.push(ProviderKey {
                    provider: provider.clone(),
                    origin,
                    key,
                });
            }
        }
        reader.finish()?;
        Ok(keys)
    }

    /// Returns the name under which the configuration has a provider: that of its section, or that of a known provider with
    /// this name or alias. The error lists the names.
    pub fn provider_name(sources: &ConfigSources, typed: &str) -> Result<String, String> {
        let configured = SettingsReader::new(sources).names("providers");
        if configured.contains(typed) {
            return Ok(typed.to_owned());
        }
        if let Some(known) = known_provider(typed) {
            return Ok(known.name.to_owned());
        }
        let known = KNOWN_PROVIDERS.iter().map(|known| known.name.to_owned());
        let names: BTreeSet<String> = known.chain(configured).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        Err(format!(
            "no provider has this name; there are {names}, and each section [providers.<name>] adds one"
        ))
    }
}

fn keys_of(
    reader: &mut SettingsReader<'_>,
    provider: &str,
) -> impl Iterator<Item = (KeyOrigin, Result<Secret, String>)> + use<> {
    let path = format!("providers.{provider}.api_key");
    let configured = reader.describe_secret(&path);
    let conventional = reader.describe_conventional(&path, &variables(provider));
    let stored = reader.describe_stored(&path, provider);
    let configured = configured.map(|(source, key)| (KeyOrigin::Configuration(source), key));
    let conventional = conventional.map(|(name, key)| (KeyOrigin::Environment(name), key));
    let stored = stored.map(|key| (KeyOrigin::Stored, key));
    [configured, conventional, stored].into_iter().flatten()
}

/// Fetches all stored keys, so that the redactor removes those of other providers as well. A key that cannot be used is
/// reported only if it is needed.
pub(super) fn fetch_stored(reader: &mut SettingsReader<'_>) {
    for provider in reader.providers_stored() {
        let _unusable = reader.describe_stored(&format!("providers.{provider}.api_key"), &provider);
    }
}
