//! Chats, messages and waiting updates of the emulated Telegram.

use super::ephemeral::{EphemeralCommand, EphemeralMessage};
use super::profile::DescriptionKind;
use super::sent_files::SentTelegramFile;
use super::{BOT_ID, BOT_NAME};
use crate::simulation::emulator::lasting_fault::LastingFault;
use crate::simulation::emulator::requested_wait::RequestedWaits;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// The maximum number of messages within one second in a chat.
const BURST_MAX: usize = 4;
/// The maximum number of recorded calls and problems; further ones are dropped.
const KEPT_MAX: usize = 100_000;

/// A requested fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TelegramFault {
    /// The answer has this status and an HTML page; no effect.
    Status(u16),
    /// The call is refused with this code and description; no effect.
    Refused(u16, String),
    /// The call is refused with 429 and these seconds to wait; no effect.
    TooMany(u64),
    /// The connection is reset before the call takes effect.
    Reset,
    /// The connection is reset after the call took effect, so that the answer is lost.
    ResetAfterEffect,
    /// The call has no effect and no answer.
    Silence,
}

/// A message of the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedMessage {
    /// The id within the chat.
    pub id: i64,
    /// The topic of the message.
    pub topic: Option<i64>,
    /// The text or caption.
    pub text: String,
    /// The entities; of a rich message, those that its text would have.
    pub entities: Vec<Value>,
    /// The `InputRichMessage` of a rich message, whose `text` is what a person reads.
    pub rich: Option<Value>,
    /// The rows of buttons: label and callback data.
    pub keyboard: Vec<Vec<(String, String)>>,
    /// The message it replies to.
    pub reply_to: Option<i64>,
    /// The file name and content of a document.
    pub document: Option<(String, bytes::Bytes)>,
    /// The number of edits.
    pub edits: usize,
}

/// A draft that a user sees in their private chat.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownDraft {
    /// The id.
    pub id: i64,
    /// The topic of the draft.
    pub topic: Option<i64>,
    /// The text.
    pub text: String,
    /// The `InputRichMessage` of a rich draft, whose `text` is what a person reads.
    pub rich: Option<Value>,
    /// True if the user sees a button that stops it.
    pub can_stop: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RegisteredWebhook {
    pub(super) url: String,
    pub(super) secret: String,
}

#[derive(Debug, Default)]
pub(super) struct EmulatedChat {
    topics: BTreeSet<i64>,
    next_message: i64,
    users: BTreeMap<i64, Value>,
    pub(super) posted: BTreeMap<i64, PostedMessage>,
}

#[derive(Debug, Default)]
pub(super) struct Rates {
    sent: BTreeMap<i64, VecDeque<Instant>>,
    /// Messages of the last second in all chats.
    all: VecDeque<Instant>,
    /// The number of refused messages and edits.
    pub(super) refused: usize,
}

pub(super) struct TelegramState {
    pub(super) token: String,
    pub(super) chats: BTreeMap<i64, EmulatedChat>,
    pub(super) webhook: Option<RegisteredWebhook>,
    pub(super) allowed_updates: Option<Vec<String>>,
    pub(super) connections_max: i64,
    /// The time and the reason of the last delivery to the webhook that failed.
    pub(super) webhook_error: Option<(i64, String)>,
    /// True in privacy mode, in which the bot does not see all messages of groups.
    pub(super) is_private: bool,
    /// The commands of each scope and language.
    pub(super) commands: BTreeMap<(String, String), Vec<Value>>,
    /// The descriptions in each language.
    pub(super) descriptions: BTreeMap<(DescriptionKind, String), String>,
    /// The time that answers show, if it is not that of this machine.
    pub(super) date: Option<Timestamp>,
    pub(super) updates: VecDeque<(i64, Value)>,
    pub(super) next_update: i64,
    pub(super) polls: u64,
    /// The number of the last poll that is answered with nothing, as after half a minute without updates.
    pub(super) polls_ended: u64,
    pub(super) callbacks: BTreeSet<String>,
    /// The files that users sent, by their id for the bot.
    pub(super) sent_files: BTreeMap<String, SentTelegramFile>,
    pub(super) answers: Vec<(String, String)>,
    pub(super) reactions: BTreeMap<(i64, i64), String>,
    /// The commands that only a user and the bot see, by their id.
    pub(super) ephemeral_commands: BTreeMap<i64, EphemeralCommand>,
    /// The messages of the bot that only one user of a group sees.
    pub(super) ephemeral_answers: Vec<EphemeralMessage>,
    /// The drafts that are shown, by chat.
    pub(super) drafts: BTreeMap<i64, ShownDraft>,
    /// The methods that the server does not know, because it is an older one.
    pub(super) missing_methods: &'static [&'static str],
    pub(super) rates: Option<Rates>,
    /// The waits that calls were answered with, by chat.
    pub(super) waits: RequestedWaits,
    pub(super) faults: Vec<(String, TelegramFault)>,
    pub(super) lasting_faults: Vec<LastingFault<TelegramFault>>,
    /// True if the token is revoked, so that calls are answered with 401.
    pub(super) is_revoked: bool,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) problems: Vec<String>,
}

