//! Tests of messages that run again.

use super::{RetryOutcome, RetryRequest};
use crate::base::model::{InboundKind, InboxId, TurnId, UserId, Verdict, VerdictSource};
use crate::state::store::fixture::{
    AnswerDraft, EndDraft, answer, at, begin, claim, command, cost, edits, ends, fresh, person,
};
use crate::state::store::people::add_person;
use crate::state::store::{
    ActionOwner, Announcement, Claim, NewAction, PressOutcome, Store, TurnStart, UndoOutcome,
};
use serde_json::json;

async fn alice(store: &Store) -> UserId {
    let grant = ("editor".into(), "*".into(), vec!["**".into()]);
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
    added.await.unwrap()
}

fn request(command: InboxId) -> RetryRequest {
    RetryRequest {
        command,
        reply_to: None,
        direct: false,
        by: person("U1"),
    }
}

/// Ends a turn like the gateway after a failure of the provider, with a button that runs the message again.
async fn fails(store: &Store, claim: &Claim, turn: TurnId, user: UserId) {
    let conversation = claim.conversation;
    let draft = AnswerDraft {
        verdict: Verdict::Error,
        source: VerdictSource::Harness,
        answer: Some(answer("No answer: overloaded.")),
        summary: json!({ "answered": false }),
        announce: Box::new(move |_| Announcement {
            actions: vec![NewAction {
                token_hash: [7; 32],
                verb: "retry".to_owned(),
                argument: turn.to_string(),
                owner: ActionOwner::Person(person("U1")),
                conversation,
                expires: at(100),
            }],
            ..Announcement::default()
        }),
        ..ends(None)
    };
    let end = EndDraft::Answered(Box::new(draft));
    store
        .finish_composed(claim, turn, user, move |_| end, at(3))
        .await
        .unwrap();
    store.release(claim).await.unwrap();
}

async fn one_step(store: &Store, claim: &Claim, turn: TurnId) {
    let files = edits(&[("a.txt", Some(b"two"))]);
    let step = answer("first").with_remark("go on").unwrap();
    store
        .record_step(claim, turn, &step, &cost(1), Some(&files), at(2))
        .await
        .unwrap();
}

/// R10
#[tokio::test]
async fn a_failed_message_runs_again_after_its_finished_steps_and_once() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, inbox, turn) = begin(&store, "U1", 0).await;
    one_step(&store, &claimed, turn).await;
    fails(&store, &claimed, turn, user).await;
    let again = command(&store, "retry", "r", 4).await;
    let outcome = store
        .retry(claimed.conversation, request(again), at(5))
        .await
        .unwrap();
    let RetryOutcome::Again { message, steps: 1 } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(message > inbox);
    // The command runs again after a crash, and has the same effect.
    assert_eq!(
        store.retry(claimed.conversation, request(again), at(6)).await,
        Ok(outcome)
    );
    let claimed = claim(&store, "w2").await.unwrap();
    let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(
        (work.inbox, work.continues, work.behind),
        (message, Some(turn), 0)
    );
    assert!(matches!(&work.inbound.kind, InboundKind::Text { text, .. } if text == "please"));
    // The failed turn is the last one of the history; opened again, it has its finished step only.
    let mut history = work.history;
    assert!(history.reopen());
    assert_eq!((history.turns().len(), history.turns()[0].steps().len()), (1, 1));
    let start = TurnStart {
        continues: work.continues,
        ..TurnStart::quiet("please")
    };
    let begun = store.begin_turn(&claimed, message, start, at(7)).await.unwrap();
    let late = command(&store, "retry", "late", 7).await;
    let busy = store.retry(claimed.conversation, request(late), at(8)).await;
    assert_eq!(busy, Ok(RetryOutcome::Busy));
    let end = EndDraft::Answered(Box::new(ends(None)));
    store
        .finish_composed(&claimed, begun.turn, user, move |_| end, at(9))
        .await
        .unwrap();
    store.release(&claimed).await.unwrap();
    // Both rows are one turn of the model, and the person asked once.
    let history = store.history(claimed.conversation).await.unwrap();
    assert_eq!((history.turns().len(), history.turns()[0].steps().len()), (1, 2));
    assert_eq!(
        store.user_messages(claimed.conversation).await.unwrap(),
        ["please"]
    );
    let late = command(&store, "retry", "later", 10).await;
    let done = store.retry(claimed.conversation, request(late), at(11)).await;
    assert_eq!(done, Ok(RetryOutcome::Answered));
}

