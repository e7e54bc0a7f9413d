//! Tests of long polling: only durable updates are confirmed to Telegram.

use super::*;
use crate::base::model::{Inbound, InboundKind};
use crate::interfaces::channel::{NoPollMemory, PolledInbound};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Polling {
    setup: Setup,
    inbox: mpsc::Receiver<PolledInbound>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Polling {
    async fn new() -> Self {
        let setup = Setup::new().await;
        let (sender, inbox) = mpsc::channel(100);
        let cancel = CancellationToken::new();
        let channel = Arc::clone(&setup.channel);
        let stop = cancel.clone();
        let task = tokio::spawn(async move {
            channel
                .poll(sender, &NoPollMemory, || jiff::Timestamp::UNIX_EPOCH, stop)
                .await;
        });
        Self {
            setup,
            inbox,
            cancel,
            task,
        }
    }

    async fn next(&mut self) -> PolledInbound {
        tokio::time::timeout(SOON, self.inbox.recv())
            .await
            .unwrap()
            .unwrap()
    }

    async fn stop(self) {
        self.cancel.cancel();
        tokio::time::timeout(Duration::from_secs(1), self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

fn words(inbound: &Inbound) -> &str {
    match &inbound.kind {
        InboundKind::Text { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

/// R5
#[tokio::test]
async fn what_was_not_stored_is_delivered_again_and_what_was_is_forgotten() {
    let mut polling = Polling::new().await;
    let first = polling.next().await;
    assert_eq!(words(&first.inbound), "scale web");
    drop(first.accepted);
    let again = polling.next().await;
    assert_eq!(again.inbound, first.inbound);
    assert_eq!(polling.setup.telegram.updates_waiting(), 1);
    again.accepted.send(()).unwrap();
    let forgotten = |telegram: &TelegramEmulator| telegram.updates_waiting() == 0;
    assert!(polling.setup.telegram.wait_until(SOON, forgotten).await);
    polling.stop().await;
}

#[tokio::test]
async fn order_is_kept_and_only_the_stored_beginning_of_a_batch_is_confirmed() {
    let mut polling = Polling::new().await;
    let zero = polling.next().await;
    for text in ["one", "two", "three"] {
        polling.setup.telegram.say(ALICE, ALICE, text).await;
    }
    zero.accepted.send(()).unwrap();
    let (one, two, three) = (polling.next().await, polling.next().await, polling.next().await);
    assert_eq!(
        [words(&one.inbound), words(&two.inbound), words(&three.inbound)],
        ["one", "two", "three"]
    );
    three.accepted.send(()).unwrap();
    drop(two.accepted);
    one.accepted.send(()).unwrap();
    assert_eq!(words(&polling.next().await.inbound), "two");
    polling.stop().await;
}

#[tokio::test]
async fn unreadable_updates_are_skipped_and_do_not_block_later_ones() {
    let mut polling = Polling::new().await;
    polling.next().await.accepted.send(()).unwrap();
    let telegram = &polling.setup.telegram;
    telegram
        .send_update(json!({"update_id": 2000, "message": 5}))
        .await;
    telegram
        .send_update(json!({"update_id": 2001, "edited_message": {}}))
        .await;
    telegram
        .send_update(json!({"update_id": 2002, "invented": {}}))
        .await;
    telegram.restart_update_ids(2003);
    telegram.say(ALICE, ALICE, "still here").await;
    let next = polling.next().await;
    assert_eq!(words(&next.inbound), "still here");
    next.accepted.send(()).unwrap();
    let forgotten = |telegram: &TelegramEmulator| telegram.updates_waiting() == 0;
    assert!(polling.setup.telegram.wait_until(SOON, forgotten).await);
    polling.stop().await;
}

/// R5: after a quiet week Telegram restarts update ids, possibly below the current offset.
#[tokio::test]
async fn update_ids_that_start_anew_lose_nothing() {
    let mut polling = Polling::new().await;
    polling.next().await.accepted.send(()).unwrap();
    let telegram = &polling.setup.telegram;
    assert!(
        telegram
            .wait_until(SOON, |telegram| telegram.updates_waiting() == 0)
            .await
    );
    let polls = telegram.calls().len();
    telegram.end_poll();
    assert!(
        telegram
            .wait_until(SOON, |telegram| telegram.calls().len() > polls)
            .await
    );
    telegram.restart_update_ids(1);
    telegram.say(ALICE, ALICE, "happy new ids").await;
    let next = polling.next().await;
    assert_eq!(words(&next.inbound), "happy new ids");
    next.accepted.send(()).unwrap();
    assert!(
        polling
            .setup
            .telegram
            .wait_until(SOON, |telegram| telegram.updates_waiting() == 0)
            .await
    );
    polling.stop().await;
}

#[tokio::test]
async fn a_second_poller_is_waited_for_and_cancel_ends_the_wait() {
    let polling = Polling::new().await;
    polling.setup.telegram.connect_to("http://127.0.0.1:1/", "s");
    let conflict =
        |telegram: &TelegramEmulator| telegram.calls().iter().any(|(method, _)| method == "getUpdates");
    assert!(polling.setup.telegram.wait_until(SOON, conflict).await);
    assert!(!polling.task.is_finished());
    polling.stop().await;
}

#[tokio::test]
async fn polling_ends_when_nobody_listens() {
    let Polling {
        setup,
        inbox,
        cancel: _cancel,
        task,
    } = Polling::new().await;
    drop(inbox);
    setup.telegram.say(ALICE, ALICE, "anybody?").await;
    tokio::time::timeout(SOON, task).await.unwrap().unwrap();
}

/// A proxy or a self-hosted server may answer before the requested time.
#[tokio::test]
async fn polls_that_are_answered_at_once_are_repeated_once_a_second_and_lose_nothing() {
    let mut polling = Polling::new().await;
    polling.next().await.accepted.send(()).unwrap();
    let telegram = &polling.setup.telegram;
    let polls = |telegram: &TelegramEmulator| {
        let calls = telegram.calls();
        calls.iter().filter(|(method, _)| method == "getUpdates").count()
    };
    let started = std::time::Instant::now();
    telegram.hurry_polls();
    let before = polls(telegram);
    let more = |telegram: &TelegramEmulator| polls(telegram) >= before + 3;
    assert!(telegram.wait_until(SOON, more).await);
    // The first of the three further polls may begin at once.
    assert!(started.elapsed() >= Duration::from_secs(2));
    telegram.say(ALICE, ALICE, "still here").await;
    let next = polling.next().await;
    assert_eq!(words(&next.inbound), "still here");
    next.accepted.send(()).unwrap();
    polling.stop().await;
}
