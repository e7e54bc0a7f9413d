//! One connection to the gateway: identifies or resumes, keeps the heartbeat, and passes events on in order.

use super::catch_up::{CatchUp, read_missed};
use super::end::ConnectionEnd;
use super::events::{EventContent, InteractionAddress};
use super::identification::identification;
use super::missed::id_of;
use super::position::{GatewayPosition, GatewaySession};
use super::reading::MissedMessages;
use super::{GatewayReceiver, Responses};
use crate::interfaces::channel::discord::lookup::snowflake_at;
use crate::interfaces::channel::web_socket::ChannelSocket;
use crate::interfaces::channel::{PolledInbound, SendError};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::error::Error;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;
use twilight_model::gateway::CloseCode;
use twilight_model::gateway::payload::outgoing::{Heartbeat, Resume};

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
/// The number of messages that may wait behind those that were missed.
const BEHIND_MISSED_MAX: usize = 1_024;
/// The number of responses to interactions that may be under way.
const RESPONSES_MAX: usize = 64;

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventOrigin {
    /// The session, with this sequence number.
    Session(u64),
    /// The messages that were missed, with this id.
    Missed(u64),
}

/// An event that the gateway of Drydock decides on: its origin, the interaction to respond to, and true if it is
/// accepted.
type Accepting = Pin<Box<dyn Future<Output = (EventOrigin, Option<InteractionAddress>, bool)> + Send>>;

/// The content of an event, and its origin.
type Decoding<'a> = BoxFuture<'a, (EventOrigin, Result<EventContent, SendError>)>;

