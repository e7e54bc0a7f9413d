//! The options that every command has, and the sources of the configuration that they name.

use super::error::CliError;
use super::{auth, user_directory};
use crate::base::config::{ConfigSources, ignored_variables};
use crate::base::telemetry;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(super) struct Global {
    /// The configuration file
    #[arg(long, global = true, env = "DRYDOCK_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Sets one key, as in the file: `--set server.listen=127.0.0.1:8080`. A name with dots has quotes
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(super) settings: Vec<String>,
    /// Prints JSON instead of text
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// The log filter for standard error, such as `info` or `drydock=debug`
    #[arg(long, global = true, env = "DRYDOCK_LOG", value_name = "FILTER")]
    pub(super) log: Option<String>,
    // The options above that were typed, and not taken from a variable.
    #[arg(skip)]
    pub(super) typed: BTreeSet<&'static str>,
}

/// The options of [`Global`] that a variable can set, by their names and variables.
pub(super) const VARIABLE_OPTIONS: [(&str, &str); 2] = [("config", "DRYDOCK_CONFIG"), ("log", "DRYDOCK_LOG")];

impl Global {
    /// Refuses a wrong log filter for every command, also for those that log nothing.
    pub(super) fn check_log_filter(&self) -> Result<(), CliError> {
        let origin = match self.typed.contains("log") {
            true => "--log",
            false => "DRYDOCK_LOG",
        };
        telemetry::check_filter(self.log.as_deref())
            .map_err(|error| CliError::usage(format!("{origin}: {error}")))
    }

    /// Refuses settings of a command that does not read the configuration, with the reason.
    pub(super) fn refuse_configuration(&self, why: &str) -> Result<(), CliError> {
        let option = match (self.typed.contains("config"), self.settings.is_empty()) {
            (true, _) => "--config",
            (false, false) => "--set",
            (false, true) => return Ok(()),
        };
        Err(CliError::usage(format!("{option}: {why}; leave {option} out")))
    }

    /// Returns the sources of a server's configuration. Without `--config`, `drydock.toml` is used if it exists in
    /// the working directory.
    pub(super) fn sources(&self) -> Result<ConfigSources, CliError> {
        let here = PathBuf::from("drydock.toml");
        let file = self.config.clone().or_else(|| here.is_file().then_some(here));
        self.read(file)
    }

    /// Returns the sources of a user's own configuration. Without `--config`, it is in the home directory. A file in
    /// the repository is not trusted, because it could send the user's key to any host.
    pub(super) fn personal_sources(&self) -> Result<ConfigSources, CliError> {
        let own = personal_directory()
            .map(|directory| directory.join("drydock.toml"))
            .filter(|file| file.is_file());
        self.read(self.config.clone().or(own))
    }

    /// Returns the sources of a user's own configuration with the keys that this user has stored.
    pub(super) fn model_sources(&self) -> Result<ConfigSources, CliError> {
        let stored_keys = match personal_directory() {
            Some(_) => auth::KeyFile::of_this_user()?.read()?,
            None => BTreeMap::new(),
        };
        Ok(ConfigSources {
            stored_keys,
            ..self.personal_sources()?
        })
    }

    pub(super) fn read(&self, file: Option<PathBuf>) -> Result<ConfigSources, CliError> {
        let flags = self.settings.iter().map(|setting| {
            let pair = setting.split_once('=');
            let (key, value) =
                pair.ok_or_else(|| CliError::usage(format!("--set {setting}: write KEY=VALUE")))?;
            Ok((key.to_owned(), value.to_owned()))
        });
        let flags = flags.collect::<Result<Vec<_>, CliError>>()?;
        ConfigSources::read(file.as_deref(), environment(), flags).map_err(CliError::config)
    }
}

/// Returns the directory of this user's configuration: `drydock` below `$XDG_CONFIG_HOME` or `~/.config`.
pub(super) fn personal_directory() -> Option<PathBuf> {
    user_directory::user_directory("XDG_CONFIG_HOME", ".config")
}

fn environment() -> impl Iterator<Item = (String, String)> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the environment is read"
    )]
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    #[cfg(any(feature = "crash-points", feature = "planted-bugs"))]
    let environment = environment.filter(|(name, _)| !crate::crash_point::is_variable(name));
    environment
}

/// Returns a warning for each variable that looks like one of Drydock's and is ignored.
pub(super) fn ignored() -> Vec<String> {
    let names: Vec<String> = environment().map(|(name, _)| name).collect();
    ignored_variables(names.iter().map(String::as_str))
}