/// T07
#[tokio::test]
async fn the_button_of_a_failed_turn_stores_the_message_in_the_transaction_that_uses_it() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    fails(&store, &claimed, turn, user).await;
    let (click, other) = (
        command(&store, "x", "c1", 4).await,
        command(&store, "x", "c2", 4).await,
    );
    let press = async |name: &str, command| {
        let by = person(name);
        store
            .press_retry([7; 32], &by, request(command), at(5))
            .await
            .unwrap()
    };
    let (foreign, nothing) = press("U2", other).await;
    assert!(matches!(foreign, PressOutcome::OtherOwner { .. }) && nothing.is_none());
    let (pressed, outcome) = press("U1", click).await;
    assert!(matches!(pressed, PressOutcome::Counted { .. }));
    assert!(
        matches!(outcome, Some(RetryOutcome::Again { steps: 0, .. })),
        "{outcome:?}"
    );
    assert_eq!(press("U1", click).await.1, outcome);
    assert_eq!(press("U1", other).await, (PressOutcome::Used, None));
    let rows = "SELECT COUNT(*) FROM inbox WHERE lane = 'turn'";
    let rows: i64 = store
        .read(|tx| Ok(tx.query_row(rows, [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(rows, 2);
}

#[tokio::test]
async fn a_message_whose_edits_were_discarded_begins_anew() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    one_step(&store, &claimed, turn).await;
    fails(&store, &claimed, turn, user).await;
    let discard = command(&store, "discard", "d", 4).await;
    store
        .discard(claimed.conversation, discard, None, at(4))
        .await
        .unwrap();
    let again = command(&store, "retry", "r", 5).await;
    let outcome = store.retry(claimed.conversation, request(again), at(5)).await;
    assert!(
        matches!(outcome, Ok(RetryOutcome::Again { steps: 0, .. })),
        "{outcome:?}"
    );
    let claimed = claim(&store, "w2").await.unwrap();
    let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(work.continues, None);
}

#[tokio::test]
async fn only_the_newest_turn_runs_again_and_not_on_edits_that_are_gone() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    one_step(&store, &claimed, turn).await;
    fails(&store, &claimed, turn, user).await;
    let undo = command(&store, "undo", "u", 4).await;
    let undone = store.undo(claimed.conversation, undo, None, at(4)).await;
    assert_eq!(undone, Ok(UndoOutcome::Everything));
    // The steps describe edits that are undone, so the message begins anew.
    let again = command(&store, "retry", "r", 5).await;
    let outcome = store
        .retry(claimed.conversation, request(again), at(5))
        .await
        .unwrap();
    let RetryOutcome::Again { message, steps: 0 } = outcome else {
        panic!("{outcome:?}")
    };
    let claimed = claim(&store, "w2").await.unwrap();
    let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.inbox, work.continues), (message, None));
    let begun = store
        .begin_turn(&claimed, message, TurnStart::quiet("please"), at(6))
        .await
        .unwrap();
    fails(&store, &claimed, begun.turn, user).await;
    // The button of the first turn is outdated by the second one.
    let click = command(&store, "x", "c", 7).await;
    let by = person("U1");
    let (_, outcome) = store
        .press_retry([7; 32], &by, request(click), at(8))
        .await
        .unwrap();
    assert_eq!(outcome, Some(RetryOutcome::Earlier));
    let clear = command(&store, "clear", "cl", 9).await;
    store.clear(claimed.conversation, clear).await.unwrap();
    let again = command(&store, "retry", "r2", 9).await;
    let outcome = store.retry(claimed.conversation, request(again), at(9)).await;
    assert_eq!(outcome, Ok(RetryOutcome::Nothing));
}

/// STK-43: a stop reaches the retry that was sent before it, whichever takes effect first.
#[tokio::test]
async fn a_stop_reaches_a_retry_that_was_sent_before_it() {
    for stop_is_first in [false, true] {
        let (_directory, store) = fresh();
        let user = alice(&store).await;
        let (claimed, _, turn) = begin(&store, "U1", 0).await;
        fails(&store, &claimed, turn, user).await;
        let id = claimed.conversation;
        let (again, stop) = (
            command(&store, "retry", "r", 4).await,
            command(&store, "stop", "s", 4).await,
        );
        if stop_is_first {
            let stopped = store.stop(id, stop, None, at(5)).await.unwrap();
            assert_eq!((stopped.message, stopped.commands), (None, 1));
            let outcome = store.retry(id, request(again), at(6)).await;
            assert_eq!(outcome, Ok(RetryOutcome::Stopped));
            assert_eq!(store.waiting(id).await, Ok(0));
        } else {
            let outcome = store.retry(id, request(again), at(5)).await.unwrap();
            let RetryOutcome::Again { message, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(claim(&store, "w2").await, None, "the stop has no effect yet");
            let stopped = store.stop(id, stop, None, at(6)).await.unwrap();
            assert_eq!((stopped.message, stopped.waiting), (Some(message), 0));
            let claimed = claim(&store, "w2").await.unwrap();
            let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
            assert!(work.inbox == message && work.is_stopped);
            store.dismiss(&claimed, message, Vec::new(), at(7)).await.unwrap();
            store.release(&claimed).await.unwrap();
        }
        // A retry that is sent after the stop is not concerned.
        let later = command(&store, "retry", "later", 8).await;
        let outcome = store.retry(id, request(later), at(9)).await;
        assert!(matches!(outcome, Ok(RetryOutcome::Again { .. })), "{outcome:?}");
    }
}

/// T07: the button of a turn whose retry was stopped still tells what to do.
#[tokio::test]
async fn a_stop_reaches_the_click_on_retry_and_no_message_that_is_stored_later() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    fails(&store, &claimed, turn, user).await;
    let click = command(&store, "x", "c", 4).await;
    let stop = command(&store, "stop", "s", 4).await;
    store.stop(claimed.conversation, stop, None, at(5)).await.unwrap();
    let by = person("U1");
    let pressed = store
        .press_retry([7; 32], &by, request(click), at(6))
        .await
        .unwrap();
    assert_eq!(pressed.1, Some(RetryOutcome::Stopped));
    // A message that a later retry stores is not the one that the stop meant.
    let again = command(&store, "retry", "r", 7).await;
    let outcome = store.retry(claimed.conversation, request(again), at(8)).await;
    assert!(matches!(outcome, Ok(RetryOutcome::Again { .. })), "{outcome:?}");
    let repeated = store.stop(claimed.conversation, stop, None, at(9)).await.unwrap();
    assert_eq!(repeated.message, None);
}
