//! The server side of the handshake of WebSockets, for the emulators that have them.

use super::answer::answer;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A WebSocket of a client.
pub(super) type EmulatorSocket = WebSocketStream<TokioIo<Upgraded>>;

/// Returns the key of a handshake; `None` if the request is none.
pub(super) fn handshake_key(headers: &HeaderMap) -> Option<String> {
    let is = |name: header::HeaderName, expected: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.eq_ignore_ascii_case(expected))
    };
    let is_handshake = is(header::UPGRADE, "websocket")
        && is(header::CONNECTION, "upgrade")
        && is(header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    is_handshake.then(|| key.to_owned())
}

/// Returns the answer to a handshake with this key.
pub(super) fn switching_answer(key: &str) -> Response {
    let mut response = answer(101, axum::body::Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Returns the socket of an answered handshake; `None` if the connection was lost.
pub(super) async fn upgraded_socket(upgrade: OnUpgrade) -> Option<EmulatorSocket> {
    let upgraded = TokioIo::new(upgrade.await.ok()?);
    Some(EmulatorSocket::from_raw_socket(upgraded, Role::Server, None).await)
}
