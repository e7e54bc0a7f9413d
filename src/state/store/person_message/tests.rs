//! Tests of messages between people.

use super::{MessageDelivery, NewPersonMessage, ReceivedMessage};
use crate::base::model::{
    Assistant, ContentBlock, ConversationId, Inbound, InboxId, MESSAGES_PER_HOUR_MAX, MESSAGES_WAITING_MAX,
    MessageConsent, MessageOutcome, PersonMessage, Step, StopReason, ToolCall, ToolResult, TurnId, Usage,
    UserId,
};
use crate::state::store::fixture::{
    accept, answer, at, begin, claim, command, cost, fresh, person, post, says,
};
use crate::state::store::people::{GrantRow, add_person, revoke, set_grant};
use crate::state::store::{
    ActionOwner, Claim, DeadLetterFilter, NewAction, ResentLetters, StepEffects, Store, StoreError, TurnStart,
};

const ALICE: UserId = UserId(1);
const BOB: UserId = UserId(2);

/// True if one of the grants is that of an editor.
fn is_editor(grants: &[GrantRow]) -> bool {
    grants.iter().any(|(role, ..)| role == "editor")
}

/// Admits Alice and Bob, whose accounts are `U1` and `U2`.
async fn admit(store: &Store) {
    for (name, account) in [("alice", "U1"), ("bob", "U2")] {
        let grant = ("editor".into(), "*".into(), vec!["**".into()]);
        let sender = person(account);
        store
            .write(move |tx| add_person(tx, name, "operator", &sender, &grant, at(0)))
            .await
            .unwrap();
    }
}

fn sending_step(call: &str) -> Step {
    let block = ContentBlock::Call(ToolCall {
        id: call.to_owned(),
        name: "send_user_message".to_owned(),
        arguments: "{}".into(),
    });
    let assistant = Assistant {
        blocks: vec![block],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: call.to_owned(),
        content: format!("{}\n\n[a note]", PersonMessage::WAITING),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

/// Returns a message of Alice to Bob. Its operations have ids with its text.
fn message(text: &str, conversation: ConversationId) -> NewPersonMessage {
    let button = NewAction {
        token_hash: [7; 32],
        verb: "accept".to_owned(),
        argument: ALICE.to_string(),
        owner: ActionOwner::Person(person("U2")),
        conversation,
        expires: at(90_000),
    };
    NewPersonMessage {
        call: "m".to_owned(),
        sender: ALICE,
        recipient: BOB,
        recipient_name: "bob".to_owned(),
        text: text.to_owned(),
        delivery: Some(MessageDelivery {
            message: vec![post(&format!("message-{text}"), None, text)],
            request: vec![post(&format!("request-{text}"), None, "May I?")],
            buttons: vec![button],
        }),
    }
}

/// A turn of Alice that sends messages.
#[derive(Clone, Copy)]
struct SendingTurn {
    claim: Claim,
    inbox: InboxId,
    turn: TurnId,
}

impl SendingTurn {
    async fn begin(store: &Store, second: i64) -> Self {
        let (claim, inbox, turn) = begin(store, "U1", second).await;
        Self { claim, inbox, turn }
    }

    async fn send_at(&self, store: &Store, text: &str, second: i64) -> Result<Step, StoreError> {
        let message = message(text, self.claim.conversation);
        let effects = StepEffects::default();
        store
            .record_step_sending(
                &self.claim,
                self.turn,
                (&sending_step("m"), &cost(1)),
                effects,
                (vec![message], Box::new(is_editor)),
                at(second),
            )
            .await
    }

    /// Sends a message, and checks what became of it.
    async fn sends(&self, store: &Store, text: &str, second: i64, outcome: MessageOutcome) {
        let step = self.send_at(store, text, second).await.unwrap();
        let result = &step.results()[0];
        assert_eq!(
            (result.content.clone(), result.is_error),
            (
                format!("{}\n\n[a note]", outcome.result("bob")),
                !outcome.is_sent()
            )
        );
    }

    /// Ends the turn, so that the next one of Alice can begin.
    async fn end(self, store: &Store, second: i64) {
        store
            .dismiss(&self.claim, self.inbox, Vec::new(), at(second))
            .await
            .unwrap();
        store.release(&self.claim).await.unwrap();
    }
}

/// Stores a decision of Bob about Alice.
async fn decide(store: &Store, consent: MessageConsent, second: i64) {
    let command = command(store, "!accept alice", &format!("decide:{second}"), second).await;
    let bob = (BOB, &person("U2"));
    let decided = store
        .decide_messages(bob, ALICE, consent, command, at(second))
        .await;
    assert_eq!(decided, Ok(consent));
    store
        .finish_command(command, Vec::new(), at(second))
        .await
        .unwrap();
}

async fn number(store: &Store, sql: &'static str) -> i64 {
    store
        .read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?))
        .await
        .unwrap()
}

