//! The workspace as its users would see it: channels, messages, reactions, files, and the problems of the requests
//! that created them.

use super::app_home::PublishedHome;
use super::code_channels::CodeChannel;
use super::manifest::InstalledApp;
use super::mentions::{self, Mention, walk};
use super::response::ResponseAddress;
use super::sent_files::SentSlackFile;
use super::sessions::AgentSession;
use super::sockets::SocketModeState;
use super::streams::SlackStream;
use super::views::{OpenView, Trigger};
use crate::simulation::emulator::lasting_fault::LastingFault;
use crate::simulation::emulator::requested_wait::RequestedWaits;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// A workspace.
#[derive(Debug, Default)]
pub struct SlackState {
    /// All messages, of users and of the bot, oldest first.
    pub messages: Vec<SlackMessage>,
    /// The ephemeral messages.
    pub ephemerals: Vec<SlackMessage>,
    /// The shared files.
    pub files: Vec<SharedFile>,
    /// All Web API calls: method, and error code if refused.
    pub calls: Vec<SlackCall>,
    /// The problems of requests: those that Slack would refuse, and those that a good app would not make.
    pub problems: Vec<String>,
    /// The scopes of the bot, which are sent with every answer.
    pub scopes: BTreeSet<&'static str>,
    /// Socket Mode of the app.
    pub socket_mode: SocketModeState,
    /// The scopes that calls needed so far.
    pub scopes_used: BTreeSet<&'static str>,
    /// The requests of the installed app; `None` for an app with everything.
    pub(super) app: Option<InstalledApp>,
    /// The time that answers show, if it is not that of this machine.
    pub(super) date: Option<Timestamp>,
    /// True while the scopes are not sent.
    pub(super) are_scopes_hidden: bool,
    /// The users by id, with their team.
    pub(super) users: BTreeMap<String, String>,
    /// The channels by id, with their members.
    pub(super) channels: BTreeMap<String, BTreeSet<String>>,
    /// The code channels, by id.
    pub code_channels: BTreeMap<String, CodeChannel>,
    /// The sessions of the agent, by channel and root of the thread.
    pub sessions: BTreeMap<(String, String), AgentSession>,
    /// The messages that are or were streamed, by channel and id.
    pub(super) streams: BTreeMap<(String, String), SlackStream>,
    /// The methods that the workspace does not know.
    pub(super) unknown_methods: BTreeSet<&'static str>,
    /// The events that the app does not get although its manifest names them.
    pub(super) unsubscribed: BTreeSet<String>,
    /// The types of blocks that the workspace does not know.
    pub(super) unknown_blocks: BTreeSet<&'static str>,
    /// The modals that users see, oldest first.
    pub views: Vec<OpenView>,
    /// The views in the Home tabs, by user.
    pub homes: BTreeMap<String, PublishedHome>,
    /// The triggers of presses, by id.
    pub(super) triggers: BTreeMap<String, Trigger>,
    pub(super) are_triggers_late: bool,
    /// The response URLs of commands, by id.
    pub(super) responses: BTreeMap<String, ResponseAddress>,
    pub(super) uploads: BTreeMap<String, Upload>,
    /// The files that users sent, by id.
    pub(super) sent_files: BTreeMap<String, SentSlackFile>,
    pub(super) faults: BTreeMap<String, VecDeque<SlackFault>>,
    pub(super) lasting_faults: Vec<LastingFault<SlackFault>>,
    /// The error of every call while the token is rejected.
    pub(super) token_refusal: Option<String>,
    /// The times of the calls in each rate-limited bucket within the last minute.
    pub(super) used: BTreeMap<String, VecDeque<Timestamp>>,
    /// The waits that calls were answered with.
    pub(super) waits: RequestedWaits,
    pub(super) count: u64,
}

/// A call of the Web API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlackCall {
    /// The method, such as `chat.postMessage`.
    pub method: String,
    /// The error code of the answer; `None` if the call succeeded.
    pub refused: Option<String>,
}

/// A message in its current form.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackMessage {
    /// The channel id.
    pub channel: String,
    /// The id in the channel.
    pub ts: String,
    /// The root of the message's thread; `None` at the root.
    pub thread_ts: Option<String>,
    /// The author; for ephemeral messages, the recipient.
    pub user: String,
    /// The text, in Slack's markup.
    pub text: String,
    /// The complete request that created the current form; null for users' messages.
    pub request: Value,
    /// The requests that created the earlier forms, oldest first.
    pub earlier: Vec<Value>,
    /// The names of the bot's reactions.
    pub reactions: BTreeSet<String>,
    /// The number of edits.
    pub edits: usize,
    /// The time at which the message was written or last edited.
    pub shown_at: Instant,
    /// The ids of the message's files.
    pub files: Vec<String>,
}

