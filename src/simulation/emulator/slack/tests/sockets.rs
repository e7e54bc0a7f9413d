//! Tests of Socket Mode: the rules of the workspace, and the real channel over its sockets.

use super::*;
use crate::base::model::ButtonStyle;
use crate::base::webhook::SecretPairs;
use crate::interfaces::channel::{NoPollMemory, PolledInbound};
use crate::simulation::emulator::slack::{SlackState, SocketClosing, SocketModeState};
use futures_util::{SinkExt, StreamExt};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

const APP_TOKEN: &str = "xapp-1-A0DRYDOCK-1-abc";
const SOON: Duration = Duration::from_secs(20);

type Socket = WebSocketStream<reqwest::Upgraded>;

async fn workspace_with_sockets() -> SlackEmulator {
    let emulator = workspace().await;
    emulator.turn_socket_mode_on(APP_TOKEN);
    emulator
}

async fn call(emulator: &SlackEmulator, method: &str, token: &str) -> Value {
    let url = format!("{}/{method}", emulator.api_base_url());
    let request = http().post(url).bearer_auth(token).json(&json!({}));
    let mut answer = request.send().await.unwrap();
    serde_json::from_slice(&answer.chunk().await.unwrap().unwrap()).unwrap()
}

/// Requests the address of a socket, as an address of HTTP.
async fn address(emulator: &SlackEmulator) -> String {
    let opened = call(emulator, "apps.connections.open", APP_TOKEN).await;
    assert_eq!(opened["ok"], true, "{opened}");
    opened["url"].as_str().unwrap().replacen("ws", "http", 1)
}

async fn handshake(address: &str) -> reqwest::Response {
    let request = http()
        .get(address)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    request.send().await.unwrap()
}