/// Returns the kinds of the audit lines about messages.
async fn audited(store: &Store) -> Vec<String> {
    let lines = store.audit_lines(1_000).await.unwrap();
    let lines = lines.into_iter().map(|(_, line)| line);
    let kinds = lines.filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let kind = line["event"].as_str().unwrap();
        let outcome = line["data"]["outcome"].as_str().unwrap_or_default();
        kind.starts_with("message.")
            .then(|| format!("{kind} {outcome}").trim_end().to_owned())
    });
    kinds.collect()
}

/// T28, SDK-11
#[tokio::test]
async fn a_recipient_is_asked_once_and_decides_what_becomes_of_messages() {
    let (_directory, store) = fresh();
    admit(&store).await;
    let turn = SendingTurn::begin(&store, 0).await;
    turn.sends(&store, "one", 1, MessageOutcome::Asked).await;
    turn.sends(&store, "one", 2, MessageOutcome::Undecided).await;
    // Nothing of the text is kept, beside the sender's own conversation.
    assert_eq!(number(&store, "SELECT COUNT(*) FROM person_message").await, 0);
    let asked = "SELECT COUNT(*) FROM outbox WHERE op = 'request-one'";
    let all = "SELECT COUNT(*) FROM outbox";
    assert_eq!((number(&store, asked).await, number(&store, all).await), (1, 1));
    assert_eq!(number(&store, "SELECT COUNT(*) FROM action").await, 1);

    decide(&store, MessageConsent::Accepted, 3).await;
    turn.sends(&store, "two", 4, MessageOutcome::Sent).await;
    turn.sends(&store, "two", 5, MessageOutcome::Repeated).await;
    let shown = "SELECT COUNT(*) FROM outbox WHERE op = 'message-two'";
    assert_eq!(number(&store, shown).await, 1);

    // A message that waits is gone when its sender is blocked.
    decide(&store, MessageConsent::Blocked, 6).await;
    assert_eq!(number(&store, "SELECT COUNT(*) FROM person_message").await, 0);
    turn.sends(&store, "three", 7, MessageOutcome::Blocked).await;
    assert_eq!(
        store.message_consents(BOB).await,
        Ok(vec![("alice".to_owned(), MessageConsent::Blocked)])
    );
    assert_eq!(store.message_consents(ALICE).await, Ok(Vec::new()));
    assert_eq!(
        audited(&store).await,
        [
            "message.asked asked",
            "message.refused undecided",
            "message.accepted",
            "message.sent sent",
            "message.blocked",
            "message.refused blocked",
        ]
    );
    let texts = store.audit_lines(1_000).await.unwrap();
    assert!(!texts.iter().any(|(_, line)| line.contains("two")));
}

/// T28
#[tokio::test]
async fn a_message_that_is_not_delivered_yet_is_withdrawn_when_its_sender_is_blocked() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 1).await;
    let names = [
        PersonMessage::operation_name(ALICE, BOB),
        PersonMessage::operation_name(BOB, ALICE),
    ];
    let posts = ["a", "sending", "unknown"].iter().flat_map(|id| {
        let names = names.iter();
        names.map(move |name| post(&format!("inbox-1/{name}{id}"), None, "hi"))
    });
    store.enqueue(posts.collect(), at(2)).await.unwrap();
    let lease = "UPDATE outbox SET state = 'sending' WHERE op LIKE '%sending'";
    let unknown = "UPDATE outbox SET state = 'doubtful' WHERE op LIKE '%unknown'";
    store
        .write(move |tx| Ok(tx.execute(lease, [])? + tx.execute(unknown, [])?))
        .await
        .unwrap();
    decide(&store, MessageConsent::Blocked, 3).await;
    let withdrawn = "SELECT COUNT(*) FROM outbox WHERE state = 'dropped' AND done_at IS NOT NULL";
    let of_alice = "SELECT COUNT(*) FROM outbox WHERE state = 'dropped' AND op = 'inbox-1/message-1-2-a'";
    assert_eq!(
        (number(&store, withdrawn).await, number(&store, of_alice).await),
        (2, 1)
    );
}

