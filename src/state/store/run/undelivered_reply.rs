//! The replies of runs that were not delivered. A step that replies has ended when its messages are in the outbox, so its state
//! does not change any more. The transaction that gives up one of these messages also stores the reason with the step, where
//! everybody who may see the run reads it.

use super::position;
use crate::base::model::{RunId, RunStatus, StepEnd, StepStatus, reply_of_operation};
use crate::state::store::StoreError;
use crate::state::store::column::{json, parse, word};
use rusqlite::{OptionalExtension, Transaction, params};

/// Stores with the step of a reply whether all of its messages were delivered or may still be, after that has changed for this
/// operation. Does nothing for another operation. The driver looks at a run that goes on, has a message, or is quiet and has
/// succeeded, which gets its message now.
pub(in crate::state::store) fn note_reply(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    let Some((run, step)) = reply_of_operation(op) else {
        return Ok(());
    };
    let place = (run, position(step));
    let stored: Option<Option<String>> = tx
        .prepare_cached("SELECT result FROM run_step WHERE run = ?1 AND step = ?2")?
        .query_row(params![run.0, place.1], |row| row.get(0))
        .optional()?;
    // The delivery does not depend on a step that this version cannot read.
    let end = stored
        .flatten()
        .and_then(|end| parse::<StepEnd>("step", &end).ok());
    let Some(mut end) = end.filter(|end| end.status == StepStatus::Succeeded) else {
        return Ok(());
    };
    let why = undelivered(tx, place)?;
    if end.why == why {
        return Ok(());
    }
    end.why = why;
    tx.prepare_cached("UPDATE run_step SET result = ?3 WHERE run = ?1 AND step = ?2")?
        .execute(params![run.0, place.1, json(&end)?])?;
    tx.prepare_cached(
        "UPDATE run SET version = version + 1, due = due OR ended_at IS NULL
           OR EXISTS (SELECT 1 FROM outbox WHERE op = 'run-' || ?1 || '/message')
           OR CASE WHEN status = ?2 AND retry_of IS NULL AND json_valid(inputs)
                THEN COALESCE(json_extract(inputs, '$.quiet'), 0) ELSE 0 END
         WHERE id = ?1",
    )?
    .execute(params![run.0, word(&RunStatus::Succeeded)?])?;
    Ok(())
}

/// Returns the reason why the first message of a reply that was given up was not delivered; `None` if there is none.
fn undelivered(tx: &Transaction<'_>, (run, step): (RunId, i64)) -> Result<Option<String>, StoreError> {
    let names = format!("run-{run}-{step}/");
    let mut statement = tx.prepare_cached(
        "SELECT op, state, COALESCE(why, '') FROM outbox
         WHERE op >= ?1 AND op < ?2 ORDER BY length(op), op",
    )?;
    let messages = statement.query_map(params![names, format!("{names}\u{10FFFF}")], |row| {
        <(String, String, String)>::try_from(row)
    })?;
    let mut messages = messages.collect::<rusqlite::Result<Vec<_>>>()?;
    messages.retain(|(op, ..)| reply_of_operation(op).is_some());
    let count = messages.len();
    let mut numbered = messages.into_iter().enumerate();
    Ok(numbered.find_map(|(index, (_, state, why))| {
        let outcome = outcome_words(&state)?;
        Some(match count {
            1 => format!("{outcome}: {why}"),
            _ => format!("message {} of {count} {outcome}: {why}", index + 1),
        })
    }))
}

