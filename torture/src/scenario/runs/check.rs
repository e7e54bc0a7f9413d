//! The checks after the scenario, on the database of the stopped program and on what people see: each event and each time has
//! started its runs once, and each step of them has had its effect once.

mod answers;
#[cfg(test)]
mod tests;

use super::definitions::{EventPipeline, TICK, pipelines_of, task};
use super::shown::ShownRuns;
use crate::hook;
use crate::task::{FileContents, files_of_patch};
use crate::testbed::Testbed;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};

/// The states in which a run that starts at a set time may end.
const ENDS_AT_TIMES: &[&str] = &["succeeded"];

/// A run in the database.
#[derive(Clone, Debug)]
struct StoredRun {
    id: i64,
    pipeline: String,
    status: String,
    /// The name of the delivery that started it, if an event did.
    event: String,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    is_due: bool,
    steps: Vec<StoredStep>,
}

/// A step of a run in the database.
#[derive(Clone, Debug)]
struct StoredStep {
    place: i64,
    kind: String,
    status: String,
    inbox: Option<i64>,
    conversation: Option<i64>,
    change: Option<i64>,
    output: String,
}

/// The amounts of what starts runs in the scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    /// The number of events, from 1.
    pub(super) events: u32,
    /// The number of pipelines that start at set times.
    pub(super) schedules: u32,
    /// The number of times that came for each of them, at least.
    pub(super) rounds: usize,
}

/// Checks everything. Returns the number of runs.
pub(super) fn check(world: &Testbed, started: Started) -> anyhow::Result<usize> {
    let file = world.launch().data.join("drydock.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let runs = read_runs(&database)?;
    let shown = world.slack.with_state(ShownRuns::of);
    let mut problems = starts(&runs, started.events);
    problems.extend(ends(&runs));
    problems.extend(turns_taken(&runs));
    problems.extend(fires(&database, &runs, started)?);
    problems.extend(effects(&database, &runs)?);
    problems.extend(posts(&runs, &shown));
    problems.extend(answers::outputs(&runs, started.events));
    problems.extend(answers::questions(&runs, &shown));
    for problem in problems {
        world.report_violation(problem);
    }
    Ok(runs.len())
}

fn read_runs(database: &Connection) -> anyhow::Result<Vec<StoredRun>> {
    let mut steps: BTreeMap<i64, Vec<StoredStep>> = BTreeMap::new();
    let mut query = database.prepare(
        "SELECT run, step, kind, status, inbox, conversation, change_number,
           COALESCE(json_extract(result, '$.output'), '') FROM run_step ORDER BY run, step",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        steps.entry(row.get(0)?).or_default().push(StoredStep {
            place: row.get(1)?,
            kind: row.get(2)?,
            status: row.get(3)?,
            inbox: row.get(4)?,
            conversation: row.get(5)?,
            change: row.get(6)?,
            output: row.get(7)?,
        });
    }
    let mut query = database.prepare(
        "SELECT id, pipeline, status, COALESCE(event, ''), started_at, ended_at, due FROM run ORDER BY id",
    )?;
    let runs = query.query_map([], |row| {
        let id = row.get(0)?;
        Ok(StoredRun {
            id,
            pipeline: row.get(1)?,
            status: row.get(2)?,
            event: row.get(3)?,
            started_at: row.get(4)?,
            ended_at: row.get(5)?,
            is_due: row.get(6)?,
            steps: steps.remove(&id).unwrap_or_default(),
        })
    })?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Checks that each event has started each of its pipelines once, and no other one.
fn starts(runs: &[StoredRun], events: u32) -> Vec<String> {
    let mut problems = Vec::new();
    for number in 1..=events {
        let delivery = hook::delivery(number);
        for pipeline in EventPipeline::ALL {
            let name = pipeline.name();
            let of_event = runs
                .iter()
                .filter(|run| run.pipeline == name && run.event.contains(&delivery));
            let (count, expected) = (
                of_event.count(),
                usize::from(pipelines_of(number).contains(&pipeline)),
            );
            if count != expected {
                problems.push(format!(
                    "event {number} started {count} runs of {name} instead of {expected}"
                ));
            }
        }
    }
    problems
}