/// A user, in Telegram's format.
pub(super) struct EmulatedUser(pub(super) i64);

impl EmulatedUser {
    pub(super) fn describe(&self) -> Value {
        json!({"id": self.0, "is_bot": false, "first_name": format!("User {}", self.0)})
    }
}

impl TelegramState {
    pub(super) fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            chats: BTreeMap::new(),
            webhook: None,
            allowed_updates: None,
            connections_max: 0,
            webhook_error: None,
            is_private: false,
            commands: BTreeMap::new(),
            descriptions: BTreeMap::new(),
            date: None,
            updates: VecDeque::new(),
            next_update: 1000,
            polls: 0,
            polls_ended: 0,
            callbacks: BTreeSet::new(),
            sent_files: BTreeMap::new(),
            answers: Vec::new(),
            reactions: BTreeMap::new(),
            ephemeral_commands: BTreeMap::new(),
            ephemeral_answers: Vec::new(),
            drafts: BTreeMap::new(),
            missing_methods: &[],
            rates: None,
            waits: RequestedWaits::default(),
            faults: Vec::new(),
            lasting_faults: Vec::new(),
            is_revoked: false,
            calls: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn add_group(&mut self, chat: i64, topics: &[i64]) {
        self.chats.entry(chat).or_default().topics.extend(topics);
    }

    pub(super) fn problem(&mut self, what: String) {
        if self.problems.len() < KEPT_MAX {
            self.problems.push(what);
        }
    }

    pub(super) fn record_call(&mut self, method: &str, parameters: &Value) {
        if self.calls.len() < KEPT_MAX {
            self.calls.push((method.to_owned(), parameters.clone()));
        }
    }

    pub(super) fn take_fault(&mut self, method: &str) -> Option<TelegramFault> {
        match self.faults.iter().position(|(of, _)| of == method) {
            Some(index) => Some(self.faults.remove(index).1),
            None => self
                .lasting_faults
                .iter_mut()
                .find_map(|lasting| lasting.next_fault(method)),
        }
    }

