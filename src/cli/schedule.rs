//! `drydock schedule`: lists, adds, removes, turns on and off and starts schedules, and lists what they did.

use super::admin_client::{AdminClient, answer_to_show};
use super::channel::edit;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::NewValue;
use crate::base::model::FireOutcome;
use crate::base::recurrence::Recurrence;
use crate::engine::admin::{AdminReply, AdminRequest, ScheduleOrder};
use crate::state::store::{ScheduleFire, ScheduleRow};
use clap::{Args, Subcommand};
use serde_json::json;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock schedule list
  drydock schedule add nightly --when \"weekdays 02:30\" --words \"Look for outdated images in dev.\" \\
      --repository infra --channel team --chat C0123456789
  drydock schedule trigger nightly
  drydock schedule history nightly --json
  drydock schedule disable 7
  drydock schedule remove nightly

Schedules of the configuration and of people are listed together; one is named by its number or
its name. add and remove change the configuration file, and the server reads it at its next start.
remove also removes a schedule of a person. The times of pipelines are listed as
SCHEDULE/PIPELINE; they are changed in the repository.";

#[derive(Debug, Subcommand)]
pub(super) enum ScheduleCommand {
    /// Lists all schedules, with the next time and the last fire
    List,
    /// Adds a schedule to the configuration file
    Add(ScheduleAddition),
    /// Removes a schedule, from the configuration file if it is there
    Remove {
        /// The number or the name of the schedule
        which: String,
    },
    /// Turns a schedule on, also one that is paused
    Enable {
        /// The number or the name of the schedule
        which: String,
    },
    /// Turns a schedule off
    Disable {
        /// The number or the name of the schedule
        which: String,
    },
    /// Starts the work of a schedule now
    Trigger {
        /// The number or the name of the schedule
        which: String,
    },
    /// Lists the fires of a schedule, the newest first
    History {
        /// The number or the name of the schedule
        which: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct ScheduleAddition {
    /// The name of the schedule
    name: String,
    /// The times, such as `weekdays 09:00`, `every 15m` or a cron expression
    #[arg(long, alias = "cron")]
    when: String,
    /// The request to the model
    #[arg(long, alias = "prompt")]
    words: String,
    /// The repository of the request
    #[arg(long, value_name = "NAME")]
    repository: String,
    /// The channel of the results
    #[arg(long, value_name = "NAME")]
    channel: String,
    /// The chat of the results
    #[arg(long, value_name = "ID")]
    chat: String,
    /// The time zone; that of the server if it is not given
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Posts every result, also if nothing changed
    #[arg(long)]
    always_post: bool,
}

pub(super) async fn run(command: ScheduleCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let (which, order) = match command {
        ScheduleCommand::List => return list(global, output).await,
        ScheduleCommand::Add(addition) => return add(addition, global, output),
        ScheduleCommand::Remove { which } => return remove(which, global, output).await,
        ScheduleCommand::Enable { which } => (which, ScheduleOrder::Enable),
        ScheduleCommand::Disable { which } => (which, ScheduleOrder::Disable),
        ScheduleCommand::Trigger { which } => (which, ScheduleOrder::Trigger),
        ScheduleCommand::History { which } => (which, ScheduleOrder::History),
    };
    let request = AdminRequest::Schedule { which, order };
    if let Some(answer) = answer_to_show(request, global, output).await? {
        show(answer, output);
    }
    Ok(())
}

fn show(answer: AdminReply, output: &Output) {
    match answer {
        AdminReply::ScheduleChanged { schedule, done } => {
            output.line(&format!("{} is {done}", schedule.name));
        }
        AdminReply::ScheduleFires { fires, .. } if fires.is_empty() => {
            output.message("It has not fired yet.");
        }
        AdminReply::ScheduleFires { schedule, fires } => {
            let rows: Vec<Vec<String>> = fires.iter().map(|fire| fire_cells(&schedule, fire)).collect();
            output.table(&["DUE", "FIRED", "OUTCOME", "ENDED", "WHY"], &rows);
        }
        _ => {}
    }
}

async fn list(global: &Global, output: &Output) -> Result<(), CliError> {
    let Some(answer) = answer_to_show(AdminRequest::Schedules, global, output).await? else {
        return Ok(());
    };
    let AdminReply::Schedules { schedules } = answer else {
        return Ok(());
    };
    if schedules.is_empty() {
        output.message("There is no schedule; `drydock schedule add` adds one.");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = schedules.iter().map(cells).collect();
    let header = ["ID", "SCHEDULE", "OWNER", "TIMES", "NEXT", "LAST", "REPOSITORY"];
    output.table(&header, &rows);
    Ok(())
}

fn cells(row: &ScheduleRow) -> Vec<String> {
    let definition = &row.definition;
    let next = match &row.off_why {
        Some(why) => format!("off: {why}"),
        None => shown(row, row.due),
    };
    let last = row.last.as_ref().map_or_else(
        || "-".to_owned(),
        |fire| format!("{} {}", shown(row, fire.due), outcome(fire)),
    );
    vec![
        row.id.to_string(),
        row.name.clone(),
        row.owner_name.clone().unwrap_or_else(|| row.owner.to_string()),
        format!("{} {}", definition.when, definition.zone),
        next,
        last,
        definition.repository.clone(),
    ]
}

fn fire_cells(row: &ScheduleRow, fire: &ScheduleFire) -> Vec<String> {
    let ended = fire.ended_at.map_or_else(|| "-".to_owned(), |at| shown(row, at));
    vec![
        shown(row, fire.due),
        shown(row, fire.fired_at),
        outcome(fire).to_owned(),
        ended,
        fire.why.clone().unwrap_or_default(),
    ]
}

fn outcome(fire: &ScheduleFire) -> &'static str {
    fire.outcome.map_or("running", FireOutcome::word)
}

/// Returns a time in the zone of a schedule.
fn shown(row: &ScheduleRow, time: jiff::Timestamp) -> String {
    match Recurrence::parse(&row.definition.when, &row.definition.zone) {
        Ok(recurrence) => recurrence.shown(time),
        Err(_) => time.to_string(),
    }
}

fn add(addition: ScheduleAddition, global: &Global, output: &Output) -> Result<(), CliError> {
    let name = addition.name;
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    if !(1..=32).contains(&name.len()) || !name.chars().all(fits) {
        return Err(CliError::usage(
            "the name of a schedule has 1 to 32 of a-z, 0-9 and -",
        ));
    }
    let post_to = vec![("channel", addition.channel), ("chat", addition.chat)];
    let mut keys = vec![
        ("when", NewValue::Text(addition.when)),
        ("words", NewValue::Text(addition.words)),
        ("repository", NewValue::Text(addition.repository)),
        ("post_to", NewValue::Texts(post_to)),
    ];
    keys.extend(addition.zone.map(|zone| ("zone", NewValue::Text(zone))));
    if addition.always_post {
        keys.push(("quiet", NewValue::Boolean(false)));
    }
    let sources = global.sources()?;
    let file = edit(&sources, |edit| edit.add_section("schedules", &name, &keys))?;
    match output.json() {
        true => output.value(&json!({ "file": file, "added": name })),
        false => output.message(&format!(
            "Added [schedules.{name}] to {file}. Restart the server (`drydock down` and `drydock up`, or `drydock serve`); `drydock check` shows its next time."
        )),
    }
    Ok(())
}

async fn remove(which: String, global: &Global, output: &Output) -> Result<(), CliError> {
    let mut client = AdminClient::new(global)?;
    if !client.has_configured_schedule(&which) {
        let order = ScheduleOrder::Remove;
        let request = AdminRequest::Schedule { which, order };
        if let Some(answer) = client.answer_to_show(request, output).await? {
            show(answer, output);
        }
        return Ok(());
    }
    let sources = global.sources()?;
    let file = edit(&sources, |edit| edit.remove_section("schedules", &which))?;
    match output.json() {
        true => output.value(&json!({ "file": file, "removed": which })),
        false => output.message(&format!(
            "Removed [schedules.{which}] from {file}. Restart the server (`drydock down` and `drydock up`, or `drydock serve`); until then `drydock schedule disable {which}` turns it off."
        )),
    }
    Ok(())
}
