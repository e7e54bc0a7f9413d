//! `drydock up`: installs the service if the system has a service manager, starts it, and waits until it is ready.

use super::down::wait_for_former_server;
use super::installation::{InstalledFile, ServiceInstallation};
use super::log_file::open_to_append;
use super::owner::{RootPermission, check_owner, give_directory, owner, owner_names};
use super::processes::{ServiceScope, start_supervisor};
use super::status::ServiceKind;
use super::unit::ServiceFacts;
use super::variables::service_variables;
use super::waiting::{READY_WAIT_MAX, wait_until_ready};
use super::{
    ServerArguments, absolute, configuration_file, data_directory, directory_owner, has_old_configuration,
    is_supervised, running_server, text_of,
};
use crate::base::config::{Config, ConfigSources};
use crate::base::system::{self, ServiceManager};
use crate::cli::init::{self, InitArguments};
use crate::cli::output::Output;
use crate::cli::{CliError, Global};
use crate::engine::admin::ServerStatus;
use crate::state::store::{self, GroupAccess};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(in crate::cli) const UP_EXAMPLES: &str = "\
Examples:
  drydock up                                     asks for a configuration if there is none, and starts the service
  drydock up --config /etc/drydock/drydock.toml
  drydock up --config drydock.toml --print       shows the file of the service manager, and changes nothing
  drydock up --config drydock.toml --manager none

With systemd it installs a unit, of the system as root and of the user otherwise. With launchd it installs a file. Without
a service manager, a process in the background runs the server and starts it again after a failure.
A service of systemd has no variables of this shell. It reads NAME=value lines of the file with the ending .env beside
the configuration. A service of launchd reads secrets from files only.
A service of the system runs as the owner of the data directory or of the configuration.";

#[derive(Debug, Args)]
pub(in crate::cli) struct UpArguments {
    /// Shows the file of the service manager, and changes nothing
    #[arg(long)]
    print: bool,
    /// The service manager; that of this system if it is not given
    #[arg(long, value_enum, value_name = "NAME")]
    manager: Option<ManagerChoice>,
    /// Allows a service of the system that runs as root
    #[arg(long)]
    as_root: bool,
    #[command(flatten, next_help_heading = "If there is no configuration yet")]
    init: InitArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ManagerChoice {
    Systemd,
    Launchd,
    /// A supervisor in the background
    None,
}

impl UpArguments {
    fn root_permission(&self) -> RootPermission {
        match self.as_root {
            true => RootPermission::Allowed,
            false => RootPermission::Refused,
        }
    }