/// Returns the words for the outcome of a message that is not sent any more; `None` for others.
fn outcome_words(state: &str) -> Option<&'static str> {
    match state {
        "failed" => Some("not delivered"),
        "ambiguous" => Some("possibly not delivered"),
        "dropped" => Some("given up"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{RunConflictRule, RunId, RunStatus, StepEnd, StepStatus};
    use crate::state::store::fixture::{at, fresh, person, placeholder, post};
    use crate::state::store::{DeadLetterFilter, GroupReach, NewRun, RunAdvance, RunCreation, Store};
    use std::time::Duration;

    const RUN: RunId = RunId(1);

    /// Ends a run whose only step replied with so many messages.
    async fn replied(store: &Store, count: usize) {
        let new = NewRun {
            pipeline: "review".to_owned(),
            repository: "infra".to_owned(),
            owner: person("U1"),
            trigger: "chat".to_owned(),
            deliveries: Vec::new(),
            group: None,
            on_conflict: RunConflictRule::Serial,
            reach: GroupReach::Own,
            place: None,
            commit: "0".repeat(40),
            plan: "{}".to_owned(),
            inputs: "{}".to_owned(),
            steps: vec![("tell".to_owned(), "reply".to_owned())],
            timeout: Duration::from_secs(100),
        };
        store.create_run(new, None, at(0)).await.unwrap();
        let version = store.run(RUN).await.unwrap().unwrap().version;
        let moves = RunAdvance {
            end: vec![(0, StepEnd::succeeded("done"))],
            finish: Some((RunStatus::Succeeded, None)),
            ops: (1..=count)
                .map(|number| post(&format!("run-1-0/reply-{number}"), None, "a"))
                .collect(),
            ..RunAdvance::default()
        };
        let moved = store.advance_run(RUN, version, moves, at(1)).await;
        assert!(moved.unwrap().is_some());
    }

    /// Returns what the step shows, and checks that its state and that of the run are the same as before.
    async fn shown(store: &Store) -> Option<String> {
        let row = store.run(RUN).await.unwrap().unwrap();
        assert_eq!(row.head.status, RunStatus::Succeeded);
        let end = row.steps[0].end.clone().unwrap();
        assert_eq!((end.status, end.output.as_str()), (StepStatus::Succeeded, "done"));
        end.why
    }

    async fn fail(store: &Store, op: &str, second: i64) {
        store
            .record_failed(op, "github answered 404", None, at(second))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_reply_that_was_given_up_is_shown_with_its_step_until_it_is_sent_again() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        fail(&store, "run-1-0/reply-2", 2).await;
        let second = "message 2 of 2 not delivered: github answered 404";
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        let lost = store.record_ambiguous("run-1-0/reply-1", "its answer was lost", None, at(3));
        lost.await.unwrap();
        let first = "message 1 of 2 possibly not delivered: its answer was lost";
        assert_eq!(shown(&store).await.as_deref(), Some(first));
        // Nothing but its page shows this run.
        assert_eq!(store.run_work(at(3), 10).await.unwrap().due, []);

        let again = DeadLetterFilter::Op("run-1-0/reply-1".to_owned());
        store.send_again(again, "operator", at(4)).await.unwrap();
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        let again = DeadLetterFilter::Op("run-1-0/reply-2".to_owned());
        store.send_again(again.clone(), "operator", at(5)).await.unwrap();
        assert_eq!(shown(&store).await, None);
        fail(&store, "run-1-0/reply-2", 6).await;
        store.drop_letters(again, "operator", at(7)).await.unwrap();
        assert_eq!(shown(&store).await.as_deref(), Some(second));
    }

    #[tokio::test]
    async fn the_messages_of_a_long_reply_are_numbered_as_they_are_sent() {
        let (_directory, store) = fresh();
        replied(&store, 12).await;
        for number in [10, 2] {
            fail(&store, &format!("run-1-0/reply-{number}"), 2).await;
            let why = format!("message {number} of 12 not delivered: github answered 404");
            assert_eq!(shown(&store).await, Some(why));
        }
    }

    #[tokio::test]
    async fn a_repetition_does_not_show_the_undelivered_reply_of_the_run_before_it() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        fail(&store, "run-1-0/reply-1", 2).await;
        assert!(shown(&store).await.is_some());
        let failed = store.write(|tx| Ok(tx.execute("UPDATE run SET status = 'failed' WHERE id = 1", [])?));
        assert_eq!(failed.await, Ok(1));
        let (creation, _) = store.retry_run(RUN, None, None, at(3)).await.unwrap();
        assert_eq!(creation, RunCreation::Created(RunId(2)));
        let repeated = store.run(RunId(2)).await.unwrap().unwrap();
        let end = repeated.steps[0].end.clone().unwrap();
        assert_eq!((end.status, end.why), (StepStatus::Succeeded, None));
    }

    #[tokio::test]
    async fn the_message_of_a_run_is_edited_when_a_reply_is_given_up_after_its_end() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        let message = vec![placeholder("run-1/message", None, "begins")];
        store.enqueue(message, at(1)).await.unwrap();
        let before = store.run_version(RUN).await.unwrap().unwrap();
        assert_eq!(store.run_work(at(2), 10).await.unwrap().due, []);
        fail(&store, "run-1-0/reply-1", 3).await;
        assert_eq!(store.run_work(at(3), 10).await.unwrap().due, [RUN]);
        assert_eq!(store.run_version(RUN).await.unwrap(), Some(before + 1));
    }
}
