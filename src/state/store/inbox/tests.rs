//! Tests of the queue of accepted messages.

use super::{AcceptOutcome, QueueKind, QueueLimits, UnansweredCommand};
use crate::base::model::{ConversationId, InboundKind, InboxId, Platform};
use crate::state::store::ThreadOwner;
use crate::state::store::fixture::{accept, at, claim, find, fresh, person, place, post, room, says};
use crate::state::store::people::add_person;
use std::sync::Arc;

/// T15
#[tokio::test]
async fn a_message_is_accepted_once_under_any_of_its_names() {
    let final_refusal = || QueueLimits {
        refusal: Some(Vec::new()),
        ..room(20)
    };
    check_names(|| room(20)).await;
    check_names(final_refusal).await;
}

async fn check_names(limits: fn() -> QueueLimits) {
    let (_directory, store) = fresh();
    let accepted = async |text: &str, names: &[&str]| {
        let said = says("U1", text, names);
        store
            .accept(&said, QueueKind::Turn, limits(), None, at(1))
            .await
            .unwrap()
    };
    let first = accepted("hello", &["event:1", "ts:1"]).await;
    assert!(matches!(first, AcceptOutcome::Stored { .. }), "{first:?}");
    for names in [
        &["event:1"][..],
        &["ts:1"],
        &["event:2", "ts:1"],
        &["ts:1", "event:3", "event:3"],
        &["event:1", "ts:1"],
    ] {
        for _ in 0..10 {
            let again = accepted("hello", names).await;
            assert!(matches!(again, AcceptOutcome::Duplicate), "{names:?}");
        }
    }
    // A refused duplicate does not record its other names, and the same name twice is no duplicate.
    for names in [&["event:2"][..], &["event:3", "ts:3", "event:3"]] {
        let other = accepted("other", names).await;
        assert!(matches!(other, AcceptOutcome::Stored { .. }), "{names:?}");
        let names = store.read(|tx| Ok(tx.query_row("SELECT COUNT(*) FROM delivery", [], |row| row.get(0))?));
        let count: i64 = names.await.unwrap();
        assert!([3, 5].contains(&count), "{count}");
    }
}

#[tokio::test]
async fn the_names_of_a_message_that_could_not_be_stored_are_not_recorded() {
    let (_directory, store) = fresh();
    let said = says("U1", "hello", &["event:1", "ts:1"]);
    let accepted = async || {
        let limits = QueueLimits {
            refusal: Some(Vec::new()),
            ..room(20)
        };
        store.accept(&said, QueueKind::Turn, limits, None, at(1)).await
    };
    let alter = async |sql: &'static str| store.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();
    alter("CREATE TRIGGER refuses BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'refused'); END").await;
    let failed = accepted().await;
    assert!(failed.is_err(), "{failed:?}");
    alter("DROP TRIGGER refuses").await;
    let stored = accepted().await;
    assert!(matches!(stored, Ok(AcceptOutcome::Stored { .. })), "{stored:?}");
    let again = accepted().await;
    assert!(matches!(again, Ok(AcceptOutcome::Duplicate)), "{again:?}");
}

#[tokio::test]
async fn a_full_conversation_stores_nothing_and_the_message_may_come_again() {
    let (_directory, store) = fresh();
    for number in 0..3 {
        let (_, _, queue_position) = accept(&store, &says("U1", "x", &[&format!("m{number}")]), 0).await;
        assert_eq!(queue_position, number);
    }
    let late = says("U1", "late", &["late"]);
    for _ in 0..2 {
        let refused = store.accept(&late, QueueKind::Turn, room(2), None, at(1)).await;
        assert!(matches!(refused, Ok(AcceptOutcome::Full)));
    }
    let other = store
        .accept(
            &says("U2", "x", &["other"]),
            QueueKind::Turn,
            room(2),
            None,
            at(1),
        )
        .await;
    assert!(matches!(
        other,
        Ok(AcceptOutcome::Stored {
            queue_position: 0,
            ..
        })
    ));
    assert!(matches!(
        store.accept(&late, QueueKind::Turn, room(3), None, at(2)).await,
        Ok(AcceptOutcome::Stored {
            queue_position: 3,
            ..
        })
    ));
}

