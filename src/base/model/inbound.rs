//! [`Inbound`]: the common form of all incoming messages and events.

use super::{PipelineWork, Platform, ResponseUrl, ScheduledWork};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One installation on a platform: a Slack workspace id, a Telegram bot id, a hook name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Account {
    /// The platform.
    pub platform: Platform,
    /// The platform's own id of the installation.
    pub id: String,
}

impl Account {
    /// Returns the account of the hook of this name.
    pub fn of_hook(name: &str) -> Self {
        Self {
            platform: Platform::Hook,
            id: name.to_owned(),
        }
    }

    /// Returns the account of the places in which the work of schedules happens.
    pub fn of_schedules() -> Self {
        Self {
            platform: Platform::Schedule,
            id: "schedules".to_owned(),
        }
    }

    /// Returns the account of the places in which the agent steps of pipelines run.
    pub fn of_pipelines() -> Self {
        Self {
            platform: Platform::Pipeline,
            id: "pipelines".to_owned(),
        }
    }
}

/// The identity of one installation, received from the platform when a channel connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The installation.
    pub account: Account,
    /// The bot's own user id on the platform: a mention of it starts a turn; its own messages never do.
    pub bot_id: String,
    /// The bot's user name, without `@`.
    pub bot_name: String,
}

/// An account as the platform reports it. Authorisation uses only these three values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sender {
    /// The platform.
    pub platform: Platform,
    /// The workspace of the *sender*. In a shared Slack channel this is the sender's own team, not ours. For
    /// Telegram, whose user ids are global, it is the bot id.
    pub account: String,
    /// The immutable user id.
    pub id: String,
}

impl Sender {
    /// Returns the service identity of the hook of this name.
    pub fn of_hook(name: &str) -> Self {
        Self {
            platform: Platform::Hook,
            account: name.to_owned(),
            id: name.to_owned(),
        }
    }

    /// Returns the service identity of the configured schedule of this name.
    pub fn of_schedule(name: &str) -> Self {
        Self {
            platform: Platform::Schedule,
            account: name.to_owned(),
            id: name.to_owned(),
        }
    }

    /// Returns the service identity of the section `[services]` of this name.
    pub fn of_service(name: &str) -> Self {
        Self {
            platform: Platform::Service,
            account: name.to_owned(),
            id: name.to_owned(),
        }
    }

    /// True for the service identity of a section `[services]`.
    pub fn is_of_service(&self) -> bool {
        self.platform == Platform::Service
    }

    /// Returns the section of the configuration that defines this service identity and its grant, such as `hooks.release`;
    /// `None` for a person.
    pub fn section(&self) -> Option<String> {
        let kind = match self.platform {
            Platform::Hook => "hooks",
            Platform::Schedule => "schedules",
            Platform::Service => "services",
            _ => return None,
        };
        Some(format!("{kind}.{}", self.id))
    }

    /// Returns the beginning of the ids of the operations that answer the invites of this account, which come in its private
    /// chat only.
    pub fn join_op_prefix(&self) -> String {
        format!("join/{self}/")
    }

    /// Returns the person at the terminal.
    pub fn of_terminal(name: &str) -> Self {
        Self {
            platform: Platform::Terminal,
            account: "local".to_owned(),
            id: name.to_owned(),
        }
    }
}

impl std::fmt::Display for Sender {
    /// Formats the sender for the audit log and the command line: `slack:T0ACME:U0ALICE`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.platform.as_str(), self.account, self.id)
    }
}

/// The place where a message was written and where its reply goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChatPlace {
    /// The receiving installation.
    pub account: Account,
    /// The id of the channel or chat.
    pub chat: String,
    /// The thread (Slack `thread_ts ?? ts`) or topic (Telegram `message_thread_id`). `None` for a slash command,
    /// which Slack does not place in threads, and for chats without topics.
    pub thread: Option<String>,
}

/// The key of private data: the user and the place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    /// The place of the conversation.
    pub place: ChatPlace,
    /// The user whose conversation it is.
    pub user: Sender,
}

/// The platform's identity of a message: Slack `ts`, Telegram `message_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageRef {
    /// The id of the channel or chat.
    pub chat: String,
    /// The id within the chat.
    pub id: String,
}

