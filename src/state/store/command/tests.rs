//! Tests of commands. Each takes effect once, even if the process ends between the effect, its record and the answer.

use super::{ClearOutcome, DiscardOutcome, StopOutcome, UndoOutcome, UndoRemainder};
use crate::base::model::{ConversationId, Inbound, InboundKind, InboxId, UserId};
use crate::state::store::fixture::{
    EndDraft, accept, answer, at, begin, claim, command, cost, edits, find, fresh, patch, person, place,
    post, room, says, turn,
};
use crate::state::store::people::{self, GrantRow};
use crate::state::store::{
    AcceptOutcome, ComposedWrite, NewChange, QueueKind, RetryOutcome, RetryRequest, Store, StoreError,
    TurnStart,
};

async fn conversation(store: &Store) -> ConversationId {
    find(store, &says("U1", "", &[])).await.unwrap()
}

/// Runs an undo with its own command.
async fn undo(store: &Store, second: i64) -> UndoOutcome {
    let inbox = command(store, "undo", &format!("undo-{second}"), second).await;
    store
        .undo(conversation(store).await, inbox, None, at(second))
        .await
        .unwrap()
}

type Decision = fn(Option<&[GrantRow]>) -> Result<(), String>;

/// The edits that remain after an undo, and the decision for their person.
struct Rest {
    snapshot: String,
    change: NewChange,
    decide: Decision,
}

fn rest(snapshot: &str, change: NewChange) -> Rest {
    Rest {
        snapshot: snapshot.to_owned(),
        change,
        decide: |_| Ok(()),
    }
}

/// Finishes an undo as the gateway does, with an answer that names the change or the reason against it.
async fn finish_undo(
    store: &Store,
    inbox: InboxId,
    id: ConversationId,
    rest: Rest,
    second: i64,
) -> Result<ComposedWrite<()>, StoreError> {
    let change = rest.change;
    let prospect = store.prospect(id, UserId(1), Some(change)).await?;
    let withheld = (rest.decide)(prospect.grants()).err();
    let name = || prospect.change().unwrap().change.to_string();
    let said = withheld.clone().unwrap_or_else(name);
    let rest = UndoRemainder {
        snapshot: rest.snapshot,
        withheld,
        ops: vec![post("answer", Some("2.0"), &said)],
        ops_if_overtaken: vec![post("answer", Some("2.0"), "nothing")],
    };
    store.finish_undo(inbox, id, prospect, rest, at(second)).await
}

/// Its commit does not wait for the disk, and that of the lease does.
#[tokio::test]
async fn the_answer_of_a_command_is_sent_only_once_it_is_durable() {
    let (_directory, store) = fresh();
    let inbox = command(&store, "!status", "m1", 0).await;
    let answers = vec![post("a", None, "ok")];
    store.finish_command(inbox, answers, at(1)).await.unwrap();
    assert_eq!(store.lease_due("slack", at(1), 1).await.unwrap().len(), 1);
    assert!(store.inner.writer.is_durable());
    assert_eq!(store.unanswered().await, Ok(Vec::new()));
}

#[tokio::test]
async fn undo_brings_back_the_same_bytes_message_by_message() {
    let (_directory, store) = fresh();
    let bytes: Vec<u8> = (0..=255).collect();
    let first: &[(&str, Option<&[u8]>)] = &[("a/b", Some(&bytes)), ("gone", None)];
    turn(&store, 0, first, None).await;
    turn(&store, 1, &[("a/b", Some(b"two")), ("c", Some(b""))], None).await;
    // A turn without changes is skipped by undo.
    turn(&store, 2, &[("a/b", Some(b"two")), ("c", Some(b""))], None).await;
    let UndoOutcome::Newest { snapshot } = undo(&store, 3).await else {
        panic!("nothing undone")
    };
    assert_eq!(store.edits_of_snapshot(&snapshot).await, Ok(edits(first)));
    let id = conversation(&store).await;
    assert_eq!(store.edits(id).await, Ok(edits(first)));
    assert_eq!(undo(&store, 4).await, UndoOutcome::Everything);
    assert_eq!(store.edits(id).await, Ok(edits(&[])));
    assert_eq!(undo(&store, 5).await, UndoOutcome::Nothing);
    turn(&store, 6, &[("new", Some(b"x"))], None).await;
    assert_eq!(undo(&store, 7).await, UndoOutcome::Everything);
    assert_eq!(undo(&store, 8).await, UndoOutcome::Nothing);
}

