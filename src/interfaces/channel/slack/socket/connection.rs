//! Opens the sockets of Socket Mode, over the HTTP client and its TLS. A socket leads only to Slack, or to the origin of
//! the configured API. No error contains an address, which holds a ticket, or the token.

use super::frame::{DisconnectReason, SocketFrame, parse_frame};
use crate::base::http_client::socket_client;
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::slack::client::SlackClient;
use crate::interfaces::channel::slack::connector::{RepeatEffect, classified};
use futures_util::StreamExt;
use reqwest::{StatusCode, Upgraded, Url, header};
use slack_morphism::api::SlackApiAppsConnectionOpenRequest;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

/// Time limit from connecting to the first frame.
const OPEN_TIME_MAX: Duration = Duration::from_secs(20);
/// The maximum number of bytes of a frame. A press holds the whole message with its blocks.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;
/// The maximum number of bytes that wait to be written: acknowledgements, pings and pongs.
const UNWRITTEN_BYTES_MAX: usize = 256 << 10;

/// A connection to Slack, open for events.
pub(super) type SlackSocket = WebSocketStream<Upgraded>;

/// Opens sockets for one channel.
pub(in crate::interfaces::channel::slack) struct SocketOpener {
    channel: String,
    /// The client with the app-level token.
    client: SlackClient,
    /// The client for sockets.
    http: reqwest::Client,
}

impl SocketOpener {
    pub(in crate::interfaces::channel::slack) fn new(
        channel: &str,
        http: reqwest::Client,
        base_url: &str,
        app_token: Secret,
    ) -> Result<Self, SendError> {
        Ok(Self {
            channel: channel.to_owned(),
            client: SlackClient::new(http, base_url, app_token),
            http: socket_client().map_err(|error| SendError::Unreachable(error.to_string()))?,
        })
    }

    /// Checks that the token opens sockets. A failure that says nothing about the token is left to [`Self::open`].
    pub(in crate::interfaces::channel::slack) async fn verify(&self) -> Result<(), SendError> {
        match self.address().await {
            Err(error @ (SendError::Unauthorised(_) | SendError::Refused(_))) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Requests an address for a socket. It works once and only for a short time.
    async fn address(&self) -> Result<Url, SendError> {
        let request = SlackApiAppsConnectionOpenRequest::new();
        let opened = self.client.session().apps_connections_open(&request).await;
        let opened = opened.map_err(|error| self.of_token(classified(error, RepeatEffect::Repeatable)))?;
        let mut url = opened.url.0;
        // The HTTP client knows the schemes of sockets by the names of HTTP.
        let scheme = if url.scheme() == "ws" { "http" } else { "https" };
        let is_socket = matches!(url.scheme(), "ws" | "wss") && url.set_scheme(scheme).is_ok();
        let is_ours = |url: &Url| {
            self.client
                .connector()
                .is_slack(url, |host| host.ends_with(".slack.com"))
        };
        if is_socket && is_ours(&url) {
            return Ok(url);
        }
        let why = "the address of the socket does not belong to slack";
        Err(SendError::Refused(why.to_owned()))
    }

    /// Opens a socket and waits until Slack greets.
    pub(super) async fn open(&self) -> Result<SlackSocket, SendError> {
        let url = self.address().await?;
        let greeted = async {
            let mut socket = self.connect(url).await?;
            match socket.next().await {
                Some(Ok(Message::Text(text))) => self.greeted(parse_frame(&text)).map(|()| socket),
                Some(_) | None => Err(failed("slack closed the socket before its first event")),
            }
        };
        let greeted = timeout(OPEN_TIME_MAX, greeted).await;
        greeted.unwrap_or_else(|_| Err(failed("slack did not open the socket in time")))
    }

    async fn connect(&self, url: Url) -> Result<SlackSocket, SendError> {
        let key = generate_key();
        let request = self
            .http
            .get(url)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await;
        let response = response.map_err(|_| failed("the socket cannot be reached"))?;
        let proof = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let is_accepted =
            proof.is_some_and(|proof| proof.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_accepted {
            let status = response.status().as_u16();
            return Err(failed(&format!("slack refused the socket with status {status}")));
        }
        let stream = response.upgrade().await;
        let stream = stream.map_err(|_| failed("the socket was lost while it was opened"))?;
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(socket_config())).await)
    }

    fn greeted(&self, first: SocketFrame) -> Result<(), SendError> {
        match first {
            SocketFrame::Hello => Ok(()),
            SocketFrame::Disconnect(reason) => Err(SendError::Refused(self.described(reason))),
            SocketFrame::Envelope(_) | SocketFrame::Unknown => Err(failed("slack did not greet")),
        }
    }

    /// Describes why Slack closes a socket, with what to do.
    pub(super) fn described(&self, reason: DisconnectReason) -> String {
        match reason {
            DisconnectReason::Refresh => "slack asked for a new socket".to_owned(),
            DisconnectReason::Disabled => {
                "Socket Mode is off; switch it on in the settings of the Slack app".to_owned()
            }
            DisconnectReason::TooMany => format!(
                "ten sockets of the Slack app are open; stop the other programs that use `channels.{}.app_token`",
                self.channel
            ),
            DisconnectReason::Unknown => "slack closes the socket".to_owned(),
        }
    }

    /// Names the key in an error of the token.
    fn of_token(&self, error: SendError) -> SendError {
        match error {
            SendError::Unauthorised(why) | SendError::Refused(why) => SendError::Unauthorised(format!(
                "`channels.{}.app_token`: {why}; it must be an app-level token (xapp-...) with the scope \
                 connections:write, of a Slack app with Socket Mode",
                self.channel
            )),
            error => error,
        }
    }
}

/// Returns the bounds of a socket.
pub(super) fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(8 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(UNWRITTEN_BYTES_MAX)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}

fn failed(why: &str) -> SendError {
    SendError::NotSent {
        why: why.to_owned(),
        retry_after: None,
    }
}
