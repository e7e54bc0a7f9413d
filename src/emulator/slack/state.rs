//! The workspace as people would see it: channels, messages, reactions, files, and what was wrong with
//! the requests that made them.

use super::mentions::{self, Mention, walk};
use super::response::ResponseAddress;
use crate::emulator::lasting_fault::LastingFault;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// A workspace.
#[derive(Debug, Default)]
pub struct SlackState {
    /// All messages, oldest first: people's and the bot's.
    pub messages: Vec<SlackMessage>,
    /// Messages that one person saw.
    pub ephemerals: Vec<SlackMessage>,
    /// Files that were shared.
    pub files: Vec<SharedFile>,
    /// Every Web API call: method, and error code if it was refused.
    pub calls: Vec<SlackCall>,
    /// The problems of requests: those Slack would not have taken, or a good app would not make.
    pub problems: Vec<String>,
    /// The scopes of the bot; told with every answer.
    pub scopes: BTreeSet<&'static str>,
    /// True while they are told to nobody.
    pub(super) are_scopes_hidden: bool,
    /// Users by id, with their team.
    pub(super) users: BTreeMap<String, String>,
    /// Channels by id, with their members.
    pub(super) channels: BTreeMap<String, BTreeSet<String>>,
    /// Addresses for answers to commands, by id.
    pub(super) responses: BTreeMap<String, ResponseAddress>,
    pub(super) uploads: BTreeMap<String, Upload>,
    pub(super) faults: BTreeMap<String, VecDeque<SlackFault>>,
    pub(super) lasting_faults: Vec<LastingFault<SlackFault>>,
    /// The error every call is refused with while the token is not taken.
    pub(super) token_refusal: Option<String>,
    /// The times at which each rate-limited bucket was used, within the last minute.
    pub(super) used: BTreeMap<String, VecDeque<Timestamp>>,
    pub(super) count: u64,
}

/// A call of the Web API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlackCall {
    /// `chat.postMessage`.
    pub method: String,
    /// The error it was answered with; `None` when it worked.
    pub refused: Option<String>,
}

/// A message as it is shown now.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackMessage {
    /// Channel id.
    pub channel: String,
    /// The id in the channel.
    pub ts: String,
    /// The root of its thread; `None` at the root.
    pub thread_ts: Option<String>,
    /// The author; for ephemerals, the person who sees it.
    pub user: String,
    /// The text, in Slack's markup.
    pub text: String,
    /// The whole request that made it what it is now; null for people's messages.
    pub request: Value,
    /// The requests that made it what it was before, oldest first: whoever looked then has read them.
    pub earlier: Vec<Value>,
    /// Names of the bot's reactions.
    pub reactions: BTreeSet<String>,
    /// The number of edits.
    pub edits: usize,
    /// The time at which it was written, or edited last.
    pub shown_at: Instant,
    /// Ids of its files.
    pub files: Vec<String>,
}

/// A button as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownButton {
    /// The label.
    pub label: String,
    /// The value a press on it carries.
    pub value: String,
    /// The id in the message.
    pub action_id: String,
}

impl SlackMessage {
    /// Returns all names Slack would notify and addresses it would link because of this message, on all its surfaces.
    pub fn mentions(&self) -> Vec<Mention> {
        let mut found = mentions::mentions_in_markup(&self.text);
        let parsed = self.request["link_names"] == true || self.request["parse"] != "none";
        if parsed {
            found.extend(mentions::mentions_in_parsed_text(&self.text));
        }
        found.extend(mentions::mentions_in_blocks(&self.request["blocks"]));
        found
    }

    /// Returns the text a person reads, block by block; the text itself when there are no blocks.
    pub fn visible(&self) -> Vec<String> {
        match self.request["blocks"].as_array() {
            Some(blocks) => blocks.iter().map(mentions::visible).collect(),
            None => vec![self.text.clone()],
        }
    }

    /// The message as it was shown before each edit, oldest first.
    pub fn before_edits(&self) -> impl Iterator<Item = Self> {
        self.earlier.iter().map(|request| Self {
            text: request["text"].as_str().unwrap_or_default().to_owned(),
            request: request.clone(),
            earlier: Vec::new(),
            ..self.clone()
        })
    }

    /// The buttons, left to right.
    pub fn buttons(&self) -> Vec<ShownButton> {
        let mut buttons = Vec::new();
        walk(&self.request["blocks"], &mut |node| {
            if node["type"] == "button" {
                let told = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                buttons.push(ShownButton {
                    label: told(&node["text"]["text"]),
                    value: told(&node["value"]),
                    action_id: told(&node["action_id"]),
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
    /// The title people see above it.
    pub title: String,
    /// The bytes.
    pub content: Bytes,
    /// The channel where it was shared.
    pub channel: String,
    /// The thread it was shared in.
    pub thread_ts: Option<String>,
}

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) length: usize,
    pub(super) content: Option<Bytes>,
}

/// A fault of a call, made on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackFault {
    /// An HTTP status, with no effect.
    Status {
        /// 429, 500, 503.
        status: u16,
        /// `Retry-After`.
        retry_after_seconds: Option<u64>,
    },
    /// `ok: false` with this code, with no effect.
    Refuse(String),
    /// The connection closes before anything happens.
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

    /// A new, later message id.
    pub(super) fn next_ts(&mut self, at: Timestamp) -> String {
        self.count += 1;
        format!("{}.{:06}", at.as_second(), self.count)
    }

    /// A new id of anything else.
    pub(super) fn next_id(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{:08}", self.count)
    }

    pub(super) fn message_mut(&mut self, channel: &str, ts: &str) -> Option<&mut SlackMessage> {
        let mut newest_first = self.messages.iter_mut().rev();
        newest_first.find(|message| message.ts == ts && message.channel == channel)
    }

    /// A message by channel and id.
    pub fn message(&self, channel: &str, ts: &str) -> Option<&SlackMessage> {
        let mut newest_first = self.messages.iter().rev();
        newest_first.find(|message| message.ts == ts && message.channel == channel)
    }

    /// The messages of a thread after its root, oldest first.
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
