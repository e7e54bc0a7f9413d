//! The gateway: sessions, their events and the connections to them. See
//! <https://docs.discord.com/developers/events/gateway>.

use super::SharedDiscord;
use super::state::DiscordState;
use crate::simulation::emulator::answer::answer;
use crate::simulation::emulator::traffic::SentRequest;
use crate::simulation::emulator::web_socket::{
    EmulatorSocket, handshake_key, switching_answer, upgraded_socket,
};
use axum::extract::Request;
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::{Message, frame::coding::CloseCode};
use twilight_model::gateway::Intents;
use twilight_model::gateway::payload::outgoing::{Identify, Resume};

/// The number of frames that wait to be written.
const FRAMES_MAX: usize = 4_096;
/// The close codes of an application that end its session.
const ENDING_CODES: [u16; 2] = [1_000, 1_001];

/// The connections and sessions.
#[derive(Debug)]
pub struct GatewayState {
    /// The number of connections so far.
    pub opened: u64,
    /// The number of new sessions so far.
    pub identified: u64,
    /// The number of resumed sessions so far.
    pub resumed: u64,
    /// The positions with which sessions were resumed.
    pub resumed_from: Vec<u64>,
    /// The number of heartbeats so far.
    pub heartbeats: u64,
    /// The milliseconds between heartbeats.
    pub heartbeat_milliseconds: u64,
    /// False if heartbeats are not answered.
    pub answers_heartbeats: bool,
    /// True if the application may see the words of messages.
    pub has_message_content: bool,
    sessions: BTreeMap<String, EmulatedSession>,
}

impl Default for GatewayState {
    fn default() -> Self {
        Self {
            opened: 0,
            identified: 0,
            resumed: 0,
            resumed_from: Vec::new(),
            heartbeats: 0,
            heartbeat_milliseconds: 41_250,
            answers_heartbeats: true,
            has_message_content: true,
            sessions: BTreeMap::new(),
        }
    }
}

#[derive(Debug)]
struct EmulatedSession {
    intents: Intents,
    sequence: u64,
    /// The events with their sequence numbers.
    events: Vec<(u64, Value)>,
    connection: Option<mpsc::Sender<ConnectionOrder>>,
}

/// An order to a connection.
#[derive(Clone, Debug)]
pub(super) enum ConnectionOrder {
    Frame(Value),
    Close(u16),
    Drop,
}

/// The way in which all connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayClosing {
    /// Discord asks for a new connection, which resumes.
    Reconnect,
    /// Discord closes the connection with a code.
    Code(u16),
    /// The connection breaks.
    Broken,
}

impl GatewayState {
    /// Returns the number of open connections with a session.
    pub fn connected(&self) -> usize {
        let sessions = self.sessions.values();
        sessions
            .filter(|session| {
                session
                    .connection
                    .as_ref()
                    .is_some_and(|orders| !orders.is_closed())
            })
            .count()
    }

    /// Sends an event to each session whose intents request it.
    pub(super) fn dispatch(&mut self, kind: &str, data: &Value, needed: Intents) {
        for session in self.sessions.values_mut() {
            if !session.intents.contains(needed) {
                continue;
            }
            let mut data = data.clone();
            let hides_words =
                needed == Intents::GUILD_MESSAGES && !session.intents.contains(Intents::MESSAGE_CONTENT);
            let is_named = data["mentions"]
                .as_array()
                .is_some_and(|mentions| !mentions.is_empty());
            if hides_words && !is_named {
                data["content"] = json!("");
                data["attachments"] = json!([]);
            }
            session.send(kind, data);
        }
    }

    /// Ends all connections.
    pub(super) fn close(&self, closing: GatewayClosing) {
        for session in self.sessions.values() {
            let Some(orders) = &session.connection else {
                continue;
            };
            let order = match closing {
                GatewayClosing::Reconnect => ConnectionOrder::Frame(json!({"op": 7, "d": null})),
                GatewayClosing::Code(code) => ConnectionOrder::Close(code),
                GatewayClosing::Broken => ConnectionOrder::Drop,
            };
            let _full = orders.try_send(order);
        }
    }

    /// Ends the session of a connection that the application closed with a code that says so.
    fn closed_by_client(&mut self, orders: &mpsc::Sender<ConnectionOrder>, code: u16) {
        if ENDING_CODES.contains(&code) {
            let is_other = |connection: &mpsc::Sender<ConnectionOrder>| !connection.same_channel(orders);
            self.sessions
                .retain(|_, session| session.connection.as_ref().is_none_or(is_other));
        }
    }

    /// Forgets all sessions: none can be resumed any more.
    pub(super) fn forget_sessions(&mut self) {
        self.close(GatewayClosing::Broken);
        self.sessions.clear();
    }
}

impl EmulatedSession {
    fn send(&mut self, kind: &str, data: Value) {
        self.sequence += 1;
        let frame = json!({"op": 0, "t": kind, "s": self.sequence, "d": data});
        self.events.push((self.sequence, frame.clone()));
        if let Some(orders) = &self.connection {
            // Without a connection, the event is sent when the session is resumed.
            let _closed = orders.try_send(ConnectionOrder::Frame(frame));
        }
    }
}

/// Answers a handshake.
pub(super) fn open_socket(shared: &Arc<SharedDiscord>, mut request: Request) -> Response {
    let Some(key) = handshake_key(request.headers()) else {
        return answer(400, "no handshake of a WebSocket".into());
    };
    if request.uri().query() != Some("v=10&encoding=json") {
        shared.change(|state| {
            state
                .problems
                .push("a gateway connection without version 10".to_owned())
        });
    }
    let (shared, stopped) = (Arc::clone(shared), shared.stopped.clone());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _stopped = stopped.run_until_cancelled(run(&shared, upgrade)).await;
        // A connection can end without a frame, and counts until now. Somebody may wait for its end.
        shared.change(|_| {});
    });
    switching_answer(&key)
}