    pub(super) fn is_wanted(&self, kind: &str) -> bool {
        let allowed = self.allowed_updates.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|allowed| allowed == kind))
    }

    pub(super) fn update_id(&mut self) -> i64 {
        let id = self.next_update;
        self.next_update += 1;
        id
    }

    pub(super) fn queue(&mut self, update: Value) {
        let id = update["update_id"].as_i64().unwrap_or_default();
        self.updates.push_back((id, update));
    }

    /// Records a message of a user, and returns its update and its id.
    pub(super) fn record_message(&mut self, user: i64, chat: i64, fields: Value) -> (Value, i64) {
        let id = self.next_message(chat);
        let mut message = json!({
            "message_id": id, "date": 1_700_000_000, "chat": describe_chat(chat), "from": EmulatedUser(user).describe(),
        });
        if let (Some(message), Some(fields)) = (message.as_object_mut(), fields.as_object()) {
            message.extend(fields.clone());
        }
        if let Some(text) = message["text"].as_str() {
            let entities = super::links::auto_entities(text);
            if !entities.is_empty() && message.get("entities").is_none() {
                message["entities"] = json!(entities);
            }
        }
        self.chats
            .entry(chat)
            .or_default()
            .users
            .insert(id, message.clone());
        let update = json!({"update_id": self.update_id(), "message": message});
        (update, id)
    }

    pub(super) fn record_edit(&mut self, user: i64, chat: i64, message: i64, text: &str) -> Value {
        let edited = json!({
            "message_id": message, "date": 1_700_000_000, "edit_date": 1_700_000_001,
            "chat": describe_chat(chat), "from": EmulatedUser(user).describe(), "text": text,
        });
        json!({"update_id": self.update_id(), "edited_message": edited})
    }

    pub(super) fn record_press(&mut self, user: i64, chat: i64, message: i64, label: &str) -> Option<Value> {
        let posted = self.chats.get(&chat)?.posted.get(&message)?;
        let posted = posted.clone();
        self.record_press_as_seen(user, chat, &posted, label)
    }

    /// Returns the update for a press of a button of a message as it was seen; `None` if it had no such button.
    pub(super) fn record_press_as_seen(
        &mut self,
        user: i64,
        chat: i64,
        posted: &PostedMessage,
        label: &str,
    ) -> Option<Value> {
        let mut buttons = posted.keyboard.iter().flatten();
        let (data, message) = (buttons.find(|(of, _)| of == label)?.1.clone(), posted.id);
        let described = self.describe_message(chat, message);
        let id = self.update_id();
        let callback = format!("cb{id}");
        self.callbacks.insert(callback.clone());
        Some(json!({"update_id": id, "callback_query": {
            "id": callback, "from": EmulatedUser(user).describe(), "chat_instance": "1", "data": data, "message": described,
        }}))
    }

    /// Returns the update for a press of the button that stops a draft; `None` if no draft with a button is shown. See
    /// <https://core.telegram.org/bots/api#messagegenerationstopped>.
    pub(super) fn record_stop(&mut self, user: i64) -> Option<Value> {
        let draft = self.drafts.get(&user).filter(|draft| draft.can_stop)?.clone();
        self.drafts.remove(&user);
        let mut stopped = json!({"chat": describe_chat(user), "draft_id": draft.id});
        if let Some(topic) = draft.topic {
            stopped["message_thread_id"] = json!(topic);
        }
        Some(json!({"update_id": self.update_id(), "stopped_message_generation": stopped}))
    }

    pub(super) fn next_message(&mut self, chat: i64) -> i64 {
        let chat = self.chats.entry(chat).or_default();
        chat.next_message += 1;
        100 + chat.next_message
    }

    /// Returns a message in the format of updates and answers.
    pub(super) fn describe_message(&self, chat: i64, message: i64) -> Value {
        let Some(of) = self.chats.get(&chat) else {
            return Value::Null;
        };
        if let Some(message) = of.users.get(&message) {
            return message.clone();
        }
        let Some(posted) = of.posted.get(&message) else {
            return Value::Null;
        };
        let bot = json!({"id": BOT_ID, "is_bot": true, "first_name": "Drydock", "username": BOT_NAME});
        let mut described = json!({
            "message_id": message, "date": 1_700_000_000, "chat": describe_chat(chat), "from": bot,
        });
        match &posted.rich {
            Some(rich) => described["rich_message"] = json!({"blocks": rich["blocks"]}),
            None => {
                described["text"] = json!(posted.text);
                described["entities"] = json!(posted.entities);
            }
        }
        if let Some(topic) = posted.topic {
            described["message_thread_id"] = json!(topic);
            described["is_topic_message"] = json!(true);
        }
        described
    }

    pub(super) fn exists(&self, chat: i64, message: i64) -> bool {
        !self.describe_message(chat, message).is_null()
    }

    pub(super) fn has_topic(&self, chat: i64, topic: i64) -> bool {
        self.chats
            .get(&chat)
            .is_some_and(|chat| chat.topics.contains(&topic))
    }

    pub(super) fn delete(&mut self, chat: i64, message: i64) {
        if let Some(chat) = self.chats.get_mut(&chat) {
            chat.users.remove(&message);
            chat.posted.remove(&message);
        }
    }

    pub(super) fn posted(&self, chat: i64) -> Vec<PostedMessage> {
        let chat = self.chats.get(&chat);
        chat.map(|chat| chat.posted.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl Rates {
    /// Counts a message or an edit, or returns the seconds to wait before it. The limits are: in a chat one per
    /// second with short bursts, in a group 20 per minute, and 30 per second in total.
    pub(super) fn count(&mut self, chat: i64, now: Instant) -> Result<(), u64> {
        let wait = self.wait(chat, now);
        match wait {
            Some(wait) => {
                self.refused += 1;
                Err(wait)
            }
            None => {
                self.sent.entry(chat).or_default().push_back(now);
                self.all.push_back(now);
                Ok(())
            }
        }
    }

    fn wait(&mut self, chat: i64, now: Instant) -> Option<u64> {
        while self.all.front().is_some_and(|at| (now - *at).as_millis() >= 1000) {
            self.all.pop_front();
        }
        if self.all.len() >= 30 {
            return Some(1);
        }
        let sent = self.sent.entry(chat).or_default();
        while sent.front().is_some_and(|at| (now - *at).as_secs() >= 60) {
            sent.pop_front();
        }
        let most = if chat < 0 { 20 } else { 60 };
        if sent.len() >= most {
            let oldest = sent.front().map_or(0, |at| (now - *at).as_secs());
            return Some(60_u64.saturating_sub(oldest).max(1));
        }
        let recent = sent.iter().rev().take_while(|at| (now - **at).as_millis() < 1000);
        (recent.count() >= BURST_MAX).then_some(1)
    }
}

pub(super) fn describe_chat(chat: i64) -> Value {
    let kind = if chat > 0 { "private" } else { "supergroup" };
    json!({"id": chat, "type": kind})
}
