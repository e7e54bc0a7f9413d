//! One open socket: reads envelopes, passes them on in order, and acknowledges each only after the gateway has accepted
//! it. Slack delivers an envelope again that is not acknowledged within seconds.

use super::envelope::EnvelopeDecoder;
use super::frame::{DisconnectReason, Envelope, SocketFrame, parse_frame};
use crate::interfaces::channel::PolledInbound;
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;

/// The time between two pings.
const PING_EVERY: Duration = Duration::from_secs(10);
/// The time without any frame, answers to pings included, after which a socket counts as lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time limit of writing one frame.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// The time for which a replaced socket stays open, unless Slack closes it earlier. Slack announces a close ten
/// seconds ahead.
pub(super) const LINGER_MAX: Duration = Duration::from_secs(12);
/// The number of envelopes that may wait for the store.
const UNACCEPTED_MAX: usize = 64;

/// A change of a socket that concerns others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEvent {
    /// Slack asks for another socket, and will close this one.
    RefreshWanted,
    /// The socket is closed.
    Ended(SessionEnd),
}

/// The reason for which a socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// Slack closed it.
    Closed,
    /// Slack announced the close.
    Announced(DisconnectReason),
    /// The connection broke, or a frame was not written in time.
    Lost,
    /// No frame arrived for too long.
    Silent,
    /// A frame was too long.
    TooLong,
    /// Another socket has replaced it.
    Replaced,
    /// The receiver of the messages is gone.
    Stopped,
}

/// The id of an envelope, and the answer of the gateway: true if it is accepted.
type Accepting = Pin<Box<dyn Future<Output = (String, bool)> + Send>>;

/// An open socket.
pub(super) struct Session<'a, S> {
    pub(super) number: u64,
    socket: WebSocketStream<S>,
    decoder: &'a EnvelopeDecoder,
    inbox: &'a mpsc::Sender<PolledInbound>,
    /// A message that waits for room in the inbox. Until then nothing is read, so that messages keep their order.
    waiting: Option<PolledInbound>,
    accepting: FuturesUnordered<Accepting>,
    /// Cancelled when another socket is open.
    replaced: CancellationToken,
    closes_at: Option<Instant>,
    began: Instant,
    heard_at: Instant,
    pinged_at: Instant,
    acknowledged: u64,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin + Send> Session<'a, S> {
    pub(super) fn new(
        number: u64,
        socket: WebSocketStream<S>,
        decoder: &'a EnvelopeDecoder,
        inbox: &'a mpsc::Sender<PolledInbound>,
        replaced: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            number,
            socket,
            decoder,
            inbox,
            waiting: None,
            accepting: FuturesUnordered::new(),
            replaced,
            closes_at: None,
            began: now,
            heard_at: now,
            pinged_at: now,
            acknowledged: 0,
        }
    }

    /// Returns true if the socket was of use: it lived for a while, or an envelope was acknowledged over it.
    pub(super) fn was_useful(&self) -> bool {
        self.acknowledged > 0 || self.began.elapsed() >= SILENCE_MAX
    }

    /// Runs until something happens that concerns other sockets.
    pub(super) async fn next(&mut self) -> SessionEvent {
        loop {
            match self.step().await {
                Ok(None) => {}
                Ok(Some(event)) => return event,
                Err(end) => return SessionEvent::Ended(end),
            }
        }
    }

    async fn step(&mut self) -> Result<Option<SessionEvent>, SessionEnd> {
        let reads = self.waiting.is_none() && self.accepting.len() < UNACCEPTED_MAX;
        let closes_at = self.closes_at.unwrap_or(self.began);
        tokio::select! {
            room = self.inbox.reserve(), if self.waiting.is_some() => {
                let room = room.map_err(|_| SessionEnd::Stopped)?;
                if let Some(polled) = self.waiting.take() {
                    room.send(polled);
                }
                self.heard_at = Instant::now();
            }
            Some((id, is_accepted)) = self.accepting.next(), if !self.accepting.is_empty() => {
                self.heard_at = Instant::now();
                match is_accepted {
                    true => self.acknowledge(id).await?,
                    false => self.decoder.report_unaccepted(),
                }
            }
            message = self.socket.next(), if reads => {
                self.heard_at = Instant::now();
                return self.take(message).await;
            }
            () = sleep_until(self.heard_at + SILENCE_MAX), if reads => return Err(SessionEnd::Silent),
            () = sleep_until(self.pinged_at + PING_EVERY) => {
                self.pinged_at = Instant::now();
                self.write(Message::Ping(Bytes::new())).await?;
            }
            () = self.replaced.cancelled(), if self.closes_at.is_none() => {
                self.closes_at = Some(Instant::now() + LINGER_MAX);
            }
            () = sleep_until(closes_at), if self.closes_at.is_some() => {
                let _closing = self.write(Message::Close(None)).await;
                return Err(SessionEnd::Replaced);
            }
        }
        Ok(None)
    }

    async fn take(
        &mut self,
        message: Option<Result<Message, Error>>,
    ) -> Result<Option<SessionEvent>, SessionEnd> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // Pings are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {
                return Ok(None);
            }
            Some(Ok(Message::Close(_))) | None => return Err(SessionEnd::Closed),
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                return Err(SessionEnd::TooLong);
            }
            Some(Err(_)) => return Err(SessionEnd::Lost),
        };
        match parse_frame(&text) {
            SocketFrame::Envelope(envelope) => self.receive(envelope).await?,
            SocketFrame::Disconnect(DisconnectReason::Refresh) => {
                return Ok(Some(SessionEvent::RefreshWanted));
            }
            SocketFrame::Disconnect(reason) => return Err(SessionEnd::Announced(reason)),
            SocketFrame::Hello | SocketFrame::Unknown => {}
        }
        Ok(None)
    }

    async fn receive(&mut self, envelope: Envelope) -> Result<(), SessionEnd> {
        let Some(inbound) = self.decoder.decode(&envelope) else {
            return self.acknowledge(envelope.id).await;
        };
        let (accepted, answer) = oneshot::channel();
        self.waiting = Some(PolledInbound { inbound, accepted });
        let id = envelope.id;
        self.accepting
            .push(Box::pin(async move { (id, answer.await.is_ok()) }));
        Ok(())
    }

    async fn acknowledge(&mut self, id: String) -> Result<(), SessionEnd> {
        let acknowledgement = json!({"envelope_id": id}).to_string();
        self.write(Message::text(acknowledgement)).await?;
        self.acknowledged += 1;
        Ok(())
    }

    async fn write(&mut self, message: Message) -> Result<(), SessionEnd> {
        match timeout(WRITE_TIME_MAX, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(SessionEnd::Lost),
        }
    }
}
