//! The file of the service manager: where it is, which data directory it serves, and how it is installed and removed.

use super::launchd::data_entry;
use super::logs::with_last_lines;
use super::processes::{ManagerCall, ServiceScope, UNIT};
use super::unit::{MARK, ServiceFacts, data_line};
use crate::base::system::ServiceManager;
use crate::cli::CliError;
use crate::cli::user_directory::{home_directory, user_directory};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Bytes of a service file that are read.
const FILE_BYTES_MAX: u64 = 262_144;

/// Lines of the journal that explain a failure.
const JOURNAL_LINES_MAX: u32 = 10;

/// Makes a call to a service manager.
type ManagerRunner = Box<dyn Fn(&ManagerCall, ServiceScope) -> std::io::Result<Output> + Send + Sync>;

/// The place of the service file of a manager.
pub(super) struct ServiceInstallation {
    pub(super) manager: ServiceManager,
    pub(super) scope: ServiceScope,
    pub(super) file: PathBuf,
    run: ManagerRunner,
}

/// The content of the place of a service file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InstalledFile {
    Absent,
    /// A file that `drydock up` wrote for this data directory.
    Own(String),
    /// A file of somebody else, or for another data directory.
    Foreign,
}

impl ServiceInstallation {
    /// Returns the place of the service file for this user.
    pub(super) fn of(manager: ServiceManager) -> Result<Self, CliError> {
        Self::in_scope(manager, ServiceScope::of_this_process())
    }

    /// Returns the place of the service file of the system or of a user.
    pub(super) fn in_scope(manager: ServiceManager, scope: ServiceScope) -> Result<Self, CliError> {
        let no_home = || CliError::failed("the variable HOME names no directory");
        let file = match (manager, scope) {
            (ServiceManager::Systemd, ServiceScope::System) => Path::new("/etc/systemd/system").join(UNIT),
            (ServiceManager::Systemd, ServiceScope::User(_)) => {
                let own = user_directory("XDG_CONFIG_HOME", ".config");
                let own = own.and_then(|own| Some(own.parent()?.join("systemd/user").join(UNIT)));
                own.ok_or_else(no_home)?
            }
            (ServiceManager::Launchd, ServiceScope::System) => "/Library/LaunchDaemons/drydock.plist".into(),
            (ServiceManager::Launchd, ServiceScope::User(_)) => {
                let home = home_directory().ok_or_else(no_home)?;
                home.join("Library/LaunchAgents/drydock.plist")
            }
        };
        Ok(Self {
            manager,
            scope,
            file,
            run: Box::new(ManagerCall::run),
        })
    }

    /// Returns the text of the service file.
    pub(super) fn text(&self, facts: &ServiceFacts) -> Result<String, CliError> {
        match self.manager {
            ServiceManager::Systemd => facts.unit(),
            ServiceManager::Launchd => facts.agent(),
        }
    }

    /// Reads the service file.
    pub(super) fn installed(&self, data: &Path) -> Result<InstalledFile, CliError> {
        let text = match read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(InstalledFile::Absent),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let own = match self.manager {
            ServiceManager::Systemd => format!("{}\n", data_line(data)),
            ServiceManager::Launchd => data_entry(&data.display().to_string()),
        };
        Ok(match text.contains(MARK) && text.contains(&own) {
            true => InstalledFile::Own(text),
            false => InstalledFile::Foreign,
        })
    }

    /// Writes the service file and starts the service. Waits until systemd reports that the server is ready. If the
    /// service manager refuses, or the server does not start, the former file comes back, and nothing runs.
    pub(super) fn install(&self, text: &str, before: &InstalledFile) -> Result<(), CliError> {
        let is_changed = *before != InstalledFile::Own(text.to_owned());
        let is_active = self.is_active()?;
        if is_changed {
            self.write(text)?;
        }
        let calls = match (self.manager, is_active) {
            (ServiceManager::Systemd, true) if is_changed => {
                vec![
                    ManagerCall::ReloadUnits,
                    ManagerCall::EnableUnit,
                    ManagerCall::RestartUnit,
                ]
            }
            (ServiceManager::Systemd, _) => vec![ManagerCall::ReloadUnits, ManagerCall::EnableUnit],
            (ServiceManager::Launchd, true) => {
                vec![
                    ManagerCall::UnloadAgent,
                    ManagerCall::LoadAgent(self.file.clone()),
                ]
            }
            (ServiceManager::Launchd, false) => vec![ManagerCall::LoadAgent(self.file.clone())],
        };
        let called = calls.iter().try_for_each(|call| self.call(call));
        called.map_err(|error| self.withdrawn(before, &error))
    }

