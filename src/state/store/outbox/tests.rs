//! Tests of the outbox: which operations are due, in which order, and with which outcome.

use crate::base::model::{Action, MessageRef, Op, Reply};
use crate::state::store::fixture::{at, fill, fresh, place, placeholder, post};
use crate::state::store::{AttemptWeight, DeadLetterFilter, DueOperation, Postponement, RetryMode, Store};
use jiff::Timestamp;

fn message(id: &str) -> MessageRef {
    MessageRef {
        chat: "C1".into(),
        id: id.into(),
    }
}

fn only(due: Vec<DueOperation>) -> DueOperation {
    let [due] = due.try_into().unwrap();
    due
}

async fn due_ids(store: &Store, second: i64) -> Vec<String> {
    let due = store.lease_due("slack", at(second), 10).await.unwrap();
    due.into_iter().map(|due| due.op.id).collect()
}

async fn postpone(store: &Store, op: &str, again: RetryMode, due_at: Timestamp, why: &str) {
    let postponed = Postponement {
        retry_mode: again,
        due_at,
        why: why.to_owned(),
        attempt: AttemptWeight::Counted,
    };
    store.postpone(op, postponed).await.unwrap();
}

/// Returns the due operations, each with whether it may have been sent before.
async fn doubts(store: &Store, second: i64) -> Vec<(&'static str, bool)> {
    let due = store.lease_due("slack", at(second), 10).await.unwrap();
    let known = ["p", "f", "e", "next"];
    let doubt = |due: DueOperation| {
        let op = known.into_iter().find(|op| *op == due.op.id).unwrap();
        (op, due.ambiguous_since.is_some())
    };
    due.into_iter().map(doubt).collect()
}

