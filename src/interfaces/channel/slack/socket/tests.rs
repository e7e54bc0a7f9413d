//! Tests of one socket with a pipe in place of a connection, and a paused clock.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::connection::FRAME_BYTES_MAX;
use super::envelope::EnvelopeDecoder;
use super::frame::DisconnectReason;
use super::session::{LINGER_MAX, SILENCE_MAX, Session, SessionEnd, SessionEvent};
use super::wait_after;
use crate::base::model::{Account, InboundKind, Installation, Platform};
use crate::interfaces::channel::backoff::Backoff;
use crate::interfaces::channel::slack::webhook::SlackInstallation;
use crate::interfaces::channel::web_socket::socket_config;
use crate::interfaces::channel::{PolledInbound, SendError};
use futures_util::{SinkExt, StreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};
use tokio_util::sync::CancellationToken;

type Pipe = WebSocketStream<DuplexStream>;

fn now() -> Timestamp {
    Timestamp::from_millisecond(1_795_293_600_500).unwrap()
}

fn decoder() -> EnvelopeDecoder {
    let installation = Installation {
        account: Account {
            platform: Platform::Slack,
            id: "T0ACME".to_owned(),
        },
        bot_id: "UBOT".to_owned(),
        bot_name: "drydock".to_owned(),
    };
    EnvelopeDecoder {
        installed: SlackInstallation::new("ops", &installation, &[]),
        now,
    }
}

/// Returns both ends of a connection: ours and that of Slack.
async fn pipe() -> (Pipe, Pipe) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    (
        Pipe::from_raw_socket(ours, Role::Client, Some(socket_config(FRAME_BYTES_MAX))).await,
        Pipe::from_raw_socket(theirs, Role::Server, None).await,
    )
}

fn message(number: u32) -> Value {
    json!({"type": "events_api", "envelope_id": format!("e-{number}"), "payload": {
        "type": "event_callback", "team_id": "T0ACME", "event_id": format!("Ev{number}"),
        "event": {"type": "message", "channel_type": "im", "user": "UALICE", "team": "T0ACME", "channel": "D1",
            "ts": format!("1795293800.00000{number}"), "text": format!("say {number}")}}})
}

async fn send(slack: &mut Pipe, frame: &Value) {
    slack.send(Message::text(frame.to_string())).await.unwrap();
}

/// Returns the id of the next acknowledged envelope.
async fn acknowledged(slack: &mut Pipe) -> String {
    loop {
        if let Message::Text(text) = slack.next().await.unwrap().unwrap() {
            let frame: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(frame.as_object().unwrap().len(), 1, "{frame}");
            return frame["envelope_id"].as_str().unwrap().to_owned();
        }
    }
}

