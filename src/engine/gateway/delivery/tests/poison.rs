//! Undeliverable operations. Each is given up, people are notified, and no other operation waits for it.

use super::fixture::{ChannelAction, DeliveryFixture, FakeChannel, elapsed, file, in_two_steps, op, post};
use crate::base::model::{Action, Op, Reply};
use crate::interfaces::channel::SendError;
use std::time::Duration;

fn lost() -> SendError {
    SendError::Ambiguous("the connection to slack was lost".to_owned())
}

/// R18
#[tokio::test(start_paused = true)]
async fn an_operation_that_is_never_answered_is_given_up_after_eight_attempts_and_holds_up_nobody() {
    for error in [
        SendError::NotSent {
            why: "slack answered 500".to_owned(),
            retry_after: None,
        },
        lost(),
    ] {
        let poison = "inbox-0/result";
        let fixture = DeliveryFixture::start(FakeChannel::new(move |op| match op.id == poison {
            true => ChannelAction::Fails(error.clone()),
            false => ChannelAction::Shows,
        }));
        fixture
            .enqueue(vec![post(poison, "C0"), post("inbox-0/second", "C0")])
            .await;
        // Other operations are answered all the time.
        let mut others = 0;
        while fixture.letters().await.is_empty() {
            others += 1;
            assert!(others < 5_000, "it is never given up");
            let id = format!("inbox-{others}/result");
            let asked = elapsed();
            fixture.enqueue(vec![post(&id, &format!("C{others}"))]).await;
            fixture.until(|| fixture.fake.calls_of(&id) > 0).await;
            let waited = elapsed() - asked;
            assert!(waited < Duration::from_secs(70), "{waited:?}");
            fixture.pass(5).await;
        }
        fixture.until_delivered().await;
        let letters = fixture.letters().await;
        assert_eq!(
            (letters.len(), letters[0].op.as_str(), letters[0].attempts),
            (1, poison, 8)
        );
        // Later operations continue, and one line reports what is missing.
        let shown = fixture.fake.shown();
        assert!(shown.contains(&"inbox-0/second".to_owned()), "{shown:?}");
        assert_eq!(shown.iter().filter(|op| *op == "inbox-0/missing").count(), 1);
        assert!(fixture.fake.texts().contains("`diff` shows the prepared change"));
    }
}

/// R18
#[tokio::test(start_paused = true)]
async fn what_is_refused_is_a_dead_letter_at_once_and_an_operator_can_have_it_sent_again() {
    let is_refused =
        |op: &crate::base::model::Op| op.place.chat == "C1" && elapsed() < Duration::from_secs(60);
    let fixture = DeliveryFixture::start(FakeChannel::new(move |op| match is_refused(op) {
        true => ChannelAction::Fails(SendError::Refused("is_archived".to_owned())),
        false => ChannelAction::Shows,
    }));
    fixture
        .enqueue(vec![post("inbox-1/result", "C1"), post("inbox-2/result", "C2")])
        .await;
    fixture.until_delivered().await;
    let letters = fixture.letters().await;
    let refused: Vec<(&str, &str, &str)> = letters
        .iter()
        .map(|letter| (&*letter.op, &*letter.state, &*letter.why))
        .collect();
    // The line about it is refused too, and gets no fallback of its own.
    assert_eq!(
        refused,
        [
            ("inbox-1/result", "failed", "is_archived"),
            ("inbox-1/missing", "failed", "is_archived")
        ]
    );
    assert_eq!(fixture.fake.shown(), ["inbox-2/result"]);
    fixture.until(|| elapsed() > Duration::from_secs(60)).await;
    let one = crate::state::store::DeadLetterFilter::Op("inbox-1/result".to_owned());
    fixture
        .store
        .send_again(one, "operator", super::fixture::now())
        .await
        .unwrap();
    fixture.delivery.retry_now();
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ["inbox-2/result", "inbox-1/result"]);
    assert_eq!(fixture.letters().await.len(), 1);
}

/// R18, P2
#[tokio::test(start_paused = true)]
async fn an_operation_that_crashes_its_delivery_is_given_up_and_its_thread_continues() {
    let breaks_one = |op: &Op| match op.id.as_str() {
        "inbox-1/result" => ChannelAction::Breaks,
        _ => ChannelAction::Shows,
    };
    for fake in [
        FakeChannel::new(breaks_one),
        FakeChannel::without_lookup(breaks_one),
    ] {
        let mut fixture = DeliveryFixture::start(fake);
        fixture
            .enqueue(vec![post("inbox-1/result", "C1"), post("inbox-2/result", "C1")])
            .await;
        fixture
            .until(|| fixture.fake.calls_of("inbox-1/result") >= 1)
            .await;
        fixture = fixture.restarted().await;
        fixture.until_delivered().await;
        let letters = fixture.letters().await;
        assert_eq!((letters.len(), letters[0].op.as_str()), (1, "inbox-1/result"));
        assert!(fixture.fake.calls_of("inbox-1/result") <= 8);
        let mut shown = fixture.fake.shown();
        shown.sort();
        assert_eq!(shown, ["inbox-1/missing", "inbox-2/result"]);
    }
}

