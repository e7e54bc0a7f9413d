//! Socket Mode: the app opens sockets, and every event goes over one of them until it is acknowledged. See
//! <https://docs.slack.dev/apis/events-api/using-socket-mode>.

use super::people::{ANSWER_TIME_MAX, FORM, GatewayResponse, JSON, SayError, SentMessage, UnsentMessage};
use super::state::SlackState;
use super::{SharedSlack, SlackEmulator, SlackOptions};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The number of sockets of an app.
pub(super) const SOCKETS_MAX: usize = 10;
/// The time during which the address of a socket can be used.
const TICKET_VALID_FOR: SignedDuration = SignedDuration::from_secs(30);
/// The number of repeated deliveries of an event.
const RETRIES_MAX: u64 = 3;
/// The longest time that an event waits for an open socket.
const NO_SOCKET_TIME_MAX: Duration = Duration::from_secs(60);
/// The number of frames that may wait for one socket.
const FRAMES_MAX: usize = 1_024;

/// Socket Mode of the app.
#[derive(Debug, Default)]
pub struct SocketModeState {
    /// The number of sockets that were opened so far.
    pub opened: u64,
    /// The envelopes sent so far, each once for every delivery.
    pub sent: u64,
    /// The events that were not acknowledged after all retries.
    pub lost: Vec<Value>,
    /// The app-level token; `None` if Socket Mode was never on.
    pub(super) app_token: Option<String>,
    pub(super) is_on: bool,
    /// The tickets of addresses that are not used yet, with the time of their issue.
    tickets: BTreeMap<String, Timestamp>,
    sockets: BTreeMap<u64, OpenSocket>,
    /// The deliveries by the id of their envelope.
    deliveries: BTreeMap<String, EnvelopeDelivery>,
}

#[derive(Debug)]
struct OpenSocket {
    orders: mpsc::Sender<SocketOrder>,
    /// The number of the last envelope that was sent over it.
    last_envelope: u64,
    is_leaving: bool,
}

#[derive(Debug)]
struct EnvelopeDelivery {
    socket: u64,
    is_acknowledged: bool,
}

/// An instruction to the task of a socket.
#[derive(Debug)]
pub(super) enum SocketOrder {
    /// Send this frame.
    Frame(Value),
    /// Close the socket in the regular way.
    Close,
    /// End the connection without a word.
    Drop,
}

