//! Tests of quiet runs: the driver looks at one that has succeeded again when a reply of it is lost, and its message is known
//! from then on.

use super::{advance, count, created, due, ends_with, new};
use crate::base::model::{RunStatus, StepEnd};
use crate::state::store::fixture::{at, fresh, placeholder, post};
use crate::state::store::{DataKind, DeadLetterFilter, NewRun, Prune, PrunePosition, RunAdvance, Store};

const REPLY: &str = "run-1-2/reply-1";

/// Returns a run with these inputs.
fn with_inputs(inputs: &str) -> NewRun {
    NewRun {
        inputs: inputs.to_owned(),
        ..new(&[])
    }
}

/// Returns the moves that reply and end the run.
fn replied() -> RunAdvance {
    RunAdvance {
        end: vec![(2, StepEnd::succeeded("done"))],
        ops: vec![post(REPLY, None, "a")],
        ..ends_with(RunStatus::Succeeded)
    }
}

/// Returns the post of the run's message.
fn shown() -> RunAdvance {
    RunAdvance {
        ops: vec![placeholder("run-1/message", None, "begins")],
        ..RunAdvance::default()
    }
}

async fn fail(store: &Store, second: i64) {
    store
        .record_failed(REPLY, "refused", None, at(second))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_lost_reply_makes_the_driver_look_at_a_quiet_run_that_has_succeeded() {
    for (inputs, is_due) in [
        (r#"{"quiet":true}"#, true),
        (r#"{"quiet":false}"#, false),
        ("{}", false),
        ("odd", false),
    ] {
        let (_directory, store) = fresh();
        let id = created(&store, with_inputs(inputs), 0).await.head.id;
        assert!(advance(&store, id, replied(), 1).await.is_some());
        assert_eq!(due(&store, 1).await, Vec::<i64>::new());
        fail(&store, 2).await;
        assert_eq!(due(&store, 2).await.len(), usize::from(is_due), "{inputs}");
        assert_eq!(store.has_run_message(id).await, Ok(false));
        if !is_due {
            continue;
        }
        for second in [3, 4] {
            assert!(advance(&store, id, shown(), second).await.is_some());
        }
        assert_eq!(due(&store, 4).await, Vec::<i64>::new());
        assert_eq!(store.has_run_message(id).await, Ok(true));
        let posts = "SELECT COUNT(*) FROM outbox WHERE op = 'run-1/message'";
        assert_eq!(count(&store, posts).await, 1);
    }
}

#[tokio::test]
async fn a_quiet_run_gets_no_second_message_when_its_lost_reply_is_dropped_after_the_first_one_was_removed() {
    let (_directory, store) = fresh();
    let id = created(&store, with_inputs(r#"{"quiet":true}"#), 0).await.head.id;
    assert!(advance(&store, id, replied(), 1).await.is_some());
    fail(&store, 2).await;
    assert_eq!(due(&store, 2).await, [id.0]);
    assert!(advance(&store, id, shown(), 3).await.is_some());
    store
        .record_delivered("run-1/message", None, at(4))
        .await
        .unwrap();
    // An earlier version did not keep it for as long as the reply.
    let removed = store.write(|tx| Ok(tx.execute("DELETE FROM outbox WHERE op = 'run-1/message'", [])?));
    assert_eq!(removed.await, Ok(1));
    assert_eq!(store.has_run_message(id).await, Ok(false));

    let letter = DeadLetterFilter::Op(REPLY.to_owned());
    let dropped = store.drop_letters(letter, "operator", at(7)).await.unwrap();
    assert_eq!(dropped, ["slack"]);
    let end = store.run(id).await.unwrap().unwrap().steps[2]
        .end
        .clone()
        .unwrap();
    let why = "message 1 given up: the operator dropped it; it was not delivered: refused";
    assert_eq!(end.why.as_deref(), Some(why));
    assert_eq!(due(&store, 7).await, Vec::<i64>::new());
}

/// Removes old operations of a kind, and returns their number.
async fn prune(store: &Store, kind: DataKind) -> u64 {
    let from = PrunePosition::default();
    let pruned = store.prune_slice(kind, at(100), &from, Prune::Remove, at(500));
    pruned.await.unwrap().rows
}

async fn send_again(store: &Store, second: i64) {
    let letter = DeadLetterFilter::Op(REPLY.to_owned());
    let resent = store.send_again(letter, "operator", at(second)).await.unwrap();
    assert_eq!(resent.queued, ["slack"]);
}

#[tokio::test]
async fn the_message_of_a_quiet_run_is_kept_and_edited_as_long_as_its_reply_may_be_lost_again() {
    let (_directory, store) = fresh();
    let id = created(&store, with_inputs(r#"{"quiet":true}"#), 0).await.head.id;
    assert!(advance(&store, id, replied(), 1).await.is_some());
    fail(&store, 2).await;
    assert!(advance(&store, id, shown(), 3).await.is_some());
    let delivered = store.record_delivered("run-1/message", None, at(4));
    delivered.await.unwrap();
    for second in [5, 10, 15] {
        assert_eq!(prune(&store, DataKind::Operations).await, 0);
        // What the person has read is edited, so nothing is posted about the second loss.
        send_again(&store, second).await;
        assert_eq!(due(&store, second).await, [id.0]);
        assert!(
            advance(&store, id, RunAdvance::default(), second + 1)
                .await
                .is_some()
        );
        assert_eq!(prune(&store, DataKind::Operations).await, 0);
        fail(&store, second + 2).await;
        assert_eq!(due(&store, second + 2).await, [id.0]);
        assert_eq!(store.has_run_message(id).await, Ok(true));
        assert!(
            advance(&store, id, RunAdvance::default(), second + 3)
                .await
                .is_some()
        );
    }
    // The reply is removed first, and cannot be lost any more.
    assert_eq!(prune(&store, DataKind::DeadLetters).await, 1);
    assert_eq!(store.has_run_message(id).await, Ok(true));
    assert_eq!(prune(&store, DataKind::Operations).await, 1);
    assert_eq!(store.has_run_message(id).await, Ok(false));
}