/// R1, R17
#[tokio::test(start_paused = true)]
async fn an_uncertain_result_leaves_at_most_one_placeholder_line_behind() {
    let fixture = DeliveryFixture::start(FakeChannel::without_lookup(|op| match &op.action {
        Action::Post { .. } if op.id != "inbox-1/missing" => ChannelAction::ShowsThen(lost()),
        _ => ChannelAction::Shows,
    }));
    fixture.enqueue(in_two_steps("inbox-1/result", "C1")).await;
    fixture.until_delivered().await;
    // The first line, the full result, and the line that it may be missing. The true outcome cannot be found out.
    assert_eq!(
        fixture.fake.shown(),
        ["inbox-1/result", "inbox-1/result/fill", "inbox-1/missing"]
    );
}

/// P2
#[tokio::test(start_paused = true)]
async fn a_possibly_missing_answer_is_reported_once_per_message_and_never_for_its_card() {
    let mut ops = in_two_steps("inbox-1/card", "C1");
    ops.extend(in_two_steps("inbox-1/result", "C1"));
    ops.extend(in_two_steps("inbox-1/result-2", "C1"));
    ops.push(op(
        "inbox-2/answer",
        "C1",
        Action::Notice {
            to: crate::base::model::Sender {
                platform: crate::base::model::Platform::Slack,
                account: "T1".to_owned(),
                id: "U1".to_owned(),
            },
            reply: Reply::text("only you"),
        },
    ));
    let fixture = DeliveryFixture::start(FakeChannel::without_lookup(|op| {
        match op.id.ends_with("/missing") {
            true => ChannelAction::Shows,
            false => ChannelAction::Fails(lost()),
        }
    }));
    fixture.enqueue(ops).await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ["inbox-1/missing", "inbox-2/missing"]);
    // The operator's retry changes nothing here.
    let fixture = fixture.restarted().await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown().len(), 2);
}

/// P2
#[tokio::test(start_paused = true)]
async fn an_undeliverable_file_blocks_no_text_and_is_reported_once() {
    let fixture = DeliveryFixture::start(FakeChannel::new(|op| match &op.action {
        Action::Upload { .. } => ChannelAction::Fails(SendError::Ambiguous("slack answered 500".to_owned())),
        _ => ChannelAction::Shows,
    }));
    let ops = vec![
        post("inbox-1/result", "C1"),
        file("inbox-1/CHG-1.patch", "C1"),
        post("inbox-2/result", "C1"),
    ];
    fixture.enqueue(ops).await;
    fixture
        .until(|| fixture.fake.shown().contains(&"inbox-2/result".to_owned()))
        .await;
    let calls: Vec<String> = fixture
        .fake
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|(op, _)| op.clone())
        .collect();
    assert_eq!(
        calls[..3],
        ["inbox-1/result", "inbox-1/CHG-1.patch", "inbox-2/result"]
    );
    // Each accepted text proves that the platform is reachable.
    let mut others = 2;
    while fixture.letters().await.is_empty() {
        others += 1;
        assert!(others < 5_000, "it is never given up");
        fixture
            .enqueue(vec![post(&format!("inbox-{others}/result"), "C1")])
            .await;
        fixture.pass(5).await;
    }
    fixture.until_delivered().await;
    let shown = fixture.fake.shown();
    let notices = shown
        .iter()
        .filter(|op| *op == "inbox-1/CHG-1.patch/missing")
        .count();
    assert_eq!(notices, 1, "{shown:?}");
    assert!(fixture.fake.texts().contains("Its content"));
}

/// A large file or an unresponsive platform takes minutes.
#[tokio::test(start_paused = true)]
async fn messages_after_a_file_do_not_wait_for_its_upload() {
    let fixture = DeliveryFixture::start(FakeChannel::new(|op| match &op.action {
        Action::Upload { .. } => ChannelAction::Hangs,
        _ => ChannelAction::Shows,
    }));
    fixture
        .enqueue(vec![
            post("inbox-1/answer", "C1"),
            file("inbox-1/CHG-1.patch", "C1"),
            post("inbox-2/answer", "C1"),
        ])
        .await;
    let hangs = || fixture.fake.calls_of("inbox-1/CHG-1.patch") == 1;
    fixture.until(hangs).await;
    fixture
        .until(|| fixture.fake.shown().contains(&"inbox-2/answer".to_owned()))
        .await;
    fixture.enqueue(vec![post("inbox-3/answer", "C1")]).await;
    fixture
        .until(|| fixture.fake.shown().contains(&"inbox-3/answer".to_owned()))
        .await;
    assert!(elapsed() < Duration::from_secs(30), "{:?}", elapsed());
    assert!(hangs());
}