/// Checks that each run has ended in a state that its pipeline allows.
fn ends(runs: &[StoredRun]) -> Vec<String> {
    let mut problems = Vec::new();
    for run in runs {
        let StoredRun {
            id, pipeline, status, ..
        } = run;
        if run.ended_at.is_none() || run.is_due {
            problems.push(format!("run {id} of {pipeline} is left {status}"));
            continue;
        }
        let known = EventPipeline::ALL.iter().find(|known| known.name() == pipeline);
        let allowed = known.map_or(ENDS_AT_TIMES, |known| known.ends());
        if !allowed.contains(&status.as_str()) {
            problems.push(format!("run {id} of {pipeline} has {status}"));
        }
    }
    let newest = EventPipeline::Newest.name();
    let last = runs.iter().rfind(|run| run.pipeline == newest);
    if let Some(last) = last.filter(|run| run.status != "succeeded") {
        problems.push(format!(
            "run {} is the newest one of its group, and has {}",
            last.id, last.status
        ));
    }
    problems
}

/// Checks that runs which wait for each other have not run at the same time.
fn turns_taken(runs: &[StoredRun]) -> Vec<String> {
    let name = EventPipeline::Turns.name();
    let turns: Vec<&StoredRun> = runs.iter().filter(|run| run.pipeline == name).collect();
    let pairs = turns.windows(2).filter_map(|pair| match pair {
        [before, after] if after.started_at < before.ended_at => Some(format!(
            "run {} began before run {} of its group had ended",
            after.id, before.id
        )),
        _ => None,
    });
    pairs.collect()
}

/// Checks that each time that came has started one run, and that no time was lost.
fn fires(database: &Connection, runs: &[StoredRun], started: Started) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let open: i64 = database.query_row(
        "SELECT COUNT(*) FROM schedule_fire WHERE outcome IS NULL",
        [],
        |row| row.get(0),
    )?;
    if open > 0 {
        problems.push(format!("{open} fires have no outcome"));
    }
    let mut query = database.prepare(
        "SELECT 'schedule:' || schedule || ':' || due || '/run' FROM schedule_fire
         WHERE outcome NOT IN ('missed', 'overlapped')",
    )?;
    let fired = query.query_map([], |row| row.get(0))?;
    let fired: BTreeSet<String> = fired.collect::<Result<_, _>>()?;
    problems.extend(runs_of_fires(&fired, runs));
    let mut ran: BTreeMap<&str, i64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.pipeline.starts_with(TICK)) {
        *ran.entry(run.pipeline.as_str()).or_default() += 1;
    }
    let wanted = i64::try_from(started.rounds)?;
    let too_few = ran.values().filter(|count| **count < wanted).count();
    if ran.len() != usize::try_from(started.schedules)? || too_few > 0 {
        problems.push(format!(
            "{} of {} pipelines ran at set times, {too_few} of them less than {wanted} times",
            ran.len(),
            started.schedules
        ));
    }
    Ok(problems)
}

/// Checks that each of these fires has started one run, and that every run of a set time is that of a fire.
fn runs_of_fires(fired: &BTreeSet<String>, runs: &[StoredRun]) -> Vec<String> {
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.pipeline.starts_with(TICK)) {
        *ran.entry(run.event.as_str()).or_default() += 1;
    }
    let mut problems = Vec::new();
    for event in fired {
        let count = ran.remove(event.as_str()).unwrap_or_default();
        if count != 1 {
            problems.push(format!("the fire {event} started {count} runs"));
        }
    }
    problems.extend(
        ran.keys()
            .map(|event| format!("{event} is no fire, and started a run")),
    );
    problems
}

