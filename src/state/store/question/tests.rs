//! Tests of stored questions.

use super::{AnsweredTurn, ButtonOutcome, NewQuestion, QuestionPlace};
use crate::base::model::{
    AskedQuestion, Assistant, ContentBlock, ConversationId, InboxId, Op, QuestionAnswer, Step, StopReason,
    ToolCall, ToolResult, TurnId, Usage, UserId,
};
use crate::state::store::fixture::{
    accept, at, begin, claim, command, cost, edits, fresh, place, post, room, says,
};
use crate::state::store::people::add_person;
use crate::state::store::{
    AcceptOutcome, ActionOwner, Claim, NewAction, PressOutcome, QueueKind, QueueLimits, StepEffects, Store,
    StoreError, TurnStart,
};
use std::time::Duration;

const POST: &str = "inbox-1/question-1-1";

fn question(default: Option<&str>) -> AskedQuestion {
    let choices = ["3".to_owned(), "5".to_owned()];
    AskedQuestion::new("How many?", &choices, default, 10).unwrap()
}

fn asking_step() -> Step {
    let call = ToolCall {
        id: "q".to_owned(),
        name: "ask_user".to_owned(),
        arguments: "{}".into(),
    };
    let assistant = Assistant {
        blocks: vec![ContentBlock::Call(call)],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: "q".to_owned(),
        content: format!("{}\n\n[a note]", AskedQuestion::WAITING),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

fn new_question(default: Option<&str>, conversation: ConversationId) -> NewQuestion {
    NewQuestion {
        question: question(default),
        user: UserId(1),
        call: "q".to_owned(),
        shown: QuestionPlace {
            post: POST.to_owned(),
            channel: "slack".to_owned(),
            place: place(Some("1.0")),
        },
        ops: vec![post(POST, Some("1.0"), "How many?")],
        actions: vec![NewAction {
            token_hash: [7; 32],
            verb: "choose".to_owned(),
            argument: format!("1 {POST}"),
            owner: ActionOwner::Person(crate::state::store::fixture::person("U1")),
            conversation,
            expires: at(10_000),
        }],
        ran: Duration::from_millis(1_500),
        known: InboxId(i64::MAX),
    }
}

/// Admits the person of the turn, who is the first one.
async fn admit(store: &Store) {
    let grant = ("editor".into(), "*".into(), vec!["**".into()]);
    let sender = crate::state::store::fixture::person("U1");
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &sender, &grant, at(0)));
    assert_eq!(added.await, Ok(UserId(1)));
}

/// Begins a turn that asks, and releases its claim.
async fn asked(store: &Store, default: Option<&str>) -> (Claim, InboxId, TurnId) {
    admit(store).await;
    let (claim, inbox, turn) = begin(store, "U1", 0).await;
    let effects = StepEffects::from(Some(&edits(&[("a", Some(b"x"))])));
    let asked = new_question(default, claim.conversation);
    store
        .record_question(&claim, turn, (&asking_step(), &cost(1)), effects, asked, at(1))
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
    (claim, inbox, turn)
}

/// Returns the results of the conversation's steps.
async fn results(store: &Store, conversation: ConversationId) -> Vec<String> {
    let history = store.history(conversation).await.unwrap();
    let steps = history.turns().iter().flat_map(|turn| turn.steps());
    let results = steps.flat_map(Step::results);
    results.map(|result| result.content.clone()).collect()
}

async fn outbox(store: &Store) -> Vec<Op> {
    let mut ops = Vec::new();
    loop {
        let due = store.lease_due("slack", at(9_000), 10).await.unwrap();
        if due.is_empty() {
            return ops;
        }
        for due in due {
            let id = due.op.id.clone();
            let message = crate::base::model::MessageRef {
                chat: "C1".to_owned(),
                id: "9.0".to_owned(),
            };
            store
                .record_delivered(&id, Some(message), at(9_000))
                .await
                .unwrap();
            ops.push(due.op);
        }
    }
}

