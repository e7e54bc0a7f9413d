//! The users of the workspace. Their messages, commands and button presses become signed requests to the gateway,
//! like Slack's.

use super::sent_files;
use super::{SlackEmulator, SlackMessage, SlackState};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The time after which Slack treats an unanswered event as lost.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);
/// The maximum number of bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
pub(super) const JSON: &str = "application/json";
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// The order of the two events of a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrder {
    /// `app_mention`, then `message`.
    MentionFirst,
    /// `message`, then `app_mention`.
    MessageFirst,
}

/// The answer of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// A message that a user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// The id.
    pub ts: String,
    /// The time at which its first event was sent.
    pub sent_at: Instant,
    /// The gateway's answer to each of its events.
    pub answers: Vec<GatewayResponse>,
}

/// A message that a user wrote and whose events are not sent yet.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsentMessage {
    /// The id.
    pub ts: String,
    /// The events, in the order in which they are sent.
    pub events: Vec<Value>,
}

/// A repeated delivery of an event, with the content of `X-Slack-Retry-Num` and `X-Slack-Retry-Reason`. Slack repeats
/// three times: almost at once, after a minute and after five, each time with the same event id. See
/// <https://docs.slack.dev/apis/events-api/#retries>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of the retry, starting at 1.
    pub number: u8,
    /// The reason: `http_timeout`, `http_error`, `connection_failed`.
    pub reason: &'static str,
}

/// The reason why nothing was sent, or no answer was received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SayError {
    /// [`SlackEmulator::connect_to`] was not called.
    #[error("the workspace is not connected to a gateway")]
    NotConnected,
    /// No connection, or no answer within 3 s.
    #[error("the gateway did not answer in time")]
    NoAnswer,
    /// The manifest of the app does not ask for it, so Slack sends nothing.
    #[error("the app did not ask for it")]
    NotRequested,
    /// The message has no such button.
    #[error("there is no button `{0}`")]
    NoButton(String),
}

impl SlackEmulator {
    /// Writes in a channel as a user. `@drydock` becomes the bot's mention; all else is taken literally, as if it was
    /// typed.
    pub async fn say(&self, user: &str, channel: &str, text: &str) -> Result<SentMessage, SayError> {
        self.send_message(user, channel, None, text).await
    }

    /// Writes a direct message to the bot as a user, in the channel `D` + user id.
    pub async fn dm(&self, user: &str, text: &str) -> Result<SentMessage, SayError> {
        let channel = format!("D{user}");
        if !self.with_state(|state| state.channels.contains_key(&channel)) {
            self.add_channel(&channel, &[user]);
        }
        self.send_message(user, &channel, None, text).await
    }

    /// Writes in a thread as a user.
    pub async fn reply_in_thread(
        &self,
        user: &str,
        channel: &str,
        thread_ts: &str,
        text: &str,
    ) -> Result<SentMessage, SayError> {
        self.send_message(user, channel, Some(thread_ts), text).await
    }

    /// Types `/drydock <text>` as a user.
    pub async fn slash(&self, user: &str, channel: &str, text: &str) -> Result<GatewayResponse, SayError> {
        self.slash_command(user, channel, ("/drydock", text)).await
    }

    /// Types a command of the app with the words after it as a user.
    pub async fn slash_command(
        &self,
        user: &str,
        channel: &str,
        (command, text): (&str, &str),
    ) -> Result<GatewayResponse, SayError> {
        if !self.with_state(|state| state.has_command(command)) {
            return Err(SayError::NotRequested);
        }
        let trigger = self.shared.change(|state| state.next_id("trigger."));
        let response_url = self.response_url(user, channel);
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("command", command)
            .append_pair("text", &typed(text))
            .append_pair("team_id", &self.team_of(user))
            .append_pair("channel_id", channel)
            .append_pair("user_id", user)
            .append_pair("trigger_id", &trigger)
            .append_pair("response_url", &response_url)
            .append_pair("api_app_id", "A0DRYDOCK")
            .finish();
        self.send_signed(FORM, form).await
    }

    /// Presses a button as a user, by its label, on a message or on an ephemeral message of that user.
    pub async fn click(
        &self,
        user: &str,
        message_ts: &str,
        label: &str,
    ) -> Result<GatewayResponse, SayError> {
        let is_it = |message: &&SlackMessage| message.ts == message_ts;
        let found = self.with_state(|state| {
            let ephemeral = state.ephemerals.iter().find(is_it);
            let message = state.messages.iter().find(is_it).or(ephemeral)?;
            Some(message.clone())
        });
        let message = found.ok_or_else(|| SayError::NoButton(label.to_owned()))?;
        self.click_as_seen(user, &message, label).await
    }

