//! The only file of the command line that starts processes: this program again, as a supervisor or as a server, and the
//! programs of the service manager, with absolute paths and arguments that are written here.

use crate::base::system;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const SYSTEMCTL: &str = "/usr/bin/systemctl";
const JOURNALCTL: &str = "/usr/bin/journalctl";
const LAUNCHCTL: &str = "/bin/launchctl";
/// The name of the service in systemd.
pub(super) const UNIT: &str = "drydock.service";
/// The name of the service in launchd.
pub(super) const LABEL: &str = "drydock";

/// The services that a manager runs for the whole system, or those that it runs for one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceScope {
    System,
    /// The services of the user with this id.
    User(u32),
}

impl ServiceScope {
    /// Returns the scope in which this process may install a service.
    pub(super) fn of_this_process() -> Self {
        let user = rustix::process::geteuid();
        match user.is_root() {
            true => Self::System,
            false => Self::User(user.as_raw()),
        }
    }
}

/// A request to the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManagerCall {
    /// systemd: reads the units again.
    ReloadUnits,
    /// systemd: starts the service, now and when the system starts. Waits until it is ready.
    EnableUnit,
    /// systemd: starts the service again with its changed unit. Waits until it is ready.
    RestartUnit,
    /// systemd: stops the service, and starts it no more when the system starts. Waits until it has stopped.
    DisableUnit,
    /// systemd: prints one word about the service, such as `active`, or `activating` if it starts again.
    ShowUnitState,
    /// systemd: prints the last lines of the log of the service, up to this number.
    ReadJournal(u32),
    /// launchd: starts the service of a file, now and when the system starts.
    LoadAgent(PathBuf),
    /// launchd: stops the service, and starts it no more.
    UnloadAgent,
    /// launchd: succeeds if the service is loaded.
    IsAgentLoaded,
}

impl ManagerCall {
    /// Returns the program of a call and its arguments.
    pub(super) fn command_line(&self, scope: ServiceScope) -> (&'static str, Vec<String>) {
        let units = |arguments: &[&str]| {
            let user = matches!(scope, ServiceScope::User(_)).then_some("--user");
            let all = user.into_iter().chain(arguments.iter().copied());
            (SYSTEMCTL, all.map(str::to_owned).collect())
        };
        let domain = match scope {
            ServiceScope::System => "system".to_owned(),
            ServiceScope::User(id) => format!("gui/{id}"),
        };
        let agent = format!("{domain}/{LABEL}");
        match self {
            Self::ReloadUnits => units(&["daemon-reload"]),
            Self::EnableUnit => units(&["enable", "--now", UNIT]),
            Self::RestartUnit => units(&["restart", UNIT]),
            Self::DisableUnit => units(&["disable", "--now", UNIT]),
            Self::ShowUnitState => units(&["show", "--property=ActiveState", "--value", UNIT]),
            Self::ReadJournal(lines) => (JOURNALCTL, journal_arguments(scope, *lines)),
            Self::LoadAgent(file) => {
                let file = file.display().to_string();
                (LAUNCHCTL, vec!["bootstrap".to_owned(), domain, file])
            }
            Self::UnloadAgent => (LAUNCHCTL, vec!["bootout".to_owned(), agent]),
            Self::IsAgentLoaded => (LAUNCHCTL, vec!["print".to_owned(), agent]),
        }
    }

    /// Makes the call, and waits for its end. The service manager bounds its own waits.
    pub(super) fn run(&self, scope: ServiceScope) -> std::io::Result<Output> {
        let (program, arguments) = self.command_line(scope);
        manager_command(program).args(arguments).output()
    }
}

/// The choice between the lines that a log has now, and the later ones as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFollowing {
    Ends,
    Follows,
}

/// Starts the program that prints the messages of the service from the journal, each without any addition.
pub(super) fn start_journal(
    scope: ServiceScope,
    lines: u32,
    following: LogFollowing,
) -> std::io::Result<Child> {
    let follow = (following == LogFollowing::Follows).then_some("--follow");
    manager_command(JOURNALCTL)
        .args(journal_arguments(scope, lines))
        .args(follow)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
}

fn journal_arguments(scope: ServiceScope, lines: u32) -> Vec<String> {
    let unit = match scope {
        ServiceScope::System => "--unit",
        ServiceScope::User(_) => "--user-unit",
    };
    let fixed = ["--no-pager", "--quiet", "--output", "cat", unit, UNIT, "--lines"];
    let mut arguments = fixed.map(str::to_owned).to_vec();
    arguments.push(lines.to_string());
    arguments
}

#[allow(
    clippy::disallowed_methods,
    reason = "an operator's command asks the service manager of the system; no repository and no model is involved"
)]
fn manager_command(program: &'static str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Starts this program as the supervisor of a server, which outlives this process. Its own failures go to `log`.
pub(super) fn start_supervisor(arguments: &[String], log: std::fs::File) -> std::io::Result<Child> {
    own_command(system::this_program().as_path(), "supervise", arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

/// Starts this program as a server that stops when this process ends.
pub(super) fn start_server(arguments: &[String]) -> std::io::Result<Child> {
    own_command(system::this_program().as_path(), "serve", arguments)
        .arg("--stop-with-input")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

#[allow(
    clippy::disallowed_methods,
    reason = "an operator's command starts this program again, with the operator's own arguments"
)]
fn own_command(program: &Path, verb: &'static str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.arg(verb).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::{ManagerCall, ServiceScope};

    #[test]
    fn calls_name_the_service_and_its_scope() {
        let line = |call: &ManagerCall, scope| {
            let (program, arguments) = call.command_line(scope);
            format!("{program} {}", arguments.join(" "))
        };
        let user = ServiceScope::User(1_000);
        for (call, of_system, of_user) in [
            (
                ManagerCall::EnableUnit,
                "/usr/bin/systemctl enable --now drydock.service",
                "/usr/bin/systemctl --user enable --now drydock.service",
            ),
            (
                ManagerCall::LoadAgent("/a/drydock.plist".into()),
                "/bin/launchctl bootstrap system /a/drydock.plist",
                "/bin/launchctl bootstrap gui/1000 /a/drydock.plist",
            ),
            (
                ManagerCall::ShowUnitState,
                "/usr/bin/systemctl show --property=ActiveState --value drydock.service",
                "/usr/bin/systemctl --user show --property=ActiveState --value drydock.service",
            ),
            (
                ManagerCall::ReadJournal(7),
                "/usr/bin/journalctl --no-pager --quiet --output cat --unit drydock.service --lines 7",
                "/usr/bin/journalctl --no-pager --quiet --output cat --user-unit drydock.service --lines 7",
            ),
            (
                ManagerCall::UnloadAgent,
                "/bin/launchctl bootout system/drydock",
                "/bin/launchctl bootout gui/1000/drydock",
            ),
        ] {
            assert_eq!(line(&call, ServiceScope::System), of_system);
            assert_eq!(line(&call, user), of_user);
        }
    }
}