/// P2
#[tokio::test]
async fn the_notice_of_a_full_conversation_is_stored_with_the_refusal() {
    let (_directory, store) = fresh();
    accept(&store, &says("U1", "x", &["m"]), 0).await;
    accept(&store, &says("U1", "x", &["n"]), 0).await;
    let late = says("U1", "late", &["late"]);
    let refused = || QueueLimits {
        refusal: Some(vec![post("refused", None, "Too many wait.")]),
        ..room(1)
    };
    let answer = store.accept(&late, QueueKind::Turn, refused(), None, at(1)).await;
    assert!(matches!(answer, Ok(AcceptOutcome::Full)));
    let again = store.accept(&late, QueueKind::Turn, refused(), None, at(2)).await;
    assert!(matches!(again, Ok(AcceptOutcome::Duplicate)));
    let due = store.lease_due("slack", at(2), 10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].op, post("refused", None, "Too many wait."));
}

#[tokio::test]
async fn the_messages_of_a_person_in_the_thread_of_another_are_held_up_to_a_bound() {
    let (_directory, store) = fresh();
    let grant = ("editor".into(), "*".into(), vec!["**".into()]);
    let add = store.write(move |tx| add_person(tx, "U1", "operator", &person("U1"), &grant, at(0)));
    add.await.unwrap();
    accept(&store, &says("U1", "x", &["1"]), 0).await;
    let asks = |_: &ThreadOwner, _: ConversationId, held: InboxId| {
        let question = post(&format!("{}/thread", held.op_id_prefix()), None, "Whose?");
        (vec![question], Vec::new())
    };
    let two = || QueueLimits {
        thread_question: Some(Arc::new(asks)),
        refusal: Some(vec![post("refused", None, "Too many wait.")]),
        ..room(2)
    };
    let say = async |delivery: &str| {
        let said = says("U2", "hello", &[delivery]);
        store
            .accept(&said, QueueKind::Turn, two(), None, at(1))
            .await
            .unwrap()
    };
    for delivery in ["a", "b"] {
        assert!(matches!(say(delivery).await, AcceptOutcome::Held), "{delivery}");
    }
    for delivery in ["c", "d"] {
        assert!(matches!(say(delivery).await, AcceptOutcome::Full), "{delivery}");
    }
    // A refused message is handled, and its sender is told. One that is held was accepted.
    for delivery in ["c", "a"] {
        assert!(
            matches!(say(delivery).await, AcceptOutcome::Duplicate),
            "{delivery}"
        );
    }
    let counts = store.read(|tx| {
        let count = |sql: &str| tx.query_row(sql, [], |row| row.get::<_, i64>(0));
        let refused = "SELECT COUNT(*) FROM outbox WHERE op = 'refused'";
        Ok((count("SELECT COUNT(*) FROM held_message")?, count(refused)?))
    });
    assert_eq!(counts.await, Ok((2, 1)));
    let decided = store.write(|tx| Ok(tx.execute("DELETE FROM held_message WHERE inbox = 2", [])?));
    assert_eq!(decided.await, Ok(1));
    assert!(matches!(say("e").await, AcceptOutcome::Held));
}

#[tokio::test]
async fn the_queue_of_a_hook_is_bounded_across_all_its_conversations() {
    let (_directory, store) = fresh();
    let event = |hook: &str, number: i64| {
        let mut event = says(hook, "x", &[&format!("{hook}{number}")]);
        event.sender.platform = Platform::Hook;
        event.place.thread = Some(number.to_string());
        event
    };
    let two = || QueueLimits {
        of_hook_max: 2,
        ..room(20)
    };
    for number in 0..4 {
        let event = event("a", number);
        let accepted = store.accept(&event, QueueKind::Turn, two(), None, at(number));
        let is_taken = matches!(accepted.await, Ok(AcceptOutcome::Stored { .. }));
        assert_eq!(is_taken, number < 2, "{number}");
    }
    let other = store
        .accept(&event("b", 0), QueueKind::Turn, two(), None, at(5))
        .await;
    assert!(matches!(other, Ok(AcceptOutcome::Stored { .. })));
    let first = claim(&store, "w").await.unwrap();
    let message = store.next_message(&first).await.unwrap().unwrap();
    store.dismiss(&first, message, Vec::new(), at(6)).await.unwrap();
    // A refused message may be delivered again.
    let again = store
        .accept(&event("a", 2), QueueKind::Turn, two(), None, at(7))
        .await;
    assert!(matches!(again, Ok(AcceptOutcome::Stored { .. })));
}