/// A command that is carried out again finds its decision, whatever was decided since.
#[tokio::test]
async fn a_repeated_decision_changes_nothing() {
    let (_directory, store) = fresh();
    admit(&store).await;
    let first = command(&store, "!accept alice", "first", 1).await;
    let account = person("U2");
    let bob = (BOB, &account);
    for _ in 0..2 {
        let decided = store.decide_messages(bob, ALICE, MessageConsent::Accepted, first, at(1));
        assert_eq!(decided.await, Ok(MessageConsent::Accepted));
    }
    decide(&store, MessageConsent::Blocked, 2).await;
    let again = store.decide_messages(bob, ALICE, MessageConsent::Accepted, first, at(3));
    assert_eq!(again.await, Ok(MessageConsent::Accepted));
    let consents = store.message_consents(BOB).await.unwrap();
    assert_eq!(consents, [("alice".to_owned(), MessageConsent::Blocked)]);
    assert_eq!(audited(&store).await, ["message.accepted", "message.blocked"]);
}

/// R1: the message, the record and the step are one write, which a worker that lost its claim cannot make.
#[tokio::test]
async fn a_message_is_sent_exactly_if_its_step_is_stored() {
    let (directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 1).await;
    let turn = SendingTurn::begin(&store, 2).await;
    let stale = SendingTurn {
        claim: Claim {
            fence: 0,
            ..turn.claim
        },
        ..turn
    };
    assert_eq!(
        stale.send_at(&store, "one", 3).await.err(),
        Some(StoreError::Fenced)
    );
    let nothing = "SELECT (SELECT COUNT(*) FROM person_message) + (SELECT COUNT(*) FROM outbox)
                   + (SELECT COUNT(*) FROM step)";
    assert_eq!(number(&store, nothing).await, 0);
    turn.sends(&store, "one", 4, MessageOutcome::Sent).await;
    assert_eq!(number(&store, nothing).await, 3);
    drop(store);

    // The process ended. The next attempt at the request goes on after the step that sent, and does not begin anew.
    let store = Store::open(directory.path()).unwrap();
    let next = claim(&store, "w2").await.unwrap();
    assert_eq!(next.conversation, turn.claim.conversation);
    let work = store.work(&next, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.inbox, work.continues), (turn.inbox, Some(turn.turn)));
    let start = TurnStart {
        continues: Some(turn.turn),
        ..TurnStart::quiet("please")
    };
    let begun = store.begin_turn(&next, turn.inbox, start, at(5)).await.unwrap();
    let turn = SendingTurn {
        claim: next,
        turn: begun.turn,
        ..turn
    };
    // A model that sends it all the same finds that it was sent.
    turn.sends(&store, "one", 6, MessageOutcome::Repeated).await;
    assert_eq!(number(&store, "SELECT COUNT(*) FROM person_message").await, 1);
    assert_eq!(number(&store, "SELECT COUNT(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn messages_of_a_sender_and_to_a_recipient_are_bounded() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 0).await;
    let turn = SendingTurn::begin(&store, 1).await;
    for number in 0..MESSAGES_WAITING_MAX {
        turn.sends(&store, &format!("wait {number}"), 2, MessageOutcome::Sent)
            .await;
    }
    turn.sends(&store, "full", 2, MessageOutcome::Full).await;
    let taken = "UPDATE person_message SET taken_by = 99";
    store.write(move |tx| Ok(tx.execute(taken, [])?)).await.unwrap();
    for number in MESSAGES_WAITING_MAX..MESSAGES_PER_HOUR_MAX {
        turn.sends(&store, &format!("wait {number}"), 3, MessageOutcome::Sent)
            .await;
    }
    turn.sends(&store, "many", 4, MessageOutcome::TooMany).await;
    store.write(move |tx| Ok(tx.execute(taken, [])?)).await.unwrap();
    turn.sends(&store, "later", 3_700, MessageOutcome::Sent).await;
}

/// T06
#[tokio::test]
async fn nothing_reaches_or_leaves_a_person_who_is_gone_or_a_turn_that_was_stopped() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 0).await;
    let turn = SendingTurn::begin(&store, 1).await;
    turn.sends(&store, "one", 2, MessageOutcome::Sent).await;
    let mut lost = message("two", turn.claim.conversation);
    lost.delivery = None;
    let step = store
        .record_step_sending(
            &turn.claim,
            turn.turn,
            (&sending_step("m"), &cost(1)),
            StepEffects::default(),
            (vec![lost], Box::new(is_editor)),
            at(2),
        )
        .await
        .unwrap();
    assert!(
        step.results()[0]
            .content
            .starts_with(&MessageOutcome::NoChat.result("bob"))
    );
    store.write(|tx| revoke(tx, BOB, at(3))).await.unwrap();
    let left = "SELECT (SELECT COUNT(*) FROM person_message) + (SELECT COUNT(*) FROM message_consent)";
    assert_eq!(number(&store, left).await, 0);
    turn.sends(&store, "three", 4, MessageOutcome::Gone).await;
    let inbox = turn.inbox.0;
    let stop = "UPDATE inbox SET stopped_by = id WHERE id = ?1";
    store
        .write(move |tx| Ok(tx.execute(stop, [inbox])?))
        .await
        .unwrap();
    turn.sends(&store, "four", 5, MessageOutcome::Stopped).await;
    turn.end(&store, 6).await;
    let turn = SendingTurn::begin(&store, 7).await;
    store.write(|tx| revoke(tx, ALICE, at(8))).await.unwrap();
    turn.sends(&store, "five", 9, MessageOutcome::Stopped).await;
}

