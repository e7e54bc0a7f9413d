//! Tests of messages that a running turn takes.

use super::{TakeOutcome, TakenMessage, TakenMessages};
use crate::base::model::{
    Assistant, ContentBlock, InboxId, Step, StopReason, ToolCall, ToolResult, TurnId, Usage, UserId, Verdict,
};
use crate::state::store::fixture::{
    EndDraft, accept, at, begin, claim, command, cost, ends, fill, fresh, person, placeholder, post, room,
    says,
};
use crate::state::store::people::add_person;
use crate::state::store::{
    AcceptOutcome, Announcement, CardOutcome, Claim, FinishedTurn, QueueKind, StepEffects, Store, TurnStart,
};

/// Returns a step that read a file.
fn reads(id: &str) -> Step {
    let call = ToolCall {
        id: id.to_owned(),
        name: "file_read".to_owned(),
        arguments: "{}".into(),
    };
    let assistant = Assistant {
        blocks: vec![ContentBlock::Call(call)],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: id.to_owned(),
        content: "text".to_owned(),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

fn taken_at_once() -> TakeOutcome {
    TakeOutcome::Taken { waited: Vec::new() }
}

async fn alice(store: &Store) -> UserId {
    let grant = ("editor".into(), "*".into(), vec!["**".into()]);
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
    added.await.unwrap()
}

fn taken(user: UserId, messages: &[(InboxId, &str)]) -> TakenMessages {
    let messages = messages.iter().map(|(inbox, words)| {
        let card = format!("card-{inbox}");
        TakenMessage {
            inbox: *inbox,
            words: (*words).to_owned(),
            card: (
                card.clone(),
                fill(&format!("{card}/taken"), &card, "I read this."),
            ),
        }
    });
    TakenMessages {
        user,
        messages: messages.collect(),
    }
}

async fn take(
    store: &Store,
    (claim, turn): (&Claim, TurnId),
    user: UserId,
    messages: &[(InboxId, &str)],
) -> TakeOutcome {
    let texts = messages.iter().map(|(_, words)| (*words).to_owned()).collect();
    let step = reads("c1").with_messages(texts);
    let taken = taken(user, messages);
    let effects = StepEffects::default();
    store
        .record_step_taking(claim, turn, &step, &cost(1), effects, taken, at(2))
        .await
        .unwrap()
}

async fn finish(store: &Store, claim: &Claim, turn: TurnId, user: UserId) -> FinishedTurn {
    let end = EndDraft::Answered(Box::new(ends(None)));
    store
        .finish_composed(claim, turn, user, move |_| end, at(3))
        .await
        .unwrap()
}

/// Returns a message that arrives while a turn runs.
async fn arrives(store: &Store, text: &str) -> InboxId {
    accept(store, &says("U1", text, &[text]), 1).await.0
}

#[tokio::test]
async fn a_taken_message_is_part_of_the_step_and_done_with_its_turn() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, inbox, turn) = begin(&store, "U1", 0).await;
    let (first, second) = (arrives(&store, "three").await, arrives(&store, "why").await);
    let waiting = store.waiting_messages(&claimed, inbox).await.unwrap().messages;
    assert_eq!(
        waiting.iter().map(|(inbox, _)| *inbox).collect::<Vec<_>>(),
        [first, second]
    );
    let outcome = take(
        &store,
        (&claimed, turn),
        user,
        &[(first, "three"), (second, "why")],
    )
    .await;
    assert_eq!(outcome, taken_at_once());
    // Neither waits any more, and neither is done.
    let behind = store.waiting_messages(&claimed, inbox).await.unwrap();
    assert!(behind.messages.is_empty() && behind.newest.is_none());
    assert_eq!(store.waiting(claimed.conversation).await, Ok(1));
    assert_eq!(unfinished(&store).await, 3);
    let history = store.history(claimed.conversation).await.unwrap();
    assert_eq!(history.turns()[0].steps()[0].messages(), ["three", "why"]);
    let said = store.user_messages(claimed.conversation).await.unwrap();
    assert_eq!(said, ["please\nthree\nwhy\n"]);
    // They are taken once.
    let again = take(&store, (&claimed, turn), user, &[(second, "why")]).await;
    assert_eq!(again, TakeOutcome::Refused);
    assert!(finish(&store, &claimed, turn, user).await.is_answered);
    assert_eq!(unfinished(&store).await, 0);
    store.release(&claimed).await.unwrap();
    assert_eq!(claim(&store, "w2").await, None);
}