/// R9
#[tokio::test]
async fn a_delivery_leases_the_next_operation_of_its_thread_and_nothing_twice() {
    let (_directory, store) = fresh();
    let (one, two) = (Some("1.0"), Some("2.0"));
    let ops = vec![
        post("a1", one, "x"),
        fill("a1/fill", "a1", "y"),
        post("a2", one, "x"),
        post("b1", two, "x"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    let due = store.lease_due("slack", at(1), 10).await.unwrap();
    let ids: Vec<&str> = due.iter().map(|due| due.op.id.as_str()).collect();
    assert_eq!(ids, ["a1", "b1"]);
    let sent = vec![(due[0].op.clone(), Some(message("m1")))];
    let next = only(store.record_delivered_and_lease(sent, at(1)).await.unwrap());
    assert_eq!(
        (next.op.id.as_str(), &next.op.action),
        (
            "a1/fill",
            &Action::Edit {
                message: message("m1"),
                reply: Reply::text("y"),
            }
        )
    );
    // The operation is in flight, so it is not leased again, with or without a write.
    assert_eq!(due_ids(&store, 2).await, Vec::<String>::new());
    // This is a post too, and its mark is durable by now.
    let next = store
        .record_delivered_and_lease(vec![(next.op, None)], at(2))
        .await;
    assert_eq!(only(next.unwrap()).op.id, "a2");
    assert!(store.inner.writer.is_durable());
    assert_eq!(due_ids(&store, 2).await, Vec::<String>::new());
    let last = store
        .record_delivered_and_lease(vec![(due[1].op.clone(), None)], at(2))
        .await;
    assert_eq!(last.unwrap(), Vec::new());
}

/// R9
#[tokio::test]
async fn edits_of_one_thread_are_leased_together_and_a_post_alone() {
    let (_directory, store) = fresh();
    let thread = Some("1.0");
    let failed = vec![post("never", thread, "x")];
    store.enqueue(failed, at(0)).await.unwrap();
    store
        .record_failed("never", "refused", None, at(0))
        .await
        .unwrap();
    let ops = vec![
        post("a", thread, "x"),
        post("b", thread, "x"),
        fill("a/fill", "a", "y"),
        fill("b/fill", "b", "y"),
        fill("nowhere", "unknown", "z"),
        fill("elsewhere", "never", "z"),
        fill("a/last", "a", "z"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    let mut due = store.lease_due("slack", at(1), 10).await.unwrap();
    let mut leased = Vec::new();
    while !due.is_empty() {
        leased.push(
            due.iter()
                .map(|due| due.op.id.clone())
                .collect::<Vec<_>>()
                .join(" "),
        );
        // None of them is leased again in the meantime.
        assert_eq!(due_ids(&store, 2).await, Vec::<String>::new());
        let sent = due.into_iter().map(|due| {
            let message = message(&due.op.id);
            (due.op, Some(message))
        });
        due = store
            .record_delivered_and_lease(sent.collect(), at(2))
            .await
            .unwrap();
    }
    // The fill of a failed post becomes its own post. The fill of an unknown post does nothing.
    assert_eq!(leased, ["a", "b", "a/fill b/fill", "elsewhere", "a/last"]);
    assert_eq!(store.unsent_count("slack").await, Ok(0));
}

#[tokio::test]
async fn the_outcome_of_a_delivery_survives_a_restart() {
    let (directory, store) = fresh();
    store.enqueue(vec![post("a", None, "x")], at(0)).await.unwrap();
    let due = store.lease_due("slack", at(1), 10).await.unwrap().remove(0);
    let sent = vec![(due.op, Some(message("m")))];
    store.record_delivered_and_lease(sent, at(1)).await.unwrap();
    // Another process sees the mark at once.
    let file = directory.path().join("drydock.db");
    let state: String = rusqlite::Connection::open(file)
        .unwrap()
        .query_row("SELECT state FROM outbox WHERE op = 'a'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(state, "delivered");
}

#[tokio::test]
async fn what_follows_waits_until_it_is_due() {
    let (_directory, store) = fresh();
    let ops = vec![post("a", None, "x"), post("later", None, "x")];
    store.enqueue(ops, at(0)).await.unwrap();
    postpone(&store, "later", RetryMode::Send, at(50), "slow down").await;
    let first = store.lease_due("slack", at(1), 10).await.unwrap().remove(0);
    let next = store
        .record_delivered_and_lease(vec![(first.op, None)], at(1))
        .await;
    assert_eq!(next.unwrap(), Vec::new());
    assert_eq!(due_ids(&store, 50).await, ["later"]);
}

#[tokio::test]
async fn each_thread_goes_out_in_order_and_none_waits_for_another() {
    let (_directory, store) = fresh();
    let (one, two) = (Some("1.0"), Some("2.0"));
    let ops = vec![
        post("a1", one, "x"),
        post("a2", one, "x"),
        post("b1", two, "x"),
        post("a1", two, "again"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    assert_eq!(store.next_due("slack").await, Ok(Some(at(0))));
    assert_eq!(due_ids(&store, 0).await, ["a1", "b1"]);
    // The operation is not leased twice, and its thread waits for it.
    assert_eq!(due_ids(&store, 0).await, [""; 0]);
    assert_eq!(store.next_due("slack").await, Ok(None));
    postpone(&store, "a1", RetryMode::Send, at(30), "rate limit").await;
    assert_eq!(due_ids(&store, 29).await, [""; 0]);
    assert_eq!(store.next_due("slack").await, Ok(Some(at(30))));
    let again = store.lease_due("slack", at(30), 10).await.unwrap();
    assert_eq!((again[0].op.id.as_str(), again[0].attempts), ("a1", 1));
    store
        .record_delivered("a1", Some(message("1.1")), at(31))
        .await
        .unwrap();
    assert_eq!(store.message_of("a1").await, Ok(Some(message("1.1"))));
    assert_eq!(due_ids(&store, 31).await, ["a2"]);
    store
        .record_failed("a2", "no such channel", None, at(32))
        .await
        .unwrap();
    assert_eq!(store.given_up_count("slack").await, Ok(1));
    store.record_ambiguous("b1", "reset", None, at(32)).await.unwrap();
    assert_eq!(due_ids(&store, 99).await, [""; 0]);
    assert_eq!(store.unsent_count("slack").await, Ok(0));
    assert_eq!(due_ids(&store, 99).await, [""; 0]);
}

#[tokio::test]
async fn a_fill_edits_the_message_its_post_became() {
    let (_directory, store) = fresh();
    let thread = Some("1.0");
    store
        .enqueue(vec![post("p", thread, "..."), fill("f", "p", "done")], at(0))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 0).await, ["p"]);
    store
        .record_delivered("p", Some(message("1.1")), at(1))
        .await
        .unwrap();
    let due = store.lease_due("slack", at(1), 10).await.unwrap();
    let edit = Action::Edit {
        message: message("1.1"),
        reply: Reply::text("done"),
    };
    assert_eq!(
        due[0].op,
        Op {
            action: edit,
            ..fill("f", "p", "done")
        }
    );
}

#[tokio::test]
async fn the_fill_of_a_post_that_failed_is_posted_once_and_edited_after() {
    let (_directory, store) = fresh();
    let ops = vec![
        post("p", Some("1.0"), "..."),
        fill("f1", "p", "half"),
        fill("f2", "p", "done"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    assert_eq!(due_ids(&store, 0).await, ["p"]);
    store.record_ambiguous("p", "reset", None, at(1)).await.unwrap();
    let due = store.lease_due("slack", at(1), 10).await.unwrap();
    assert_eq!(
        due[0].op.action,
        Action::Post {
            reply: Reply::text("half"),
            reply_to: None,
            placeholder: false,
        }
    );
    store
        .record_delivered("f1", Some(message("1.2")), at(2))
        .await
        .unwrap();
    let due = store.lease_due("slack", at(2), 10).await.unwrap();
    assert_eq!(
        due[0].op.action,
        Action::Edit {
            message: message("1.2"),
            reply: Reply::text("done")
        }
    );
}

#[tokio::test]
async fn a_post_replaced_by_its_fill_is_not_resent_on_a_late_request() {
    let (_directory, store) = fresh();
    let ops = vec![post("p", Some("1.0"), "..."), fill("f", "p", "done")];
    store.enqueue(ops, at(0)).await.unwrap();
    assert_eq!(due_ids(&store, 0).await, ["p"]);
    store.record_failed("p", "refused", None, at(1)).await.unwrap();
    assert_eq!(due_ids(&store, 1).await, ["f"]);
    // An operator requests a retry while it is in flight.
    let which = DeadLetterFilter::Channel("slack".to_owned());
    store.send_again(which, "operator", at(2)).await.unwrap();
    store
        .record_delivered("f", Some(message("1.2")), at(3))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 3).await, [""; 0]);
    assert_eq!(store.unsent_count("slack").await, Ok(0));
    assert_eq!(store.message_of("p").await, Ok(Some(message("1.2"))));
}

#[tokio::test]
async fn buttons_are_taken_off_no_message_and_what_follows_is_sent_at_once() {
    let (_directory, store) = fresh();
    let thread = Some("1.0");
    store
        .enqueue(vec![post("inbox-1/result", thread, "x")], at(0))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 1).await, ["inbox-1/result"]);
    store
        .record_failed("inbox-1/result", "refused", None, at(2))
        .await
        .unwrap();
    let ops = vec![
        fill("inbox-1/replaced", "inbox-1/result", "x"),
        post("next", thread, "y"),
        post("other", Some("2.0"), "z"),
    ];
    store.enqueue(ops, at(3)).await.unwrap();
    assert_eq!(due_ids(&store, 4).await, ["next", "other"]);
    // The delivery of a thread finds it too.
    let ops = vec![
        fill("inbox-2/replaced", "inbox-1/result", "x"),
        post("last", thread, "y"),
    ];
    store.enqueue(ops, at(5)).await.unwrap();
    let sent = vec![(post("next", thread, "y"), Some(message("7")))];
    let due = store.record_delivered_and_lease(sent, at(6)).await.unwrap();
    assert_eq!(only(due).op.id, "last");
    assert_eq!(store.unsent_count("slack").await, Ok(2));
    let dropped =
        "SELECT COUNT(*) FROM outbox WHERE state = 'dropped' AND why = 'its message was not posted'";
    let dropped = store.read(move |tx| Ok(tx.query_row(dropped, [], |row| row.get::<_, i64>(0))?));
    assert_eq!(dropped.await, Ok(2));
}

#[tokio::test]
async fn a_fill_in_another_thread_waits_for_its_post() {
    let (_directory, store) = fresh();
    let elsewhere = Op {
        place: place(Some("2.0")),
        ..fill("f", "p", "done")
    };
    store
        .enqueue(vec![post("p", Some("1.0"), "..."), elsewhere], at(0))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 0).await, ["p"]);
    assert_eq!(due_ids(&store, 0).await, [""; 0]);
    store
        .record_delivered("p", Some(message("1.1")), at(1))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 1).await, ["f"]);
}