/// Opens a socket. Returns it with its first frame.
async fn opened(emulator: &SlackEmulator) -> (Socket, Value) {
    let answer = handshake(&address(emulator).await).await;
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    // The example of RFC 6455.
    assert_eq!(
        answer.headers()["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    let mut socket = Socket::from_raw_socket(answer.upgrade().await.unwrap(), Role::Client, None).await;
    let first = frame(&mut socket).await;
    (socket, first)
}

async fn frame(socket: &mut Socket) -> Value {
    match tokio::time::timeout(SOON, socket.next()).await.unwrap() {
        Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn acknowledge(socket: &mut Socket, envelope: &Value) {
    let text = json!({"envelope_id": envelope["envelope_id"]}).to_string();
    socket.send(Message::text(text)).await.unwrap();
}

async fn wait(emulator: &SlackEmulator, look: impl Fn(&SocketModeState) -> bool) {
    let seen = emulator.wait_until(|state| look(&state.socket_mode).then_some(()));
    assert_eq!(seen.await, Some(()));
}

#[tokio::test]
async fn a_socket_takes_an_app_level_token_and_its_address_works_once_and_not_for_long() {
    let emulator = workspace_with_sockets().await;
    for (method, token, code) in [
        ("apps.connections.open", "xoxb-1", "not_allowed_token_type"),
        ("apps.connections.open", "xapp-other", "invalid_auth"),
        ("auth.test", APP_TOKEN, "not_allowed_token_type"),
    ] {
        let refused = call(&emulator, method, token).await;
        assert_eq!(refused, json!({"ok": false, "error": code}), "{method} {token}");
    }
    let url = address(&emulator).await;
    assert_eq!(http().get(&url).send().await.unwrap().status(), 400);
    assert_eq!(handshake(&url).await.status(), 101);
    assert_eq!(handshake(&url).await.status(), 403);
    let url = address(&emulator).await;
    emulator.age_tickets(SignedDuration::from_secs(31));
    assert_eq!(handshake(&url).await.status(), 403);
}

#[tokio::test]
async fn an_eleventh_socket_is_refused_and_one_without_socket_mode_too() {
    let emulator = workspace_with_sockets().await;
    let mut sockets = Vec::new();
    for number in 1..=10_u64 {
        let (socket, hello) = opened(&emulator).await;
        assert_eq!(
            (&hello["type"], &hello["num_connections"]),
            (&json!("hello"), &json!(number))
        );
        wait(&emulator, |mode| mode.opened == number).await;
        sockets.push(socket);
    }
    let (_eleventh, frame) = opened(&emulator).await;
    assert_eq!(
        frame,
        json!({"type": "disconnect", "reason": "too_many_websockets"})
    );
    emulator.turn_socket_mode_off();
    wait(&emulator, |mode| mode.open_sockets() == 0).await;
    let (_refused, frame) = opened(&emulator).await;
    assert_eq!(frame, json!({"type": "disconnect", "reason": "link_disabled"}));
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// R5
#[tokio::test]
async fn an_envelope_goes_to_one_socket_and_to_another_if_it_is_not_acknowledged() {
    let emulator = workspace_with_sockets().await;
    let (mut one, _) = opened(&emulator).await;
    wait(&emulator, |mode| mode.open_sockets() == 1).await;
    let app_side = async {
        let first = frame(&mut one).await;
        assert_eq!(
            (&first["type"], &first["retry_attempt"]),
            (&json!("events_api"), &json!(0))
        );
        let (mut two, _) = opened(&emulator).await;
        wait(&emulator, |mode| mode.open_sockets() == 2).await;
        drop(one);
        let second = frame(&mut two).await;
        assert_eq!(
            (&second["retry_attempt"], &second["retry_reason"]),
            (&json!(1), &json!("timeout"))
        );
        assert_eq!(first["payload"], second["payload"]);
        assert_ne!(first["envelope_id"], second["envelope_id"]);
        acknowledge(&mut two, &second).await;
        two
    };
    let (said, mut two) = tokio::join!(emulator.dm("U0ALICE", "hello"), app_side);
    assert_eq!(said.unwrap().answers.len(), 1);
    acknowledge(&mut two, &json!({"envelope_id": "invented"})).await;
    let problem = |state: &SlackState| state.problems.first().cloned();
    let problem = emulator.wait_until(problem).await.unwrap();
    assert_eq!(problem, "an acknowledgement of an unknown envelope: invented");
    emulator
        .with_state(|state| assert_eq!((state.socket_mode.sent, state.socket_mode.acknowledged()), (2, 1)));
}

struct Receiving {
    emulator: SlackEmulator,
    channel: Arc<dyn Channel>,
    inbox: mpsc::Receiver<PolledInbound>,
    cancel: CancellationToken,
}

impl Receiving {
    async fn new() -> Self {
        let emulator = workspace_with_sockets().await;
        let settings = ChannelSettings::Slack(SlackSettings {
            signing_secret: None,
            app_token: Some(Secret::new(APP_TOKEN.to_owned())),
            ..settings(&emulator.api_base_url())
        });
        let channel = channel::connect("slack", &settings, &server(), &http())
            .await
            .unwrap();
        assert!(
            channel::webhook(
                "slack",
                &settings,
                channel.installation(),
                &SecretPairs::default()
            )
            .is_none()
        );
        let (sender, inbox) = mpsc::channel(8);
        let (polled, cancel) = (Arc::clone(&channel), CancellationToken::new());
        let stop = cancel.clone();
        tokio::spawn(async move { polled.poll(sender, &NoPollMemory, now, stop).await });
        Self {
            emulator,
            channel,
            inbox,
            cancel,
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Returns the next message, and accepts it.
async fn accepted(inbox: &mut mpsc::Receiver<PolledInbound>) -> Inbound {
    let polled = tokio::time::timeout(SOON, inbox.recv()).await.unwrap().unwrap();
    polled.accepted.send(()).unwrap();
    polled.inbound
}

#[tokio::test]
async fn messages_presses_and_commands_arrive_over_a_socket_as_they_do_by_request() {
    let mut receiving = Receiving::new().await;
    let button = ReplyPart::Buttons {
        buttons: vec![Button::new("Stop", "t1", ButtonStyle::Danger)],
    };
    let shown = receiving
        .channel
        .deliver(&post(Reply::text("x").with(button)))
        .await;
    let ts = shown.unwrap().message.unwrap().id;
    let Receiving { emulator, inbox, .. } = &mut receiving;
    let actions = async {
        emulator.dm("U0ALICE", "hello").await.unwrap();
        emulator.slash("U0ALICE", "C0OPS", "status now").await.unwrap();
        emulator.click("U0ALICE", &ts, "Stop").await.unwrap();
    };
    let arriving = async {
        let mut arrived = Vec::new();
        while arrived.len() < 3 {
            let inbound = accepted(inbox).await;
            arrived.push((kind_without_trigger(&inbound), inbound.response_url.is_some()));
        }
        arrived
    };
    let ((), arrived) = tokio::join!(actions, arriving);
    let text = InboundKind::Text {
        text: "hello".to_owned(),
        quoted: None,
        addressed: true,
    };
    let command = InboundKind::Command {
        verb: "status".to_owned(),
        arguments: "now".to_owned(),
    };
    let click = InboundKind::Click {
        token: "t1".to_owned(),
        callback: None,
        trigger: None,
    };
    assert_eq!(arrived, [(text, false), (command, true), (click, false)]);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_next_socket_is_open_before_slack_closes_the_one_it_announced() {
    let mut receiving = Receiving::new().await;
    wait(&receiving.emulator, |mode| mode.opened == 1).await;
    for (round, reason) in ["warning", "refresh_requested"].into_iter().enumerate() {
        receiving.emulator.close_sockets(SocketClosing::Announced(reason));
        wait(&receiving.emulator, |mode| mode.opened == round as u64 + 2).await;
        wait(&receiving.emulator, |mode| mode.open_sockets() == 1).await;
    }
    let Receiving { emulator, inbox, .. } = &mut receiving;
    let (said, inbound) = tokio::join!(emulator.dm("U0ALICE", "still here"), accepted(inbox));
    assert!(matches!(inbound.kind, InboundKind::Text { .. }), "{inbound:?}");
    said.unwrap();
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_socket_that_slack_closes_soon_is_no_connection() {
    let receiving = Receiving::new().await;
    for opened in 1..=3 {
        wait(&receiving.emulator, |mode| {
            mode.opened == opened && mode.open_sockets() == 1
        })
        .await;
        assert_eq!(receiving.channel.disconnected_since(), Some(now()));
        receiving.emulator.close_sockets(SocketClosing::Broken);
    }
}

#[tokio::test]
async fn a_refused_app_token_is_reported_with_its_key_and_without_its_value() {
    let emulator = workspace_with_sockets().await;
    for (token, code) in [
        ("xapp-wrong-token", "invalid_auth"),
        ("xoxb-1", "not_allowed_token_type"),
    ] {
        let settings = ChannelSettings::Slack(SlackSettings {
            app_token: Some(Secret::new(token.to_owned())),
            ..settings(&emulator.api_base_url())
        });
        let error = channel::connect("ops", &settings, &server(), &http())
            .await
            .err()
            .unwrap();
        let expected = format!(
            "the token is refused: `channels.ops.app_token`: {code}; it must be an app-level token (xapp-...) with \
             the scope connections:write, of a Slack app with Socket Mode"
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// A socket leads nowhere but to Slack, or to the configured API, and so does the upload of a file.
#[tokio::test]
async fn an_address_of_another_host_is_not_called() {
    let routes = Router::new().fallback(|request: axum::extract::Request| async move {
        let answer = match request.uri().path() {
            "/api/auth.test" => json!({"ok": true, "url": "https://acme.slack.com/", "team": "Acme",
                "team_id": "T0ACME", "user": "drydock", "user_id": "U0BOT"}),
            "/api/files.getUploadURLExternal" => json!({"ok": true, "file_id": "F1",
                "upload_url": "https://files.slack.com.evil.example/upload/1"}),
            _ => json!({"ok": true, "url": "wss://slack.com.evil.example/link/?ticket=1"}),
        };
        axum::response::Response::new(axum::body::Body::from(answer.to_string()))
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/api", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, Closing::Ordinary, stop.clone(), routes));
    let settings = ChannelSettings::Slack(SlackSettings {
        app_token: Some(Secret::new(APP_TOKEN.to_owned())),
        ..settings(&base)
    });
    let error = channel::connect("ops", &settings, &server(), &http()).await.err();
    let why = "the address of the socket does not belong to slack";
    assert_eq!(error, Some(SendError::Refused(why.to_owned())));
    let webhooks_only = ChannelSettings::Slack(super::settings(&base));
    let channel = channel::connect("ops", &webhooks_only, &server(), &http())
        .await
        .unwrap();
    let file = Action::Upload {
        file_name: "CHG-7.diff".to_owned(),
        content: Bytes::from_static(b"+1"),
        caption: String::new(),
    };
    let why = "the upload address does not belong to slack";
    assert_eq!(
        channel.deliver(&op("C0OPS", None, file)).await,
        Err(SendError::Refused(why.to_owned()))
    );
    stop.cancel();
    serving.await.unwrap();
}
