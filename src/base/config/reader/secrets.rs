//! The secrets among the settings: those of keys, of conventional variables and of the stored keys of a user.

use super::{SettingsReader, key, required};
use crate::base::config::error::SettingLocation;
use crate::base::config::keys::ValueKind;
use crate::base::config::value::{SecretSource, Value};
use crate::base::model::Secret;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The name of the file with the stored keys, for problems.
const STORED_KEYS_FILE: &str = "auth.toml";

const TOKEN_KIND: ValueKind = ValueKind::Secret { chars_min: 0 };

/// The key of a provider in its conventional variables, or among the stored keys.
pub(in crate::base::config) enum ConventionalSecret {
    /// There is none.
    NotSet,
    /// There is one, and it was refused; the problem is recorded.
    Refused,
    /// There is this one.
    Secret(Secret),
}

impl SettingsReader<'_> {
    /// Fetches and checks a secret.
    pub(in crate::base::config) fn secret(&mut self, path: &str) -> Option<Secret> {
        match self.value(path) {
            Some(Value::Secret(source)) => self.fetch(path, &source),
            _ => None,
        }
    }

    /// Returns a description of the source of a secret, and the secret or the reason why it cannot be fetched, which is not
    /// recorded as a problem; `None` if the key is not set or refused.
    pub(in crate::base::config) fn describe_secret(
        &mut self,
        path: &str,
    ) -> Option<(String, Result<Secret, String>)> {
        let Some(Value::Secret(source)) = self.layers.entries.get(path)?.value.clone() else {
            return None;
        };
        let fetched = self.secret_resolver.fetch(&source, chars_min(path));
        Some((source.describe(), fetched))
    }

    /// Returns the paths of all secret files.
    pub(in crate::base::config) fn secret_files(&self) -> BTreeSet<PathBuf> {
        let files = self
            .layers
            .entries
            .all()
            .filter_map(|(_, entry)| match &entry.value {
                Some(Value::Secret(SecretSource::File(path))) => Some(self.secret_resolver.path_of(path)),
                _ => None,
            });
        files.collect()
    }

    /// Fetches a secret that the section requires.
    pub(in crate::base::config) fn required_secret(&mut self, path: &str) -> Option<Secret> {
        if !self.is_set(path) {
            self.problem(path, required(path, TOKEN_KIND));
        }
        self.secret(path)
    }

    /// Fetches a secret from one of the conventional variables.
    pub(in crate::base::config) fn conventional(
        &mut self,
        path: &str,
        variables: &[String],
    ) -> ConventionalSecret {
        let found = self.describe_conventional(path, variables);
        self.accept(
            path,
            found.map(|(name, secret)| (SettingLocation::Variable(name), secret)),
        )
    }

    /// Returns the conventional variable that is set, and its secret or the reason why it cannot be used.
    pub(in crate::base::config) fn describe_conventional(
        &mut self,
        path: &str,
        variables: &[String],
    ) -> Option<(String, Result<Secret, String>)> {
        let (name, source) = self.secret_resolver.conventional(variables)?;
        let fetched = self.secret_resolver.fetch(&source, chars_min(path));
        Some((name, fetched))
    }

    /// Fetches the stored key of a provider.
    pub(in crate::base::config) fn stored_key(&mut self, path: &str, provider: &str) -> ConventionalSecret {
        let found = self.describe_stored(path, provider);
        let shown = STORED_KEYS_FILE.to_owned();
        self.accept(
            path,
            found.map(|secret| (SettingLocation::WholeFile { shown }, secret)),
        )
    }

    /// Returns the stored key of a provider, or the reason why it cannot be used; `None` if none is stored.
    pub(in crate::base::config) fn describe_stored(
        &mut self,
        path: &str,
        provider: &str,
    ) -> Option<Result<Secret, String>> {
        let source = SecretSource::Value(self.stored_keys.get(provider)?.clone());
        Some(self.secret_resolver.fetch(&source, chars_min(path)))
    }

    /// Returns the providers with a stored key.
    pub(in crate::base::config) fn providers_stored(&self) -> BTreeSet<String> {
        self.stored_keys.keys().cloned().collect()
    }

    fn accept(
        &mut self,
        path: &str,
        found: Option<(SettingLocation, Result<Secret, String>)>,
    ) -> ConventionalSecret {
        match found {
            None => ConventionalSecret::NotSet,
            Some((_, Ok(secret))) => ConventionalSecret::Secret(secret),
            Some((place, Err(why))) => {
                self.problems.add(&place, path, why);
                ConventionalSecret::Refused
            }
        }
    }

    /// Returns true if one of the conventional variables is set.
    pub(in crate::base::config) fn has_conventional(&self, variables: &[&'static str]) -> bool {
        self.secret_resolver.conventional(variables).is_some()
    }

    fn fetch(&mut self, path: &str, source: &SecretSource) -> Option<Secret> {
        let fetched = self.secret_resolver.fetch(source, chars_min(path));
        fetched.map_err(|why| self.problem(path, why)).ok()
    }
}

fn chars_min(path: &str) -> usize {
    match key(path).map(|key| key.kind) {
        Some(ValueKind::Secret { chars_min }) => chars_min,
        _ => 0,
    }
}
