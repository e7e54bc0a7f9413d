//! Opens the sockets of Socket Mode, over the HTTP client and its TLS. A socket leads only to Slack, or to the origin of
//! the configured API. No error contains an address, which holds a ticket, or the token.

use super::frame::{DisconnectReason, SocketFrame, parse_frame};
use crate::base::http_client::socket_client;
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::slack::client::SlackClient;
use crate::interfaces::channel::slack::connector::{RepeatEffect, classified, is_slack_host};
use crate::interfaces::channel::web_socket::{ChannelSocket, open_socket, socket_config, socket_failed};
use futures_util::StreamExt;
use reqwest::Url;
use slack_morphism::api::SlackApiAppsConnectionOpenRequest;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::protocol::Message;

/// Time limit from connecting to the first frame.
const OPEN_TIME_MAX: Duration = Duration::from_secs(20);
/// The longest time for which an address is kept. Slack accepts it for a short time only.
const ADDRESS_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum number of bytes of a frame. A press holds the whole message with its blocks.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;

/// A connection to Slack, open for events.
pub(super) type SlackSocket = ChannelSocket;

/// Opens sockets for one channel.
pub(in crate::interfaces::channel::slack) struct SocketOpener {
    channel: String,
    /// The client with the app-level token.
    client: SlackClient,
    /// The client for sockets.
    http: reqwest::Client,
    /// The address that the check of the token returned, for the first socket.
    first: Mutex<Option<(Url, Instant)>>,
}

impl SocketOpener {
    /// Creates an opener whose token is checked. A failure that says nothing about the token is left to [`Self::open`].
    pub(in crate::interfaces::channel::slack) async fn verified(
        channel: &str,
        http: reqwest::Client,
        base_url: &str,
        app_token: Secret,
    ) -> Result<Self, SendError> {
        let opener = Self {
            channel: channel.to_owned(),
            client: SlackClient::new(http, base_url, app_token),
            http: socket_client().map_err(|error| SendError::Unreachable(error.to_string()))?,
            first: Mutex::default(),
        };
        let first = match opener.address().await {
            Err(error @ (SendError::Unauthorised(_) | SendError::Refused(_))) => return Err(error),
            address => address.ok().map(|url| (url, Instant::now())),
        };
        Ok(Self {
            first: Mutex::new(first),
            ..opener
        })
    }

    /// Requests an address for a socket. It works once and only for a short time.
    async fn address(&self) -> Result<Url, SendError> {
        let request = SlackApiAppsConnectionOpenRequest::new();
        let opened = self.client.session().apps_connections_open(&request).await;
        let opened = opened.map_err(|error| self.of_token(classified(error, RepeatEffect::Repeatable)))?;
        let url = opened.url.0;
        // Origins are compared by the names of HTTP.
        let mut origin = url.clone();
        let scheme = if url.scheme() == "ws" { "http" } else { "https" };
        let is_socket = matches!(url.scheme(), "ws" | "wss") && origin.set_scheme(scheme).is_ok();
        if is_socket && self.client.connector().is_slack(&origin, is_slack_host) {
            return Ok(url);
        }
        let why = "the address of the socket does not belong to slack";
        Err(SendError::Refused(why.to_owned()))
    }

    /// Opens a socket and waits until Slack greets.
    pub(super) async fn open(&self) -> Result<SlackSocket, SendError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let url = match first.filter(|(_, asked_at)| asked_at.elapsed() < ADDRESS_TIME_MAX) {
            Some((url, _)) => url,
            None => self.address().await?,
        };
        let greeted = async {
            let mut socket = open_socket(&self.http, url, socket_config(FRAME_BYTES_MAX), "slack").await?;
            match socket.next().await {
                Some(Ok(Message::Text(text))) => self.greeted(parse_frame(&text)).map(|()| socket),
                Some(_) | None => Err(socket_failed("slack closed the socket before its first event")),
            }
        };
        let greeted = timeout(OPEN_TIME_MAX, greeted).await;
        greeted.unwrap_or_else(|_| Err(socket_failed("slack did not open the socket in time")))
    }

    fn greeted(&self, first: SocketFrame) -> Result<(), SendError> {
        match first {
            SocketFrame::Hello => Ok(()),
            SocketFrame::Disconnect(reason) => Err(SendError::Refused(self.described(reason))),
            SocketFrame::Envelope(_) | SocketFrame::Unknown => Err(socket_failed("slack did not greet")),
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