async fn run(shared: &SharedDiscord, upgrade: OnUpgrade) {
    let Some(mut socket) = upgraded_socket(upgrade).await else {
        return;
    };
    let interval = shared.change(|state| {
        state.gateway.opened += 1;
        state.gateway.heartbeat_milliseconds
    });
    let hello = json!({"op": 10, "d": {"heartbeat_interval": interval}, "s": null, "t": null});
    if send(&mut socket, &hello).await.is_err() {
        return;
    }
    let (orders, mut taken) = mpsc::channel(FRAMES_MAX);
    let mut stage = ConnectionStage::Greeted;
    loop {
        tokio::select! {
            order = taken.recv() => match order {
                Some(ConnectionOrder::Frame(frame)) => {
                    if send(&mut socket, &frame).await.is_err() {
                        return;
                    }
                }
                Some(ConnectionOrder::Close(code)) => return close(&mut socket, code).await,
                Some(ConnectionOrder::Drop) | None => return,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    shared.traffic.add(|| SentRequest::document("FRAME", "/gateway", &text));
                    let taken = shared.change(|state| take(state, shared, &text, stage, &orders));
                    match taken {
                        Ok(ClientFrame::Session) => stage = ConnectionStage::InSession,
                        Ok(ClientFrame::Answer(answer)) => {
                            if send(&mut socket, &answer).await.is_err() {
                                return;
                            }
                        }
                        Ok(ClientFrame::Nothing) => {}
                        Err(code) => return close(&mut socket, code).await,
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map_or(0, |frame| u16::from(frame.code));
                    shared.change(|state| state.gateway.closed_by_client(&orders, code));
                    return;
                }
                Some(Err(_)) | None => return,
            },
        }
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Greeted,
    InSession,
}

enum ClientFrame {
    Session,
    Answer(Value),
    Nothing,
}

/// Takes a frame of the application. An error is a close code.
fn take(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    text: &str,
    stage: ConnectionStage,
    orders: &mpsc::Sender<ConnectionOrder>,
) -> Result<ClientFrame, u16> {
    let frame: Value = serde_json::from_str(text).map_err(|_| 4_002_u16)?;
    match frame["op"].as_u64() {
        Some(1) => {
            state.gateway.heartbeats += 1;
            Ok(match state.gateway.answers_heartbeats {
                true => ClientFrame::Answer(json!({"op": 11})),
                false => ClientFrame::Nothing,
            })
        }
        Some(2 | 6) if stage == ConnectionStage::InSession => Err(4_005),
        Some(2) => identify(state, shared, frame, orders),
        Some(6) => resume(state, shared, frame, orders),
        Some(_) if stage == ConnectionStage::Greeted => Err(4_003),
        Some(_) | None => Err(4_001),
    }
}

fn identify(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    frame: Value,
    orders: &mpsc::Sender<ConnectionOrder>,
) -> Result<ClientFrame, u16> {
    let identify: Identify = serde_json::from_value(frame).map_err(|_| 4_002_u16)?;
    if identify.d.token != shared.options.bot_token || state.is_token_refused {
        return Err(4_004);
    }
    if !Intents::all().contains(identify.d.intents) {
        return Err(4_013);
    }
    let gateway = &mut state.gateway;
    if identify.d.intents.contains(Intents::MESSAGE_CONTENT) && !gateway.has_message_content {
        return Err(4_014);
    }
    gateway.identified += 1;
    let id = format!("session-{}", gateway.identified);
    let mut session = EmulatedSession {
        intents: identify.d.intents,
        sequence: 0,
        events: Vec::new(),
        connection: Some(orders.clone()),
    };
    let ready = json!({"v": 10, "user": super::state::bot_json(shared.options.bot), "guilds": [],
        "session_id": id, "resume_gateway_url": shared.gateway_url(),
        "application": {"id": shared.options.application.to_string(), "flags": 0}});
    session.send("READY", ready);
    gateway.sessions.insert(id, session);
    Ok(ClientFrame::Session)
}

fn resume(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    frame: Value,
    orders: &mpsc::Sender<ConnectionOrder>,
) -> Result<ClientFrame, u16> {
    let resume: Resume = serde_json::from_value(frame).map_err(|_| 4_002_u16)?;
    if resume.d.token != shared.options.bot_token {
        return Err(4_004);
    }
    let gateway = &mut state.gateway;
    let Some(session) = gateway.sessions.get_mut(&resume.d.session_id) else {
        return Ok(ClientFrame::Answer(json!({"op": 9, "d": false})));
    };
    if resume.d.seq > session.sequence {
        return Err(4_007);
    }
    gateway.resumed += 1;
    gateway.resumed_from.push(resume.d.seq);
    session.connection = Some(orders.clone());
    for (sequence, frame) in &session.events {
        if *sequence > resume.d.seq {
            let _full = orders.try_send(ConnectionOrder::Frame(frame.clone()));
        }
    }
    session.send("RESUMED", json!({}));
    Ok(ClientFrame::Session)
}

async fn send(
    socket: &mut EmulatorSocket,
    frame: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::error::Error> {
    socket.send(Message::text(frame.to_string())).await
}

async fn close(socket: &mut EmulatorSocket, code: u16) {
    let frame = CloseFrame {
        code: CloseCode::from(code),
        reason: "".into(),
    };
    let _lost = socket.close(Some(frame)).await;
}
