//! Tests of users' events with the real webhook.

use super::*;
use crate::base::webhook::SecretPairs;

#[derive(Clone)]
pub(super) struct TestGateway {
    webhook: Arc<dyn Webhook>,
    pub(super) received: Arc<Mutex<Vec<Inbound>>>,
}

async fn receive(
    State(gateway): State<TestGateway>,
    request: axum::extract::Request,
) -> (StatusCode, String) {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, body.collect().await.unwrap().to_bytes());
    match gateway.webhook.receive(&request, now()) {
        Ok(Received::Inbound(inbound)) => {
            gateway.received.lock().unwrap().push(*inbound);
            (StatusCode::OK, String::new())
        }
        Ok(Received::Ignored(reason)) => (StatusCode::OK, reason.to_owned()),
        Ok(Received::Answer(text)) => (StatusCode::OK, text),
        Err(Rejected::Unauthenticated(_) | Rejected::Stale { .. }) => {
            (StatusCode::UNAUTHORIZED, String::new())
        }
        Err(Rejected::Malformed(_)) => (StatusCode::BAD_REQUEST, String::new()),
        Err(Rejected::Unsupported(_)) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, String::new()),
    }
}

pub(super) async fn gateway(emulator: &SlackEmulator, channel: &Arc<dyn Channel>) -> TestGateway {
    let settings = ChannelSettings::Slack(settings(&emulator.api_base_url()));
    let gateway = TestGateway {
        webhook: channel::webhook(
            "slack",
            &settings,
            channel.installation(),
            &SecretPairs::default(),
        )
        .unwrap(),
        received: Arc::default(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    emulator.connect_to(&format!("http://{}/in/slack", listener.local_addr().unwrap()));
    let routes = Router::new()
        .route("/in/slack", routing::post(receive))
        .with_state(gateway.clone());
    tokio::spawn(serve(
        listener,
        Closing::Ordinary,
        CancellationToken::new(),
        routes,
    ));
    gateway
}

pub(super) fn ok() -> GatewayResponse {
    GatewayResponse {
        status: 200,
        body: String::new(),
    }
}

#[tokio::test]
async fn what_people_do_reaches_the_gateway_signed() {
    let emulator = workspace().await;
    emulator.add_user_of("U0EVE", "T0EVIL");
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let said = emulator
        .say("U0ALICE", "C0OPS", "@drydock scale <web> & @here")
        .await
        .unwrap();
    assert_eq!(said.answers, vec![ok(), ok()]);
    emulator.send_first(EventOrder::MessageFirst);
    emulator
        .reply_in_thread("U0EVE", "C0OPS", &said.ts, "me too")
        .await
        .unwrap();
    emulator.dm("U0ALICE", "hello").await.unwrap();
    emulator.slash("U0ALICE", "C0OPS", "status").await.unwrap();
    let reply = Reply {
        parts: vec![
            ReplyPart::Text { text: "x".to_owned() },
            ReplyPart::Buttons {
                buttons: vec![button("Stop")],
            },
        ],
    };
    let action = Action::Post {
        reply,
        reply_to: None,
        placeholder: false,
    };
    let ts = channel
        .deliver(&op("C0OPS", Some(&said.ts), action))
        .await
        .unwrap()
        .message
        .unwrap()
        .id;
    assert_eq!(emulator.click("U0ALICE", &ts, "Stop").await, Ok(ok()));

    let received = gateway.received.lock().unwrap().clone();
    let text = |text: &str, addressed| InboundKind::Text {
        text: text.to_owned(),
        quoted: None,
        addressed,
    };
    let kinds: Vec<InboundKind> = received.iter().map(kind_without_trigger).collect();
    assert_eq!(
        kinds,
        vec![
            text("scale <web> & @here", true),
            text("scale <web> & @here", true),
            text("me too", false),
            text("hello", true),
            InboundKind::Command {
                verb: "status".to_owned(),
                arguments: String::new()
            },
            InboundKind::Click {
                token: "tok".to_owned(),
                callback: None,
                trigger: None,
            },
        ]
    );
    assert_eq!(received[0].delivery[1..], received[1].delivery[1..]);
    assert_eq!(received[2].sender.to_string(), "slack:T0EVIL:U0EVE");
    assert_eq!(received[5].place.thread.as_deref(), Some(said.ts.as_str()));
    assert!(received[3].direct);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_request_with_a_wrong_signature_gets_401_and_is_not_received() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let body = json!({"type": "url_verification", "challenge": "abc"}).to_string();
    let headers = emulator.signed_headers("application/json", body.as_bytes());
    let answer = emulator.send(body.clone(), headers.clone()).await.unwrap();
    assert_eq!(
        answer,
        GatewayResponse {
            status: 200,
            body: "abc".to_owned()
        }
    );
    let answer = emulator.send(format!("{body} "), headers).await.unwrap();
    assert_eq!(answer.status, 401);
    assert_eq!(gateway.received.lock().unwrap().len(), 0);
}
