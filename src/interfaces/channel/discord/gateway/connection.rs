//! One connection to the gateway: identifies or resumes, keeps the heartbeat, and passes events on in order.

use super::Responses;
use super::events::{EventContent, EventDecoder, InteractionAddress};
use super::session::GatewaySession;
use crate::interfaces::channel::web_socket::ChannelSocket;
use crate::interfaces::channel::{PolledInbound, SendError};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::error::Error;
use tokio_tungstenite::tungstenite::protocol::Message;
use twilight_model::gateway::payload::outgoing::identify::{IdentifyInfo, IdentifyProperties};
use twilight_model::gateway::payload::outgoing::{Heartbeat, Identify, Resume};
use twilight_model::gateway::{Capabilities, CloseCode, Intents};

/// Time limit of writing one frame.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// The time within which Discord must greet.
const HELLO_TIME_MAX: Duration = Duration::from_secs(20);
/// The bounds of the interval of heartbeats; Discord's is 41 s.
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);
const HEARTBEAT_MAX: Duration = Duration::from_secs(120);
/// The number of events that may wait for the store, and of messages whose places may wait for Discord.
const UNACCEPTED_MAX: usize = 64;
/// The number of events that may wait behind one that is not accepted.
const OPEN_EVENTS_MAX: usize = 4_096;
/// The number of responses to interactions that may be under way.
const RESPONSES_MAX: usize = 64;
/// The number of members above which Discord leaves some out of an event that Drydock does not request.
const LARGE_THRESHOLD: u64 = 50;

/// The reason for which a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// Discord refuses every connection with this close code.
    Refused(u16),
    /// Discord closed it with this code, or with 0 for none.
    Closed(u16),
    /// Discord asks for another connection.
    Reconnect,
    /// The session has ended.
    InvalidSession,
    /// The connection broke, or a frame was not written in time.
    Lost,
    /// A heartbeat was not answered.
    Silent,
    /// An event was not stored.
    Unaccepted,
    /// A frame was too long, or was none of the gateway.
    Unreadable,
    /// The receiver of the messages is gone.
    Stopped,
}

impl ConnectionEnd {
    /// Returns true if the session can be resumed.
    pub(super) fn keeps_session(self) -> bool {
        match self {
            Self::Refused(_) | Self::InvalidSession => false,
            Self::Closed(code) => !matches!(
                CloseCode::try_from(code),
                Ok(CloseCode::NotAuthenticated | CloseCode::InvalidSequence | CloseCode::SessionTimedOut)
            ),
            Self::Reconnect
            | Self::Lost
            | Self::Silent
            | Self::Unaccepted
            | Self::Unreadable
            | Self::Stopped => true,
        }
    }
}

/// An event that the gateway of Drydock decides on: its sequence number, the interaction to respond to, and true if it is
/// accepted.
type Accepting = Pin<Box<dyn Future<Output = (u64, Option<InteractionAddress>, bool)> + Send>>;

/// The content of an event, and its sequence number.
type Decoding<'a> = BoxFuture<'a, (u64, Result<EventContent, SendError>)>;

/// An open connection.
pub(super) struct Connection<'a> {
    socket: ChannelSocket,
    decoder: &'a EventDecoder<'a>,
    inbox: &'a mpsc::Sender<PolledInbound>,
    now: fn() -> Timestamp,
    session: Option<GatewaySession>,
    /// A message that waits for room in the inbox. Until then nothing is read, so that messages keep their order.
    waiting: Option<PolledInbound>,
    accepting: FuturesUnordered<Accepting>,
    /// The message whose place Discord is asked for. Others wait for it in their order; interactions do not.
    decoding: Option<Decoding<'a>>,
    undecoded: VecDeque<(u64, Value)>,
    /// `None` until Discord has greeted.
    heartbeat: Option<HeartbeatState>,
    began: Instant,
    has_session: bool,
}

