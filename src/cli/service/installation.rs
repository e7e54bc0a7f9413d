//! The file of the service manager: where it is, which data directory it serves, and how it is installed and removed.

use super::launchd::data_entry;
use super::processes::{ManagerCall, ServiceScope, UNIT};
use super::unit::{MARK, ServiceFacts, data_line};
use crate::base::system::ServiceManager;
use crate::cli::CliError;
use crate::cli::user_directory::{home_directory, user_directory};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a service file that are read.
const FILE_BYTES_MAX: u64 = 262_144;

/// The place of the service file of a manager.
#[derive(Clone, Debug)]
pub(super) struct ServiceInstallation {
    pub(super) manager: ServiceManager,
    pub(super) scope: ServiceScope,
    pub(super) file: PathBuf,
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
        let scope = ServiceScope::of_this_process();
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
        Ok(Self { manager, scope, file })
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

    /// Writes the service file and starts the service. Waits until systemd reports that the server is ready. The file is
    /// removed again if the service manager does not take it.
    pub(super) fn install(&self, text: &str, before: &InstalledFile) -> Result<(), CliError> {
        let is_changed = *before != InstalledFile::Own(text.to_owned());
        if is_changed {
            self.write(text)?;
        }
        let calls = match (self.manager, self.is_active()?) {
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
        calls.iter().try_for_each(|call| self.call(call))
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
        std::fs::remove_file(&self.file).map_err(|error| self.failed("remove", &error))?;
        match self.manager {
            ServiceManager::Systemd => self.call(&ManagerCall::ReloadUnits),
            ServiceManager::Launchd => Ok(()),
        }
    }

    /// Returns true if the service runs.
    pub(super) fn is_active(&self) -> Result<bool, CliError> {
        let call = match self.manager {
            ServiceManager::Systemd => ManagerCall::IsUnitActive,
            ServiceManager::Launchd => ManagerCall::IsAgentLoaded,
        };
        let output = call
            .run(self.scope)
            .map_err(|error| self.not_started(&call, &error))?;
        Ok(output.status.success())
    }

    fn call(&self, call: &ManagerCall) -> Result<(), CliError> {
        let output = call
            .run(self.scope)
            .map_err(|error| self.not_started(call, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(CliError::failed(format!(
            "`{}` failed: {}; `drydock logs` shows the log of the server",
            self.shown(call),
            said.trim()
        )))
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
mod tests {
    use super::{InstalledFile, ServiceInstallation};
    use crate::base::system::ServiceManager;
    use crate::cli::service::processes::ServiceScope;
    use crate::cli::service::unit::tests::facts;
    use std::path::Path;

    /// STK-4
    #[test]
    fn a_service_file_belongs_to_its_data_directory_and_no_other_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let data = "/srv/drydock-data";
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd] {
            let place = ServiceInstallation {
                manager,
                scope: ServiceScope::System,
                file: directory.path().join(format!("{manager:?}/drydock")),
            };
            let installed = |data: &str| place.installed(Path::new(data)).unwrap();
            assert_eq!(installed(data), InstalledFile::Absent);
            let text = place.text(&facts(data)).unwrap();
            place.write(&text).unwrap();
            assert_eq!(installed(data), InstalledFile::Own(text));
            assert_eq!(installed("/srv/drydock"), InstalledFile::Foreign);
            place
                .write("[Service]\nExecStart=/bin/true\n# Data: /srv/drydock-data\n")
                .unwrap();
            assert_eq!(installed(data), InstalledFile::Foreign);
        }
    }
}