#[tokio::test]
async fn after_a_crash_edits_are_resent_and_posts_are_looked_up() {
    let (directory, store) = fresh();
    let edit = Action::Edit {
        message: message("1.1"),
        reply: Reply::text("x"),
    };
    let edit = Op {
        action: edit,
        ..post("e", Some("2.0"), "")
    };
    store
        .enqueue(
            vec![post("p", Some("1.0"), "x"), post("next", Some("1.0"), "x"), edit],
            at(0),
        )
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 0).await, ["p", "e"]);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(doubts(&store, 1).await, [("p", true), ("e", false)]);
    store
        .record_delivered("p", Some(message("1.1")), at(1))
        .await
        .unwrap();
    assert_eq!(doubts(&store, 2).await, [("next", false)]);
}

/// R1
#[tokio::test]
async fn a_possibly_sent_post_stays_ambiguous_until_a_lookup_succeeds() {
    let (directory, store) = fresh();
    let thread = Some("1.0");
    let ops = vec![placeholder("p", thread, "..."), fill("f", "p", "done")];
    store.enqueue(ops, at(0)).await.unwrap();
    assert_eq!(doubts(&store, 0).await, [("p", false)]);
    postpone(&store, "p", RetryMode::LookUp, at(10), "reset").await;
    // Its thread waits for it, including its fill.
    assert_eq!(doubts(&store, 9).await, []);
    let due = only(store.lease_due("slack", at(10), 10).await.unwrap());
    assert_eq!((due.attempts, due.ambiguous_since), (1, Some(at(0))));
    // The first lease ends without a lookup, and the process ends during the second.
    store.release_operation(&due).await.unwrap();
    assert_eq!(doubts(&store, 10).await, [("p", true)]);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(doubts(&store, 10).await, [("p", true)]);
    // The lookup did not find it, and sending failed too.
    postpone(&store, "p", RetryMode::Send, at(20), "slack answered 503").await;
    assert_eq!(doubts(&store, 20).await, [("p", false)]);
    postpone(&store, "p", RetryMode::LookUp, at(30), "reset").await;
    // The platform cannot look it up, so only the fill is left.
    store
        .record_ambiguous("p", "nobody can tell", None, at(31))
        .await
        .unwrap();
    assert_eq!(doubts(&store, 31).await, [("f", false)]);
}

