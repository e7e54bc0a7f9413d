//! The sources of settings as plain values: the text of a file, the environment and flags. The caller reads them from
//! the process.

use crate::base::config::error::{ConfigError, SettingLocation};
use crate::base::model::Secret;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The maximum number of bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1_048_576;

/// The sources of a configuration. Flags override the environment, which overrides the file, which overrides the
/// defaults.
#[derive(Clone, Default)]
pub struct ConfigSources {
    /// The file, if there is one.
    pub file: Option<SourceFile>,
    /// The whole environment: `DRYDOCK_SECTION__KEY` sets a key, and secrets are looked up by name.
    pub environment: BTreeMap<String, String>,
    /// Dotted keys and their values, from the command line.
    pub flags: Vec<(String, String)>,
    /// The keys of model providers that this user has stored, by provider. Such a key is used if neither the configuration
    /// nor the environment has one.
    pub stored_keys: BTreeMap<String, Secret>,
}

/// A configuration file that was read.
#[derive(Clone)]
pub struct SourceFile {
    /// The path as the operator wrote it. Problems contain it, and paths of secret files are relative to it.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

impl ConfigSources {
    /// Reads the file at `path`, if one is given. The error contains the reason why it cannot be read.
    pub fn read(
        path: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: Vec<(String, String)>,
    ) -> Result<Self, ConfigError> {
        let file = match path {
            Some(path) => Some(SourceFile {
                path: path.to_owned(),
                text: read_text(path)?,
            }),
            None => None,
        };
        Ok(Self {
            file,
            environment: environment.into_iter().collect(),
            flags,
            stored_keys: BTreeMap::new(),
        })
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "this is where the configuration file is read"
)]
fn read_text(path: &Path) -> Result<String, ConfigError> {
    let refuse = |why: String| {
        let place = SettingLocation::WholeFile {
            shown: path.display().to_string(),
        };
        ConfigError::one(place, why)
    };
    let mut text = String::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|err| refuse(format!("cannot read the configuration file: {err}")))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(format!(
            "the configuration file is larger than {FILE_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}
