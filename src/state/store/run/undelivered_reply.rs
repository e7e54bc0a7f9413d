//! The replies of runs that were not delivered. A step that replies has ended when its messages are in the outbox, so its state
//! does not change any more. The transaction that gives up one of these messages, drops it, sends it again or records its
//! delivery also stores that with the step, where everybody who may see the run reads it. It stays there after retention has
//! removed the operations.

use super::position;
use crate::base::model::{RunId, RunStatus, StepEnd, StepStatus, reply_of_operation};
use crate::state::store::StoreError;
use crate::state::store::column::{json, parse, word};
use rusqlite::{OptionalExtension, Transaction, params};

/// Stores with the step of a reply whether all of its messages were delivered or may still be, after that has changed for this
/// operation. Does nothing for another operation. The driver looks at a run that goes on or has a message. It also looks at a
/// quiet one that has succeeded, which gets its message now, but not again for what was lost before.
pub(in crate::state::store) fn note_reply(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    let Some((run, step, _)) = reply_of_operation(op) else {
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
    let before = end.reply.take();
    let mut messages = before.clone().unwrap_or_default();
    for (number, outcome) in outcomes(tx, place)? {
        messages.note(number, outcome);
    }
    let why = messages.why();
    let shows_the_same = end.why == why;
    let is_first_loss = end.why.is_none() && why.is_some();
    if shows_the_same && before.as_ref() == Some(&messages) {
        return Ok(());
    }
    (end.why, end.reply) = (why, Some(messages));
    tx.prepare_cached("UPDATE run_step SET result = ?3 WHERE run = ?1 AND step = ?2")?
        .execute(params![run.0, place.1, json(&end)?])?;
    if shows_the_same {
        return Ok(());
    }
    tx.prepare_cached(
        "UPDATE run SET version = version + 1, due = due OR ended_at IS NULL
           OR EXISTS (SELECT 1 FROM outbox WHERE op = 'run-' || ?1 || '/message')
           OR CASE WHEN ?3 AND status = ?2 AND retry_of IS NULL AND json_valid(inputs)
                THEN COALESCE(json_extract(inputs, '$.quiet'), 0) ELSE 0 END
         WHERE id = ?1",
    )?
    .execute(params![run.0, word(&RunStatus::Succeeded)?, is_first_loss])?;
    Ok(())
}

/// Returns the numbers of the messages of a reply that are stored, each with its outcome if it was given up. Retention may
/// have removed others.
fn outcomes(
    tx: &Transaction<'_>,
    (run, step): (RunId, i64),
) -> Result<Vec<(usize, Option<String>)>, StoreError> {
    let names = format!("run-{run}-{step}/");
    let mut statement =
        tx.prepare_cached("SELECT op, state, COALESCE(why, '') FROM outbox WHERE op >= ?1 AND op < ?2")?;
    let messages = statement.query_map(params![names, format!("{names}\u{10FFFF}")], |row| {
        <(String, String, String)>::try_from(row)
    })?;
    let mut outcomes = Vec::new();
    for message in messages {
        let (op, state, why) = message?;
        if let Some((.., number)) = reply_of_operation(&op) {
            let words = outcome_words(&state);
            outcomes.push((number, words.map(|words| format!("{words}: {why}"))));
        }
    }
    Ok(outcomes)
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
    use crate::base::model::{ReplyMessages, RunId, RunStatus, StepEnd, StepStatus};
    use crate::state::store::fixture::{at, fresh, new_run, placeholder, post};
    use crate::state::store::{
        DataKind, DeadLetterFilter, Prune, PrunePosition, RunAdvance, RunCreation, Store,
    };

    const RUN: RunId = RunId(1);

    /// Returns the id of the operation that sends a message of the reply.
    fn message(number: usize) -> String {
        format!("run-1-0/reply-{number}")
    }

    /// Ends a run whose only step replied with so many messages.
    async fn replied(store: &Store, count: usize) {
        let new = new_run(&[("tell", "reply")]);
        store.create_run(new, None, at(0)).await.unwrap();
        let version = store.run(RUN).await.unwrap().unwrap().version;
        let end = StepEnd {
            reply: Some(ReplyMessages::of(count)),
            ..StepEnd::succeeded("done")
        };
        let moves = RunAdvance {
            end: vec![(0, end)],
            finish: Some((RunStatus::Succeeded, None)),
            ops: (1..=count)
                .map(|number| post(&message(number), None, "a"))
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

    async fn fail(store: &Store, number: usize, second: i64) {
        let name = message(number);
        let failed = store.record_failed(&name, "github answered 404", None, at(second));
        failed.await.unwrap();
    }

    async fn lose(store: &Store, number: usize, second: i64) {
        let name = message(number);
        let lost = store.record_ambiguous(&name, "its answer was lost", None, at(second));
        lost.await.unwrap();
    }

    async fn deliver(store: &Store, number: usize, second: i64) {
        let name = message(number);
        let delivered = store.record_delivered(&name, None, at(second));
        delivered.await.unwrap();
    }

    async fn send_again(store: &Store, number: usize, second: i64) {
        let again = DeadLetterFilter::Op(message(number));
        let resent = store.send_again(again, "operator", at(second)).await.unwrap();
        assert_eq!(resent.queued, ["slack"]);
    }

    /// Drops a message, and returns the number of dropped ones.
    async fn drop_letter(store: &Store, number: usize, second: i64) -> usize {
        let letter = DeadLetterFilter::Op(message(number));
        let dropped = store.drop_letters(letter, "operator", at(second)).await;
        dropped.map_or(0, |channels| channels.len())
    }

    /// Removes what was done before a second, and returns the number of removed operations.
    async fn prune(store: &Store, kind: DataKind, second: i64) -> u64 {
        let from = PrunePosition::default();
        let pruned = store.prune_slice(kind, at(second), &from, Prune::Remove, at(500));
        pruned.await.unwrap().rows
    }

    #[tokio::test]
    async fn a_reply_that_was_given_up_is_shown_with_its_step_until_it_is_sent_again() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        fail(&store, 2, 2).await;
        let second = "message 2 of 2 not delivered: github answered 404";
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        lose(&store, 1, 3).await;
        let first = "message 1 of 2 possibly not delivered: its answer was lost";
        assert_eq!(shown(&store).await.as_deref(), Some(first));
        // Nothing but its page shows this run.
        assert_eq!(store.run_work(at(3), 10).await.unwrap().due, []);

        send_again(&store, 1, 4).await;
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        send_again(&store, 2, 5).await;
        assert_eq!(shown(&store).await, None);
        fail(&store, 2, 6).await;
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        deliver(&store, 1, 7).await;
        assert_eq!(shown(&store).await.as_deref(), Some(second));
    }

    #[tokio::test]
    async fn a_reply_that_the_operator_dropped_says_so_with_its_step_for_good() {
        let (_directory, store) = fresh();
        replied(&store, 3).await;
        fail(&store, 3, 2).await;
        lose(&store, 2, 2).await;
        let version = store.run_version(RUN).await.unwrap().unwrap();
        assert_eq!(drop_letter(&store, 2, 3).await, 1);
        let second = "message 2 of 3 given up: the operator dropped it; it is unknown whether it was delivered: its \
                      answer was lost";
        assert_eq!(shown(&store).await.as_deref(), Some(second));
        assert_eq!(store.run_version(RUN).await.unwrap(), Some(version + 1));
        // It is dropped once, and never sent.
        assert_eq!(drop_letter(&store, 2, 4).await, 0);
        let again = DeadLetterFilter::Op(message(2));
        assert!(store.send_again(again, "operator", at(4)).await.is_err());
        assert_eq!(shown(&store).await.as_deref(), Some(second));

        // All of a channel.
        fail(&store, 1, 5).await;
        let all = DeadLetterFilter::Channel("slack".to_owned());
        let dropped = store.drop_letters(all, "operator", at(6)).await.unwrap();
        assert_eq!(dropped.len(), 2);
        let first =
            "message 1 of 3 given up: the operator dropped it; it was not delivered: github answered 404";
        assert_eq!(shown(&store).await.as_deref(), Some(first));
        assert_eq!(prune(&store, DataKind::DeadLetters, 400).await, 3);
        assert_eq!(shown(&store).await.as_deref(), Some(first));
    }

    #[tokio::test]
    async fn a_reply_that_may_not_be_sent_any_more_is_shown_with_the_reason() {
        let (_directory, store) = fresh();
        replied(&store, 1).await;
        let name = message(1);
        let withdrawn = store.record_withdrawn(&name, "its person was revoked", at(2));
        withdrawn.await.unwrap();
        let why = "given up: its person was revoked";
        assert_eq!(shown(&store).await.as_deref(), Some(why));
        // It was being sent, and has arrived.
        deliver(&store, 1, 3).await;
        assert_eq!(shown(&store).await, None);
    }

    #[tokio::test]
    async fn an_undelivered_message_keeps_its_number_when_the_delivered_ones_are_removed() {
        let (_directory, store) = fresh();
        replied(&store, 3).await;
        deliver(&store, 1, 2).await;
        fail(&store, 2, 3).await;
        deliver(&store, 3, 4).await;
        let why = "message 2 of 3 not delivered: github answered 404";
        assert_eq!(shown(&store).await.as_deref(), Some(why));
        assert_eq!(prune(&store, DataKind::Operations, 400).await, 2);
        send_again(&store, 2, 401).await;
        assert_eq!(shown(&store).await, None);
        fail(&store, 2, 402).await;
        assert_eq!(shown(&store).await.as_deref(), Some(why));
    }

    #[tokio::test]
    async fn an_undelivered_message_is_shown_after_its_operation_was_removed() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        fail(&store, 1, 2).await;
        fail(&store, 2, 10).await;
        assert_eq!(prune(&store, DataKind::DeadLetters, 5).await, 1);
        let why = "message 1 of 2 not delivered: github answered 404";
        send_again(&store, 2, 11).await;
        assert_eq!(shown(&store).await.as_deref(), Some(why));
        deliver(&store, 2, 12).await;
        assert_eq!(prune(&store, DataKind::Operations, 400).await, 1);
        assert_eq!(shown(&store).await.as_deref(), Some(why));
    }

    #[tokio::test]
    async fn a_reply_of_a_version_that_did_not_count_its_messages_is_shown_without_their_count() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        let uncounted = "UPDATE run_step SET result = json_remove(result, '$.reply')";
        let changed = store.write(move |tx| Ok(tx.execute(uncounted, [])?));
        assert_eq!(changed.await, Ok(1));
        for (number, second) in [(2, 2), (1, 3)] {
            fail(&store, number, second).await;
            let why = format!("message {number} not delivered: github answered 404");
            assert_eq!(shown(&store).await, Some(why));
        }
    }

    #[tokio::test]
    async fn the_messages_of_a_long_reply_are_numbered_as_they_are_sent() {
        let (_directory, store) = fresh();
        replied(&store, 12).await;
        for number in [10, 2] {
            fail(&store, number, 2).await;
            let why = format!("message {number} of 12 not delivered: github answered 404");
            assert_eq!(shown(&store).await, Some(why));
        }
    }

    #[tokio::test]
    async fn a_repetition_does_not_show_the_undelivered_reply_of_the_run_before_it() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        fail(&store, 1, 2).await;
        assert!(shown(&store).await.is_some());
        let failed = store.write(|tx| Ok(tx.execute("UPDATE run SET status = 'failed' WHERE id = 1", [])?));
        assert_eq!(failed.await, Ok(1));
        let (creation, _) = store.retry_run(RUN, None, None, at(3)).await.unwrap();
        assert_eq!(creation, RunCreation::Created(RunId(2)));
        let repeated = store.run(RunId(2)).await.unwrap().unwrap();
        let end = repeated.steps[0].end.clone().unwrap();
        assert_eq!(
            (end.status, end.why, end.reply),
            (StepStatus::Succeeded, None, None)
        );
    }

    #[tokio::test]
    async fn the_message_of_a_run_is_edited_when_a_reply_is_given_up_after_its_end_and_when_it_is_dropped() {
        let (_directory, store) = fresh();
        replied(&store, 2).await;
        let shown = vec![placeholder("run-1/message", None, "begins")];
        store.enqueue(shown, at(1)).await.unwrap();
        let before = store.run_version(RUN).await.unwrap().unwrap();
        assert_eq!(store.run_work(at(2), 10).await.unwrap().due, []);
        fail(&store, 1, 3).await;
        assert_eq!(store.run_work(at(3), 10).await.unwrap().due, [RUN]);
        assert_eq!(store.run_version(RUN).await.unwrap(), Some(before + 1));
        let edited = store.advance_run(RUN, before + 1, RunAdvance::default(), at(4));
        assert_eq!(edited.await, Ok(Some(Vec::new())));
        assert_eq!(store.run_work(at(4), 10).await.unwrap().due, []);
        assert_eq!(drop_letter(&store, 1, 5).await, 1);
        assert_eq!(store.run_work(at(5), 10).await.unwrap().due, [RUN]);
    }
}