async fn unfinished(store: &Store) -> i64 {
    let sql = "SELECT (SELECT COUNT(*) FROM inbox WHERE done_at IS NULL)
        + 100 * ((SELECT SUM(pending) FROM conversation) - (SELECT COUNT(*) FROM inbox WHERE done_at IS NULL AND lane = 'turn'))";
    store
        .read(|tx| Ok(tx.query_row(sql, [], |row| row.get(0))?))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_turn_that_must_not_go_on_takes_nothing_and_stores_nothing() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, inbox, turn) = begin(&store, "U1", 0).await;
    // A command that was sent before the message and has no effect yet may be a stop.
    let stop = command(&store, "stop", "stop", 1).await;
    let later = arrives(&store, "three").await;
    let attempt = || async { take(&store, (&claimed, turn), user, &[(later, "three")]).await };
    assert_eq!(attempt().await, TakeOutcome::Refused);
    let stopped = store.stop(claimed.conversation, stop, None, at(5)).await.unwrap();
    assert_eq!((stopped.message, stopped.waiting), (Some(inbox), 1));
    assert_eq!(attempt().await, TakeOutcome::Refused);
    let history = store.history(claimed.conversation).await.unwrap();
    assert_eq!(
        history.turns()[0].steps().len(),
        1,
        "only the note that it was interrupted"
    );
    // The message keeps waiting for its own turn.
    finish(&store, &claimed, turn, user).await;
    store.release(&claimed).await.unwrap();
    let claimed = claim(&store, "w2").await.unwrap();
    assert_eq!(store.next_message(&claimed).await, Ok(Some(later)));
}

#[tokio::test]
async fn the_turn_of_a_revoked_person_takes_nothing() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    let later = arrives(&store, "three").await;
    let revoke = "UPDATE users SET revoked_at = 1";
    store.write(move |tx| Ok(tx.execute(revoke, [])?)).await.unwrap();
    let outcome = take(&store, (&claimed, turn), user, &[(later, "three")]).await;
    assert_eq!(outcome, TakeOutcome::Refused);
}

/// R1, R3: the process ends before and after the messages are taken.
#[tokio::test]
async fn a_message_is_neither_lost_nor_answered_twice_wherever_the_process_ends() {
    for is_taken in [false, true] {
        let (directory, store) = fresh();
        let user = alice(&store).await;
        let (claimed, inbox, turn) = begin(&store, "U1", 0).await;
        let later = arrives(&store, "three").await;
        if is_taken {
            let outcome = take(&store, (&claimed, turn), user, &[(later, "three")]).await;
            assert_eq!(outcome, taken_at_once());
        }
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        let claimed = claim(&store, "w2").await.unwrap();
        let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
        assert_eq!((work.inbox, work.begun), (inbox, 1));
        assert_eq!(
            (work.behind, work.continues),
            match is_taken {
                true => (0, Some(turn)),
                false => (1, None),
            }
        );
        let start = TurnStart {
            continues: work.continues,
            ..TurnStart::quiet("please")
        };
        let begun = store.begin_turn(&claimed, inbox, start, at(4)).await.unwrap();
        let history = store.history(claimed.conversation).await.unwrap();
        // The model sees one turn that goes on, with the message at its place.
        let steps: Vec<usize> = history.turns().iter().map(|turn| turn.steps().len()).collect();
        assert_eq!(steps, if is_taken { vec![2] } else { vec![1, 1] });
        if is_taken {
            assert_eq!(history.turns()[0].id(), Some(begun.turn));
            assert_eq!(history.turns()[0].steps()[0].messages(), ["three"]);
        }
        finish(&store, &claimed, begun.turn, user).await;
        store.release(&claimed).await.unwrap();
        let next = claim(&store, "w3").await;
        assert_eq!(next.is_some(), !is_taken);
        assert_eq!(unfinished(&store).await, i64::from(!is_taken));
    }
}

