//! Everything the emulated Discord holds: channels, messages, interactions and calls.

use super::gateway::GatewayState;
use super::modals::ShownModal;
use super::rates::CallRates;
use super::shown::{ShownContent, shown};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// The first millisecond of the ids of Discord.
const EPOCH_MILLISECONDS: i64 = 1_420_070_400_000;

/// A failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscordFault {
    /// The answer has this status and no JSON; no effect.
    Status(u16),
    /// The call is refused with 429 and these milliseconds to wait; no effect.
    TooMany {
        /// The wait.
        milliseconds: u64,
        /// True if the limit of all calls is reached.
        is_global: bool,
    },
    /// The connection is reset before the call takes effect.
    Reset,
    /// The connection is reset after the call took effect, so that the answer is lost.
    ResetAfterEffect,
    /// The call takes effect after these milliseconds.
    Late(u64),
    /// The call takes effect, and its bucket is empty for these milliseconds.
    LastOfBucket(u64),
}

/// A channel, a thread or a direct message.
#[derive(Clone, Debug)]
pub(super) struct EmulatedChannel {
    pub(super) kind: u64,
    pub(super) parent: Option<u64>,
    /// The person of a direct message.
    pub(super) person: Option<u64>,
}

/// A message as Discord shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscordMessage {
    /// The id.
    pub id: u64,
    /// The channel or thread.
    pub channel: u64,
    /// The author.
    pub author: u64,
    /// The content as it was sent.
    pub content: String,
    /// The rows of buttons.
    pub components: Value,
    /// The flags.
    pub flags: u64,
    /// The nonce.
    pub nonce: Option<String>,
    /// The files: names and contents.
    pub files: Vec<(String, Bytes)>,
    /// The people who were pinged.
    pub pinged: Vec<u64>,
    /// The reactions of the bot.
    pub reactions: BTreeSet<String>,
    /// The number of edits.
    pub edits: usize,
    /// The only person who sees it.
    pub only_for: Option<u64>,
    /// The message that it answers.
    pub replies_to: Option<u64>,
    pub(super) kind: u64,
    /// Further fields of its object, such as the people it mentions.
    pub(super) fields: Value,
}

impl DiscordMessage {
    /// Returns what a reader sees.
    pub fn shown(&self) -> ShownContent {
        shown(&self.content)
    }

    /// Returns the visible text.
    pub fn text(&self) -> String {
        self.shown().text
    }

    /// Returns the labels of the buttons with their ids.
    pub fn buttons(&self) -> Vec<(String, String)> {
        let rows = self.components.as_array().map(Vec::as_slice).unwrap_or_default();
        let buttons = rows
            .iter()
            .filter_map(|row| row["components"].as_array())
            .flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        buttons
            .map(|button| (text(&button["label"]), text(&button["custom_id"])))
            .collect()
    }
}

/// A command or press.
#[derive(Clone, Debug)]
pub(super) struct EmulatedInteraction {
    pub(super) id: u64,
    pub(super) kind: u64,
    pub(super) person: u64,
    pub(super) channel: u64,
    pub(super) sent: Instant,
    pub(super) at: Timestamp,
    /// The type of the response, once there is one.
    pub(super) response: Option<u64>,
    /// The message of the response, or the one with the button.
    pub(super) original: Option<u64>,
}

