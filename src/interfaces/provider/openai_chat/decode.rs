//! Decodes a chat completion that was delivered whole.

use crate::base::model::{ContentBlock, StopReason, ToolCall, Usage};
use crate::interfaces::provider::Completion;
use crate::interfaces::provider::answer::Draft;
use crate::interfaces::provider::codec::DecodeError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 256;

#[derive(Deserialize)]
struct CompletionBody {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    model: String,
    usage: Option<OpenaiUsage>,
    error: Option<OpenaiError>,
}

#[derive(Deserialize)]
struct Choice {
    message: Box<RawValue>,
    finish_reason: Option<String>,
}

/// The message of an answer. Servers differ, so its fields are optional.
#[derive(Debug, Default, Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CalledFunction>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    id: Option<String>,
    #[serde(default)]
    function: FunctionPart,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The name and arguments of a call, or a part of them.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionPart {
    /// The tool's name.
    pub(super) name: Option<String>,
    /// The arguments as JSON text; some servers send the object itself.
    #[serde(default)]
    pub(super) arguments: Value,
}

/// Token counts; absent on some servers.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct OpenaiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl From<OpenaiUsage> for Usage {
    fn from(body: OpenaiUsage) -> Self {
        let prompt = body.prompt_tokens.unwrap_or_default();
        let cached = body
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens);
        let cache_read = cached.unwrap_or_default().min(prompt);
        Self {
            input: prompt - cache_read,
            output: body.completion_tokens.unwrap_or_default(),
            cache_read,
            cache_write: 0,
        }
    }
}

/// An error that the provider reports inside an answer.
#[derive(Debug, Deserialize)]
pub(super) struct OpenaiError {
    code: Option<Value>,
    r#type: Option<String>,
}

impl From<OpenaiError> for DecodeError {
    fn from(error: OpenaiError) -> Self {
        let code = error.code.unwrap_or_default();
        let kind = code
            .as_str()
            .map(str::to_owned)
            .or(error.r#type)
            .unwrap_or_default();
        let number = code.as_u64().and_then(|code| u16::try_from(code).ok());
        let status = number
            .filter(|code| (400..600).contains(code))
            .unwrap_or(match kind.as_str() {
                "rate_limit_exceeded" | "rate_limit_error" | "insufficient_quota" => 429,
                "invalid_request_error" | "context_length_exceeded" => 400,
                _ => 500,
            });
        Self::Reported { status, kind }
    }
}

/// Decodes an answer.
pub(super) fn decode(provider: &str, body: &[u8]) -> Result<Completion, DecodeError> {
    let whole: CompletionBody = serde_json::from_slice(body)?;
    if let Some(error) = whole.error {
        return Err(error.into());
    }
    let choice = whole.choices.into_iter().next().ok_or(DecodeError::Malformed)?;
    let reason = choice.finish_reason.ok_or(DecodeError::Incomplete)?;
    let message: Message = serde_json::from_str(choice.message.get())?;
    check_fields(&message.others)?;
    let calls = message.tool_calls.unwrap_or_default();
    calls.iter().try_for_each(|call| check_kind(&call.others))?;
    let says_more = says_more(&message.others) || calls.iter().any(|call| says_more(&call.others));
    let calls: Vec<ToolCall> = calls
        .into_iter()
        .map(|call| ToolCall {
            id: call.id.unwrap_or_default(),
            name: call.function.name.unwrap_or_default(),
            arguments: arguments_text(&call.function.arguments).into(),
        })
        .collect();
    // A message can be replayed unchanged only if it has a role.
    let is_sound = message.others.get("role").is_some_and(|role| role == "assistant")
        && message.others.get("function_call").is_none_or(is_empty)
        && calls.iter().all(|call| call.arguments.object().is_some());
    let answer = ChatAnswer {
        text: text_of(&message.content)?,
        refusal: message.refusal.unwrap_or_default(),
        calls,
        raw: (says_more && is_sound).then_some(choice.message),
        reason,
        usage: whole.usage.unwrap_or_default().into(),
        model: whole.model,
    };
    answer.finish(provider)
}

/// An answer in either delivery mode.
pub(super) struct ChatAnswer {
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) raw: Option<Box<RawValue>>,
    pub(super) reason: String,
    pub(super) usage: Usage,
    pub(super) model: String,
}

impl ChatAnswer {
    /// Returns the completion of `provider`. Text comes before calls, as models write it.
    pub(super) fn finish(self, provider: &str) -> Result<Completion, DecodeError> {
        // Servers use many kinds of ids, or none. An id that could not be sent in a request is refused.
        let is_id = |id: &str| id.len() <= ID_CHARS_MAX && id.chars().all(|char| char.is_ascii_graphic());
        if !self.calls.iter().all(|call| is_id(call.id.trim())) {
            return Err(DecodeError::Malformed);
        }
        let stop = match self.reason.as_str() {
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ if !self.refusal.is_empty() => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        let texts = [self.text, self.refusal].map(|text| ContentBlock::Text { text });
        let calls = self.calls.into_iter().map(|mut call| {
            // Some servers omit the arguments instead of sending an empty object.
            if call.arguments.is_blank() && stop != StopReason::MaxTokens {
                call.arguments = "{}".into();
            }
            ContentBlock::Call(call)
        });
        Draft {
            blocks: texts.into_iter().chain(calls).collect(),
            raw: self.raw.map(|message| vec![message]),
            stop,
            usage: self.usage,
            model: self.model,
        }
        .finish(provider)
    }
}

/// Returns true if a message has content beyond Drydock's own format. Only then its JSON is replayed.
pub(super) fn says_more(others: &Map<String, Value>) -> bool {
    others.iter().any(|(field, value)| {
        // A call in the older form cannot be answered in a request, so it is not replayed.
        let known = matches!(field.as_str(), "role" | "type" | "index" | "function_call");
        !known && !is_empty(value)
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the arguments as text: as written, or serialised if the server sent an object.
pub(super) fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the content as text: a string, or parts with a text each. Parts that occur only in requests are refused.
pub(super) fn text_of(content: &Value) -> Result<String, DecodeError> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts.iter().map(part_text).collect(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(DecodeError::Malformed),
    }
}

fn part_text(part: &Value) -> Result<&str, DecodeError> {
    match part["type"].as_str() {
        Some("image" | "image_url" | "document" | "file" | "tool_use" | "tool_result") => {
            Err(DecodeError::Malformed)
        }
        Some(kind) if kind.starts_with("input_") => Err(DecodeError::Malformed),
        Some(_) | None => Ok(part["text"].as_str().unwrap_or_default()),
    }
}

/// Fails if the message has another role than the assistant. Some servers omit the role or send it empty.
pub(super) fn check_fields(others: &Map<String, Value>) -> Result<(), DecodeError> {
    let is_own = others
        .get("role")
        .is_none_or(|role| is_empty(role) || role == "assistant");
    let answers_a_call = others.get("tool_call_id").is_some_and(|id| !is_empty(id));
    match is_own && !answers_a_call {
        true => Ok(()),
        false => Err(DecodeError::Malformed),
    }
}

/// Fails for a call of a kind that was not offered.
pub(super) fn check_kind(others: &Map<String, Value>) -> Result<(), DecodeError> {
    let kind = others.get("type");
    match kind.is_none_or(|kind| is_empty(kind) || kind == "function") {
        true => Ok(()),
        false => Err(DecodeError::Malformed),
    }
}
