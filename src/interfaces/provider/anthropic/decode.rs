//! Decodes a Messages answer that was delivered whole.

use super::block::{check_role, read};
use crate::base::model::{StopReason, Usage};
use crate::interfaces::provider::Completion;
use crate::interfaces::provider::answer::Draft;
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::{RawFields, Replay};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct MessageBody {
    role: Option<String>,
    #[serde(default)]
    content: Vec<Box<RawValue>>,
    #[serde(default)]
    model: String,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: AnthropicUsage,
    error: Option<AnthropicError>,
}

/// Token counts; a count is absent if the provider does not report it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// Replaces the counts that are present; they are totals of the whole answer.
    pub(super) fn update(self, usage: &mut Usage) {
        usage.input = self.input_tokens.unwrap_or(usage.input);
        usage.output = self.output_tokens.unwrap_or(usage.output);
        usage.cache_read = self.cache_read_input_tokens.unwrap_or(usage.cache_read);
        usage.cache_write = self.cache_creation_input_tokens.unwrap_or(usage.cache_write);
    }
}

/// An error that the provider reports inside an answer.
#[derive(Debug, Deserialize)]
pub(super) struct AnthropicError {
    #[serde(default)]
    r#type: String,
}

impl From<AnthropicError> for DecodeError {
    fn from(error: AnthropicError) -> Self {
        let status = match error.r#type.as_str() {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => 500,
        };
        Self::Reported {
            status,
            kind: error.r#type,
        }
    }
}

/// Decodes an answer.
pub(super) fn decode(label: &str, body: &[u8]) -> Result<Completion, DecodeError> {
    let whole: MessageBody = serde_json::from_slice(body)?;
    if let Some(error) = whole.error {
        return Err(error.into());
    }
    check_role(whole.role.as_deref())?;
    let stop = whole
        .stop_reason
        .as_deref()
        .map(stop_reason)
        .ok_or(DecodeError::Incomplete)?;
    let mut blocks = Vec::new();
    let mut raw = Some(Vec::new());
    for block in whole.content {
        let fields: RawFields = serde_json::from_str(block.get())?;
        let (canonical, replay) = read(&fields, None)?;
        blocks.extend(canonical);
        match replay {
            Replay::AsItIs => raw.iter_mut().for_each(|raw| raw.push(block.clone())),
            Replay::LeaveOut => {}
            Replay::Nothing => raw = None,
        }
    }
    let mut usage = Usage::default();
    whole.usage.update(&mut usage);
    Draft {
        blocks,
        raw,
        stop,
        usage,
        model: whole.model,
    }
    .finish(label)
}

/// Converts the provider's stop reason.
pub(super) fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