/// P4: the process ended between the effect and the answer.
#[tokio::test]
async fn a_command_that_is_carried_out_again_finds_what_it_did() {
    let (directory, store) = fresh();
    for (second, text) in [(0, "one"), (1, "two"), (2, "three")] {
        turn(&store, second, &[("a", Some(text.as_bytes()))], patch(text)).await;
    }
    let id = conversation(&store).await;
    let inbox = command(&store, "undo", "u", 3).await;
    let undone = store.undo(id, inbox, None, at(3)).await.unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert!(store.unanswered().await.unwrap()[0].has_effect);
    assert_eq!(store.undo(id, inbox, None, at(4)).await, Ok(undone.clone()));
    assert_eq!(store.edits(id).await, Ok(edits(&[("a", Some(b"two"))])));
    let UndoOutcome::Newest { snapshot } = undone else {
        panic!("{undone:?}")
    };
    let left = patch("two").unwrap();
    for second in [5, 6] {
        let rest = rest(&snapshot, left.clone());
        assert_eq!(
            finish_undo(&store, inbox, id, rest, second).await,
            Ok(ComposedWrite::Stored(()))
        );
    }
    let due = store.lease_due("slack", at(9), 10).await.unwrap();
    let answers: Vec<_> = due.iter().filter(|due| due.op.id == "answer").collect();
    assert_eq!(answers[0].op, post("answer", Some("2.0"), "CHG-1 rev 4"));
    assert_eq!(answers.len(), 1);

    let inbox = command(&store, "discard", "d", 7).await;
    let discarded = DiscardOutcome::Change {
        name: Some("CHG-1 rev 4".to_owned()),
    };
    for second in [7, 8] {
        assert_eq!(
            store.discard(id, inbox, None, at(second)).await,
            Ok(discarded.clone())
        );
    }
    store.finish_command(inbox, Vec::new(), at(8)).await.unwrap();
    assert_eq!(store.unanswered().await, Ok(Vec::new()));
}

/// Edits that the person may no longer have become no revision. The reason stays stored until a change is prepared
/// again.
#[tokio::test]
async fn edits_left_by_an_undo_are_withheld_from_a_person_without_the_grant() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    turn(&store, 1, &[("a", Some(b"two"))], patch("two")).await;
    let id = conversation(&store).await;
    let inbox = command(&store, "undo", "u", 2).await;
    let UndoOutcome::Newest { snapshot } = store.undo(id, inbox, None, at(2)).await.unwrap() else {
        panic!("nothing undone")
    };
    let refused = Rest {
        // This store has no admitted person.
        decide: |grants| grants.map(|_| ()).ok_or_else(|| "nobody".to_owned()),
        ..rest(&snapshot, patch("one").unwrap())
    };
    assert_eq!(
        finish_undo(&store, inbox, id, refused, 3).await,
        Ok(ComposedWrite::Stored(()))
    );
    assert_eq!(store.withheld(id).await, Ok(Some("nobody".to_owned())));
    // The reason applies only as long as the withheld edits exist.
    turn(&store, 4, &[("a", Some(b"four"))], patch("four")).await;
    let inbox = command(&store, "undo", "v", 5).await;
    store
        .write(move |tx| {
            tx.execute("UPDATE conversation SET withheld = 'nobody'", [])?;
            Ok(())
        })
        .await
        .unwrap();
    let UndoOutcome::Newest { .. } = store.undo(id, inbox, None, at(5)).await.unwrap() else {
        panic!("nothing undone")
    };
    assert_eq!(store.withheld(id).await, Ok(None));
    store.finish_command(inbox, Vec::new(), at(5)).await.unwrap();
    assert_eq!(
        store.current_change(id).await.unwrap().unwrap().to_string(),
        "CHG-1 rev 3"
    );
    let prepared = turn(&store, 6, &[("a", Some(b"three"))], patch("three")).await;
    assert_eq!(prepared.unwrap().to_string(), "CHG-1 rev 4");
    assert_eq!(store.withheld(id).await, Ok(None));
}