    fn manager(&self) -> Option<ServiceManager> {
        match self.manager {
            Some(ManagerChoice::Systemd) => Some(ServiceManager::Systemd),
            Some(ManagerChoice::Launchd) => Some(ServiceManager::Launchd),
            Some(ManagerChoice::None) => None,
            None => system::service_manager(),
        }
    }
}

pub(in crate::cli) async fn up(
    arguments: UpArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let manager = arguments.manager();
    let root = arguments.root_permission();
    if is_configured(global)? {
        if arguments.init.is_given() {
            return Err(CliError::usage(
                "there is a configuration already; leave out the options that write one, or name another with --config",
            ));
        }
    } else if arguments.print {
        return Err(CliError::usage(
            "there is no configuration yet; name it with --config",
        ));
    } else {
        let file = global.config.as_deref().unwrap_or(Path::new("drydock.toml"));
        output.message(&format!("There is no configuration in {} yet.", file.display()));
        Box::pin(init::run(arguments.init, global, output)).await?;
    }
    let sources = global.sources()?;
    let Some(manager) = manager else {
        if arguments.print {
            return Err(CliError::usage(
                "this system has no service manager, so there is no file; --manager systemd shows that of systemd",
            ));
        }
        return start_background(sources, global, output).await;
    };
    let service = NewService::new(manager, sources, global)?;
    if arguments.print {
        output.line(service.text.trim_end());
        return Ok(());
    }
    if system::service_manager() != Some(manager) {
        return Err(CliError::usage(
            "this service manager does not run on this system; leave out --manager",
        ));
    }
    service.start(root, output).await
}

/// Returns true if there is a configuration: a file, or variables or options that name a repository or a channel.
fn is_configured(global: &Global) -> Result<bool, CliError> {
    if let Some(file) = &global.config
        && std::fs::symlink_metadata(file).is_err()
    {
        return Ok(false);
    }
    let sources = global.sources()?;
    let mut names = sources.environment.keys();
    let is_named = names
        .any(|name| name.starts_with("DRYDOCK_REPOSITORIES__") || name.starts_with("DRYDOCK_CHANNELS__"));
    let mut flags = sources.flags.iter();
    let is_set = flags.any(|(key, _)| key.starts_with("repositories.") || key.starts_with("channels."));
    Ok(sources.file.is_some() || is_named || is_set)
}

/// A service of the service manager that is not started yet.
struct NewService {
    installation: ServiceInstallation,
    text: String,
    configuration: PathBuf,
    data: PathBuf,
    group: GroupAccess,
    owner: Option<(u32, u32)>,
}

impl NewService {
    /// Checks that the server would start with what a service has, and composes the file of the service manager.
    fn new(manager: ServiceManager, sources: ConfigSources, global: &Global) -> Result<Self, CliError> {
        let installation = ServiceInstallation::of(manager)?;
        let Some(file) = configuration_file(&sources)? else {
            return Err(CliError::usage(
                "a service needs a configuration file; name it with --config",
            ));
        };
        let (variables, environment) = service_variables(manager, &file)?;
        let sources =
            ConfigSources::read(Some(&file), environment, sources.flags).map_err(CliError::config)?;
        let secrets = Config::secret_files(&sources);
        let config = Config::load(sources).map_err(|error| {
            CliError::config(format!(
                "{error}\nA service has no variables of this shell: {}",
                super::variables::advice(manager, &variables)
            ))
        })?;
        let directory = std::env::current_dir().map_err(CliError::failed)?;
        let data = absolute(&config.data.directory)?;
        let seen = data_directory(global)?;
        if seen != data {
            return Err(CliError::usage(format!(
                "the service would use the data directory {}, and the other commands look at {}, because variables of one \
                 of them name it; set data.directory in {} instead",
                data.display(),
                seen.display(),
                file.display()
            )));
        }
        let owner = owner(installation.scope, &data, &file)?;
        let secrets = secrets
            .iter()
            .map(|path| absolute(path))
            .collect::<Result<_, _>>()?;
        let repositories = config.repositories.values();
        let facts = ServiceFacts {
            scope: installation.scope,
            program: this_program()?,
            arguments: ServerArguments::of(global)?.0,
            directory,
            data: data.clone(),
            variables,
            owner,
            owner_names: owner_names(manager, owner)?,
            secrets,
            read: repositories
                .filter_map(|repository| repository.path.clone())
                .collect(),
            port: config.server.listen.port(),
        };
        Ok(Self {
            text: installation.text(&facts)?,
            installation,
            configuration: file,
            data,
            group: GroupAccess::from_setting(config.data.group_access),
            owner,
        })
    }

    async fn start(self, root: RootPermission, output: &Output) -> Result<(), CliError> {
        let installed = self.installation.installed(&self.data)?;
        if installed == InstalledFile::Foreign {
            return Err(CliError::failed(format!(
                "{} is not for the data directory {}; remove it with the `drydock down --remove` of its configuration",
                self.installation.file.display(),
                self.data.display()
            )));
        }
        let is_own = matches!(installed, InstalledFile::Own(_)) && self.installation.is_active()?;
        if !is_own && report_running(&self.data, output).await? {
            return Ok(());
        }
        if is_own && installed == InstalledFile::Own(self.text.clone()) {
            report_running(&self.data, output).await?;
            return Ok(());
        }
        check_owner(self.installation.scope, self.owner, root, &self.configuration)?;
        self.prepare_data()?;
        self.installation.install(&self.text, &installed)?;
        let file = self.installation.file.display();
        output.message(&format!("Installed {file}."));
        if self.installation.manager == ServiceManager::Systemd
            && matches!(self.installation.scope, ServiceScope::User(_))
        {
            output.message("It stops when you log out, unless you run: loginctl enable-linger");
        }
        let started = wait_until_ready(&self.data, None, output).await;
        let status = started.map_err(|error| self.installation.withdrawn(&installed, &error))?;
        report_started(&status, output)
    }