/// T06, T28: the role at the commit counts, not that at the call.
#[tokio::test]
async fn a_sender_who_was_demoted_before_the_commit_sends_nothing() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 0).await;
    let turn = SendingTurn::begin(&store, 1).await;
    for (role, outcome) in [
        ("viewer", MessageOutcome::NotPermitted),
        ("editor", MessageOutcome::Sent),
    ] {
        let grant = (role.into(), "*".into(), vec!["**".into()]);
        let changed = store.write(move |tx| set_grant(tx, ALICE, &grant));
        changed.await.unwrap();
        turn.sends(&store, "one", 2, outcome).await;
    }
    assert_eq!(number(&store, "SELECT COUNT(*) FROM person_message").await, 1);
    assert_eq!(
        audited(&store).await,
        [
            "message.accepted",
            "message.refused not_permitted",
            "message.sent sent"
        ]
    );
}

/// Returns a message of Bob in his private chat.
fn private(text: &str, thread: &str) -> Inbound {
    let mut inbound = says("U2", text, &[text]);
    inbound.direct = true;
    inbound.place.chat = "D2".to_owned();
    inbound.place.thread = Some(thread.to_owned());
    inbound
}

/// SDK-11
#[tokio::test]
async fn a_received_message_belongs_to_one_request_whatever_happens_to_it() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 0).await;
    assert_eq!(store.private_conversation(BOB).await, Ok(None));
    let (first, older, _) = accept(&store, &private("hello", "1.0"), 1).await;
    let (second, newer, _) = accept(&store, &private("again", "2.0"), 2).await;
    // A message in a channel is not private.
    accept(&store, &says("U2", "in a channel", &["channel"]), 3).await;
    let place = store.private_conversation(BOB).await.unwrap().unwrap();
    assert_eq!((place.id, place.key.place.chat.as_str()), (newer, "D2"));
    let claims = [
        claim(&store, "w").await.unwrap(),
        claim(&store, "w").await.unwrap(),
    ];
    assert_eq!(claims.map(|claim| claim.conversation), [older, newer]);
    assert_eq!(store.take_messages(&claims[0], BOB, first).await, Ok(Vec::new()));

    let turn = SendingTurn::begin(&store, 4).await;
    turn.sends(&store, "one", 5, MessageOutcome::Sent).await;
    turn.sends(&store, "two", 5, MessageOutcome::Sent).await;
    let received = |text: &str| ReceivedMessage {
        from: "alice".to_owned(),
        text: text.to_owned(),
    };
    let stale = Claim {
        fence: 0,
        ..claims[0]
    };
    assert_eq!(
        store.take_messages(&stale, BOB, first).await,
        Err(StoreError::Fenced)
    );
    let both = vec![received("one"), received("two")];
    assert_eq!(
        store.take_messages(&claims[0], BOB, first).await,
        Ok(both.clone())
    );
    // Neither a request at the same time nor a person who sends has them.
    assert_eq!(store.take_messages(&claims[1], BOB, second).await, Ok(Vec::new()));
    assert_eq!(store.taken_messages(turn.inbox).await, Ok(Vec::new()));
    turn.sends(&store, "three", 6, MessageOutcome::Sent).await;
    assert_eq!(
        store.take_messages(&claims[1], BOB, second).await,
        Ok(vec![received("three")])
    );
    // Another attempt at the first request has the same ones.
    assert_eq!(
        store.take_messages(&claims[0], BOB, first).await,
        Ok(both.clone())
    );
    assert_eq!(store.taken_messages(first).await, Ok(both));
    let begun = store
        .begin_turn(&claims[0], first, TurnStart::quiet("hello"), at(7))
        .await
        .unwrap();
    store
        .record_step(&claims[0], begun.turn, &answer("Hi."), &cost(1), None, at(7))
        .await
        .unwrap();
    store.dismiss(&claims[0], first, Vec::new(), at(8)).await.unwrap();
    assert_eq!(store.taken_messages(first).await.unwrap().len(), 2);
    // A request that ends without a turn, such as one that was stopped, leaves them for the next one.
    store
        .dismiss(&claims[1], second, Vec::new(), at(9))
        .await
        .unwrap();
    store.release(&claims[1]).await.unwrap();
    let (third, ..) = accept(&store, &private("at last", "2.0"), 10).await;
    let mut next = claim(&store, "w").await.unwrap();
    if next.conversation != newer {
        next = claim(&store, "w").await.unwrap();
    }
    assert_eq!(next.conversation, newer);
    assert_eq!(
        store.take_messages(&next, BOB, third).await,
        Ok(vec![received("three")])
    );
    // No attempt at a request has the words of a sender who was blocked after they were taken.
    decide(&store, MessageConsent::Blocked, 11).await;
    for request in [first, third] {
        assert_eq!(store.taken_messages(request).await, Ok(Vec::new()));
    }
    store.dismiss(&next, third, Vec::new(), at(12)).await.unwrap();
    let unread = "SELECT COUNT(*) FROM person_message WHERE text = 'three'";
    assert_eq!(number(&store, unread).await, 0);
}