    /// Presses a button of a message as the user saw it, even if the message was edited since.
    pub async fn click_as_seen(
        &self,
        user: &str,
        message: &SlackMessage,
        label: &str,
    ) -> Result<GatewayResponse, SayError> {
        let mut buttons = message.buttons().into_iter();
        let button = buttons.find(|button| button.label == label);
        let button = button.ok_or_else(|| SayError::NoButton(label.to_owned()))?;
        let is_ephemeral = self.with_state(|state| {
            let mut ephemerals = state.ephemerals.iter();
            ephemerals.any(|ephemeral| ephemeral.ts == message.ts)
        });
        if !self.with_state(SlackState::has_interactivity) {
            return Err(SayError::NotRequested);
        }
        let at = (self.shared.options.at)();
        let (trigger, action_ts) = self
            .shared
            .change(|state| (state.new_trigger(user, at), state.next_ts(at)));
        let mut container = json!({"type": "message", "message_ts": message.ts,
            "channel_id": message.channel, "is_ephemeral": is_ephemeral});
        if let Some(thread_ts) = &message.thread_ts {
            container["thread_ts"] = json!(thread_ts);
        }
        let mut action = json!({"type": "button", "action_id": button.action_id, "block_id": "b",
            "value": button.value, "action_ts": action_ts});
        // The user also confirms the press in the dialog.
        if !button.confirm.is_null() {
            action["confirm"] = button.confirm;
        }
        self.send_interaction(&json!({
            "type": "block_actions",
            "user": {"id": user, "team_id": self.team_of(user)},
            "team": {"id": self.shared.options.team},
            "api_app_id": "A0DRYDOCK",
            "container": container,
            "channel": {"id": message.channel},
            "trigger_id": trigger,
            "actions": [action],
        }))
        .await
    }