/// An open connection.
pub(super) struct Connection<'a> {
    socket: ChannelSocket,
    receiver: &'a GatewayReceiver<'a>,
    position: GatewayPosition,
    /// The messages that were missed, until all are accepted.
    catch_up: Option<CatchUp<'a>>,
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
        receiver: &'a GatewayReceiver<'a>,
        position: GatewayPosition,
    ) -> Self {
        Self {
            socket,
            receiver,
            position,
            catch_up: None,
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

    pub(super) fn into_position(self) -> GatewayPosition {
        let mut position = self.position;
        position.rewind();
        position
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
        self.bound_catch_up();
        let reads = self.has_room(responses);
        let reads_missed = self.catch_up.as_ref().is_some_and(CatchUp::is_reading);
        let passes_on = self.waiting.is_none() && self.accepting.len() < UNACCEPTED_MAX;
        let due = match &self.heartbeat {
            Some(heartbeat) => heartbeat.due,
            None => self.began + HELLO_TIME_MAX,
        };
        tokio::select! {
            room = self.receiver.inbox.reserve(), if self.waiting.is_some() => {
                let room = room.map_err(|_| ConnectionEnd::Stopped)?;
                if let Some(polled) = self.waiting.take() {
                    room.send(polled);
                }
            }
            Some((origin, interaction, is_accepted)) = self.accepting.next(), if !self.accepting.is_empty() => {
                if !is_accepted {
                    return Err(ConnectionEnd::Unaccepted);
                }
                self.accept(origin);
                responses.extend(interaction.map(|address| self.receiver.respond(address)));
            }
            Some(()) = responses.next(), if !responses.is_empty() => {}
            missed = read_missed(&mut self.catch_up), if reads_missed => self.take_missed(missed),
            (origin, content) = decoded(&mut self.decoding), if passes_on && self.decoding.is_some() => {
                self.decode_next();
                return self.pass_on(origin, content, responses);
            }
            message = self.socket.next(), if reads => return self.take(message, responses).await,
            () = sleep_until(due) => return self.beat().await,
        }
        Ok(())
    }

    /// Returns true if another frame can be read without exceeding a bound.
    fn has_room(&self, responses: &Responses<'a>) -> bool {
        let undecoded_max = match self.catch_up {
            Some(_) => BEHIND_MISSED_MAX,
            None => UNACCEPTED_MAX,
        };
        self.waiting.is_none()
            && self.accepting.len() < UNACCEPTED_MAX
            && self.undecoded.len() < undecoded_max
            && self.position.open() < OPEN_EVENTS_MAX
            && responses.len() < RESPONSES_MAX
    }

    /// Begins to decode the next message: first those that were missed.
    fn decode_next(&mut self) {
        if self.catch_up.as_ref().is_some_and(CatchUp::is_reading) {
            self.decoding = None;
            return;
        }
        let missed = self.catch_up.as_mut().and_then(CatchUp::next_event);
        let next = match missed {
            Some((id, data)) => Some((EventOrigin::Missed(id), data)),
            None => {
                let next = self.undecoded.pop_front();
                next.map(|(sequence, data)| (EventOrigin::Session(sequence), data))
            }
        };
        let receiver = self.receiver;
        self.decoding =
            next.map(|(origin, data)| async move { (origin, receiver.decode_message(&data).await) }.boxed());
    }

    /// Begins to read the messages that may be missed, if there are any.
    fn begin_catch_up(&mut self) {
        let receiver = self.receiver;
        self.catch_up = self.position.missed().map(|missed| {
            let enough = CancellationToken::new();
            CatchUp::begin(receiver.read_missed(missed, enough.clone()).boxed(), enough)
        });
    }

    /// Ends the reading of missed messages once no later event can wait behind them.
    fn bound_catch_up(&self) {
        let is_full = self.undecoded.len() >= BEHIND_MISSED_MAX || self.position.open() >= OPEN_EVENTS_MAX;
        if let Some(catch_up) = self.catch_up.as_ref().filter(|_| is_full) {
            catch_up.give_up();
        }
    }

    /// Takes the missed messages.
    fn take_missed(&mut self, missed: MissedMessages) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.take(missed);
        }
        self.end_catch_up();
        if self.decoding.is_none() {
            self.decode_next();
        }
    }

    /// Ends the catch-up once all missed messages are accepted.
    fn end_catch_up(&mut self) {
        if let Some(newest) = self.catch_up.as_ref().and_then(CatchUp::finished) {
            self.catch_up = None;
            self.position.end_missed(newest);
            self.store_position();
        }
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
        let fraction = (self.receiver.now)().subsec_nanosecond().unsigned_abs() / 1_000_000;
        self.heartbeat = Some(HeartbeatState {
            interval,
            due: Instant::now() + interval * fraction / 1_000,
            is_answered: true,
        });
        let token = self.receiver.channel.api.token().expose().to_owned();
        match (self.position.session(), self.position.sequence()) {
            (Some(session), Some(sequence)) => {
                let resume = Resume::new(sequence, session.id.clone(), token);
                self.begin_catch_up();
                self.write(&resume).await
            }
            _ => {
                self.position.end_session();
                self.write(&identification(token)).await
            }
        }
    }

    fn dispatch(&mut self, mut frame: Value, responses: &mut Responses<'a>) -> Result<(), ConnectionEnd> {
        let data = frame["d"].take();
        let kind = frame["t"].as_str().unwrap_or_default();
        let name = self.receiver.channel.name.as_str();
        let sequence = frame["s"].as_u64().ok_or(ConnectionEnd::Unreadable)?;
        match kind {
            "READY" => {
                let now = snowflake_at((self.receiver.now)());
                self.position.begin(GatewaySession::of_ready(&data), now);
                self.begin_catch_up();
                tracing::info!(channel = name, "a session of the gateway of discord has begun");
            }
            "RESUMED" => tracing::info!(channel = name, "the session is resumed"),
            _ => {}
        }
        self.has_session = true;
        let is_message = kind == "MESSAGE_CREATE";
        let message = id_of(&data).filter(|_| is_message);
        self.position.receive(sequence, message);
        if is_message {
            self.undecoded.push_back((sequence, data));
            if self.decoding.is_none() {
                self.decode_next();
            }
            return Ok(());
        }
        let content = self.receiver.decode(kind, &data);
        self.pass_on(EventOrigin::Session(sequence), Ok(content), responses)
    }

    /// Passes the content of an event on to the inbox.
    fn pass_on(
        &mut self,
        origin: EventOrigin,
        content: Result<EventContent, SendError>,
        responses: &mut Responses<'a>,
    ) -> Result<(), ConnectionEnd> {
        let (inbound, interaction) = match content {
            Ok(EventContent::Inbound(inbound, interaction)) => (*inbound, interaction),
            Ok(EventContent::Ignored(interaction)) => {
                responses.push(self.receiver.respond(interaction));
                self.accept(origin);
                return Ok(());
            }
            Ok(EventContent::Nothing) => {
                self.accept(origin);
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(channel = self.receiver.channel.name, %error, "the place of a message is not known");
                return Err(ConnectionEnd::Unaccepted);
            }
        };
        let (accepted, answer) = oneshot::channel();
        self.waiting = Some(PolledInbound { inbound, accepted });
        self.accepting.push(Box::pin(
            async move { (origin, interaction, answer.await.is_ok()) },
        ));
        Ok(())
    }

    fn accept(&mut self, origin: EventOrigin) {
        match origin {
            EventOrigin::Session(sequence) => {
                self.position.accept(sequence);
                self.store_position();
            }
            EventOrigin::Missed(id) => {
                let decided = self.catch_up.as_mut().and_then(|catch_up| catch_up.accept(id));
                if let Some(decided) = decided {
                    self.position.decide_missed(decided);
                    self.store_position();
                }
                self.end_catch_up();
            }
        }
    }

    /// Has the position stored, without waiting for it.
    fn store_position(&self) {
        let position = self.position.stored(&self.receiver.channel.installation.bot_id);
        self.receiver.positions.send_replace(Some(position));
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
        self.write(&Heartbeat::new(self.position.sequence())).await
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
async fn decoded<'a>(decoding: &mut Option<Decoding<'a>>) -> (EventOrigin, Result<EventContent, SendError>) {
    match decoding {
        Some(decoding) => decoding.await,
        None => std::future::pending().await,
    }
}