/// The way in which Slack closes its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketClosing {
    /// A frame with this reason, such as `warning`. The socket closes when another one is open.
    Announced(&'static str),
    /// A frame with this reason, and the end of the socket at once.
    AtOnce(&'static str),
    /// The end of the connection, without a frame.
    Broken,
}

impl SocketModeState {
    /// Returns the number of open sockets.
    pub fn open_sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Returns the number of open sockets that are not about to close.
    pub fn staying_sockets(&self) -> usize {
        self.sockets.values().filter(|socket| !socket.is_leaving).count()
    }

    /// Returns the number of events that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        let deliveries = self.deliveries.values();
        deliveries.filter(|delivery| delivery.is_acknowledged).count()
    }

    /// Uses up the ticket of an address. Returns false if it is unknown, was used or is too old.
    pub(super) fn redeem(&mut self, ticket: &str, at: Timestamp) -> bool {
        let issued = self.tickets.remove(ticket);
        issued.is_some_and(|issued| at.duration_since(issued) <= TICKET_VALID_FOR)
    }

    /// Returns the reason why no other socket can be opened, if there is one.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        match self.is_on {
            false => Some("link_disabled"),
            true if self.sockets.len() >= SOCKETS_MAX => Some("too_many_websockets"),
            true => None,
        }
    }

    /// Adds an open socket; those that were about to close are closed.
    pub(super) fn add_socket(&mut self) -> (u64, mpsc::Receiver<SocketOrder>) {
        for leaving in self.sockets.values().filter(|socket| socket.is_leaving) {
            let _closing = leaving.orders.try_send(SocketOrder::Close);
        }
        self.opened += 1;
        let (orders, taken) = mpsc::channel(FRAMES_MAX);
        let socket = OpenSocket {
            orders,
            last_envelope: 0,
            is_leaving: false,
        };
        self.sockets.insert(self.opened, socket);
        (self.opened, taken)
    }

    pub(super) fn remove_socket(&mut self, number: u64) {
        self.sockets.remove(&number);
    }

    /// Takes an acknowledgement. Returns the mistake in it, if there is one.
    pub(super) fn acknowledge(&mut self, socket: u64, text: &str) -> Option<String> {
        let acknowledgement: Value = serde_json::from_str(text).unwrap_or_default();
        let Some(id) = acknowledgement["envelope_id"].as_str() else {
            return Some(format!("a frame that is no acknowledgement: {text}"));
        };
        match self.deliveries.get_mut(id) {
            None => Some(format!("an acknowledgement of an unknown envelope: {id}")),
            Some(delivery) if delivery.socket != socket => {
                Some(format!("an acknowledgement over another socket: {id}"))
            }
            Some(delivery) if delivery.is_acknowledged => Some(format!("a second acknowledgement: {id}")),
            Some(delivery) => {
                delivery.is_acknowledged = true;
                None
            }
        }
    }

    /// Sends an envelope over the open socket that was not used for the longest time. Returns its id.
    fn send(&mut self, kind: &str, payload: &Value, attempt: u64) -> Option<String> {
        let (number, socket) = self
            .sockets
            .iter_mut()
            .min_by_key(|(_, socket)| socket.last_envelope)?;
        self.sent += 1;
        let id = format!("envelope-{}", self.sent);
        let mut frame = json!({"envelope_id": id, "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api"});
        if kind == "events_api" {
            frame["retry_attempt"] = json!(attempt);
            frame["retry_reason"] = json!(if attempt == 0 { "" } else { "timeout" });
        }
        socket.last_envelope = self.sent;
        socket.orders.try_send(SocketOrder::Frame(frame)).ok()?;
        let delivery = EnvelopeDelivery {
            socket: *number,
            is_acknowledged: false,
        };
        self.deliveries.insert(id.clone(), delivery);
        Some(id)
    }

    /// Returns true if a delivery is acknowledged, and false if that cannot happen any more.
    fn outcome(&self, id: &str) -> Option<bool> {
        let delivery = self.deliveries.get(id)?;
        if delivery.is_acknowledged {
            return Some(true);
        }
        (!self.sockets.contains_key(&delivery.socket)).then_some(false)
    }
}

/// Answers `apps.connections.open` with an address that works once.
pub(super) fn connections_open(state: &mut SlackState, options: &SlackOptions, base_url: &str) -> Value {
    let ticket = state.next_id("ticket-");
    let at = (options.at)();
    state.socket_mode.tickets.insert(ticket.clone(), at);
    let base = base_url.replacen("http", "ws", 1);
    json!({"url": format!("{base}/link/?ticket={ticket}&app_id=A0DRYDOCK")})
}

/// Returns the error for a token, if it is not the one for this method.
pub(super) fn token_refusal(
    state: &SlackState,
    options: &SlackOptions,
    method: &str,
    token: Option<&str>,
) -> Option<&'static str> {
    let is_bot = token == Some(options.bot_token.as_str());
    let is_app = token.is_some() && token == state.socket_mode.app_token.as_deref();
    match (method == "apps.connections.open", is_bot, is_app) {
        (false, true, _) | (true, _, true) => None,
        (true, true, _) | (false, _, true) => Some("not_allowed_token_type"),
        (true | false, _, _) => Some("invalid_auth"),
    }
}

impl SlackEmulator {
    /// Switches Socket Mode on. From now on all events go over sockets, which this token opens.
    pub fn turn_socket_mode_on(&self, app_token: &str) {
        self.shared.change(|state| {
            state.socket_mode.app_token = Some(app_token.to_owned());
            state.socket_mode.is_on = true;
        });
    }

