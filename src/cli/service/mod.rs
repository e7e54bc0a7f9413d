//! The service: `drydock up`, `down`, `status` and `logs`. A service manager of the system runs the server, or a supervisor
//! of our own where there is none.

mod down;
mod installation;
mod launchd;
mod log_file;
mod logs;
mod notify;
mod owner;
mod processes;
mod state_file;
mod status;
mod supervisor;
mod unit;
mod up;
mod variables;
mod waiting;

pub(super) use down::{DOWN_EXAMPLES, DownArguments, down};
pub(super) use logs::{LOGS_EXAMPLES, LogsArguments, logs};
pub(super) use notify::Notifier;
pub(super) use status::{STATUS_EXAMPLES, status};
pub(super) use supervisor::{SuperviseArguments, run as supervise};
pub(super) use up::{UP_EXAMPLES, UpArguments, up};

use super::{CliError, Global};
use crate::base::config::{Config, ConfigSources};
use crate::base::system;
use crate::engine::admin::{self, AdminReply, AdminRequest, ServerFacts, ServerStatus};
use crate::state::store;
use installation::{InstalledFile, ServiceInstallation};
use jiff::Timestamp;
use processes::ServiceScope;
use state_file::{SupervisorLock, SupervisorState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest time that a running server may take to answer a command.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The arguments of `drydock serve` that repeat the options of this command.
struct ServerArguments(Vec<String>);

impl ServerArguments {
    fn of(global: &Global) -> Result<Self, CliError> {
        let mut arguments = Vec::new();
        if let Some(file) = configuration_file(&global.sources()?)? {
            arguments.extend(["--config".to_owned(), text_of(&file)?]);
        }
        for setting in &global.settings {
            arguments.extend(["--set".to_owned(), setting.clone()]);
        }
        if let Some(log) = &global.log {
            arguments.extend(["--log".to_owned(), log.clone()]);
        }
        Ok(Self(arguments))
    }
}

fn text_of(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::usage(format!("{}: rename it to a name in UTF-8", path.display())))
}

/// Returns the absolute path of the configuration file.
fn configuration_file(sources: &ConfigSources) -> Result<Option<PathBuf>, CliError> {
    let file = sources.file.as_ref().map(|file| absolute(&file.path));
    file.transpose()
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(CliError::failed)
}

/// Returns the absolute path of the data directory that the options of a command name.
fn data_directory(global: &Global) -> Result<PathBuf, CliError> {
    let settings = Config::for_operator(global.sources()?).map_err(CliError::config)?;
    absolute(&settings.data.directory)
}

/// Returns the state of the running server of a data directory; `None` if none answers.
async fn running_server(data: &Path) -> Result<Option<ServerStatus>, CliError> {
    let asked = tokio::time::timeout(ANSWER_TIME_MAX, admin::ask(data, &AdminRequest::Status));
    let answer = asked.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    match answer {
        Ok(Some(AdminReply::Status { status })) => Ok(Some(*status)),
        Ok(Some(AdminReply::Failed { why })) => Err(CliError::failed(why)),
        Ok(Some(_) | None) => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(CliError::of_data(data, &error)),
        Err(error) => Err(CliError::failed(format!(
            "the running server does not answer: {error}"
        ))),
    }
}

/// Returns true if the configuration file was changed after the start of a server, which has read it only then.
fn has_old_configuration(facts: &ServerFacts) -> bool {
    let file = facts.configuration.as_ref();
    let changed = file.and_then(|file| std::fs::metadata(file).ok()?.modified().ok());
    let changed = changed.and_then(|at| Timestamp::try_from(at).ok());
    changed.is_some_and(|at| at > facts.started_at)
}

/// Returns the service file for a data directory, if this system has a service manager and the file is installed: that of
/// this user, or that of the system.
fn installed_service(data: &Path) -> Result<Option<ServiceInstallation>, CliError> {
    let Some(manager) = system::service_manager() else {
        return Ok(None);
    };
    let own = ServiceInstallation::of(manager)?;
    if matches!(own.installed(data)?, InstalledFile::Own(_)) {
        return Ok(Some(own));
    }
    let of_system = ServiceInstallation::in_scope(manager, ServiceScope::System)?;
    let installed = of_system.installed(data)?;
    Ok(matches!(installed, InstalledFile::Own(_)).then_some(of_system))
}

/// Returns true if a supervisor of a data directory runs.
fn is_supervised(data: &Path) -> Result<bool, CliError> {
    SupervisorLock::is_held(data).map_err(|error| CliError::of_data(data, &error))
}

/// Returns the process of the server of a data directory; `None` if none runs.
fn directory_owner(data: &Path) -> Result<Option<u32>, CliError> {
    store::directory_owner(data).map_err(|error| CliError::of_data(data, &error))
}

/// Returns the state of the supervisor of a data directory; `None` if none runs.
fn running_supervisor(data: &Path) -> Result<Option<SupervisorState>, CliError> {
    let is_running = is_supervised(data)?;
    Ok(is_running.then(|| SupervisorState::load(data)).flatten())
}