#[tokio::test]
async fn two_senders_never_lease_the_same_operation() {
    let (_directory, store) = fresh();
    let edits = (0..50).map(|number| {
        let thread = format!("{number}.0");
        let action = Action::Edit {
            message: message("1"),
            reply: Reply::text("x"),
        };
        Op {
            action,
            ..post(&thread, Some(&thread), "")
        }
    });
    store.enqueue(edits.collect(), at(0)).await.unwrap();
    let senders = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.lease_due("slack", at(0), 7).await.unwrap() })
    });
    let mut taken = Vec::new();
    for sender in senders.collect::<Vec<_>>() {
        taken.extend(sender.await.unwrap().into_iter().map(|due| due.op.id));
    }
    assert_eq!(taken.len(), 50);
    assert_eq!(taken.iter().collect::<std::collections::HashSet<_>>().len(), 50);
}

/// R18: an unreadable operation becomes a dead letter, and does not block its thread or channel.
#[tokio::test]
async fn an_operation_that_cannot_be_read_is_given_up_alone() {
    let (_directory, store) = fresh();
    let ops = vec![
        post("a1", Some("1.0"), "first"),
        post("a2", Some("1.0"), "second"),
        post("b1", Some("2.0"), "other thread"),
        post("c1", Some("3.0"), "another"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    let spoil = "UPDATE outbox SET body = CASE op WHEN 'a1' THEN substr(body, 1, 20) ELSE x'ff00' END WHERE op IN ('a1', 'c1')";
    store.write(|tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
    let due = store.lease_due("slack", at(1), 10).await.unwrap();
    let ids: Vec<&str> = due.iter().map(|due| due.op.id.as_str()).collect();
    assert_eq!(ids, ["a2", "b1"]);
    let given_up = "SELECT op, state, why FROM outbox WHERE done_at IS NOT NULL ORDER BY op";
    let given_up = store
        .read(move |tx| {
            let mut statement = tx.prepare(given_up)?;
            let rows = statement.query_map([], |row| row.try_into())?;
            Ok(rows.collect::<rusqlite::Result<Vec<(String, String, String)>>>()?)
        })
        .await
        .unwrap();
    let dead = |op: &str| (op.to_owned(), "failed".to_owned(), "cannot be read".to_owned());
    assert_eq!(given_up, [dead("a1"), dead("c1")]);
    assert_eq!(store.given_up_count("slack").await, Ok(2));
}

/// R20: a clock that ran ahead when an operation was postponed or enqueued delays nothing once it is correct.
#[tokio::test]
async fn an_operation_postponed_by_a_clock_in_the_future_is_due() {
    let (_directory, store) = fresh();
    let day = 24 * 60 * 60;
    store
        .enqueue(
            vec![post("a1", Some("1.0"), "x"), post("b1", Some("2.0"), "y")],
            at(day),
        )
        .await
        .unwrap();
    assert_eq!(store.lease_due("slack", at(day), 1).await.unwrap().len(), 1);
    postpone(&store, "a1", RetryMode::Send, at(day + 60), "no connection").await;
    assert_eq!(store.lease_due("slack", at(0), 10).await.unwrap().len(), 2);
    // Operations that wait for a retry keep their time.
    postpone(&store, "a1", RetryMode::Send, at(600), "slow down").await;
    postpone(&store, "b1", RetryMode::Send, at(30), "slow down").await;
    assert_eq!(store.lease_due("slack", at(31), 10).await.unwrap().len(), 1);
}

/// R20
#[tokio::test]
async fn an_operation_never_postponed_is_due_whatever_the_clock_said() {
    let (_directory, store) = fresh();
    store
        .enqueue(vec![post("a1", Some("1.0"), "x")], at(300))
        .await
        .unwrap();
    assert_eq!(store.next_due_after("slack", at(0)).await, Ok(None));
    assert_eq!(due_ids(&store, 0).await, ["a1"]);
    postpone(&store, "a1", RetryMode::Send, at(60), "slow down").await;
    assert_eq!(due_ids(&store, 0).await, Vec::<String>::new());
    assert_eq!(store.next_due_after("slack", at(0)).await, Ok(Some(at(60))));
}

#[tokio::test]
async fn the_longest_waiting_operation_is_leased_first() {
    let (_directory, store) = fresh();
    let ops = vec![
        post("a", Some("1.0"), "x"),
        post("b", Some("2.0"), "x"),
        post("c", Some("3.0"), "x"),
    ];
    store.enqueue(ops, at(0)).await.unwrap();
    assert_eq!(store.lease_due("slack", at(1), 2).await.unwrap().len(), 2);
    postpone(&store, "a", RetryMode::Send, at(20), "slow down").await;
    postpone(&store, "b", RetryMode::Send, at(10), "slow down").await;
    assert_eq!(due_ids(&store, 30).await, ["c", "b", "a"]);
}

#[tokio::test]
async fn a_resent_post_is_looked_up_from_the_time_of_the_resend() {
    let (_directory, store) = fresh();
    store
        .enqueue(vec![post("a1", Some("1.0"), "x")], at(0))
        .await
        .unwrap();
    assert_eq!(due_ids(&store, 1).await, ["a1"]);
    store.record_failed("a1", "refused", None, at(2)).await.unwrap();
    let which = DeadLetterFilter::Op("a1".to_owned());
    store.send_again(which, "operator", at(1_000)).await.unwrap();
    assert_eq!(due_ids(&store, 1_001).await, ["a1"]);
    store.abandon_leases(&["a1".to_owned()]);
    let due = only(store.lease_due("slack", at(1_002), 1).await.unwrap());
    assert_eq!(due.ambiguous_since, Some(at(1_001)));
}