/// SDK-17
#[tokio::test]
async fn a_retry_that_begins_anew_sends_nothing_again() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 0).await;
    let first = SendingTurn::begin(&store, 1).await;
    first.sends(&store, "one", 2, MessageOutcome::Sent).await;
    let failed = first.turn;
    first.end(&store, 3).await;
    let second = SendingTurn::begin(&store, 4).await;
    let inbox = second.inbox;
    store
        .write(move |tx| {
            tx.execute("UPDATE inbox SET retries = ?2 WHERE id = ?1", [inbox.0, failed.0])?;
            Ok(())
        })
        .await
        .unwrap();
    second.sends(&store, "one", 5, MessageOutcome::Repeated).await;
    second.sends(&store, "two", 6, MessageOutcome::Sent).await;
}

/// T28: what was given up before the block is not sent by an operator after it.
#[tokio::test]
async fn a_message_that_was_given_up_is_not_sent_again_after_a_block() {
    let (_directory, store) = fresh();
    admit(&store).await;
    decide(&store, MessageConsent::Accepted, 1).await;
    let of_alice = format!("inbox-1/{}a-0", PersonMessage::operation_name(ALICE, BOB));
    let of_bob = format!("inbox-1/{}a-0", PersonMessage::operation_name(BOB, ALICE));
    let ids = [of_alice.as_str(), &of_bob];
    let consents = "INSERT INTO message_consent (recipient, sender, state) VALUES (?1, ?2, 'accepted')";
    let of_bob_to_alice = move |tx: &rusqlite::Transaction<'_>| Ok(tx.execute(consents, [ALICE.0, BOB.0])?);
    store.write(of_bob_to_alice).await.unwrap();
    let posts = ids.iter().map(|id| post(id, None, "hi")).collect();
    store.enqueue(posts, at(2)).await.unwrap();
    for id in ids {
        store.record_failed(id, "refused", None, at(3)).await.unwrap();
    }
    let shown = post(&of_alice, None, "hi");
    assert_eq!(store.reason_to_withdraw(&shown).await, Ok(None));
    decide(&store, MessageConsent::Blocked, 4).await;
    let all = DeadLetterFilter::Channel("slack".to_owned());
    let resent = store.send_again(all, "operator", at(5)).await.unwrap();
    let expected = ResentLetters {
        queued: vec!["slack".to_owned()],
        withdrawn: vec![of_alice.clone()],
    };
    assert_eq!(resent, expected);
    let due = store.lease_due("slack", at(6), 8).await.unwrap();
    let due: Vec<&str> = due.iter().map(|due| due.op.id.as_str()).collect();
    assert_eq!(due, [&of_bob]);
    assert_eq!(store.dead_letters(None, 9).await, Ok(Vec::new()));
    let again = store
        .send_again(DeadLetterFilter::Op(of_alice.clone()), "operator", at(7))
        .await;
    assert!(again.unwrap_err().to_string().contains("it is dropped"));
    // A revocation removes the decisions about a person, and their messages stay withdrawn.
    store.write(|tx| revoke(tx, ALICE, at(8))).await.unwrap();
    for id in [of_alice, of_bob] {
        let why = store.reason_to_withdraw(&post(&id, None, "hi")).await.unwrap();
        assert_eq!(why, Some(super::PERSON_REVOKED), "{id}");
    }
}
