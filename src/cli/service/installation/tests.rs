//! Tests of the installation of the service.

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
