//! `drydock status`: the state of the running server, however it was started.

use super::logs::shown_line;
use super::state_file::SupervisorState;
use super::{
    data_directory, directory_owner, has_old_configuration, installed_service, running_server,
    running_supervisor,
};
use crate::base::model::pluralize;
use crate::cli::output::Output;
use crate::cli::{CliError, Global, serve};
use crate::engine::admin::ServerStatus;
use crate::state::store::{OpenRuns, ScheduleRow};
use jiff::SignedDuration;
use serde_json::json;
use std::path::Path;

pub(in crate::cli) const STATUS_EXAMPLES: &str = "\
Examples:
  drydock status --config drydock.toml
  drydock status --config drydock.toml --json

Exit codes: 0 a server runs, 3 none runs.";

/// The exit code if no server runs, as that of `systemctl status`.
const CODE_NOT_RUNNING: u8 = 3;

/// The way in which a server was started.
pub(super) enum ServiceKind {
    Unit(String),
    Supervised(SupervisorState),
    ByHand,
}

impl ServiceKind {
    pub(super) fn of(data: &Path) -> Result<Self, CliError> {
        if let Some(state) = running_supervisor(data)? {
            return Ok(Self::Supervised(state));
        }
        Ok(match installed_service(data)? {
            // Without a login session, the manager of a user cannot be asked. The file is the better evidence then.
            Some(service) if service.is_active().unwrap_or(true) => {
                Self::Unit(service.file.display().to_string())
            }
            _ => Self::ByHand,
        })
    }

    /// True for a server that a person runs.
    pub(super) fn is_by_hand(&self) -> bool {
        matches!(self, Self::ByHand)
    }

    fn shown(&self) -> String {
        match self {
            Self::Unit(file) => format!("service manager, {file}"),
            Self::Supervised(state) => {
                let restarts = state.starts.saturating_sub(1) as usize;
                let last_end = state.last_end.map(|end| format!(", the last after {end}"));
                format!(
                    "background, supervisor process {}, {}{}",
                    state.process,
                    pluralize(restarts, "restart", "restarts"),
                    last_end.unwrap_or_default()
                )
            }
            Self::ByHand => "started with `drydock serve`".to_owned(),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Unit(file) => json!({ "kind": "service_manager", "file": file }),
            Self::Supervised(state) => json!({
                "kind": "background", "supervisor": state.process, "restarts": state.starts.saturating_sub(1),
                "last_end": state.last_end,
            }),
            Self::ByHand => json!({ "kind": "by_hand" }),
        }
    }
}

pub(in crate::cli) async fn status(global: &Global, output: &Output) -> Result<(), CliError> {
    let data = data_directory(global)?;
    let Some(server) = running_server(&data).await? else {
        return not_running(&data, output);
    };
    let service = ServiceKind::of(&data)?;
    if output.json() {
        output.value(&json!({
            "running": true, "ready": server.waiting_for.is_empty(), "service": service.to_json(), "data": data,
            "server": server, "configuration_changed": has_old_configuration(&server.facts),
        }));
        return Ok(());
    }
    print(&server, &service, &data, output);
    Ok(())
}

fn not_running(data: &Path, output: &Output) -> Result<(), CliError> {
    let supervisor = running_supervisor(data)?;
    let owner = directory_owner(data)?;
    if output.json() {
        output.value(&json!({ "running": false, "ready": false, "data": data, "process": owner }));
    }
    let why = match (owner, supervisor) {
        (Some(process), _) => format!(
            "process {process} owns {}, and is starting or stopping",
            data.display()
        ),
        (None, Some(state)) => format!(
            "no server runs on {} now; its supervisor (process {}) starts it again{}",
            data.display(),
            state.process,
            state
                .last_end
                .map(|end| format!(" after {end}"))
                .unwrap_or_default()
        ),
        (None, None) => format!("no server runs on {}; start it: drydock up", data.display()),
    };
    Err(CliError {
        code: CODE_NOT_RUNNING,
        message: why,
    })
}