/// A button as a user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownButton {
    /// The label.
    pub label: String,
    /// The value of a press of the button.
    pub value: String,
    /// The id in the message.
    pub action_id: String,
    /// The dialog that Slack shows before a press is sent; null if there is none.
    pub confirm: Value,
}

impl SlackMessage {
    /// Returns all names that Slack would notify and all addresses that it would link because of this message, on all
    /// its surfaces.
    pub fn mentions(&self) -> Vec<Mention> {
        let mut found = mentions::mentions_in_markup(&self.text);
        let parsed = self.request["link_names"] == true || self.request["parse"] != "none";
        if parsed {
            found.extend(mentions::mentions_in_parsed_text(&self.text));
        }
        found.extend(mentions::mentions_in_blocks(&self.request["blocks"]));
        found
    }

    /// Returns the text that a user reads, block by block; the plain text if there are no blocks.
    pub fn visible(&self) -> Vec<String> {
        match self.request["blocks"].as_array() {
            Some(blocks) => blocks.iter().map(mentions::visible).collect(),
            None => vec![self.text.clone()],
        }
    }

    /// Returns the message in its form before each edit, oldest first.
    pub fn before_edits(&self) -> impl Iterator<Item = Self> {
        self.earlier.iter().map(|request| Self {
            text: request["text"].as_str().unwrap_or_default().to_owned(),
            request: request.clone(),
            earlier: Vec::new(),
            ..self.clone()
        })
    }

    /// Returns the buttons, left to right.
    pub fn buttons(&self) -> Vec<ShownButton> {
        let mut buttons = Vec::new();
        walk(&self.request["blocks"], &mut |node| {
            if node["type"] == "button" {
                let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                buttons.push(ShownButton {
                    label: text_of(&node["text"]["text"]),
                    value: text_of(&node["value"]),
                    action_id: text_of(&node["action_id"]),
                    confirm: node["confirm"].clone(),
                });
            }
        });
        buttons
    }
}

/// A shared file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The title that users see above the file.
    pub title: String,
    /// The bytes.
    pub content: Bytes,
    /// The channel where it was shared.
    pub channel: String,
    /// The thread where it was shared.
    pub thread_ts: Option<String>,
}

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) length: usize,
    pub(super) content: Option<Bytes>,
}

/// A requested fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackFault {
    /// An HTTP status, with no effect.
    Status {
        /// The status, such as 429, 500 or 503.
        status: u16,
        /// The value of `Retry-After`.
        retry_after_seconds: Option<u64>,
    },
    /// An answer of `ok: false` with this code, without effect.
    Refuse(String),
    /// The connection closes before the call takes effect.
    ResetBefore,
    /// The call takes effect, and then the connection closes without an answer.
    ResetAfter,
}

impl SlackState {
    pub(super) fn record_call(&mut self, method: &str, refused: Option<String>) {
        self.calls.push(SlackCall {
            method: method.to_owned(),
            refused,
        });
    }

    /// Returns a new, later message id.
    pub(super) fn next_ts(&mut self, at: Timestamp) -> String {
        self.count += 1;
        format!("{}.{:06}", at.as_second(), self.count)
    }

    /// Returns a new id for any other object.
    pub(super) fn next_id(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{:08}", self.count)
    }

    pub(super) fn message_mut(&mut self, channel: &str, ts: &str) -> Option<&mut SlackMessage> {
        let mut newest_first = self.messages.iter_mut().rev();
        newest_first.find(|message| message.ts == ts && message.channel == channel)
    }

    /// Returns a message by channel and id.
    pub fn message(&self, channel: &str, ts: &str) -> Option<&SlackMessage> {
        let mut newest_first = self.messages.iter().rev();
        newest_first.find(|message| message.ts == ts && message.channel == channel)
    }

    /// Returns the messages of a thread after its root, oldest first.
    pub fn replies<'a>(
        &'a self,
        channel: &'a str,
        thread_ts: &'a str,
    ) -> impl Iterator<Item = &'a SlackMessage> {
        self.messages.iter().filter(move |message| {
            message.channel == channel && message.thread_ts.as_deref() == Some(thread_ts)
        })
    }
}