struct HeartbeatState {
    interval: Duration,
    due: Instant,
    is_answered: bool,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        socket: ChannelSocket,
        decoder: &'a EventDecoder<'a>,
        inbox: &'a mpsc::Sender<PolledInbound>,
        now: fn() -> Timestamp,
        session: Option<GatewaySession>,
    ) -> Self {
        Self {
            socket,
            decoder,
            inbox,
            now,
            session,
            waiting: None,
            accepting: FuturesUnordered::new(),
            decoding: None,
            undecoded: VecDeque::new(),
            heartbeat: None,
            began: Instant::now(),
            has_session: false,
        }
    }

    /// Returns true if Discord sent events over the connection.
    pub(super) fn was_useful(&self) -> bool {
        self.has_session
    }

    pub(super) fn into_session(self) -> Option<GatewaySession> {
        let mut session = self.session?;
        session.progress.rewind();
        Some(session)
    }

    /// Runs until the connection ends.
    pub(super) async fn run(&mut self, responses: &mut Responses<'a>) -> ConnectionEnd {
        loop {
            if let Err(end) = self.step(responses).await {
                return end;
            }
        }
    }

    async fn step(&mut self, responses: &mut Responses<'a>) -> Result<(), ConnectionEnd> {
        let reads = self.has_room(responses);
        let passes_on = self.waiting.is_none() && self.accepting.len() < UNACCEPTED_MAX;
        let due = match &self.heartbeat {
            Some(heartbeat) => heartbeat.due,
            None => self.began + HELLO_TIME_MAX,
        };
        tokio::select! {
            room = self.inbox.reserve(), if self.waiting.is_some() => {
                let room = room.map_err(|_| ConnectionEnd::Stopped)?;
                if let Some(polled) = self.waiting.take() {
                    room.send(polled);
                }
            }
            Some((sequence, interaction, is_accepted)) = self.accepting.next(), if !self.accepting.is_empty() => {
                if !is_accepted {
                    return Err(ConnectionEnd::Unaccepted);
                }
                self.accept(sequence);
                responses.extend(interaction.map(|address| self.decoder.respond(address)));
            }
            Some(()) = responses.next(), if !responses.is_empty() => {}
            (sequence, content) = decoded(&mut self.decoding), if passes_on && self.decoding.is_some() => {
                self.decode_next();
                return self.pass_on(sequence, content, responses);
            }
            message = self.socket.next(), if reads => return self.take(message, responses).await,
            () = sleep_until(due) => return self.beat().await,
        }
        Ok(())
    }

    /// Returns true if another frame can be read without exceeding a bound.
    fn has_room(&self, responses: &Responses<'a>) -> bool {
        let open = self.session.as_ref().map_or(0, |session| session.progress.open());
        self.waiting.is_none()
            && self.accepting.len() < UNACCEPTED_MAX
            && self.undecoded.len() < UNACCEPTED_MAX
            && open < OPEN_EVENTS_MAX
            && responses.len() < RESPONSES_MAX
    }

    /// Begins to decode the message that waits longest.
    fn decode_next(&mut self) {
        let decoder = self.decoder;
        self.decoding = self
            .undecoded
            .pop_front()
            .map(|(sequence, data)| async move { (sequence, decoder.message(&data).await) }.boxed());
    }

    async fn take(
        &mut self,
        message: Option<Result<Message, Error>>,
        responses: &mut Responses<'a>,
    ) -> Result<(), ConnectionEnd> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // Pings are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {
                return Ok(());
            }
            Some(Ok(Message::Close(frame))) => {
                let code = frame.map_or(0, |frame| u16::from(frame.code));
                let is_final = CloseCode::try_from(code).is_ok_and(|code| !code.can_reconnect());
                return Err(match is_final {
                    true => ConnectionEnd::Refused(code),
                    false => ConnectionEnd::Closed(code),
                });
            }
            None => return Err(ConnectionEnd::Closed(0)),
            Some(Err(Error::Capacity(_))) => return Err(ConnectionEnd::Unreadable),
            Some(Err(_)) => return Err(ConnectionEnd::Lost),
        };
        let frame: Value = serde_json::from_str(&text).map_err(|_| ConnectionEnd::Unreadable)?;
        match frame["op"].as_u64() {
            Some(0) => self.dispatch(frame, responses),
            Some(1) => self.send_heartbeat().await,
            Some(7) => Err(ConnectionEnd::Reconnect),
            Some(9) if frame["d"] == Value::Bool(true) => Err(ConnectionEnd::Reconnect),
            Some(9) => Err(ConnectionEnd::InvalidSession),
            Some(10) => self.greet(&frame["d"]).await,
            Some(11) => {
                if let Some(heartbeat) = &mut self.heartbeat {
                    heartbeat.is_answered = true;
                }
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(ConnectionEnd::Unreadable),
        }
    }

    /// Answers the greeting: with the session if there is one, else with a new one.
    async fn greet(&mut self, hello: &Value) -> Result<(), ConnectionEnd> {
        let interval = hello["heartbeat_interval"].as_u64().map(Duration::from_millis);
        let interval = interval.ok_or(ConnectionEnd::Unreadable)?;
        let interval = interval.clamp(HEARTBEAT_MIN, HEARTBEAT_MAX);
        // The first heartbeat comes at a random time within the interval.
        let fraction = (self.now)().subsec_nanosecond().unsigned_abs() / 1_000_000;
        self.heartbeat = Some(HeartbeatState {
            interval,
            due: Instant::now() + interval * fraction / 1_000,
            is_answered: true,
        });
        let position = self.session.as_ref().and_then(|session| {
            let position = session.progress.position()?;
            Some((session.id.clone(), position))
        });
        match position {
            Some((id, position)) => {
                let resume = Resume::new(position, id, self.decoder.token());
                self.write(&resume).await
            }
            None => {
                self.session = None;
                self.write(&identification(self.decoder.token())).await
            }
        }
    }

    fn dispatch(&mut self, mut frame: Value, responses: &mut Responses<'a>) -> Result<(), ConnectionEnd> {
        let data = frame["d"].take();
        let kind = frame["t"].as_str().unwrap_or_default();
        let sequence = frame["s"].as_u64().ok_or(ConnectionEnd::Unreadable)?;
        match kind {
            "READY" => {
                self.session = GatewaySession::of_ready(&data);
                tracing::info!(
                    channel = self.decoder.name(),
                    "a session of the gateway of discord has begun"
                );
            }
            "RESUMED" => tracing::info!(channel = self.decoder.name(), "the session is resumed"),
            _ => {}
        }
        self.has_session = true;
        if let Some(session) = &mut self.session {
            session.progress.receive(sequence);
        }
        if kind == "MESSAGE_CREATE" {
            self.undecoded.push_back((sequence, data));
            if self.decoding.is_none() {
                self.decode_next();
            }
            return Ok(());
        }
        let content = self.decoder.decode(kind, &data);
        self.pass_on(sequence, Ok(content), responses)
    }

    /// Passes the content of an event on to the inbox.
    fn pass_on(
        &mut self,
        sequence: u64,
        content: Result<EventContent, SendError>,
        responses: &mut Responses<'a>,
    ) -> Result<(), ConnectionEnd> {
        let (inbound, interaction) = match content {
            Ok(EventContent::Inbound(inbound, interaction)) => (*inbound, interaction),
            Ok(EventContent::Ignored(interaction)) => {
                responses.push(self.decoder.respond(interaction));
                self.accept(sequence);
                return Ok(());
            }
            Ok(EventContent::Nothing) => {
                self.accept(sequence);
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(channel = self.decoder.name(), %error, "the place of a message is not known");
                return Err(ConnectionEnd::Unaccepted);
            }
        };
        let (accepted, answer) = oneshot::channel();
        self.waiting = Some(PolledInbound { inbound, accepted });
        self.accepting.push(Box::pin(
            async move { (sequence, interaction, answer.await.is_ok()) },
        ));
        Ok(())
    }

    fn accept(&mut self, sequence: u64) {
        if let Some(session) = &mut self.session {
            session.progress.accept(sequence);
        }
    }

    /// Sends the heartbeat that is due. Without an answer to the one before, the connection is dead.
    async fn beat(&mut self) -> Result<(), ConnectionEnd> {
        let Some(heartbeat) = &mut self.heartbeat else {
            return Err(ConnectionEnd::Silent);
        };
        if !heartbeat.is_answered {
            return Err(ConnectionEnd::Silent);
        }
        heartbeat.is_answered = false;
        heartbeat.due = Instant::now() + heartbeat.interval;
        self.send_heartbeat().await
    }

    /// Sends a heartbeat with the position of the session, and not that of the last received event, which Discord
    /// could forget then.
    async fn send_heartbeat(&mut self) -> Result<(), ConnectionEnd> {
        let position = self
            .session
            .as_ref()
            .and_then(|session| session.progress.position());
        self.write(&Heartbeat::new(position)).await
    }

    async fn write(&mut self, frame: &impl Serialize) -> Result<(), ConnectionEnd> {
        let text = serde_json::to_string(frame).map_err(|_| ConnectionEnd::Unreadable)?;
        match timeout(WRITE_TIME_MAX, self.socket.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ConnectionEnd::Lost),
        }
    }
}

/// Returns the content of the message that is decoded.
async fn decoded<'a>(decoding: &mut Option<Decoding<'a>>) -> (u64, Result<EventContent, SendError>) {
    match decoding {
        Some(decoding) => decoding.await,
        None => std::future::pending().await,
    }
}

/// Returns the frame that opens a session. Discord documents its optional fields as absent and not as null.
fn identification(token: String) -> Value {
    let mut frame = json!(identify(token));
    if let Some(fields) = frame["d"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    frame
}

fn identify(token: String) -> Identify {
    Identify::new(IdentifyInfo {
        capabilities: Capabilities::empty(),
        compress: false,
        intents: Intents::GUILD_MESSAGES | Intents::DIRECT_MESSAGES | Intents::MESSAGE_CONTENT,
        large_threshold: LARGE_THRESHOLD,
        presence: None,
        properties: IdentifyProperties::new("drydock", "drydock", "drydock"),
        shard: None,
        token,
    })
}