    /// Creates the data directory for the user of the server.
    fn prepare_data(&self) -> Result<(), CliError> {
        store::prepare_directory(&self.data, self.group).map_err(CliError::config)?;
        self.owner
            .map_or(Ok(()), |owner| give_directory(&self.data, owner))
    }
}

/// Returns the absolute path of this program's file.
fn this_program() -> Result<PathBuf, CliError> {
    let program = std::env::current_exe().map_err(CliError::failed)?;
    match program.is_file() {
        true => Ok(program),
        false => Err(CliError::failed(format!(
            "{}: the file of this program was replaced while it runs; run the command again",
            text_of(&program)?
        ))),
    }
}

/// Starts a supervisor in the background.
async fn start_background(sources: ConfigSources, global: &Global, output: &Output) -> Result<(), CliError> {
    let config = Config::load(sources).map_err(CliError::config)?;
    let data = absolute(&config.data.directory)?;
    wait_for_former_server(&data).await?;
    if report_running(&data, output).await? {
        return Ok(());
    }
    let group = GroupAccess::from_setting(config.data.group_access);
    store::prepare_directory(&data, group).map_err(CliError::config)?;
    let log = open_to_append(&data).map_err(CliError::failed)?;
    let arguments = ServerArguments::of(global)?.0;
    let mut supervisor = start_supervisor(&arguments, log).map_err(CliError::failed)?;
    let status = wait_until_ready(&data, Some(&mut supervisor), output).await?;
    report_started(&status, output)
}

/// Reports a server that runs already. Returns false if none does.
async fn report_running(data: &Path, output: &Output) -> Result<bool, CliError> {
    let is_supervised = is_supervised(data)?;
    let owner = directory_owner(data)?;
    if owner.is_none() && !is_supervised {
        return Ok(false);
    }
    let status = running_server(data).await?;
    let state = match &status {
        Some(status) if status.waiting_for.is_empty() => "and is ready".to_owned(),
        Some(status) => format!("and waits: {}", status.waiting_for.join("; ")),
        None => "and is starting or stopping".to_owned(),
    };
    let is_old = status
        .as_ref()
        .is_some_and(|status| has_old_configuration(&status.facts));
    if output.json() {
        output.value(&json!({ "started": false, "server": status, "configuration_changed": is_old }));
    } else {
        let process = owner
            .map(|process| format!(" (process {process})"))
            .unwrap_or_default();
        output.message(&format!(
            "Drydock runs already{process} {state}. `drydock status` shows more."
        ));
        if is_old {
            output.message("Its configuration was changed after its start: `drydock down` and `drydock up` use the change.");
        }
        if status.is_some() && !is_supervised && ServiceKind::of(data)?.is_by_hand() {
            output.message(
                "It was started with `drydock serve`, and is no service: stop it there before `drydock up`.",
            );
        }
    }
    Ok(true)
}

fn report_started(status: &ServerStatus, output: &Output) -> Result<(), CliError> {
    if output.json() {
        output.value(&json!({ "started": true, "server": status }));
    } else if status.waiting_for.is_empty() {
        output.message(&format!(
            "Drydock runs on http://{} (process {}). `drydock status` shows its state, `drydock logs -f` its log, and \
             `drydock down` stops it.",
            status.facts.address, status.facts.process
        ));
    }
    match status.waiting_for.is_empty() {
        true => Ok(()),
        false => Err(CliError::failed(format!(
            "Drydock runs, and is not ready after {} s: {}. It goes on trying; `drydock logs` shows why",
            READY_WAIT_MAX.as_secs(),
            status.waiting_for.join("; ")
        ))),
    }
}
