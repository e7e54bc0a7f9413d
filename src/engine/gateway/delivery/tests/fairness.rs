//! Tests that one operation or one chat does not delay others.

use super::fixture::{
    ChannelAction, DeliveryFixture, FakeChannel, elapsed, in_two_steps, now, of_chat, op, post,
};
use crate::base::model::{Action, ChatPlace, MessageRef, Op, Reply};
use crate::engine::gateway::delivery::Pacing;
use crate::engine::gateway::delivery::gate::DeliveryGate;
use crate::interfaces::channel::{CallPurpose, SendError};
use crate::state::store::DeadLetterFilter;
use jiff::SignedDuration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest wait of a new operation while others fail repeatedly, in seconds: two probes and a margin.
const WAIT_MAX: usize = 130;

/// Advances time until an operation is shown, by at most this number of seconds.
async fn is_shown_within(fixture: &DeliveryFixture, id: &str, seconds: usize) -> bool {
    for _ in 0..seconds {
        if fixture.fake.shown().iter().any(|shown| shown == id) {
            return true;
        }
        fixture.pass(1).await;
    }
    false
}

/// R18
#[tokio::test(start_paused = true)]
async fn an_operation_that_always_fails_is_given_up_without_blocking_other_chats() {
    let fixture = DeliveryFixture::start(FakeChannel::new(|op| match op.place.chat.as_str() {
        "C0" => ChannelAction::Fails(SendError::Unreachable("slack cannot be reached".to_owned())),
        _ => ChannelAction::Shows,
    }));
    fixture.enqueue(vec![post("inbox-0/result", "C0")]).await;
    fixture.pass(300).await;
    // Each time others are answered, the missing answer counts against this operation.
    for number in 1..5_000 {
        if !fixture.letters().await.is_empty() {
            break;
        }
        let id = format!("inbox-{number}/result");
        fixture.enqueue(vec![post(&id, "C1")]).await;
        assert!(is_shown_within(&fixture, &id, WAIT_MAX).await, "{id} waits");
        fixture.pass(5).await;
    }
    let letters = fixture.letters().await;
    assert_eq!(
        letters.first().map(|letter| (&*letter.op, letter.attempts)),
        Some(("inbox-0/result", 8))
    );
}

/// R18
#[tokio::test(start_paused = true)]
async fn repeatedly_failing_operations_do_not_block_another_chat() {
    for failing in [2, 6] {
        let fixture = DeliveryFixture::start(FakeChannel::new(|op| match op.place.chat.as_str() {
            "C1" => ChannelAction::Shows,
            _ => ChannelAction::Fails(SendError::NotSent {
                why: "slack answered 500".to_owned(),
                retry_after: None,
            }),
        }));
        let failing = (0..failing).map(|number| {
            let id = format!("inbox-0{number}/result");
            post(&id, &format!("C0{number}"))
        });
        fixture.enqueue(failing.collect()).await;
        fixture.pass(300).await;
        fixture.enqueue(vec![post("inbox-1/result", "C1")]).await;
        assert!(is_shown_within(&fixture, "inbox-1/result", WAIT_MAX).await);
    }
}

/// R17
#[tokio::test(start_paused = true)]
async fn resent_messages_wait_for_the_rate_limit_of_their_chat_without_lookups() {
    const LETTERS: usize = 6;
    let fake = FakeChannel::without_lookup(|_| ChannelAction::Shows).limited(|op, call| match call {
        CallPurpose::Deliver => vec![of_chat(op, 2, Duration::from_secs(60))],
        CallPurpose::Find => Vec::new(),
    });
    let ids: Vec<String> = (0..LETTERS)
        .map(|number| format!("inbox-{number}/result"))
        .collect();
    let letters = ids.clone();
    let fixture = DeliveryFixture::start_after(fake, async move |store| {
        store
            .enqueue(letters.iter().map(|id| post(id, "C1")).collect(), now())
            .await
            .unwrap();
        for id in &letters {
            store.lease_due("slack", now(), 1).await.unwrap();
            store.record_ambiguous(id, "broke", None, now()).await.unwrap();
        }
        let all = DeadLetterFilter::Channel("slack".to_owned());
        store.send_again(all, "operator", now()).await.unwrap();
    })
    .await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ids);
    // One lookup before the wait, and one before sending.
    let looked = fixture.fake.looked_up_since.lock().unwrap().len();
    assert!(looked <= 2 * LETTERS, "looked for {looked} times");
}