/// The answer to an undo that was composed before a grant was reduced is not stored, and the command stays unanswered.
#[tokio::test]
async fn an_undo_composed_before_a_grant_changed_is_composed_again() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    turn(&store, 1, &[("a", Some(b"two"))], patch("two")).await;
    let id = conversation(&store).await;
    let sent: Vec<_> = store.lease_due("slack", at(2), 10).await.unwrap();
    let grant = |environment: &str| ("editor".to_owned(), "*".to_owned(), vec![environment.to_owned()]);
    let (whole, reduced) = (grant("**"), grant("dev"));
    let user = store
        .write(move |tx| people::add_person(tx, "alice", "operator", &person("U1"), &whole, at(2)))
        .await
        .unwrap();
    let inbox = command(&store, "undo", "u", 3).await;
    let UndoOutcome::Newest { snapshot } = store.undo(id, inbox, None, at(3)).await.unwrap() else {
        panic!("nothing undone")
    };
    let rest = |withheld: Option<&str>, answer: &str| UndoRemainder {
        snapshot: snapshot.clone(),
        withheld: withheld.map(str::to_owned),
        ops: vec![post("answer", Some("2.0"), answer)],
        ops_if_overtaken: Vec::new(),
    };
    let prospect = store.prospect(id, user, patch("one")).await.unwrap();
    store
        .write(move |tx| people::set_grant(tx, user, &reduced))
        .await
        .unwrap();
    let outdated = store
        .finish_undo(inbox, id, prospect, rest(None, "CHG-1 rev 3"), at(4))
        .await;
    let Ok(ComposedWrite::Outdated(basis)) = outdated else {
        panic!("{outdated:?}")
    };
    assert_eq!(store.unanswered().await.unwrap().len(), 1);
    let prospect = store.prospective_change(basis, patch("one"));
    assert_eq!(prospect.grants(), Some([grant("dev")].as_slice()));
    let stored = store
        .finish_undo(inbox, id, prospect, rest(Some("not yours"), "withheld"), at(5))
        .await;
    assert_eq!(stored, Ok(ComposedWrite::Stored(())));
    assert_eq!(store.withheld(id).await, Ok(Some("not yours".to_owned())));
    assert!(store.unanswered().await.unwrap().is_empty());
    let due = store.lease_due("slack", at(6), 10).await.unwrap();
    let new: Vec<_> = due.iter().filter(|due| !sent.contains(due)).collect();
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].op, post("answer", Some("2.0"), "withheld"));
}

/// A change that a message prepared while an undo was being rendered is newer than the remaining edits.
#[tokio::test]
async fn edits_left_by_an_undo_make_no_revision_after_a_newer_change() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    turn(&store, 1, &[("a", Some(b"two"))], patch("two")).await;
    let id = conversation(&store).await;
    let inbox = command(&store, "undo", "u", 2).await;
    let UndoOutcome::Newest { snapshot } = store.undo(id, inbox, None, at(2)).await.unwrap() else {
        panic!("nothing undone")
    };
    let next = turn(&store, 3, &[("a", Some(b"one")), ("b", Some(b""))], patch("more")).await;
    let rest = rest(&snapshot, patch("one").unwrap());
    assert_eq!(
        finish_undo(&store, inbox, id, rest, 4).await,
        Ok(ComposedWrite::Stored(()))
    );
    assert_eq!(store.current_change(id).await, Ok(next));
    let due = store.lease_due("slack", at(9), 10).await.unwrap();
    assert!(
        due.iter()
            .any(|due| due.op == post("answer", Some("2.0"), "nothing"))
    );
}

/// P4: a message has several turns if the process ended while it was being answered.
#[tokio::test]
async fn undo_takes_back_all_turns_of_a_message_that_was_cut_short() {
    let (directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"before"))], patch("before")).await;
    let (cut, inbox, id) = begin(&store, "U1", 1).await;
    let half = edits(&[("a", Some(b"half"))]);
    store
        .record_step(&cut, id, &answer("x"), &cost(1), Some(&half), at(1))
        .await
        .unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let resumed = claim(&store, "w").await.unwrap();
    let work = store.work(&resumed, 40, usize::MAX).await.unwrap().unwrap();
    assert!(work.inbox == inbox && work.has_edited);
    let begun = store
        .begin_turn(&resumed, inbox, TurnStart::quiet("please"), at(2))
        .await
        .unwrap();
    let whole = edits(&[("a", Some(b"half")), ("b", Some(b"whole"))]);
    store
        .record_step(&resumed, begun.turn, &answer("x"), &cost(1), Some(&whole), at(3))
        .await
        .unwrap();
    let finish = crate::state::store::fixture::ends(patch("whole"));
    store
        .finish_composed(
            &resumed,
            begun.turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(finish)),
            at(3),
        )
        .await
        .unwrap();
    store.release(&resumed).await.unwrap();
    assert!(matches!(undo(&store, 4).await, UndoOutcome::Newest { .. }));
    let id = conversation(&store).await;
    assert_eq!(store.edits(id).await, Ok(edits(&[("a", Some(b"before"))])));
    assert_eq!(undo(&store, 5).await, UndoOutcome::Everything);
}