/// SDK-10
#[tokio::test]
async fn people_and_threads_do_not_share_a_conversation() {
    let (_directory, store) = fresh();
    let (_, first, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
    let (_, second, _) = accept(&store, &says("U2", "x", &["2"]), 0).await;
    let mut elsewhere = says("U1", "x", &["3"]);
    elsewhere.place = place(Some("2.0"));
    let (_, third, _) = accept(&store, &elsewhere, 5).await;
    elsewhere.place = place(None);
    elsewhere.delivery = vec!["4".into()];
    let nowhere = store
        .accept(&elsewhere, QueueKind::Command, room(20), None, at(9))
        .await
        .unwrap();
    let AcceptOutcome::Stored {
        conversation: fourth, ..
    } = nowhere
    else {
        panic!("{nowhere:?}")
    };
    assert_eq!(
        std::collections::HashSet::from([first, second, third, fourth]).len(),
        4
    );
    let inbound = says("U1", "x", &["1"]);
    assert_eq!(find(&store, &inbound).await, Some(first));
    // A slash command means the thread with the newest message, not the place where it was typed.
    let latest = store
        .latest_conversation(&inbound.sender, &inbound.place.account, "C1", InboxId(1_000))
        .await;
    assert_eq!(latest, Ok(Some(third)));
}

#[tokio::test]
async fn an_unaddressed_message_is_stored_only_in_a_conversation_of_its_sender() {
    let (_directory, store) = fresh();
    let mut chatter = says("U1", "lunch?", &["1"]);
    let InboundKind::Text { addressed, .. } = &mut chatter.kind else {
        panic!("{chatter:?}")
    };
    *addressed = false;
    let said = || store.accept(&chatter, QueueKind::Turn, room(20), None, at(0));
    assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
    assert_eq!(find(&store, &chatter).await, None);
    accept(&store, &says("U2", "hello", &["2"]), 0).await;
    assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
    // A command alone does not make further messages count as addressed.
    let command = says("U1", "status", &["4"]);
    let stored = store
        .accept(&command, QueueKind::Command, room(20), None, at(0))
        .await;
    assert!(matches!(stored, Ok(AcceptOutcome::Stored { .. })));
    assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
    accept(&store, &says("U1", "hello", &["3"]), 0).await;
    assert!(matches!(
        said().await,
        Ok(AcceptOutcome::Stored {
            queue_position: 1,
            ..
        })
    ));
}

/// R18: an unreadable row is reported as such, together with the others.
#[tokio::test]
async fn a_command_that_cannot_be_read_stops_no_other() {
    let (_directory, store) = fresh();
    for name in ["a", "b", "c"] {
        let said = says("U1", "status", &[name]);
        store
            .accept(&said, QueueKind::Command, room(20), None, at(0))
            .await
            .unwrap();
    }
    let spoil = "UPDATE inbox SET inbound = CASE id WHEN 1 THEN x'ff00' ELSE inbound END,
        accepted_at = CASE id WHEN 2 THEN 9000000000000000000 ELSE accepted_at END";
    store.write(|tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
    let unanswered = store.unanswered().await.unwrap();
    let read: Vec<bool> = unanswered.iter().map(|command| command.inbound.is_ok()).collect();
    assert_eq!(read, [false, false, true]);
}

#[tokio::test]
async fn a_command_stays_pending_until_it_is_answered_and_is_answered_once() {
    let (_directory, store) = fresh();
    let inbound = says("U1", "status", &["c"]);
    let accepted = store
        .accept(&inbound, QueueKind::Command, room(20), None, at(0))
        .await
        .unwrap();
    let AcceptOutcome::Stored {
        inbox, conversation, ..
    } = accepted
    else {
        panic!("{accepted:?}")
    };
    let left = UnansweredCommand {
        inbox,
        conversation,
        accepted_at: at(0),
        has_effect: false,
        crashes: 0,
        inbound: Ok(Box::new(inbound.clone())),
    };
    assert_eq!(store.unanswered().await, Ok(vec![left]));
    assert_eq!(store.inbound(inbox).await, Ok(inbound));
    store
        .finish_command(inbox, vec![post("a", None, "ok")], at(1))
        .await
        .unwrap();
    store
        .finish_command(inbox, vec![post("b", None, "ok")], at(1))
        .await
        .unwrap();
    assert_eq!(store.unanswered().await, Ok(Vec::new()));
    assert_eq!(store.unsent_count("slack").await, Ok(1));
    // The message was never meant for a turn.
    assert_eq!(claim(&store, "w").await, None);
}

#[tokio::test]
async fn a_message_is_stored_as_it_came_whether_it_is_addressed_or_not() {
    let (_directory, store) = fresh();
    let asked = says("U1", "hello", &["1"]);
    let mut follow_up = says("U1", "and this", &["2"]);
    if let InboundKind::Text { addressed, .. } = &mut follow_up.kind {
        *addressed = false;
    }
    for inbound in [asked, follow_up] {
        let (inbox, conversation, _) = accept(&store, &inbound, 0).await;
        assert_eq!(store.inbound(inbox).await.as_ref(), Ok(&inbound));
        assert_eq!(find(&store, &inbound).await, Some(conversation));
    }
}
