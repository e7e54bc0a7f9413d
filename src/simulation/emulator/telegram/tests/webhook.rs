//! Tests of Telegram's pushes with the real webhook.

use super::*;
use crate::base::model::{InboundKind, Installation};
use crate::base::webhook::{Received, Rejected, SecretPairs, Webhook};
use crate::interfaces::channel;
use crate::simulation::emulator::server::{Closing, serve};
use axum::Router;
use axum::extract::{Request, State};
use axum::routing::post;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Seen = Arc<std::sync::Mutex<Vec<Result<Received, Rejected>>>>;

async fn receive(State((webhook, seen)): State<(Arc<dyn Webhook>, Seen)>, request: Request) -> StatusCode {
    let (head, body) = request.into_parts();
    let request = http::Request::from_parts(head, body.collect().await.unwrap().to_bytes());
    let received = webhook.receive(&request, jiff::Timestamp::UNIX_EPOCH);
    let status = match received {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::UNAUTHORIZED,
    };
    seen.lock().unwrap().push(received);
    status
}

async fn listening(webhook: Arc<dyn Webhook>) -> (String, Seen) {
    let seen = Seen::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/in/telegram", post(receive))
        .with_state((webhook, Arc::clone(&seen)));
    tokio::spawn(serve(
        listener,
        Closing::Ordinary,
        CancellationToken::new(),
        routes,
    ));
    (format!("http://{address}/in/telegram"), seen)
}

/// T05, T06, T19
#[tokio::test]
async fn what_people_do_arrives_and_what_they_forward_or_edit_does_not() {
    let telegram = TelegramEmulator::start(TOKEN, client()).await.unwrap();
    let settings = settings(&telegram.api_base_url(), TelegramMode::Webhook);
    let installation = Installation {
        account: place(1, None).account,
        bot_id: "42".to_owned(),
        bot_name: "drydock_bot".to_owned(),
    };
    let webhook = channel::webhook("telegram", &settings, &installation, &SecretPairs::default()).unwrap();
    let (url, seen) = listening(webhook).await;
    telegram.connect_to(&url, "s3cret");
    let said = telegram
        .say_in_topic(ALICE, GROUP, 55, "@drydock_bot scale web")
        .await;
    assert_eq!(said.status, Some(200));
    telegram.forward(ALICE, ALICE, 666, "/grant admin 666").await;
    telegram
        .edit(ALICE, GROUP, said.message, "@drydock_bot delete prod")
        .await;
    telegram.connect_to(&url, "wrong");
    assert_eq!(telegram.say(ALICE, ALICE, "hi").await.status, Some(401));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let Ok(Received::Inbound(inbound)) = &seen[0] else {
        panic!("{seen:?}")
    };
    assert_eq!(inbound.place, place(GROUP, Some("55")));
    let text = "scale web".to_owned();
    assert_eq!(
        inbound.kind,
        InboundKind::Text {
            text,
            quoted: None,
            addressed: true
        }
    );
    assert_eq!(
        seen[1..],
        [
            Ok(Received::Ignored("forwarded message")),
            Ok(Received::Ignored("edited message")),
            Err(Rejected::Unauthenticated("wrong secret token")),
        ]
    );
}
