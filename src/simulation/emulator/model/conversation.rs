//! A request in a form common to both APIs, and the rules that both share.

use super::files::RequestFile;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A valid request.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The offered tools; shared with the previous request if it offered the same.
    pub tools: Arc<[RequestTool]>,
    /// The calls that the answer may or has to make.
    pub tool_choice: RequestedCalls,
    /// The conversation.
    pub messages: Vec<RequestMessage>,
    /// The key of the request, if any.
    pub api_key: Option<String>,
    /// The original body.
    pub raw: String,
    /// The time at which the request was complete.
    pub at: Instant,
    /// The time at which the last byte of the answer was written; empty until then.
    pub answered_at: Arc<OnceLock<Instant>>,
}

/// The calls that an answer may or has to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestedCalls {
    /// Any.
    #[default]
    Free,
    /// None.
    Forbidden,
    /// One of the tool of this name.
    Forced(String),
}

impl RequestedCalls {
    /// Returns the name of the tool that the answer has to call.
    pub fn forced_tool(&self) -> Option<&str> {
        match self {
            Self::Free | Self::Forbidden => None,
            Self::Forced(name) => Some(name),
        }
    }
}

/// An offered tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTool {
    /// The name.
    pub name: String,
    /// The schema of its arguments.
    pub schema: Value,
}

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRole {
    /// The user, or tool results.
    User,
    /// The model.
    Assistant,
}

/// A message. OpenAI's tool messages are combined to one message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    /// The author's role.
    pub role: RequestRole,
    /// The text, blocks joined by an empty line.
    pub text: String,
    /// The images and documents in the message.
    pub files: Vec<RequestFile>,
    /// The calls in the message.
    pub calls: Vec<RequestCall>,
    /// The results in the message.
    pub results: Vec<RequestResult>,
}

/// A call in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCall {
    /// The id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

/// A result in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// The id of its call.
    pub call: String,
    /// The content.
    pub content: String,
    /// True if the result reports a failure; chat completions cannot express that.
    pub is_error: bool,
}

impl ModelRequest {
    /// Returns the last text of the user.
    pub fn last_user_text(&self) -> &str {
        let mut texts = self
            .messages
            .iter()
            .rev()
            .filter(|message| message.role == RequestRole::User);
        texts
            .find(|message| !message.text.is_empty())
            .map_or("", |message| &message.text)
    }

    /// Returns the results in the last message; empty at the start of a turn.
    pub fn last_results(&self) -> &[RequestResult] {
        self.messages.last().map_or(&[], |message| &message.results)
    }
}

/// Checks the rules for conversations. The error is that of the service.
pub(super) fn check(system: &str, tools: &[RequestTool], messages: &[RequestMessage]) -> Result<(), String> {
    if system.trim().is_empty() {
        return Err("system: no system prompt".to_owned());
    }
    let mut names = HashSet::new();
    for tool in tools {
        if !is_name(&tool.name) {
            return Err(format!("tools: `{}` is not a name", tool.name));
        }
        if !names.insert(&tool.name) {
            return Err(format!("tools: `{}` is given twice", tool.name));
        }
        if tool.schema["type"] != "object" {
            return Err(format!("tools: the schema of `{}` is no object", tool.name));
        }
    }
    check_turns(messages)?;
    check_pairs(messages)
}

fn check_turns(messages: &[RequestMessage]) -> Result<(), String> {
    let ends = [messages.first(), messages.last()];
    if ends
        .iter()
        .any(|message| message.is_none_or(|message| message.role != RequestRole::User))
    {
        return Err("messages: the first and the last must be of the user".to_owned());
    }
    for (index, pair) in messages.windows(2).enumerate() {
        if let [before, after] = pair
            && before.role == after.role
        {
            return Err(format!("messages.{}: roles must alternate", index + 1));
        }
    }
    for (index, message) in messages.iter().enumerate() {
        let is_empty = message.text.is_empty() && message.files.is_empty();
        if is_empty && message.calls.is_empty() && message.results.is_empty() {
            return Err(format!("messages.{index}: no content"));
        }
    }
    Ok(())
}

fn check_pairs(messages: &[RequestMessage]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let results: Vec<&str> = message
            .results
            .iter()
            .map(|result| result.call.as_str())
            .collect();
        let answered: HashSet<&str> = results.iter().copied().collect();
        if answered.len() != results.len() {
            return Err(format!("messages.{index}: a call is answered twice"));
        }
        if let Some(id) = results.iter().find(|id| !open.contains(id)) {
            return Err(format!(
                "messages.{index}: the result `{id}` has no call in the message before"
            ));
        }
        if let Some(id) = open.iter().find(|id| !answered.contains(*id)) {
            return Err(format!("messages.{index}: the call `{id}` has no result"));
        }
        open = message.calls.iter().map(|call| call.id.as_str()).collect();
        let ids: HashSet<&str> = open.iter().copied().collect();
        if ids.len() != open.len() || ids.contains("") {
            return Err(format!("messages.{index}: calls need ids of their own"));
        }
        if let Some(call) = message.calls.iter().find(|call| !is_name(&call.name)) {
            return Err(format!("messages.{index}: `{}` is not a name", call.name));
        }
        if let Some(call) = message.calls.iter().find(|call| !call.arguments.is_object()) {
            return Err(format!(
                "messages.{index}: the arguments of `{}` are no object",
                call.name
            ));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}
