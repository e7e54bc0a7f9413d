//! The file with the keys of model providers that this user has stored, readable by this user only.

use crate::base::model::Secret;
use crate::cli::CliError;
use crate::cli::private_file::{PrivateFile, exposed, secret};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The name of the file.
const NAME: &str = "auth.toml";
/// The words for its content.
const CONTENT: &str = "the keys";
/// The first line of the file.
const COMMENT: &str =
    "# Written by `drydock auth login`. These are the keys themselves: give this file to nobody.\n";

/// The section of a provider.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    #[serde(serialize_with = "exposed", deserialize_with = "secret")]
    api_key: Secret,
}

/// The place of the file.
pub(in crate::cli) struct KeyFile(PrivateFile);

impl KeyFile {
    /// Returns the file of the user who runs this program.
    pub(in crate::cli) fn of_this_user() -> Result<Self, CliError> {
        PrivateFile::of_this_user(NAME, CONTENT).map(Self)
    }

    /// Returns the path of the file.
    pub(in crate::cli) fn shown(&self) -> String {
        self.0.path().display().to_string()
    }

    /// Reads the keys by provider. A missing file has none. A file that others can read is refused.
    pub(in crate::cli) fn read(&self) -> Result<BTreeMap<String, Secret>, CliError> {
        let text = self.0.read()?;
        let stored = self.parse(text.as_ref().map(|text| text.as_str()))?;
        Ok(stored
            .into_iter()
            .map(|(name, key)| (name, key.api_key))
            .collect())
    }

    /// Stores the key of a provider, or removes it. Other keys are kept, also those that another process stores now.
    pub(in crate::cli) fn put(&self, provider: &str, key: Option<&Secret>) -> Result<(), CliError> {
        self.0.update(|text| {
            let mut stored = self.parse(text)?;
            match key.cloned() {
                Some(api_key) => drop(stored.insert(provider.to_owned(), StoredKey { api_key })),
                None => drop(stored.remove(provider)),
            }
            let written = Zeroizing::new(toml::to_string(&stored).map_err(CliError::failed)?);
            Ok(Zeroizing::new(format!("{COMMENT}{}", written.as_str())))
        })
    }

    /// Parses the text. The error of the parser is left out, because it may hold a key.
    fn parse(&self, text: Option<&str>) -> Result<BTreeMap<String, StoredKey>, CliError> {
        let parsed = toml::from_str(text.unwrap_or_default());
        parsed.map_err(|_: toml::de::Error| self.0.not_ours())
    }
}
