//! The one form of all that comes in: [`Inbound`].

use super::ResponseUrl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of service an account belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// A Slack workspace.
    Slack,
    /// A Telegram bot.
    Telegram,
    /// A signed webhook; its sender is the service identity `hook:<name>`.
    Hook,
    /// The terminal of the person who started the program.
    Terminal,
}

impl Platform {
    /// The word used in ids, logs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Telegram => "telegram",
            Self::Hook => "hook",
            Self::Terminal => "terminal",
        }
    }
}

/// One installation on a platform: a Slack workspace id, a Telegram bot id, a hook name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Account {
    /// The platform.
    pub platform: Platform,
    /// The platform's own id of the installation.
    pub id: String,
}

/// One installation as it knows itself, learnt from the platform when a channel connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The installation.
    pub account: Account,
    /// The bot's own user id there: its mention starts a turn, its own messages never do.
    pub bot_id: String,
    /// The bot's user name, without `@`.
    pub bot_name: String,
}

/// An account as the platform reports it. Only these three values ever authorise anybody.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sender {
    /// The platform.
    pub platform: Platform,
    /// The workspace the *sender* belongs to. In a shared Slack channel this is the sender's own
    /// team, not ours. For Telegram, where ids are global, the bot id.
    pub account: String,
    /// The immutable user id.
    pub id: String,
}

impl std::fmt::Display for Sender {
    /// `slack:T0ACME:U0ALICE`, the form used in the audit log and by the command line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.platform.as_str(), self.account, self.id)
    }
}

/// The place in which a message was written, and in which its reply goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChatPlace {
    /// The receiving installation.
    pub account: Account,
    /// Channel or chat id.
    pub chat: String,
    /// Thread (Slack `thread_ts ?? ts`) or topic (Telegram `message_thread_id`). `None` for a slash
    /// command, which Slack does not place in threads, and for chats without topics.
    pub thread: Option<String>,
}

/// The key of everything private: whose, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    /// The place of the conversation.
    pub place: ChatPlace,
    /// The person whose conversation it is.
    pub user: Sender,
}

/// A message as its platform names it: Slack `ts`, Telegram `message_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageRef {
    /// Channel or chat id.
    pub chat: String,
    /// The id within the chat.
    pub id: String,
}

/// One thing that came in: verified, decoded, not yet admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    /// The configured name of the channel or hook that received it, as in `[channels.slack]`.
    pub channel: String,
    /// Every name this message may arrive under again (`slack:team:event:Ev1`, `slack:team:T1:C1:1700.1`;
    /// `team` is the configured name of the channel).
    /// Never empty. If one of them was accepted before, this is a duplicate.
    pub delivery: Vec<String>,
    /// The account that sent it.
    pub sender: Sender,
    /// The place in which it was sent.
    pub place: ChatPlace,
    /// True in a one-to-one chat: the only place where an invite is redeemed.
    pub direct: bool,
    /// The message itself, for receipt and reply; `None` for slash commands and hooks.
    pub message: Option<MessageRef>,
    /// The kind and content of the message.
    pub kind: InboundKind,
    /// An address at which its sender can be answered as well, for a command that may have been typed where we are not.
    /// Kept apart from the message.
    #[serde(skip)]
    pub response_url: Option<ResponseUrl>,
}

impl Inbound {
    /// The key of the conversation this belongs to.
    pub fn key(&self) -> ConversationKey {
        ConversationKey {
            place: self.place.clone(),
            user: self.sender.clone(),
        }
    }

    /// The place where its sender alone is told something. A message at the root of a channel has a thread of its own only once
    /// somebody answers it, and Slack shows a text for one person in no other: see
    /// <https://docs.slack.dev/reference/methods/chat.postEphemeral>.
    pub fn private_place(&self) -> ChatPlace {
        let mut place = self.place.clone();
        let root = self.message.as_ref().map(|message| message.id.as_str());
        if place.account.platform == Platform::Slack && !self.direct && place.thread.as_deref() == root {
            place.thread = None;
        }
        place
    }

    /// Returns true if the bot was meant. What was not only counts where its sender has a conversation already. Everything but text is
    /// addressed by its nature.
    pub fn is_addressed(&self) -> bool {
        match &self.kind {
            InboundKind::Text { addressed, .. } => *addressed,
            InboundKind::Unsupported { .. } => self.direct,
            InboundKind::Command { .. }
            | InboundKind::Join { .. }
            | InboundKind::Click { .. }
            | InboundKind::Hook { .. } => true,
        }
    }
}

/// The kind and content of what came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboundKind {
    /// Text a person typed, without the mention of the bot.
    Text {
        /// The person's own words. Quoted and forwarded text is never part of it.
        text: String,
        /// Text of somebody else that the message quotes or replies to: data, never instructions.
        quoted: Option<String>,
        /// True when the bot was mentioned, or the chat is one-to-one. Otherwise the message only
        /// counts where its sender already has a conversation in that thread.
        addressed: bool,
    },
    /// A slash command: `/drydock status`, `/status` in Telegram. `verb` is lower case, no slash.
    Command {
        /// The word after the slash (Telegram) or after `/drydock` (Slack).
        verb: String,
        /// The rest, trimmed.
        arguments: String,
    },
    /// An invite token: `/start <token>` in Telegram, `join <token>` in Slack.
    Join {
        /// The token as typed; it is hashed before it is compared or stored.
        token: String,
    },
    /// A press on a button of ours.
    Click {
        /// The opaque one-shot token the button carries; once it is taken in, its SHA-256 in hex.
        token: String,
        /// The id by which the platform acknowledges the press (Telegram callback query id).
        callback: Option<String>,
    },
    /// A verified webhook.
    Hook {
        /// The event as its sender names it, such as `release`.
        event: String,
        /// The fields the configuration takes from the payload, in its order of names: data.
        fields: BTreeMap<String, String>,
    },
    /// A message of a kind that is not read: a photo, a voice message. Named so that the person can be told.
    Unsupported {
        /// The kind of message, as a noun: `photo`.
        what: String,
    },
}