/// Checks that each agent step that succeeded had one turn that passed, and one change with the files of its task.
fn effects(database: &Connection, runs: &[StoredRun]) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut changes = BTreeSet::new();
    let steps = runs
        .iter()
        .flat_map(|run| run.steps.iter().map(move |step| (run, step)));
    for (run, step) in steps.filter(|(_, step)| step.kind == "agent" && step.status == "succeeded") {
        let place = format!("step {} of run {} of {}", step.place, run.id, run.pipeline);
        let passed: i64 = database.query_row(
            "SELECT COUNT(*) FROM turn WHERE inbox = ?1 AND verdict = 'pass'",
            [step.inbox],
            |row| row.get(0),
        )?;
        if passed != 1 {
            problems.push(format!("{place} had {passed} turns that passed"));
        }
        let revisions: i64 = database.query_row(
            "SELECT COUNT(*) FROM change WHERE conversation = ?1",
            [step.conversation],
            |row| row.get(0),
        )?;
        let is_shared = step.change.is_none_or(|number| !changes.insert(number));
        if revisions != 1 || is_shared {
            problems.push(format!(
                "{place} has {revisions} revisions of the change {:?}",
                step.change
            ));
        }
        if let Err(why) = prepared(database, step) {
            problems.push(format!("{place}: {why:#}"));
        }
    }
    Ok(problems)
}

/// Checks that the change of a step has the files of the task that its output names.
fn prepared(database: &Connection, step: &StoredStep) -> anyhow::Result<()> {
    let done = step.output.split_once("Task ").and_then(|(_, rest)| {
        let (id, _) = rest.split_once(' ')?;
        id.parse().ok()
    });
    let id = done.ok_or_else(|| anyhow::anyhow!("its output names no task: {}", step.output))?;
    let task = task(id);
    let mut expected = FileContents::new();
    task.apply(task.steps, &mut expected);
    let patch: Option<Vec<u8>> = database
        .query_row(
            "SELECT blob.content FROM change JOIN blob ON blob.hash = change.patch WHERE change.conversation = ?1",
            [step.conversation],
            |row| row.get(0),
        )
        .optional()?;
    let patch = String::from_utf8(patch.unwrap_or_default())?;
    let files = files_of_patch(&patch).map_err(anyhow::Error::msg)?;
    anyhow::ensure!(files == expected, "its change has other files: {files:?}");
    Ok(())
}

/// Checks that each run has one message, which shows its end, and each reply of it was posted once.
fn posts(runs: &[StoredRun], shown: &ShownRuns) -> Vec<String> {
    let mut problems: Vec<String> = shown
        .others
        .iter()
        .map(|text| format!("an unexpected message: {text}"))
        .collect();
    let mut replies = BTreeSet::new();
    for run in runs {
        let messages = shown.runs.get(&run.id).map(Vec::as_slice).unwrap_or_default();
        // A run that was left out says nothing.
        let expected = usize::from(run.status != "skipped");
        if messages.len() != expected || messages.iter().any(|message| message.status != run.status) {
            let (id, status) = (run.id, &run.status);
            problems.push(format!("run {id} has {status}, and shows {messages:?}"));
        }
        let told = run.steps.iter().filter(|step| step.kind == "reply");
        for step in told.filter(|step| step.status == "succeeded") {
            let operation = format!("run-{}-{}/reply-1", run.id, step.place);
            let posted = shown
                .replies
                .get(&operation)
                .map(Vec::as_slice)
                .unwrap_or_default();
            if posted.len() != 1 || !posted.iter().all(|text| text.contains(step.output.as_str())) {
                problems.push(format!("the reply {operation} was posted as {posted:?}"));
            }
            replies.insert(operation);
        }
    }
    let foreign = shown
        .replies
        .keys()
        .filter(|operation| !replies.contains(*operation));
    problems.extend(
        foreign.map(|operation| format!("{operation} was posted, and is no reply of a step that succeeded")),
    );
    let known: BTreeSet<i64> = runs.iter().map(|run| run.id).collect();
    let foreign = shown.runs.keys().filter(|id| !known.contains(*id));
    problems.extend(foreign.map(|id| format!("run {id} has a message, and does not exist")));
    problems
}