/// A message was cut short, and its files ended as they began. There is nothing to undo.
#[tokio::test]
async fn undo_passes_over_a_message_whose_turns_took_each_other_back() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"1"))], None).await;
    let (claimed, inbox, first) = begin(&store, "U1", 1).await;
    let other = edits(&[("a", Some(b"2"))]);
    store
        .record_step(&claimed, first, &answer("x"), &cost(1), Some(&other), at(1))
        .await
        .unwrap();
    let second = store
        .begin_turn(&claimed, inbox, TurnStart::quiet("please"), at(2))
        .await
        .unwrap();
    let same = edits(&[("a", Some(b"1"))]);
    store
        .record_step(&claimed, second.turn, &answer("x"), &cost(1), Some(&same), at(2))
        .await
        .unwrap();
    let finish = crate::state::store::fixture::ends(None);
    store
        .finish_composed(
            &claimed,
            second.turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(finish)),
            at(3),
        )
        .await
        .unwrap();
    store.release(&claimed).await.unwrap();
    assert_eq!(undo(&store, 4).await, UndoOutcome::Everything);
}

#[tokio::test]
async fn nothing_is_changed_while_a_turn_runs_or_waits_to_be_resumed() {
    let (directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    let (cut, _, id) = begin(&store, "U1", 1).await;
    let half = edits(&[("a", Some(b"half"))]);
    store
        .record_step(&cut, id, &answer("x"), &cost(1), Some(&half), at(1))
        .await
        .unwrap();
    let refused = async |store: &Store, second: i64| {
        let id = conversation(store).await;
        let inbox = async |verb: &str| command(store, verb, &format!("{verb}-{second}"), second).await;
        assert_eq!(undo(store, second).await, UndoOutcome::Busy);
        let discarded = store.discard(id, inbox("discard").await, None, at(second)).await;
        assert_eq!(discarded, Ok(DiscardOutcome::Busy));
        let cleared = store.clear(id, inbox("clear").await).await;
        assert_eq!(cleared, Ok(ClearOutcome::Busy));
        assert_eq!(store.edits(id).await, Ok(half.clone()));
    };
    refused(&store, 2).await;
    drop(store);
    // The message waits to be answered, and its turn continues from its edits.
    let store = Store::open(directory.path()).unwrap();
    refused(&store, 3).await;
    let resumed = claim(&store, "w").await.unwrap();
    let inbox = store.next_message(&resumed).await.unwrap().unwrap();
    store.dismiss(&resumed, inbox, Vec::new(), at(4)).await.unwrap();
    // The message is answered, although the claim is not released yet.
    assert_eq!(undo(&store, 5).await, UndoOutcome::Everything);
}

/// A message that is given up leaves no edits behind.
#[tokio::test]
async fn what_a_message_edited_is_taken_back_when_it_is_answered_without_a_turn() {
    let (directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    let (cut, inbox, id) = begin(&store, "U1", 1).await;
    let half = edits(&[("a", Some(b"half")), ("b", None)]);
    store
        .record_step(&cut, id, &answer("x"), &cost(1), Some(&half), at(1))
        .await
        .unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let resumed = claim(&store, "w").await.unwrap();
    store.dismiss(&resumed, inbox, Vec::new(), at(2)).await.unwrap();
    store.release(&resumed).await.unwrap();
    let id = conversation(&store).await;
    assert_eq!(store.edits(id).await, Ok(edits(&[("a", Some(b"one"))])));
    // There is nothing to undo either.
    assert_eq!(undo(&store, 3).await, UndoOutcome::Everything);
    assert_eq!(store.turns(id, 1).await.unwrap()[0].finished_at, Some(at(2)));
}

/// A stop applies to its message until that is answered, and to no later one.
#[tokio::test]
async fn a_stop_outlives_a_restart_and_reaches_no_later_message() {
    let (directory, store) = fresh();
    let (_, running, _) = begin(&store, "U1", 0).await;
    let stop = command(&store, "stop", "s", 1).await;
    let (later, id, _) = accept(&store, &says("U1", "later", &["later"]), 2).await;
    let stopped = StopOutcome {
        message: Some(running),
        waiting: 1,
        commands: 0,
    };
    assert_eq!(store.stop(id, stop, None, at(6)).await, Ok(stopped));
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let resumed = claim(&store, "w").await.unwrap();
    let work = store.work(&resumed, 40, usize::MAX).await.unwrap().unwrap();
    assert!(work.inbox == running && work.is_stopped);
    store.dismiss(&resumed, running, Vec::new(), at(3)).await.unwrap();
    // A repeated run stops nothing else.
    assert_eq!(store.stop(id, stop, None, at(6)).await, Ok(stopped));
    let work = store.work(&resumed, 40, usize::MAX).await.unwrap().unwrap();
    assert!(work.inbox == later && !work.is_stopped);
    // A message that begins after the stop was stored gets it at the start of its turn.
    let stop = command(&store, "stop", "t", 4).await;
    store.stop(id, stop, Some(later), at(6)).await.unwrap();
    let begun = store
        .begin_turn(&resumed, later, TurnStart::quiet("later"), at(5))
        .await
        .unwrap();
    assert!(begun.is_stopped);
    let nothing = store.stop(
        id,
        command(&store, "stop", "v", 6).await,
        Some(InboxId(99)),
        at(6),
    );
    assert_eq!(nothing.await.map(|stopped| stopped.message), Ok(None));
}

/// A command outside of a thread means the newest conversation of its time. A stop in the thread reaches it as well.
#[tokio::test]
async fn a_stop_reaches_a_retry_that_was_sent_outside_of_its_thread() {
    let (_directory, store) = fresh();
    let id = conversation_of(&store, "1.0", 0).await;
    let slash = async |delivery: &str, second| {
        let retry = Inbound {
            place: place(None),
            kind: InboundKind::Command {
                verb: "retry".to_owned(),
                arguments: String::new(),
            },
            ..says("U1", "", &[delivery])
        };
        let accepted = store.accept(&retry, QueueKind::Change, room(20), None, at(second));
        match accepted.await.unwrap() {
            AcceptOutcome::Stored { inbox, .. } => inbox,
            other => panic!("{other:?}"),
        }
    };
    let meant = slash("a", 1).await;
    let other = conversation_of(&store, "2.0", 2).await;
    let of_other = slash("b", 3).await;
    let stop = command(&store, "stop", "s", 4).await;
    let later = slash("c", 5).await;
    let stopped = store.stop(id, stop, None, at(6)).await.unwrap();
    assert_eq!((stopped.message, stopped.commands), (None, 1));
    let retried = async |conversation, command| {
        let request = RetryRequest {
            command,
            reply_to: None,
            direct: false,
            by: person("U1"),
        };
        store.retry(conversation, request, at(7)).await.unwrap()
    };
    assert_eq!(retried(id, meant).await, RetryOutcome::Stopped);
    for command in [of_other, later] {
        assert_ne!(retried(other, command).await, RetryOutcome::Stopped);
    }
}

/// Returns a conversation in a thread whose only message is answered.
async fn conversation_of(store: &Store, thread: &str, second: i64) -> ConversationId {
    let said = Inbound {
        place: place(Some(thread)),
        ..says("U1", "hi", &[thread])
    };
    let (inbox, id, _) = accept(store, &said, second).await;
    let claimed = claim(store, "w").await.unwrap();
    assert_eq!(claimed.conversation, id);
    store
        .dismiss(&claimed, inbox, Vec::new(), at(second))
        .await
        .unwrap();
    store.release(&claimed).await.unwrap();
    id
}

/// A stop that says when it was meant ends the turn that had begun by then, and neither a later one nor a message that waits.
#[tokio::test]
async fn a_stop_of_a_time_ends_only_a_turn_that_had_begun_by_then() {
    let (_directory, store) = fresh();
    let (first, running, _) = begin(&store, "U1", 10).await;
    let (later, id, _) = accept(&store, &says("U1", "later", &["later"]), 11).await;
    let stop = async |name: &str, pressed| {
        let stop = command(&store, "stop", name, 20).await;
        let stopped = store.stop_begun(id, stop, at(pressed), at(21)).await.unwrap();
        // A repeated run returns the first result.
        assert_eq!(store.stop_begun(id, stop, at(99), at(22)).await, Ok(stopped));
        (stopped.message, stopped.waiting)
    };
    assert_eq!(stop("a", 9).await, (None, 2));
    assert_eq!(stop("b", 10).await, (Some(running), 1));
    store.dismiss(&first, running, Vec::new(), at(23)).await.unwrap();
    assert_eq!(stop("c", 24).await, (None, 1));
    store
        .begin_turn(&first, later, TurnStart::quiet("later"), at(30))
        .await
        .unwrap();
    assert_eq!(stop("d", 29).await, (None, 1));
    assert_eq!(stop("e", 31).await, (Some(later), 0));
}
