//! Opens the WebSockets of channels, over the HTTP client and its TLS. No error contains an address, which may hold a
//! ticket.

use crate::interfaces::channel::SendError;
use reqwest::{StatusCode, Upgraded, Url, header};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// The maximum number of bytes that wait to be written: acknowledgements, heartbeats, pings and pongs.
const UNWRITTEN_BYTES_MAX: usize = 256 << 10;

/// An open WebSocket.
pub(super) type ChannelSocket = WebSocketStream<Upgraded>;

/// Opens a socket at an address with the scheme `ws` or `wss`. `platform` names the other side in errors.
pub(super) async fn open_socket(
    http: &reqwest::Client,
    mut url: Url,
    config: WebSocketConfig,
    platform: &str,
) -> Result<ChannelSocket, SendError> {
    // The HTTP client knows the schemes of sockets by the names of HTTP.
    let scheme = if url.scheme() == "ws" { "http" } else { "https" };
    if !matches!(url.scheme(), "ws" | "wss") || url.set_scheme(scheme).is_err() {
        return Err(SendError::Refused(format!(
            "{platform} named no address of a socket"
        )));
    }
    let key = generate_key();
    let request = http
        .get(url)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    let response = request.send().await;
    let response = response.map_err(|_| socket_failed("the socket cannot be reached"))?;
    let proof = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    let is_accepted =
        proof.is_some_and(|proof| proof.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_accepted {
        let status = response.status().as_u16();
        return Err(socket_failed(&format!(
            "{platform} refused the socket with status {status}"
        )));
    }
    let stream = response.upgrade().await;
    let stream = stream.map_err(|_| socket_failed("the socket was lost while it was opened"))?;
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await)
}

/// Returns the bounds of a socket whose frames have at most this number of bytes.
pub(super) fn socket_config(frame_bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(8 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(UNWRITTEN_BYTES_MAX)
        .max_message_size(Some(frame_bytes_max))
        .max_frame_size(Some(frame_bytes_max))
}

/// Returns the error of a socket that was not opened.
pub(super) fn socket_failed(why: &str) -> SendError {
    SendError::NotSent {
        why: why.to_owned(),
        retry_after: None,
    }
}