#[tokio::test]
async fn messages_of_a_turn_that_is_given_up_are_done_with_it() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, inbox, turn) = begin(&store, "U1", 0).await;
    let later = arrives(&store, "three").await;
    take(&store, (&claimed, turn), user, &[(later, "three")]).await;
    let sorry = vec![post("sorry", None, "I gave this up.")];
    store.dismiss(&claimed, inbox, sorry, at(4)).await.unwrap();
    assert_eq!(unfinished(&store).await, 0);
    let history = store.history(claimed.conversation).await.unwrap();
    assert_eq!(history.turns()[0].steps()[0].messages(), ["three"]);
    let turns = store.turns(claimed.conversation, 1).await.unwrap();
    assert_eq!(turns[0].verdict, Some(Verdict::Error));
}

#[tokio::test]
async fn the_card_of_a_message_that_waited_says_that_it_was_taken() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    let (first, second) = (arrives(&store, "three").await, arrives(&store, "why").await);
    let card = |inbox: InboxId| Announcement {
        ops: vec![placeholder(
            &format!("card-{inbox}"),
            Some("1.0"),
            "Queued (1 ahead).",
        )],
        ..Announcement::default()
    };
    let shown = store.show_waiting(first, card(first), at(1)).await;
    assert_eq!(shown, Ok(CardOutcome::New(None)));
    let outcome = take(
        &store,
        (&claimed, turn),
        user,
        &[(first, "three"), (second, "why")],
    )
    .await;
    assert_eq!(outcome, TakeOutcome::Taken { waited: vec![first] });
    let ops = "SELECT op FROM outbox ORDER BY id";
    let ops: Vec<String> = store
        .read(move |tx| {
            let mut statement = tx.prepare(ops)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
        .unwrap();
    assert_eq!(ops, [format!("card-{first}"), format!("card-{first}/taken")]);
    // It does not wait any more.
    let shown = store.show_waiting(second, card(second), at(1)).await;
    assert_eq!(shown, Ok(CardOutcome::OutOfDate));
}

#[tokio::test]
async fn messages_that_a_turn_took_leave_room_for_more() {
    let (_directory, store) = fresh();
    let user = alice(&store).await;
    let (claimed, _, turn) = begin(&store, "U1", 0).await;
    let later = arrives(&store, "three").await;
    let room = || crate::state::store::fixture::room(1);
    let more = |name| says("U1", name, &[name]);
    let full = store
        .accept(&more("a"), QueueKind::Turn, room(), None, at(2))
        .await;
    assert!(matches!(full, Ok(crate::state::store::AcceptOutcome::Full)));
    take(&store, (&claimed, turn), user, &[(later, "three")]).await;
    let stored = store
        .accept(&more("b"), QueueKind::Turn, room(), None, at(2))
        .await;
    assert!(
        matches!(
            stored,
            Ok(crate::state::store::AcceptOutcome::Stored {
                queue_position: 1,
                ..
            })
        ),
        "{stored:?}"
    );
}

/// The turn knows of every message behind it, also of those that it does not read: it can still ask its person.
#[tokio::test]
async fn the_newest_message_is_known_beyond_the_bound_and_beyond_one_that_cannot_be_read() {
    let (_directory, store) = fresh();
    let (claimed, inbox, _) = begin(&store, "U1", 0).await;
    for number in 0..40 {
        let waits = says("U1", "queue: more", &[&format!("m{number}")]);
        let accepted = store.accept(&waits, QueueKind::Turn, room(50), None, at(1)).await;
        assert!(matches!(accepted, Ok(AcceptOutcome::Stored { .. })));
    }
    let newest: i64 = store
        .read(|tx| Ok(tx.query_row("SELECT MAX(id) FROM inbox", [], |row| row.get(0))?))
        .await
        .unwrap();
    let newest = Some(InboxId(newest));
    let behind = store.waiting_messages(&claimed, inbox).await.unwrap();
    assert_eq!((behind.messages.len(), behind.newest), (32, newest));
    let spoil = "UPDATE inbox SET inbound = x'ff00' WHERE id = (SELECT MAX(id) FROM inbox) - 38";
    store.write(|tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
    let behind = store.waiting_messages(&claimed, inbox).await.unwrap();
    assert_eq!((behind.messages.len(), behind.newest), (1, newest));
}
