//! Decodes a Responses answer. The last event of a stream has the answer in the same form as one delivered whole.

use super::item::read;
use crate::base::model::{ContentBlock, StopReason, Usage};
use crate::interfaces::provider::Completion;
use crate::interfaces::provider::answer::Draft;
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::Replay;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct ResponseBody {
    status: Option<String>,
    error: Option<ResponsesError>,
    incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    output: Vec<Box<RawValue>>,
    #[serde(default)]
    model: String,
    usage: Option<ResponsesUsage>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

/// Token counts. Those of the output include the reasoning.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    input_tokens: u64,
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: u64,
}

impl From<ResponsesUsage> for Usage {
    fn from(body: ResponsesUsage) -> Self {
        let cached = body.input_tokens_details.unwrap_or_default().cached_tokens;
        let cache_read = cached.min(body.input_tokens);
        Self {
            input: body.input_tokens - cache_read,
            output: body.output_tokens,
            cache_read,
            cache_write: 0,
        }
    }
}

/// An error that the service reports inside an answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponsesError {
    /// The service's name for the error.
    pub(super) code: Option<String>,
    /// The group of the error.
    pub(super) r#type: Option<String>,
}

impl From<ResponsesError> for DecodeError {
    fn from(error: ResponsesError) -> Self {
        let kind = error.code.or(error.r#type).unwrap_or_default();
        let status = match kind.as_str() {
            "rate_limit_exceeded" | "insufficient_quota" => 429,
            "server_overloaded" | "slow_down" => 503,
            kind if kind.starts_with("invalid_")
                || kind.contains("_image")
                || kind.starts_with("context_length") =>
            {
                400
            }
            _ => 500,
        };
        Self::Reported { status, kind }
    }
}

/// Decodes an answer that was delivered whole.
pub(super) fn decode(label: &str, body: &[u8]) -> Result<Completion, DecodeError> {
    finish(label, serde_json::from_slice(body)?, Vec::new())
}

/// Decodes the answer in the last event of a stream. `done` are the items of earlier events, which some services do not
/// repeat.
pub(super) fn decode_last(
    label: &str,
    response: &RawValue,
    done: Vec<Box<RawValue>>,
) -> Result<Completion, DecodeError> {
    finish(label, serde_json::from_str(response.get())?, done)
}

fn finish(label: &str, body: ResponseBody, done: Vec<Box<RawValue>>) -> Result<Completion, DecodeError> {
    if let Some(error) = body.error {
        return Err(error.into());
    }
    let reason = body.incomplete_details.and_then(|details| details.reason);
    let mut stop = match (body.status.as_deref(), reason.as_deref()) {
        (Some("completed"), _) => StopReason::EndTurn,
        (Some("incomplete"), Some("content_filter")) => StopReason::Refusal,
        // The last item may be cut, whatever the reason is.
        (Some("incomplete"), _) => StopReason::MaxTokens,
        (Some("failed"), _) => return Err(ResponsesError::default().into()),
        _ => return Err(DecodeError::Incomplete),
    };
    let output = if body.output.is_empty() { done } else { body.output };
    let mut blocks: Vec<ContentBlock> = Vec::new();
    let mut raw: Option<Vec<Box<RawValue>>> = Some(Vec::new());
    // The number of raw items up to the last one that is no reasoning.
    let mut kept = 0;
    for item in output {
        let read = read(&item)?;
        blocks.extend(read.blocks);
        if read.is_refusal {
            stop = StopReason::Refusal;
        }
        match (read.replay, &mut raw) {
            (Replay::AsItIs, Some(items)) => {
                items.push(item);
                if !read.is_reasoning {
                    kept = items.len();
                }
            }
            (Replay::Nothing, _) => raw = None,
            (Replay::AsItIs | Replay::LeaveOut, _) => {}
        }
    }
    // The service refuses reasoning that nothing follows.
    raw.iter_mut().for_each(|items| items.truncate(kept));
    Draft {
        blocks,
        raw,
        stop,
        usage: body.usage.unwrap_or_default().into(),
        model: body.model,
    }
    .finish(label)
}