    /// Sends the payload of an interaction, signed.
    pub(super) async fn send_interaction(&self, payload: &Value) -> Result<GatewayResponse, SayError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &payload.to_string())
            .finish();
        self.send_signed(FORM, form).await
    }

    /// Sends an event's JSON, signed.
    pub async fn send_event(&self, event: &Value) -> Result<GatewayResponse, SayError> {
        self.send_signed(JSON, event.to_string()).await
    }

    /// Sends any body with exactly these headers.
    pub async fn send(
        &self,
        body: impl Into<Vec<u8>>,
        headers: HeaderMap,
    ) -> Result<GatewayResponse, SayError> {
        let url = {
            let gateway = self.shared.gateway.lock().unwrap_or_else(PoisonError::into_inner);
            gateway.0.clone().ok_or(SayError::NotConnected)?
        };
        let answer = async {
            let request = self
                .shared
                .options
                .http
                .post(url)
                .headers(headers)
                .body(body.into());
            let mut response = request.send().await.ok()?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.ok()? {
                if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                    return None;
                }
                body.extend_from_slice(&chunk);
            }
            Some(GatewayResponse {
                status: response.status().as_u16(),
                body: String::from_utf8_lossy(&body).into_owned(),
            })
        };
        match tokio::time::timeout(ANSWER_TIME_MAX, answer).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => Err(SayError::NoAnswer),
        }
    }

    /// Returns the headers that Slack would send with this body.
    pub fn signed_headers(&self, content_type: &str, body: &[u8]) -> HeaderMap {
        let seconds = (self.shared.options.at)().as_second().to_string();
        let signature = signature(&self.shared.options.signing_secret, &seconds, body);
        [
            ("content-type", content_type),
            ("x-slack-request-timestamp", seconds.as_str()),
            ("x-slack-signature", signature.as_str()),
        ]
        .into_iter()
        .filter_map(|(name, value)| {
            let value = http::HeaderValue::from_str(value).ok()?;
            Some((http::HeaderName::from_static(name), value))
        })
        .collect()
    }

    /// Sends a body, signed; over a socket while Socket Mode is on.
    async fn send_signed(&self, content_type: &str, body: String) -> Result<GatewayResponse, SayError> {
        if let Some((kind, payload)) = self.as_envelope(content_type, &body) {
            return self.send_envelope(kind, payload).await;
        }
        let headers = self.signed_headers(content_type, body.as_bytes());
        self.send(body, headers).await
    }

    /// Writes in a channel as a user and shares files of these names and contents. The events have the form of
    /// <https://docs.slack.dev/reference/events/message/file_share>; Slack leaves `team` out of them.
    pub async fn say_with_files(
        &self,
        user: &str,
        channel: &str,
        thread_ts: Option<&str>,
        text: &str,
        files: &[(&str, &[u8])],
    ) -> Result<SentMessage, SayError> {
        let mut written = self.write(user, channel, thread_ts, text);
        let stored = |file: &(&str, &[u8])| self.shared.change(|state| sent_files::store(state, user, *file));
        let files: Vec<Value> = files.iter().map(stored).collect();
        for envelope in &mut written.events {
            let event = &mut envelope["event"];
            event["files"] = json!(files);
            event["upload"] = json!(false);
            event["display_as_bot"] = json!(false);
            if event["type"] == "message" {
                event["subtype"] = json!("file_share");
            }
            if let Some(fields) = event.as_object_mut() {
                fields.remove("team");
            }
        }
        self.send_written(written).await
    }

    /// Writes a message as a user without sending its events. `@drydock` becomes the bot's mention, as in
    /// [`SlackEmulator::say`].
    pub fn write(&self, user: &str, channel: &str, thread_ts: Option<&str>, text: &str) -> UnsentMessage {
        let options = &self.shared.options;
        let mention = format!("<@{}>", options.bot_user);
        let text = typed(text).replace(&format!("@{}", options.bot_name), &mention);
        let (ts, client_id) = self.shared.change(|state| {
            let (ts, client_id) = (state.next_ts((options.at)()), state.next_id("client-"));
            state.messages.push(SlackMessage {
                channel: channel.to_owned(),
                ts: ts.clone(),
                thread_ts: thread_ts.map(str::to_owned),
                user: user.to_owned(),
                text: text.clone(),
                request: Value::Null,
                earlier: Vec::new(),
                reactions: BTreeSet::new(),
                edits: 0,
                shown_at: Instant::now(),
                files: Vec::new(),
            });
            (ts, client_id)
        });
        let team = self.team_of(user);
        let mut event = json!({"type": "message", "user": user, "team": team, "channel": channel, "ts": ts,
            "event_ts": ts, "client_msg_id": client_id, "text": text});
        if let Some(thread_ts) = thread_ts {
            event["thread_ts"] = json!(thread_ts);
        }
        let direct = channel.starts_with('D');
        let mut message = event.clone();
        let (channel_type, subscription) = match channel.chars().next() {
            Some('D') => ("im", "message.im"),
            Some('G') => ("group", "message.groups"),
            Some(_) | None => ("channel", "message.channels"),
        };
        message["channel_type"] = json!(channel_type);
        let is_subscribed = |event: &str| self.with_state(|state| state.is_subscribed(event));
        let mut events = Vec::new();
        if is_subscribed(subscription) {
            events.push(message);
        }
        // Slack sends no `app_mention` for direct messages.
        if text.contains(&mention) && !direct && is_subscribed("app_mention") {
            event["type"] = json!("app_mention");
            events.push(event);
            let order = self
                .shared
                .gateway
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .1;
            if order == EventOrder::MentionFirst {
                events.reverse();
            }
        }
        let events = events.iter().map(|event| self.envelope(event)).collect();
        UnsentMessage { ts, events }
    }

    /// Sends an event, possibly again. It is signed anew each time.
    pub async fn deliver(&self, event: &Value, retry: Option<Retry>) -> Result<GatewayResponse, SayError> {
        let body = event.to_string();
        let mut headers = self.signed_headers(JSON, body.as_bytes());
        if let Some(Retry { number, reason }) = retry {
            headers.insert("x-slack-retry-num", http::HeaderValue::from(u16::from(number)));
            headers.insert("x-slack-retry-reason", http::HeaderValue::from_static(reason));
        }
        self.send(body, headers).await
    }

    async fn send_message(
        &self,
        user: &str,
        channel: &str,
        thread_ts: Option<&str>,
        text: &str,
    ) -> Result<SentMessage, SayError> {
        let written = self.write(user, channel, thread_ts, text);
        self.send_written(written).await
    }

    async fn send_written(&self, written: UnsentMessage) -> Result<SentMessage, SayError> {
        if self.with_state(|state| state.socket_mode.is_on) {
            return self.send_over_sockets(written).await;
        }
        let UnsentMessage { ts, events } = written;
        let signed = events.iter().map(|event| {
            let body = event.to_string();
            (self.signed_headers(JSON, body.as_bytes()), body)
        });
        let signed: Vec<_> = signed.collect();
        let sent_at = Instant::now();
        let mut answers = Vec::new();
        for (headers, body) in signed {
            answers.push(self.send(body, headers).await?);
        }
        Ok(SentMessage { ts, sent_at, answers })
    }

    /// Returns an event in the envelope of the Events API.
    pub fn envelope(&self, event: &Value) -> Value {
        let options = &self.shared.options;
        let id = self.shared.change(|state| state.next_id("Ev"));
        json!({
            "type": "event_callback",
            "token": "deprecated",
            "team_id": options.team,
            "context_team_id": options.team,
            "api_app_id": "A0DRYDOCK",
            "event": event,
            "event_id": id,
            "event_time": (options.at)().as_second(),
            "authorizations": [{"enterprise_id": null, "team_id": options.team,
                "user_id": options.bot_user, "is_bot": true}],
        })
    }

    pub(super) fn team_of(&self, user: &str) -> String {
        self.with_state(|state| state.users.get(user).cloned())
            .unwrap_or_else(|| self.shared.options.team.clone())
    }
}

/// Returns a typed text as Slack passes it on: escaped.
fn typed(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Calculates a signature. Implemented independently, so that the emulator does not share a mistake with the tested
/// code.
fn signature(secret: &str, seconds: &str, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(b"v0:");
    mac.update(seconds.as_bytes());
    mac.update(b":");
    mac.update(body);
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}
