//! The file with the logins of this user: one for each server, readable by this user only.

use crate::base::model::Secret;
use crate::cli::CliError;
use crate::cli::private_file::{PrivateFile, exposed, secret};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// The name of the file.
const NAME: &str = "logins.json";
/// The words for its content.
const CONTENT: &str = "the logins";

/// The login of this machine at one server.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::cli) struct MachineLogin {
    /// The token, which this file alone keeps.
    #[serde(serialize_with = "exposed", deserialize_with = "secret")]
    pub(in crate::cli) token: Secret,
    /// The name of the person.
    pub(in crate::cli) name: String,
    /// The time at which the token expires.
    pub(in crate::cli) expires: Timestamp,
}

/// The logins by the address of their server.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::cli) struct StoredLogins {
    servers: BTreeMap<String, MachineLogin>,
}

impl StoredLogins {
    /// Returns the login at a server.
    pub(in crate::cli) fn find(&self, url: &str) -> Option<MachineLogin> {
        self.servers.get(url).cloned()
    }

    /// Returns the login at the named server, or the only one.
    pub(in crate::cli) fn choose(self, url: Option<&str>) -> Result<(String, MachineLogin), CliError> {
        let advice = "say `login` to Drydock in a chat, and run the command in its answer";
        if let Some(url) = url {
            let login = self.find(url);
            let login = login.ok_or_else(|| {
                CliError::failed(format!("this machine is not logged in to {url}; {advice}"))
            })?;
            return Ok((url.to_owned(), login));
        }
        let names: Vec<&str> = self.servers.keys().map(String::as_str).collect();
        let names = names.join(", ");
        let mut servers = self.servers.into_iter();
        match (servers.next(), servers.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(CliError::failed(format!(
                "this machine is not logged in to a server; {advice}"
            ))),
            (Some(_), Some(_)) => Err(CliError::usage(format!(
                "this machine is logged in to several servers; name one of {names}"
            ))),
        }
    }
}

/// The place of the file.
pub(in crate::cli) struct LoginFile(PrivateFile);

impl LoginFile {
    /// Returns the file of the user who runs this program.
    pub(in crate::cli) fn of_this_user() -> Result<Self, CliError> {
        PrivateFile::of_this_user(NAME, CONTENT).map(Self)
    }

    /// Returns the file in a directory.
    pub(in crate::cli) fn within(directory: PathBuf) -> Self {
        Self(PrivateFile::within(directory, NAME, CONTENT))
    }

    /// Reads the logins. A missing file has none. A file that others can read is refused.
    pub(in crate::cli) fn read(&self) -> Result<StoredLogins, CliError> {
        let text = self.0.read()?;
        self.parse(text.as_ref().map(|text| text.as_str()))
    }

    /// Stores the login at a server, or removes it. Other logins are kept, also those that another process stores now.
    pub(in crate::cli) fn put(&self, url: &str, login: Option<&MachineLogin>) -> Result<(), CliError> {
        self.0.update(|text| {
            let mut logins = self.parse(text)?;
            match login {
                Some(login) => drop(logins.servers.insert(url.to_owned(), login.clone())),
                None => drop(logins.servers.remove(url)),
            }
            let text = serde_json::to_string_pretty(&logins).map_err(CliError::failed)?;
            Ok(Zeroizing::new(text + "\n"))
        })
    }

    fn parse(&self, text: Option<&str>) -> Result<StoredLogins, CliError> {
        let parsed = text.map_or_else(|| Ok(StoredLogins::default()), serde_json::from_str);
        parsed.map_err(|_| self.0.not_ours())
    }
}