fn words(polled: &PolledInbound) -> &str {
    match &polled.inbound.kind {
        InboundKind::Text { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

/// R5
#[tokio::test(start_paused = true)]
async fn an_envelope_is_acknowledged_only_when_it_is_accepted_or_has_nothing_to_accept() {
    let (ours, mut slack) = pipe().await;
    let (decoder, (inbox, mut polled)) = (decoder(), mpsc::channel(1));
    let mut session = Session::new(1, ours, &decoder, &inbox, CancellationToken::new());
    let slack_side = async {
        for number in 1..=3 {
            send(&mut slack, &message(number)).await;
        }
        let (one, two, three) = (
            polled.recv().await.unwrap(),
            polled.recv().await.unwrap(),
            polled.recv().await.unwrap(),
        );
        assert_eq!(
            [words(&one), words(&two), words(&three)],
            ["say 1", "say 2", "say 3"]
        );
        assert!(
            timeout(Duration::from_secs(5), acknowledged(&mut slack))
                .await
                .is_err()
        );
        three.accepted.send(()).unwrap();
        assert_eq!(acknowledged(&mut slack).await, "e-3");
        drop(two.accepted);
        assert!(
            timeout(Duration::from_secs(5), acknowledged(&mut slack))
                .await
                .is_err()
        );
        one.accepted.send(()).unwrap();
        assert_eq!(acknowledged(&mut slack).await, "e-1");
        for frame in [
            json!({"type": "events_api", "envelope_id": "bad", "payload": 5}),
            json!({"type": "invented", "envelope_id": "new"}),
        ] {
            send(&mut slack, &frame).await;
            assert_eq!(frame["envelope_id"], acknowledged(&mut slack).await);
        }
        send(
            &mut slack,
            &json!({"type": "disconnect", "reason": "link_disabled"}),
        )
        .await;
    };
    let (event, ()) = tokio::join!(session.next(), slack_side);
    let end = SessionEnd::Announced(DisconnectReason::Disabled);
    assert_eq!(event, SessionEvent::Ended(end));
}

#[tokio::test(start_paused = true)]
async fn a_silent_socket_is_given_up_and_one_that_answers_pings_is_not() {
    let (ours, _silent) = pipe().await;
    let (decoder, (inbox, _polled)) = (decoder(), mpsc::channel(1));
    let began = Instant::now();
    let mut session = Session::new(1, ours, &decoder, &inbox, CancellationToken::new());
    assert_eq!(session.next().await, SessionEvent::Ended(SessionEnd::Silent));
    assert_eq!(began.elapsed().as_secs(), SILENCE_MAX.as_secs());

    let (ours, mut slack) = pipe().await;
    let mut session = Session::new(1, ours, &decoder, &inbox, CancellationToken::new());
    let answering = async { while slack.next().await.is_some() {} };
    let hour = Duration::from_secs(3_600);
    let open = timeout(hour, async { tokio::join!(session.next(), answering) }).await;
    assert!(open.is_err(), "the socket stays open");
}

#[tokio::test(start_paused = true)]
async fn a_frame_has_a_bound() {
    let (ours, mut slack) = pipe().await;
    let (decoder, (inbox, _polled)) = (decoder(), mpsc::channel(1));
    let mut session = Session::new(1, ours, &decoder, &inbox, CancellationToken::new());
    let long = Message::text("x".repeat(FRAME_BYTES_MAX + 1));
    let (event, _lost) = tokio::join!(session.next(), async {
        timeout(Duration::from_secs(1), slack.send(long)).await
    });
    assert_eq!(event, SessionEvent::Ended(SessionEnd::TooLong));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_socket_is_read_until_slack_has_had_time_to_close_it() {
    let (ours, mut slack) = pipe().await;
    let (decoder, (inbox, mut polled)) = (decoder(), mpsc::channel(1));
    let replaced = CancellationToken::new();
    let mut session = Session::new(1, ours, &decoder, &inbox, replaced.clone());
    send(&mut slack, &json!({"type": "disconnect", "reason": "warning"})).await;
    assert_eq!(session.next().await, SessionEvent::RefreshWanted);
    let began = Instant::now();
    replaced.cancel();
    let slack_side = async {
        tokio::time::sleep(LINGER_MAX / 2).await;
        send(&mut slack, &message(1)).await;
        polled.recv().await.unwrap().accepted.send(()).unwrap();
        assert_eq!(acknowledged(&mut slack).await, "e-1");
        while slack.next().await.is_some() {}
    };
    let (event, ()) = tokio::join!(
        async {
            let event = session.next().await;
            drop(session);
            event
        },
        slack_side
    );
    assert_eq!(event, SessionEvent::Ended(SessionEnd::Replaced));
    assert_eq!(began.elapsed().as_secs(), LINGER_MAX.as_secs());
}

#[test]
fn attempts_become_rarer_until_a_socket_is_of_use() {
    let mut backoff = Backoff::new(now);
    let lost = SendError::Unreachable("x".to_owned());
    let seconds: Vec<f32> = (0..8).map(|_| backoff.after(&lost).as_secs_f32()).collect();
    assert_eq!(seconds, [1.125, 2.25, 4.5, 9.0, 18.0, 36.0, 67.5, 67.5]);
    let end = SessionEnd::Closed;
    assert_eq!(wait_after(&mut backoff, end).as_secs_f32(), 67.5);
    backoff.reset();
    assert_eq!(wait_after(&mut backoff, end), Duration::ZERO);
    assert_eq!(wait_after(&mut backoff, end).as_secs_f32(), 2.25);
    backoff.reset();
    let off = SessionEnd::Announced(DisconnectReason::Disabled);
    assert_eq!(wait_after(&mut backoff, off).as_secs_f32(), 1.125);
    let asked = SendError::Limited {
        why: "ratelimited".to_owned(),
        retry_after: Some(Duration::from_secs(300)),
    };
    assert_eq!(backoff.after(&asked).as_secs(), 300);
}
