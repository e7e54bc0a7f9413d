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
mod tests {
    use super::{InstalledFile, JOURNAL_LINES_MAX, ServiceInstallation};
    use crate::base::system::ServiceManager;
    use crate::cli::service::processes::{ManagerCall, ServiceScope};
    use crate::cli::service::unit::tests::facts;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::{ExitStatus, Output};
    use std::sync::{Arc, Mutex};

    /// Returns a place below a directory, and the calls to its service manager. The service has a state, and one call
    /// fails.
    fn place(
        manager: ServiceManager,
        directory: &Path,
        state: &'static str,
        failing: Option<ManagerCall>,
    ) -> (ServiceInstallation, Arc<Mutex<Vec<ManagerCall>>>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&calls);
        let run = move |call: &ManagerCall, _: ServiceScope| -> std::io::Result<Output> {
            made.lock().unwrap().push(call.clone());
            let is_missing = *call == ManagerCall::IsAgentLoaded && state != "active";
            let is_failing = failing.as_ref() == Some(call);
            let (stdout, stderr) = match call {
                ManagerCall::ShowUnitState => (format!("{state}\n"), ""),
                ManagerCall::ReadJournal(_) => ("the address is in use\n".to_owned(), ""),
                _ => (String::new(), "Job failed.\n"),
            };
            Ok(Output {
                status: ExitStatus::from_raw(i32::from(is_missing || is_failing) << 8),
                stdout: stdout.into(),
                stderr: stderr.into(),
            })
        };
        let place = ServiceInstallation {
            manager,
            scope: ServiceScope::System,
            file: directory.join(format!("{manager:?}/drydock")),
            run: Box::new(run),
        };
        (place, calls)
    }

    fn made(calls: &Mutex<Vec<ManagerCall>>) -> Vec<ManagerCall> {
        std::mem::take(&mut *calls.lock().unwrap())
    }

    const DATA: &str = "/srv/drydock-data";

    /// STK-11, STK-12
    #[test]
    fn a_unit_is_started_started_again_after_a_change_stopped_and_removed() {
        use ManagerCall::{DisableUnit, EnableUnit, ReloadUnits, RestartUnit, ShowUnitState};
        let directory = tempfile::tempdir().unwrap();
        let (first, calls) = place(ServiceManager::Systemd, directory.path(), "inactive", None);
        let text = first.text(&facts(DATA)).unwrap();
        first.install(&text, &InstalledFile::Absent).unwrap();
        assert_eq!(made(&calls), [ShowUnitState, ReloadUnits, EnableUnit]);
        for state in ["active", "activating", "reloading"] {
            let (place, calls) = place(ServiceManager::Systemd, directory.path(), state, None);
            assert!(place.is_active().unwrap(), "{state}");
            made(&calls);
            let before = place.installed(Path::new(DATA)).unwrap();
            assert_ne!(before, InstalledFile::Absent);
            let changed = format!("{text}# {state}\n");
            place.install(&changed, &before).unwrap();
            let expected = [ShowUnitState, ReloadUnits, EnableUnit, RestartUnit];
            assert_eq!(made(&calls), expected, "{state}");
            assert_eq!(
                place.installed(Path::new(DATA)).unwrap(),
                InstalledFile::Own(changed)
            );
        }
        first.stop().unwrap();
        first.remove().unwrap();
        assert_eq!(made(&calls), [DisableUnit, ReloadUnits]);
        assert_eq!(first.installed(Path::new(DATA)).unwrap(), InstalledFile::Absent);
    }

    /// STK-11
    #[test]
    fn a_unit_that_does_not_start_is_disabled_and_its_former_file_comes_back() {
        use ManagerCall::{DisableUnit, EnableUnit, ReadJournal, ReloadUnits, ShowUnitState};
        let directory = tempfile::tempdir().unwrap();
        let failing = Some(EnableUnit);
        let (place, calls) = place(ServiceManager::Systemd, directory.path(), "inactive", failing);
        let text = place.text(&facts(DATA)).unwrap();
        let former = InstalledFile::Own(format!("{text}# former\n"));
        for before in [InstalledFile::Absent, former] {
            if let InstalledFile::Own(former) = &before {
                place.write(former).unwrap();
            }
            let failed = place.install(&text, &before).unwrap_err();
            assert_eq!(
                failed.message,
                "`/usr/bin/systemctl enable --now drydock.service` failed: Job failed; the service is stopped and \
                 disabled. The last lines of the log:\n  the address is in use"
            );
            assert_eq!(
                made(&calls),
                [
                    ShowUnitState,
                    ReloadUnits,
                    EnableUnit,
                    ReadJournal(JOURNAL_LINES_MAX),
                    DisableUnit,
                    ReloadUnits
                ]
            );
            assert_eq!(place.installed(Path::new(DATA)).unwrap(), before);
        }
    }

    /// STK-11
    #[test]
    fn what_cannot_be_undone_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let failing = Some(ManagerCall::DisableUnit);
        let (place, _) = place(ServiceManager::Systemd, directory.path(), "active", failing);
        place.write("text").unwrap();
        let error = crate::cli::CliError::config("the server does not answer");
        let failed = place.withdrawn(&InstalledFile::Absent, &error);
        assert_eq!(failed.code, 78);
        assert!(
            failed.message.contains("disable --now drydock.service` failed")
                && failed.message.contains("run: drydock down --remove"),
            "{}",
            failed.message
        );
        assert!(!place.file.exists());
    }

    /// STK-11, STK-12
    #[test]
    fn a_file_of_launchd_is_loaded_and_taken_away_again_if_it_is_refused() {
        use ManagerCall::{IsAgentLoaded, LoadAgent, UnloadAgent};
        let directory = tempfile::tempdir().unwrap();
        let of = |state, failing| place(ServiceManager::Launchd, directory.path(), state, failing);
        let (first, calls) = of("inactive", None);
        let text = first.text(&facts(DATA)).unwrap();
        let load = LoadAgent(first.file.clone());
        first.install(&text, &InstalledFile::Absent).unwrap();
        assert_eq!(made(&calls), [IsAgentLoaded, load.clone()]);
        let (running, calls) = of("active", None);
        running
            .install(&text, &InstalledFile::Own("former".to_owned()))
            .unwrap();
        assert_eq!(made(&calls), [IsAgentLoaded, UnloadAgent, load.clone()]);
        running.stop().unwrap();
        running.remove().unwrap();
        assert_eq!(made(&calls), [IsAgentLoaded, UnloadAgent]);
        assert!(!running.file.exists());
        let (refused, calls) = of("inactive", Some(load.clone()));
        let failed = refused.install(&text, &InstalledFile::Absent).unwrap_err();
        assert!(failed.message.contains("bootstrap system "), "{}", failed.message);
        assert_eq!(made(&calls), [IsAgentLoaded, load, IsAgentLoaded]);
        assert!(!refused.file.exists());
    }

    /// STK-4
    #[test]
    fn a_service_file_belongs_to_its_data_directory_and_no_other_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd] {
            let (place, _) = place(manager, directory.path(), "inactive", None);
            let installed = |data: &str| place.installed(Path::new(data)).unwrap();
            assert_eq!(installed(DATA), InstalledFile::Absent);
            let text = place.text(&facts(DATA)).unwrap();
            place.write(&text).unwrap();
            assert_eq!(installed(DATA), InstalledFile::Own(text));
            assert_eq!(installed("/srv/drydock"), InstalledFile::Foreign);
            place
                .write("[Service]\nExecStart=/bin/true\n# Data: /srv/drydock-data\n")
                .unwrap();
            assert_eq!(installed(DATA), InstalledFile::Foreign);
        }
    }
}