#[tokio::test]
async fn a_conversation_with_an_open_question_is_not_claimed_until_it_is_answered() {
    let (_directory, store) = fresh();
    let (first, inbox, turn) = asked(&store, None).await;
    assert_eq!(claim(&store, "w").await, None);
    let open = store.open_question(first.conversation).await.unwrap().unwrap();
    assert_eq!((open.question, open.deadline), (question(None), at(601)));
    // The words of the person are the result. The message needs no turn of its own, and counts once.
    let words = says("U1", "five, please", &["answer"]);
    let answered = store.accept(&words, QueueKind::Turn, room(20), None, at(2)).await;
    assert!(matches!(answered, Ok(AcceptOutcome::Answered)), "{answered:?}");
    let again = store.accept(&words, QueueKind::Turn, room(20), None, at(2)).await;
    assert!(matches!(again, Ok(AcceptOutcome::Duplicate)));
    assert_eq!(store.waiting(first.conversation).await, Ok(1));
    assert_eq!(
        results(&store, first.conversation).await,
        ["The person answered: five, please\n\n[a note]"]
    );
    let next = claim(&store, "w").await.unwrap();
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.inbox, work.begun, work.steps_before), (inbox, 1, 1));
    let expected = AnsweredTurn {
        turn,
        call: "q".to_owned(),
        ran: Duration::from_millis(1_500),
        steps: 1,
    };
    assert_eq!(work.answered, Some(expected.clone()));
    // The turn goes on under the new claim only.
    let user = crate::base::model::UserId(1);
    let stale = store.resume_turn(&first, turn, user, None).await;
    assert_eq!(stale.map(|_| ()), Err(StoreError::Fenced));
    let resumed = store.resume_turn(&next, turn, user, None).await.unwrap();
    assert_eq!((resumed.turn, resumed.is_stopped), (turn, false));
    // A process that ends now finds the same; one that has made a step continues after it in a new turn.
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(work.answered, Some(expected));
    store
        .record_step(&next, turn, &other_step(), &cost(1), None, at(3))
        .await
        .unwrap();
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(
        (work.answered, work.continues, work.has_edited),
        (None, Some(turn), true)
    );
    let ops: Vec<String> = outbox(&store).await.into_iter().map(|op| op.id).collect();
    assert_eq!(ops, [POST.to_owned(), format!("{POST}/closed")]);
}