    /// Switches Socket Mode off and closes all sockets.
    pub fn turn_socket_mode_off(&self) {
        self.shared.change(|state| state.socket_mode.is_on = false);
        self.close_sockets(SocketClosing::AtOnce("link_disabled"));
    }

    /// Makes the tickets of all addresses older by this time.
    pub fn age_tickets(&self, by: SignedDuration) {
        self.shared.change(|state| {
            for issued in state.socket_mode.tickets.values_mut() {
                *issued = issued.checked_sub(by).unwrap_or(*issued);
            }
        });
    }

    /// Closes all sockets that are open now.
    pub fn close_sockets(&self, closing: SocketClosing) {
        let frame = |reason: &str| {
            SocketOrder::Frame(
                json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "wss-111.slack.com"}}),
            )
        };
        let orders = || match closing {
            SocketClosing::Announced(reason) => vec![frame(reason)],
            SocketClosing::AtOnce(reason) => vec![frame(reason), SocketOrder::Close],
            SocketClosing::Broken => vec![SocketOrder::Drop],
        };
        self.shared.change(|state| {
            for socket in state.socket_mode.sockets.values_mut() {
                socket.is_leaving = true;
                for order in orders() {
                    let _full = socket.orders.try_send(order);
                }
            }
        });
    }

    /// Sends an envelope, again if it is not acknowledged. Returns when it is acknowledged.
    pub async fn send_envelope(
        &self,
        kind: &'static str,
        payload: Value,
    ) -> Result<GatewayResponse, SayError> {
        let (acknowledged, answer) = oneshot::channel();
        tokio::spawn(deliver(Arc::clone(&self.shared), kind, payload, acknowledged));
        match tokio::time::timeout(ANSWER_TIME_MAX, answer).await {
            Ok(Ok(())) => Ok(GatewayResponse {
                status: 200,
                body: String::new(),
            }),
            Ok(Err(_)) | Err(_) => Err(SayError::NoAnswer),
        }
    }

    /// Sends the events of a message, one after the other.
    pub(super) async fn send_over_sockets(&self, written: UnsentMessage) -> Result<SentMessage, SayError> {
        let (sent_at, mut answers) = (Instant::now(), Vec::new());
        for event in written.events {
            answers.push(self.send_envelope("events_api", event).await?);
        }
        let ts = written.ts;
        Ok(SentMessage { ts, sent_at, answers })
    }

    /// Returns the envelope of a request: its kind and payload. Returns `None` while Socket Mode is off.
    pub(super) fn as_envelope(&self, content_type: &str, body: &str) -> Option<(&'static str, Value)> {
        if !self.with_state(|state| state.socket_mode.is_on) {
            return None;
        }
        if content_type == JSON {
            return Some(("events_api", serde_json::from_str(body).ok()?));
        }
        if content_type != FORM {
            return None;
        }
        let fields = form_urlencoded::parse(body.as_bytes());
        let fields: Map<String, Value> = fields
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        match fields.get("payload").and_then(Value::as_str) {
            Some(payload) => Some(("interactive", serde_json::from_str(payload).ok()?)),
            None => Some(("slash_commands", Value::Object(fields))),
        }
    }
}

/// Delivers an event until it is acknowledged: once, and again when its socket ends or three seconds have passed.
async fn deliver(
    shared: Arc<SharedSlack>,
    kind: &'static str,
    payload: Value,
    acknowledged: oneshot::Sender<()>,
) {
    for attempt in 0..=RETRIES_MAX {
        let is_open = |state: &SlackState| (state.socket_mode.open_sockets() > 0).then_some(());
        if shared.wait_for(NO_SOCKET_TIME_MAX, is_open).await.is_none() {
            break;
        }
        let sent = shared.change(|state| state.socket_mode.send(kind, &payload, attempt));
        let Some(id) = sent else { continue };
        let outcome = |state: &SlackState| state.socket_mode.outcome(&id);
        if shared.wait_for(ANSWER_TIME_MAX, outcome).await == Some(true) {
            // The sender may have given up waiting.
            let _gone = acknowledged.send(());
            return;
        }
    }
    shared.change(|state| state.socket_mode.lost.push(payload));
}