/// R17
#[tokio::test(start_paused = true)]
async fn a_simpler_form_waits_for_the_limits_of_its_chat() {
    const MINUTE: Duration = Duration::from_secs(60);
    let refused = AtomicUsize::new(0);
    let fake = FakeChannel::new(move |op| match op.place.chat.as_str() {
        // The first two forms of each message are refused.
        "C1" | "C2" if refused.fetch_add(1, Ordering::Relaxed) % 3 < 2 => {
            ChannelAction::Fails(SendError::OtherForm("no rich messages".to_owned()))
        }
        _ => ChannelAction::Shows,
    });
    let fixture = DeliveryFixture::start(fake.limited(|op, _| vec![of_chat(op, 1, MINUTE)]));
    fixture.enqueue(vec![post("inbox-1/result", "C1")]).await;
    fixture.pass(5).await;
    // The chat waits, others do not, and the refusals are no attempts.
    fixture.enqueue(vec![post("inbox-3/result", "C3")]).await;
    assert!(is_shown_within(&fixture, "inbox-3/result", 5).await);
    assert_eq!(fixture.fake.calls_of("inbox-1/result"), 1);
    assert!(is_shown_within(&fixture, "inbox-1/result", 130).await);
    assert_eq!(fixture.attempts().await, 0);
    let calls = fixture.fake.calls.lock().unwrap().clone();
    let of_chat: Vec<Duration> = calls
        .into_iter()
        .filter_map(|(op, at)| (op == "inbox-1/result").then_some(at))
        .collect();
    assert_eq!(of_chat.len(), 3);
    for pair in of_chat.windows(2) {
        assert!(pair[1] - pair[0] >= MINUTE, "{of_chat:?}");
    }
    // What may be lost does not wait: it is left out.
    let optional = post("now/1", "C2");
    let sent = fixture.delivery.deliver_best_effort(&optional).await;
    assert!(matches!(sent, Err(SendError::Limited { .. })), "{sent:?}");
    assert_eq!(fixture.fake.calls_of("now/1"), 1);
}

/// R17
#[tokio::test(start_paused = true)]
async fn an_edit_does_not_wait_for_two_hundred_messages_of_its_chat() {
    let fake = FakeChannel::new(|_| ChannelAction::Shows).limited(|op, call| match (&op.action, call) {
        (Action::Post { .. }, CallPurpose::Deliver) => vec![of_chat(op, 1, Duration::from_secs(60))],
        _ => Vec::new(),
    });
    let fixture = DeliveryFixture::start(fake);
    let in_thread = |op: Op, thread: String| Op {
        place: ChatPlace {
            thread: Some(thread),
            ..op.place.clone()
        },
        ..op
    };
    let posts = (0..200).map(|number| {
        let id = format!("inbox-{number}/result");
        in_thread(post(&id, "C1"), format!("{number}.0"))
    });
    fixture.enqueue(posts.collect()).await;
    fixture.pass(5).await;
    let message = MessageRef {
        chat: "C1".to_owned(),
        id: "1".to_owned(),
    };
    let reply = Reply::text("edited");
    let edit = op("inbox-900/edit", "C1", Action::Edit { message, reply });
    fixture.enqueue(vec![in_thread(edit, "900.0".to_owned())]).await;
    assert!(is_shown_within(&fixture, "inbox-900/edit", 40).await);
    assert!(fixture.fake.shown().len() <= 3, "the others wait");
}

/// R17
#[tokio::test(start_paused = true)]
async fn a_refused_placeholder_is_neither_reported_missing_nor_resent() {
    let fixture = DeliveryFixture::start(FakeChannel::new(|op| match op.action.is_placeholder() {
        true => ChannelAction::Fails(SendError::Refused("msg_blocks_too_long".to_owned())),
        false => ChannelAction::Shows,
    }));
    fixture.enqueue(in_two_steps("inbox-1/result", "C1")).await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ["inbox-1/result/fill"]);
    // The operator gets no dead letter, because the placeholder would never be filled.
    assert_eq!(fixture.letters().await, []);
}

/// R20
#[tokio::test(start_paused = true)]
async fn a_post_enqueued_with_a_future_time_is_still_found_by_lookup() {
    let fake = FakeChannel::new(|_| ChannelAction::Shows);
    fake.shown.lock().unwrap().push("inbox-1/result".to_owned());
    let fixture = DeliveryFixture::start_after(fake, async |store| {
        let ahead = now() + SignedDuration::from_hours(48);
        store
            .enqueue(vec![post("inbox-1/result", "C1")], ahead)
            .await
            .unwrap();
        let due = store.lease_due("slack", ahead, 1).await.unwrap();
        store.abandon_leases(&due.into_iter().map(|due| due.op.id).collect::<Vec<_>>());
    })
    .await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ["inbox-1/result"]);
    let since = fixture.fake.looked_up_since.lock().unwrap().clone();
    assert!(since.len() == 1 && since[0] <= now(), "{since:?}");
}

/// A commit marks leased operations as being sent. So it leases none that could only wait.
#[tokio::test(start_paused = true)]
async fn nothing_is_leased_while_all_call_slots_are_taken() {
    let fixture = DeliveryFixture::start(FakeChannel::new(|_| ChannelAction::Shows));
    fixture.until(|| fixture.delivery.can_send_now()).await;
    let gate = &fixture.delivery.gate;
    let calls = [gate.call().await, gate.call().await, gate.call().await];
    assert!(!fixture.delivery.can_send_now());
    drop(calls);
    assert!(fixture.delivery.can_send_now());
}

/// R17
#[tokio::test(start_paused = true)]
async fn a_retry_after_of_zero_waits_a_second_even_without_rate_limits() {
    elapsed();
    let limits = [of_chat(&post("inbox-1/result", "C1"), 5, Duration::from_secs(1))];
    let gate = DeliveryGate::new("slack".to_owned(), Pacing::Ignored, now, || [0; 32]);
    let error = SendError::Limited {
        why: "slack answered 429".to_owned(),
        retry_after: Some(Duration::ZERO),
    };
    assert!(gate.admit(&limits));
    gate.failed(&error, &limits);
    assert!(!gate.admit(&limits));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(gate.admit(&limits));
}