fn other_step() -> Step {
    let step = asking_step();
    let mut assistant = step.assistant().clone();
    assistant.blocks = vec![ContentBlock::Call(ToolCall {
        id: "r".to_owned(),
        name: "file_read".to_owned(),
        arguments: "{}".into(),
    })];
    let result = ToolResult {
        call: "r".to_owned(),
        content: "alpha".to_owned(),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

/// T07
#[tokio::test]
async fn a_button_answers_once_and_a_repeated_click_gets_the_same_result() {
    let (_directory, store) = fresh();
    let (first, ..) = asked(&store, None).await;
    let click = command(&store, "click", "click", 2).await;
    let by = crate::state::store::fixture::person("U1");
    let foreign = crate::state::store::fixture::person("U2");
    let refused = store.take_action([7; 32], &foreign, click, at(2)).await;
    assert!(
        matches!(refused, Ok(PressOutcome::OtherOwner { .. })),
        "{refused:?}"
    );
    let taken = store.take_action([7; 32], &by, click, at(2)).await.unwrap();
    let PressOutcome::Counted { verb, argument, .. } = taken else {
        panic!("{taken:?}")
    };
    assert_eq!((verb.as_str(), argument), ("choose", format!("1 {POST}")));
    let five = ButtonOutcome::Answered {
        choice: "5".to_owned(),
    };
    for second in [2, 700] {
        let outcome = store.answer_question(click, POST, 1, at(second)).await;
        assert_eq!(outcome, Ok(five.clone()));
    }
    let late = command(&store, "click", "late", 3).await;
    let outcome = store.answer_question(late, POST, 0, at(3)).await;
    assert_eq!(outcome, Ok(ButtonOutcome::Closed));
    assert_eq!(
        results(&store, first.conversation).await,
        ["The person chose: 5\n\n[a note]"]
    );
    let closed = "SELECT COUNT(*) FROM audit WHERE line LIKE '%choice%question.closed%'";
    let closed: i64 = store
        .read(move |tx| Ok(tx.query_row(closed, [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(closed, 1);
}

#[tokio::test]
async fn a_question_whose_time_has_passed_is_closed_with_its_default() {
    for (default, result) in [
        (
            Some("3"),
            QuestionAnswer::Default {
                choice: "3".to_owned(),
            },
        ),
        (None, QuestionAnswer::Missing),
    ] {
        let (_directory, store) = fresh();
        assert_eq!(store.close_late_questions(at(5)).await, Ok((0, None)));
        let (first, ..) = asked(&store, default).await;
        assert_eq!(store.close_late_questions(at(600)).await, Ok((0, Some(at(601)))));
        assert_eq!(claim(&store, "w").await, None);
        assert_eq!(store.close_late_questions(at(601)).await, Ok((1, None)));
        assert_eq!(
            results(&store, first.conversation).await,
            [format!("{}\n\n[a note]", result.result())]
        );
        assert!(claim(&store, "w").await.is_some());
        // Whoever comes later begins something new.
        let words = says("U1", "5", &["late"]);
        let (_, _, position) = accept(&store, &words, 602).await;
        assert_eq!(position, 1);
    }
}

#[tokio::test]
async fn a_stop_closes_the_question_of_its_message_only() {
    let (_directory, store) = fresh();
    let (first, inbox, _) = asked(&store, Some("3")).await;
    let other = command(&store, "stop", "s1", 2).await;
    let stopped = store
        .stop(first.conversation, other, Some(InboxId(99)), at(2))
        .await
        .unwrap();
    assert_eq!(stopped.message, None);
    assert!(store.open_question(first.conversation).await.unwrap().is_some());
    let stop = command(&store, "stop", "s2", 3).await;
    let stopped = store.stop(first.conversation, stop, None, at(3)).await.unwrap();
    assert_eq!(stopped.message, Some(inbox));
    assert_eq!(store.open_question(first.conversation).await, Ok(None));
    assert_eq!(
        results(&store, first.conversation).await,
        ["The person stopped the work instead of answering.\n\n[a note]"]
    );
    let next = claim(&store, "w").await.unwrap();
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert!(work.is_stopped && work.answered.is_some());
}

#[tokio::test]
async fn an_open_question_survives_a_restart_and_a_newer_turn_asks_anew() {
    let (directory, store) = fresh();
    let (first, inbox, turn) = asked(&store, None).await;
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(claim(&store, "w").await, None);
    let words = says("U1", "3", &["answer"]);
    let answered = store.accept(&words, QueueKind::Turn, room(20), None, at(2)).await;
    assert!(matches!(answered, Ok(AcceptOutcome::Answered)));
    let next = claim(&store, "w").await.unwrap();
    // A turn that was begun anew has nothing to go on with.
    let begun = store
        .begin_turn(&next, inbox, TurnStart::quiet("please"), at(3))
        .await
        .unwrap();
    assert!(begun.turn > turn);
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.begun, work.answered), (2, None));
    assert_eq!(work.conversation.id, first.conversation);
}

/// A question that commits after a stop of its turn is closed at once: nobody waits for its answer.
#[tokio::test]
async fn a_question_after_a_stop_or_a_revocation_is_closed_at_once() {
    for is_revoked in [false, true] {
        let (_directory, store) = fresh();
        admit(&store).await;
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        match is_revoked {
            false => {
                let stop = command(&store, "stop", "stop", 1).await;
                let stopped = store.stop(claim.conversation, stop, None, at(1)).await.unwrap();
                assert_eq!(stopped.message, Some(inbox));
            }
            true => {
                let revoke = "UPDATE users SET revoked_at = 1";
                store.write(move |tx| Ok(tx.execute(revoke, [])?)).await.unwrap();
            }
        }
        let asked = new_question(None, claim.conversation);
        store
            .record_question(
                &claim,
                turn,
                (&asking_step(), &cost(1)),
                StepEffects::from(None),
                asked,
                at(1),
            )
            .await
            .unwrap();
        assert_eq!(
            store.open_question(claim.conversation).await,
            Ok(None),
            "{is_revoked}"
        );
        store.release(&claim).await.unwrap();
        assert!(crate::state::store::fixture::claim(&store, "w").await.is_some());
    }
}

/// A message that commits before the question cannot be its answer, and does not wait for one.
#[tokio::test]
async fn a_message_that_arrives_before_the_question_closes_it() {
    for arrives in [false, true] {
        let (_directory, store) = fresh();
        admit(&store).await;
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        if arrives {
            let words = says("U1", "four", &["m1"]);
            let stored = store.accept(&words, QueueKind::Turn, room(20), None, at(1)).await;
            assert!(matches!(stored, Ok(AcceptOutcome::Stored { .. })), "{stored:?}");
        }
        let asked = NewQuestion {
            known: inbox,
            ..new_question(None, claim.conversation)
        };
        let effects = StepEffects::from(None);
        store
            .record_question(&claim, turn, (&asking_step(), &cost(1)), effects, asked, at(1))
            .await
            .unwrap();
        let open = store.open_question(claim.conversation).await.unwrap();
        assert_eq!(open.is_none(), arrives);
        let results = results(&store, claim.conversation).await;
        assert_eq!(results[0].starts_with("Not asked: "), arrives, "{results:?}");
    }
}

#[tokio::test]
async fn an_answer_is_part_of_what_the_person_asked_for() {
    let (_directory, store) = fresh();
    let (first, ..) = asked(&store, None).await;
    let words = says("U1", "also in prod", &["a1"]);
    store
        .accept(&words, QueueKind::Turn, room(20), None, at(2))
        .await
        .unwrap();
    let said = store.user_messages(first.conversation).await.unwrap().concat();
    assert!(said.contains("also in prod"), "{said}");
}

/// A message that waits for its own turn is no answer.
#[tokio::test]
async fn a_queued_message_leaves_the_question_open() {
    let (_directory, store) = fresh();
    let (first, ..) = asked(&store, None).await;
    let words = says("U1", "queue: then bump the chart", &["q1"]);
    let limits = QueueLimits {
        answers: None,
        ..room(20)
    };
    let stored = store.accept(&words, QueueKind::Turn, limits, None, at(2)).await;
    assert!(matches!(stored, Ok(AcceptOutcome::Stored { .. })));
    assert!(store.open_question(first.conversation).await.unwrap().is_some());
}

/// R18
#[tokio::test]
async fn a_question_that_cannot_be_read_holds_up_no_other() {
    let (_directory, store) = fresh();
    let (first, ..) = asked(&store, None).await;
    let spoil = "UPDATE question SET content = 'torn'";
    store.write(move |tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
    let (closed, next) = store.close_late_questions(at(100_000)).await.unwrap();
    assert_eq!((closed, next), (1, None));
    assert_eq!(store.open_question(first.conversation).await, Ok(None));
    assert!(crate::state::store::fixture::claim(&store, "w").await.is_some());
}

/// Each start shows the state with one operation, and a turn that goes on is not shown as one that waits.
#[tokio::test]
async fn a_waiting_status_is_shown_once_at_a_time_and_never_after_its_question_is_closed() {
    let (_directory, store) = fresh();
    asked(&store, Some("3")).await;
    assert_eq!(outbox(&store).await.len(), 1);
    let again = |shown: &QuestionPlace| {
        let id = format!("{}/waits-again", shown.post);
        Some(post(&id, Some("1.0"), "It waits."))
    };
    let ids = async || -> Vec<String> { outbox(&store).await.into_iter().map(|op| op.id).collect() };
    let shown_again = format!("{POST}/waits-again");
    for second in [2, 3] {
        store.enqueue_for_open_questions(again, at(second)).await.unwrap();
        store.enqueue_for_open_questions(again, at(second)).await.unwrap();
        assert_eq!(ids().await, std::slice::from_ref(&shown_again));
    }
    // One that is still to be sent is enough.
    let first = post(&format!("{POST}/waits"), Some("1.0"), "It waits.");
    let of_card = post("inbox-1/work/waits-0a", Some("1.0"), "It waits.");
    let of_another = post("inbox-10/work/waits-0a", Some("2.0"), "It waits.");
    let ops = vec![first, of_card, of_another.clone()];
    store.enqueue(ops, at(4)).await.unwrap();
    store.enqueue_for_open_questions(again, at(5)).await.unwrap();
    store.close_late_questions(at(5_000)).await.unwrap();
    let mut sent = ids().await;
    sent.sort();
    assert_eq!(sent, [format!("{POST}/closed"), of_another.id]);
}