fn print(server: &ServerStatus, service: &ServiceKind, data: &Path, output: &Output) {
    let facts = &server.facts;
    let state = match server.waiting_for.is_empty() {
        true => "ready".to_owned(),
        false => "not ready".to_owned(),
    };
    let configuration = facts.configuration.as_ref();
    let mut configuration = configuration.map_or("none".to_owned(), |file| file.display().to_string());
    if has_old_configuration(facts) {
        configuration.push_str(", changed after the start: a restart uses the change");
    }
    let age = serve::now().duration_since(facts.started_at);
    for (name, value) in [
        ("state", state),
        ("service", service.shown()),
        ("process", format!("{}, version {}", facts.process, facts.version)),
        ("up", format!("{}, since {:.0}", shown_age(age), facts.started_at)),
        ("address", format!("http://{}", facts.address)),
        ("configuration", configuration),
        ("data", data.display().to_string()),
        ("queue", queue(server)),
    ] {
        output.line(&format!("{name:<14}{value}"));
    }
    if let Some(runs) = server.runs {
        output.line(&format!("{:<14}{}", "runs", open_runs(runs)));
    }
    for (name, lines) in [("waits for", &server.waiting_for), ("degraded", &server.degraded)] {
        for line in lines {
            output.line(&format!("{name:<14}{line}"));
        }
    }
    if !server.channels.is_empty() {
        output.line("");
        let rows = server.channels.iter().map(|health| {
            vec![
                health.channel.clone(),
                health.state.to_string(),
                health.waiting.to_string(),
                health.given_up.to_string(),
            ]
        });
        output.table(
            &["CHANNEL", "STATE", "TO SEND", "GIVEN UP"],
            &rows.collect::<Vec<_>>(),
        );
    }
    if !server.schedules.is_empty() {
        output.line("");
        let rows = server.schedules.iter().map(schedule_cells).collect::<Vec<_>>();
        output.table(&["SCHEDULE", "OWNER", "NEXT"], &rows);
    }
    if !server.problems.is_empty() {
        output.line("\nLast warnings and errors:");
        for problem in &server.problems {
            output.line(&shown_line(problem));
        }
    }
}

fn schedule_cells(schedule: &ScheduleRow) -> Vec<String> {
    let owner = schedule.owner_name.clone();
    vec![
        schedule.name.clone(),
        owner.unwrap_or_else(|| schedule.owner.to_string()),
        match &schedule.off_why {
            Some(why) => format!("off: {why}"),
            None => format!("{:.0}", schedule.due),
        },
    ]
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn open_runs(runs: OpenRuns) -> String {
    format!(
        "{}, {}, {}",
        pluralize(count(runs.running), "runs", "run"),
        pluralize(
            count(runs.waiting_for_person),
            "waits for a person",
            "wait for a person"
        ),
        pluralize(count(runs.queued), "is queued", "are queued")
    )
}

fn queue(server: &ServerStatus) -> String {
    let to_send: u64 = server.channels.iter().map(|health| health.waiting).sum();
    format!(
        "{}, {}, {}",
        pluralize(count(server.turns_running), "turn runs", "turns run"),
        pluralize(count(server.messages_waiting), "message waits", "messages wait"),
        pluralize(count(to_send), "operation to send", "operations to send")
    )
}

fn shown_age(age: SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::{open_runs, shown_age};
    use crate::state::store::OpenRuns;
    use jiff::SignedDuration;

    #[test]
    fn the_numbers_of_open_runs_are_one_line() {
        let runs = OpenRuns {
            queued: 3,
            running: 1,
            waiting_for_person: 2,
        };
        assert_eq!(open_runs(runs), "1 runs, 2 wait for a person, 3 are queued");
        assert_eq!(
            open_runs(OpenRuns::default()),
            "0 run, 0 wait for a person, 0 are queued"
        );
    }

    #[test]
    fn the_age_of_a_server_is_short() {
        for (seconds, shown) in [
            (-5, "0 s"),
            (59, "59 s"),
            (3_599, "59 min"),
            (86_399, "23 h 59 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(shown_age(SignedDuration::from_secs(seconds)), shown);
        }
    }
}