    /// Stops a service that did not start, and puts back the file from before. Returns the error with the last lines of
    /// the log.
    pub(super) fn withdrawn(&self, before: &InstalledFile, error: &CliError) -> CliError {
        let lines = self.last_lines();
        let why = match self.withdraw(before) {
            Ok(()) => format!("{}; the service is stopped and disabled", error.message),
            Err(failed) => format!(
                "{}; the service could not be removed again ({}); run: drydock down --remove",
                error.message, failed.message
            ),
        };
        CliError {
            code: error.code,
            message: with_last_lines(&why, &lines),
        }
    }

    /// Stops the service and puts back the file from before. A failed step does not prevent the later ones.
    fn withdraw(&self, before: &InstalledFile) -> Result<(), CliError> {
        let stopped = self.stop();
        let restored = match before {
            InstalledFile::Own(text) => self.write(text),
            InstalledFile::Absent | InstalledFile::Foreign => self.remove_file(),
        };
        let reloaded = self.reload();
        stopped.and(restored).and(reloaded)
    }

    /// Returns the last lines of the journal, if it can be read. With launchd, the supervisor writes the log.
    fn last_lines(&self) -> Vec<String> {
        let output = match self.manager {
            ServiceManager::Systemd => (self.run)(&ManagerCall::ReadJournal(JOURNAL_LINES_MAX), self.scope),
            ServiceManager::Launchd => return Vec::new(),
        };
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let lines = String::from_utf8_lossy(&text);
        lines.lines().map(str::to_owned).collect()
    }

    /// Stops the service, and starts it no more when the system starts.
    pub(super) fn stop(&self) -> Result<(), CliError> {
        match self.manager {
            ServiceManager::Systemd => self.call(&ManagerCall::DisableUnit),
            ServiceManager::Launchd if self.is_active()? => self.call(&ManagerCall::UnloadAgent),
            ServiceManager::Launchd => Ok(()),
        }
    }

    /// Removes the service file. The service is stopped already.
    pub(super) fn remove(&self) -> Result<(), CliError> {
        self.remove_file()?;
        self.reload()
    }

    fn remove_file(&self) -> Result<(), CliError> {
        std::fs::remove_file(&self.file).map_err(|error| self.failed("remove", &error))
    }

    fn reload(&self) -> Result<(), CliError> {
        match self.manager {
            ServiceManager::Systemd => self.call(&ManagerCall::ReloadUnits),
            ServiceManager::Launchd => Ok(()),
        }
    }

    /// Returns true if the service runs, or is about to start again.
    pub(super) fn is_active(&self) -> Result<bool, CliError> {
        let call = match self.manager {
            ServiceManager::Systemd => ManagerCall::ShowUnitState,
            ServiceManager::Launchd => ManagerCall::IsAgentLoaded,
        };
        let output = (self.run)(&call, self.scope).map_err(|error| self.not_started(&call, &error))?;
        match self.manager {
            ServiceManager::Systemd if output.status.success() => {
                let state = output.stdout.trim_ascii();
                let active = ["active", "activating", "reloading"];
                Ok(active.iter().any(|active| active.as_bytes() == state))
            }
            ServiceManager::Systemd => Err(self.refused(&call, &output)),
            ServiceManager::Launchd => Ok(output.status.success()),
        }
    }

    fn call(&self, call: &ManagerCall) -> Result<(), CliError> {
        let output = (self.run)(call, self.scope).map_err(|error| self.not_started(call, &error))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(self.refused(call, &output)),
        }
    }

    fn refused(&self, call: &ManagerCall, output: &Output) -> CliError {
        let said = String::from_utf8_lossy(&output.stderr);
        CliError::failed(format!(
            "`{}` failed: {}",
            self.shown(call),
            said.trim().trim_end_matches('.')
        ))
    }

    fn not_started(&self, call: &ManagerCall, error: &std::io::Error) -> CliError {
        CliError::failed(format!(
            "`{}` could not be started: {error}; run it yourself, or run `drydock up --manager none`",
            self.shown(call)
        ))
    }

    fn shown(&self, call: &ManagerCall) -> String {
        let (program, arguments) = call.command_line(self.scope);
        format!("{program} {}", arguments.join(" "))
    }

    /// Replaces the service file at once.
    fn write(&self, text: &str) -> Result<(), CliError> {
        let failed = |error: std::io::Error| self.failed("write", &error);
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut new = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        new.write_all(text.as_bytes()).map_err(failed)?;
        // It holds no secret, and the service manager warns about a file that others cannot read.
        let readable = std::fs::Permissions::from_mode(0o644);
        new.as_file().set_permissions(readable).map_err(failed)?;
        new.persist(&self.file).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> CliError {
        CliError::failed(format!("cannot {what} {}: {error}", self.file.display()))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