/// The state.
#[derive(Debug, Default)]
pub struct DiscordState {
    /// All messages, in order.
    pub messages: Vec<DiscordMessage>,
    /// The calls: the name of the route and the body.
    pub calls: Vec<(String, Value)>,
    /// The registered commands.
    pub commands: Vec<Value>,
    /// The mistakes that a correct application does not make.
    pub problems: Vec<String>,
    /// The connections and sessions.
    pub gateway: GatewayState,
    pub(super) channels: BTreeMap<u64, EmulatedChannel>,
    pub(super) interactions: BTreeMap<String, EmulatedInteraction>,
    pub(super) faults: BTreeMap<String, VecDeque<DiscordFault>>,
    /// The contents of the files that people sent, by the end of their address.
    pub(super) sent_files: BTreeMap<String, Bytes>,
    pub(super) is_history_hidden: bool,
    /// The channels that the bot may not see.
    pub(super) hidden_channels: BTreeSet<u64>,
    pub(super) is_token_refused: bool,
    /// The modals that people see, oldest first.
    pub modals: Vec<ShownModal>,
    /// The times until which buckets are empty, by method and path.
    pub(super) empty_buckets: BTreeMap<String, Instant>,
    pub(super) endpoint: Option<String>,
    /// The rate limits, if they are enforced.
    pub(super) rates: Option<CallRates>,
    sequence: u64,
}

impl DiscordState {
    /// Returns a new id, which contains the time.
    pub(super) fn next_id(&mut self, at: Timestamp) -> u64 {
        self.sequence += 1;
        let milliseconds = at.as_millisecond().saturating_sub(EPOCH_MILLISECONDS);
        (u64::try_from(milliseconds).unwrap_or(1) << 22) | self.sequence
    }

    /// Returns the messages of a channel or thread.
    pub fn messages_in(&self, channel: u64) -> impl Iterator<Item = &DiscordMessage> {
        self.messages
            .iter()
            .filter(move |message| message.channel == channel)
    }

    /// Returns the id of the last message of a channel or thread that is not for one person only.
    pub(super) fn last_message(&self, channel: u64) -> Option<u64> {
        let messages = self
            .messages_in(channel)
            .filter(|message| message.only_for.is_none());
        messages.map(|message| message.id).max()
    }

    /// Returns the thread of a message, if it has one.
    pub fn thread_of(&self, message: u64) -> Option<u64> {
        self.channels.contains_key(&message).then_some(message)
    }

    /// Returns the direct message of a person, if it is open.
    pub fn direct(&self, person: u64) -> Option<u64> {
        let mut channels = self.channels.iter();
        channels.find_map(|(id, channel)| (channel.person == Some(person)).then_some(*id))
    }

    pub(super) fn open_direct(&mut self, person: u64, at: Timestamp) -> u64 {
        if let Some(channel) = self.direct(person) {
            return channel;
        }
        let id = self.next_id(at);
        let channel = EmulatedChannel {
            kind: 1,
            parent: None,
            person: Some(person),
        };
        self.channels.insert(id, channel);
        id
    }

    pub(super) fn take_fault(&mut self, route: &str) -> Option<DiscordFault> {
        self.faults.get_mut(route)?.pop_front()
    }
}

/// Returns a channel object.
pub(super) fn channel_json(id: u64, channel: &EmulatedChannel, guild: u64) -> Value {
    let mut json = json!({"id": id.to_string(), "type": channel.kind});
    if channel.person.is_none() {
        json["guild_id"] = json!(guild.to_string());
        json["name"] = json!("platform");
        json["position"] = json!(0);
        json["permission_overwrites"] = json!([]);
    }
    if let Some(parent) = channel.parent {
        json["parent_id"] = json!(parent.to_string());
    }
    json
}

/// Returns a channel object as a list of channels shows it.
pub(super) fn listed_channel(state: &DiscordState, id: u64, channel: &EmulatedChannel, guild: u64) -> Value {
    let mut json = channel_json(id, channel, guild);
    json["last_message_id"] = json!(state.last_message(id).map(|id| id.to_string()));
    json
}

/// Returns a user object.
pub(super) fn user_json(id: u64) -> Value {
    json!({"id": id.to_string(), "username": format!("u{id}"), "discriminator": "0", "global_name": null,
        "avatar": null, "bot": false})
}

/// Returns the user object of a bot.
pub(super) fn bot_json(id: u64) -> Value {
    let mut user = user_json(id);
    user["bot"] = json!(true);
    user
}
