//! The runs of pipelines that fires start. A run has the name of its fire, so a fire starts one run, and the end of the run ends
//! the fire.

use super::fire::{StoppedWork, close, open_fire, open_fire_at};
use crate::base::model::{FireOutcome, InboxId, Op, RunId, RunStatus};
use crate::crash_point;
use crate::state::store::claim::{Claim, check_fence};
use crate::state::store::column::{json, parse_word};
use crate::state::store::run::{self, NewRun, RunCreation};
use crate::state::store::{Store, StoreError, inbox, turn};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The reason of the end of a run whose schedule is turned off or removed.
const TURNED_OFF: &str = "its schedule was turned off";

impl Store {
    /// Answers the message of a fire: it starts this run, or nothing if there is none to start. The message waits on if the
    /// run cannot be stored. Returns also the work that the start of the run stopped.
    pub async fn start_fire_run(
        &self,
        claim: &Claim,
        inbox: InboxId,
        new: Option<NewRun>,
        at: Timestamp,
    ) -> Result<(Option<RunCreation>, Vec<StoppedWork>), StoreError> {
        let claim = *claim;
        crash_point::before("effect");
        let started = self.write(move |tx| start(tx, (claim, inbox), new, at)).await;
        crash_point::after("effect");
        started
    }

    /// Answers the message of a fire that starts no run. The fire fails, and its reason is kept with the message.
    pub async fn refuse_fire_run(
        &self,
        claim: &Claim,
        inbox: InboxId,
        (why, ops): (String, Vec<Op>),
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_fence(tx, claim)?;
            let effect = json(&serde_json::json!({ "why": why }))?;
            tx.prepare_cached("UPDATE inbox SET effect = ?2 WHERE id = ?1 AND done_at IS NULL")?
                .execute(params![inbox.0, effect])?;
            turn::dismiss(tx, claim, inbox, &ops, at)
        })
        .await
    }
}

fn start(
    tx: &Transaction<'_>,
    (claim, inbox): (Claim, InboxId),
    new: Option<NewRun>,
    at: Timestamp,
) -> Result<(Option<RunCreation>, Vec<StoppedWork>), StoreError> {
    check_fence(tx, claim)?;
    inbox::check_unfinished(tx, claim.conversation, inbox)?;
    let is_stopped = inbox::is_stopped(tx, inbox)?;
    let mut started = (None, Vec::new());
    // A schedule that was removed in the meantime has no fire any more.
    match (open_fire(tx, inbox)?.filter(|_| !is_stopped), new) {
        (Some(fire), Some(new)) => {
            let new = NewRun {
                deliveries: vec![event_name(fire.schedule, fire.due)],
                ..new
            };
            let (creation, stopped) = run::create(tx, &new, None, at)?;
            started = (Some(creation), stopped);
            match creation {
                RunCreation::TooMany | RunCreation::TooLarge => return Ok(started),
                // Not every skipped run is recorded.
                RunCreation::Skipped(_) => close(tx, fire, FireOutcome::Skipped, at)?,
                // The end of the run ends the fire.
                _ => {}
            }
        }
        (Some(fire), None) => close(tx, fire, FireOutcome::Skipped, at)?,
        (None, _) => {}
    }
    turn::dismiss(tx, claim, inbox, &[], at)?;
    Ok(started)
}

/// Ends the fire whose event has started a run, when the run ends. Does nothing for the run of any other event.
pub(in crate::state::store) fn end_fire_of_run(
    tx: &Transaction<'_>,
    event: Option<&str>,
    status: RunStatus,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(named) = event.and_then(named_fire) else {
        return Ok(());
    };
    match open_fire_at(tx, named)? {
        Some(fire) => close(tx, fire, outcome(status), at),
        None => Ok(()),
    }
}

/// Cancels the run of a fire, if it has not ended.
pub(super) fn cancel(
    tx: &Transaction<'_>,
    (schedule, due): (i64, i64),
    by: Option<InboxId>,
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    let open: Option<i64> = tx
        .prepare_cached("SELECT id FROM run WHERE event = ?1 AND ended_at IS NULL")?
        .query_row([event_name(schedule, due)], |row| row.get(0))
        .optional()?;
    match open {
        Some(id) => run::end(tx, RunId(id), TURNED_OFF, by, at),
        None => Ok(Vec::new()),
    }
}

/// Returns the state of the run of a fire, if it has started one.
pub(super) fn status(
    tx: &Transaction<'_>,
    (schedule, due): (i64, i64),
) -> Result<Option<RunStatus>, StoreError> {
    let status: Option<String> = tx
        .prepare_cached("SELECT status FROM run WHERE event = ?1")?
        .query_row([event_name(schedule, due)], |row| row.get(0))
        .optional()?;
    status.map(|status| parse_word("status", status)).transpose()
}

/// Returns the end of a fire by that of its run.
pub(super) fn outcome(status: RunStatus) -> FireOutcome {
    match status {
        RunStatus::Succeeded => FireOutcome::Done,
        RunStatus::Cancelled => FireOutcome::Stopped,
        RunStatus::Skipped => FireOutcome::Skipped,
        RunStatus::Failed | RunStatus::Queued | RunStatus::Running => FireOutcome::Failed,
    }
}

/// Returns the name under which the run of a fire is known.
fn event_name(schedule: i64, due: i64) -> String {
    format!("schedule:{schedule}:{due}/run")
}

/// Returns the schedule and the time that a name of [`event_name`] is about.
fn named_fire(event: &str) -> Option<(i64, i64)> {
    let (schedule, due) = event
        .strip_prefix("schedule:")?
        .strip_suffix("/run")?
        .split_once(':')?;
    Some((schedule.parse().ok()?, due.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{event_name, named_fire};

    #[test]
    fn the_name_of_a_run_names_its_fire_and_other_names_do_not() {
        assert_eq!(
            named_fire(&event_name(12, 1_795_266_000_000)),
            Some((12, 1_795_266_000_000))
        );
        for other in [
            "schedule:12:1795266000000",
            "12:1/run",
            "schedule:a:b/run",
            "github:1/run",
        ] {
            assert_eq!(named_fire(other), None, "{other}");
        }
    }
}
