//! The file with the logins of this user: one for each server, readable by this user only.

use crate::base::model::Secret;
use crate::cli::{CliError, personal_directory};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The maximum size of the file in bytes. A larger one was not written by this program.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The mode of the file.
const FILE_MODE: u32 = 0o600;
/// The mode of its directory, if this program creates it.
const DIRECTORY_MODE: u32 = 0o700;

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

fn exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
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
pub(in crate::cli) struct LoginFile {
    directory: PathBuf,
    path: PathBuf,
}

impl LoginFile {
    /// Returns the file of the user who runs this program.
    pub(in crate::cli) fn of_this_user() -> Result<Self, CliError> {
        let directory = personal_directory().ok_or_else(|| {
            CliError::failed("there is no place for logins: neither XDG_CONFIG_HOME nor HOME is set")
        })?;
        Ok(Self::within(directory))
    }

    /// Returns the file in a directory.
    pub(in crate::cli) fn within(directory: PathBuf) -> Self {
        Self {
            path: directory.join("logins.json"),
            directory,
        }
    }

    /// Reads the logins. A missing file has none. A file that others can read is refused.
    #[allow(
        clippy::disallowed_methods,
        reason = "the logins of a user are a file of the shell"
    )]
    pub(in crate::cli) fn read(&self) -> Result<StoredLogins, CliError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredLogins::default()),
            Err(error) => return Err(self.failed(&error)),
        };
        let metadata = file.metadata().map_err(|error| self.failed(&error))?;
        let shown = self.path.display();
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(CliError::failed(format!(
                "others can read or write the logins in {shown}; run `chmod 600 {shown}`, and log in again if somebody \
                 may have read it"
            )));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| self.failed(&error))?;
        serde_json::from_str(&text).map_err(|_| {
            CliError::failed(format!(
                "{shown} was not written by this program; remove it, and log in again"
            ))
        })
    }

    /// Stores the login at a server, or removes it. Other logins are kept, also those that another process stores now.
    #[allow(
        clippy::disallowed_methods,
        reason = "the logins of a user are a file of the shell"
    )]
    pub(in crate::cli) fn put(&self, url: &str, login: Option<&MachineLogin>) -> Result<(), CliError> {
        let failed = |error: std::io::Error| self.failed(&error);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&self.directory)
            .map_err(failed)?;
        // The lock ends with this handle.
        let directory = File::open(&self.directory).map_err(failed)?;
        flock(&directory, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let mut logins = self.read()?;
        match login {
            Some(login) => drop(logins.servers.insert(url.to_owned(), login.clone())),
            None => drop(logins.servers.remove(url)),
        }
        let text = serde_json::to_string_pretty(&logins).map_err(CliError::failed)?;
        let written = self.path.with_extension("json.new");
        replace(&written, &self.path, text.as_bytes()).map_err(failed)
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        CliError::failed(format!(
            "the logins in {} cannot be used: {error}",
            self.path.display()
        ))
    }
}

/// Replaces a file at once by one that only this user can read.
fn replace(temporary: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    match std::fs::remove_file(temporary) {
        // A process that was killed may have left it.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(temporary)?;
    file.write_all(content)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(temporary, path)
}