/// An incoming message or event that is verified and decoded; its sender is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    /// The configured name of the channel or hook that received it, as in `[channels.slack]`.
    pub channel: String,
    /// The identities by which a redelivery of this message is recognised (`slack:team:event:Ev1`,
    /// `slack:team:T1:C1:1700.1`; `team` is the configured name of the channel). Never empty. If one of them was
    /// accepted before, this is a duplicate.
    pub delivery: Vec<String>,
    /// The account of the sender.
    pub sender: Sender,
    /// The place where it was sent.
    pub place: ChatPlace,
    /// True in a one-to-one chat, the only place where an invite can be redeemed.
    pub direct: bool,
    /// The message itself, for receipt and reply; `None` for slash commands, forms and hooks.
    pub message: Option<MessageRef>,
    /// The subject of a form whose words these are, as it was given to [`super::Action::AskForWords`]. The words are in
    /// no message, and are never a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The kind and content of the message.
    pub kind: InboundKind,
    /// The files that are attached to the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChatFile>,
    /// An additional address for answers to a command, which may have been sent in a conversation without the bot.
    /// Stored separately from the message.
    #[serde(skip)]
    pub response_url: Option<ResponseUrl>,
}

/// A file that is attached to a message. Its content stays on the platform until a turn reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFile {
    /// The name that the person sees, such as `values.yaml`, or the kind of a file without a name, such as `photo`.
    pub name: String,
    /// The size in bytes, if the platform says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The name under which the channel reads it; `None` for a file that is no text, such as a photo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl Inbound {
    /// Returns the key of the message's conversation.
    pub fn key(&self) -> ConversationKey {
        ConversationKey {
            place: self.place.clone(),
            user: self.sender.clone(),
        }
    }

    /// Returns the place for ephemeral answers to the sender. A message at the root of a chat has a thread only once it
    /// is answered, and a platform may show ephemeral messages in no other thread.
    pub fn private_place(&self) -> ChatPlace {
        let mut place = self.place.clone();
        let root = self.message.as_ref().map(|message| message.id.as_str());
        let chat = place.account.platform.chat();
        let is_hidden = chat.is_some_and(|chat| chat.hides_notices_in_new_threads);
        if is_hidden && !self.direct && place.thread.as_deref() == root {
            place.thread = None;
        }
        place
    }

    /// Returns true if the message is the first of its thread in a group: a thread that a message begins has its id.
    pub fn begins_thread(&self) -> bool {
        let thread = self.place.thread.as_ref();
        let message = self.message.as_ref();
        !self.direct && thread.is_some() && thread == message.map(|message| &message.id)
    }

    /// Returns true if the message is addressed to the bot. Any other message counts only if its sender already has a
    /// conversation there. All kinds except text are always addressed.
    pub fn is_addressed(&self) -> bool {
        match &self.kind {
            InboundKind::Text { addressed, .. } => *addressed,
            InboundKind::Unsupported { .. } => self.direct,
            InboundKind::Command { .. }
            | InboundKind::Join { .. }
            | InboundKind::Click { .. }
            | InboundKind::HomeOpened
            | InboundKind::Hook { .. }
            | InboundKind::Schedule(_)
            | InboundKind::Pipeline(_) => true,
        }
    }
}

/// The kind and content of a message or event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboundKind {
    /// A text that a user typed, without the mention of the bot.
    Text {
        /// The user's own words, without quoted and forwarded text.
        text: String,
        /// The text of others that the message quotes or replies to: data, never instructions.
        quoted: Option<String>,
        /// True if the bot was mentioned, or the chat is one-to-one. Otherwise the message counts only if its sender
        /// already has a conversation in that thread.
        addressed: bool,
    },
    /// A slash command: `/drydock status`, or `/status` in Telegram. `verb` is in lower case, without a slash.
    Command {
        /// The word after the slash (Telegram) or after `/drydock` (Slack).
        verb: String,
        /// The rest of the text, trimmed.
        arguments: String,
    },
    /// An invite token: `/start <token>` in Telegram, `join <token>` in Slack.
    Join {
        /// The token as typed; it is hashed before it is compared or stored.
        token: String,
    },
    /// A press of one of Drydock's buttons.
    Click {
        /// The button's opaque one-shot token; after the message is accepted, its SHA-256 in hex.
        token: String,
        /// The id by which the platform acknowledges the press (Telegram callback query id).
        callback: Option<String>,
        /// The id with which the platform opens a form for the person (Slack trigger id, Discord interaction id). It is
        /// valid for seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<String>,
    },
    /// A verified webhook.
    Hook {
        /// The name of the event, as chosen by its sender, such as `release`.
        event: String,
        /// The configured fields of the payload, sorted by name: data.
        fields: BTreeMap<String, String>,
        /// The whole payload, if the hook starts pipelines: data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Box<serde_json::Value>>,
    },
    /// The start of work at a time of a schedule.
    Schedule(ScheduledWork),
    /// The start of an agent step of a pipeline.
    Pipeline(Box<PipelineWork>),
    /// The opening of the page of the bot that the platform shows beside its chat. It is never stored, and may be lost.
    HomeOpened,
    /// A message of an unsupported kind: a photo, a voice message. The kind is named in the answer to the user.
    Unsupported {
        /// The kind of message, as a noun: `photo`.
        what: String,
    },
}
