//! Decodes a Gemini answer. An answer in one piece has the format of one chunk of a stream.

use super::part::{join_texts, read};
use crate::base::model::{ContentBlock, StopReason, Usage};
use crate::interfaces::provider::answer::Draft;
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::Replay;
use crate::interfaces::provider::{Completion, StreamEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// An answer in one piece, or a chunk of one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<GeminiUsage>,
    model_version: Option<String>,
    error: Option<GeminiError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    role: Option<String>,
    #[serde(default)]
    parts: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

/// Token counts; a count of zero is absent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GeminiUsage {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

impl From<GeminiUsage> for Usage {
    fn from(body: GeminiUsage) -> Self {
        // The prompt includes what was read from the cache. Thoughts cost as much as other output.
        let cache_read = body.cached_content_token_count.min(body.prompt_token_count);
        let fresh = body.prompt_token_count - cache_read;
        Self {
            input: fresh.saturating_add(body.tool_use_prompt_token_count),
            output: body
                .candidates_token_count
                .saturating_add(body.thoughts_token_count),
            cache_read,
            cache_write: 0,
        }
    }
}

/// An error that the service reports inside an answer.
#[derive(Debug, Deserialize)]
struct GeminiError {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    status: String,
}

/// An answer as far as it was received.
#[derive(Debug, Default)]
pub(super) struct GeminiAnswer {
    parts: Vec<Box<RawValue>>,
    reason: Option<String>,
    is_blocked: bool,
    usage: Usage,
    model: String,
}

/// Decodes an answer that was delivered whole.
pub(super) fn decode(label: &str, body: &[u8]) -> Result<Completion, DecodeError> {
    let mut answer = GeminiAnswer::default();
    answer.add(serde_json::from_slice(body)?)?;
    answer.finish(label)
}

impl GeminiAnswer {
    /// Adds a chunk, and returns its events.
    pub(super) fn add(&mut self, chunk: Chunk) -> Result<Vec<StreamEvent>, DecodeError> {
        if let Some(error) = chunk.error {
            let is_status = (400..600).contains(&error.code);
            return Err(DecodeError::Reported {
                status: if is_status { error.code } else { 500 },
                kind: error.status.to_ascii_lowercase(),
            });
        }
        if let Some(usage) = chunk.usage_metadata {
            self.usage = usage.into();
        }
        if let Some(model) = chunk.model_version.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        let blocked = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason);
        self.is_blocked |= blocked.is_some();
        let Some(candidate) = chunk
            .candidates
            .into_iter()
            .find(|candidate| candidate.index == 0)
        else {
            return Ok(Vec::new());
        };
        self.reason = candidate.finish_reason.or(self.reason.take());
        let Some(content) = candidate.content else {
            return Ok(Vec::new());
        };
        if content.role.is_some_and(|role| role != "model") {
            return Err(DecodeError::Malformed);
        }
        let mut events = Vec::new();
        for part in &content.parts {
            events.extend(match read(part)?.0 {
                Some(ContentBlock::Text { text }) if !text.is_empty() => Some(StreamEvent::Text(text)),
                Some(ContentBlock::Call(call)) => Some(StreamEvent::CallStarted { name: call.name }),
                Some(ContentBlock::Text { .. }) | None => None,
            });
        }
        self.parts.extend(content.parts);
        Ok(events)
    }

    /// Returns true once the service has given the reason for the end.
    pub(super) fn is_complete(&self) -> bool {
        self.is_blocked || self.reason.is_some()
    }

    /// Returns the answer, whose own parts get the label.
    pub(super) fn finish(self, label: &str) -> Result<Completion, DecodeError> {
        let stop = match self.reason.as_deref() {
            _ if self.is_blocked => StopReason::Refusal,
            Some(reason) => stop_reason(reason)?,
            None => return Err(DecodeError::Incomplete),
        };
        let mut blocks = Vec::new();
        let mut raw = Some(Vec::new());
        for part in join_texts(self.parts)? {
            let (block, replay) = read(&part)?;
            blocks.extend(block);
            match replay {
                Replay::AsItIs => raw.iter_mut().for_each(|raw| raw.push(part.clone())),
                Replay::LeaveOut => {}
                Replay::Nothing => raw = None,
            }
        }
        assign_ids(&mut blocks);
        let is_unexplained = matches!(
            self.reason.as_deref(),
            Some("OTHER" | "FINISH_REASON_UNSPECIFIED")
        );
        let completion = Draft {
            blocks,
            raw,
            stop,
            usage: self.usage,
            model: self.model,
        }
        .finish(label)?;
        // The service stopped for a reason that it does not tell, and there is nothing to use.
        match is_unexplained && !self.is_blocked && completion.assistant.blocks.is_empty() {
            true => Err(DecodeError::Incomplete),
            false => Ok(completion),
        }
    }
}

/// Converts the reason why an answer ended. An answer that the service itself calls malformed is one.
fn stop_reason(reason: &str) -> Result<StopReason, DecodeError> {
    match reason {
        "MAX_TOKENS" => Ok(StopReason::MaxTokens),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ok(StopReason::Refusal),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
            Err(DecodeError::Malformed)
        }
        "MISSING_THOUGHT_SIGNATURE" => Err(DecodeError::Reported {
            status: 400,
            kind: "missing_thought_signature".to_owned(),
        }),
        _ => Ok(StopReason::EndTurn),
    }
}

/// Gives ids to calls without one. The service then pairs calls and results by their order, and its own parts are still
/// sent back.
fn assign_ids(blocks: &mut [ContentBlock]) {
    let calls = blocks.iter().filter_map(|block| match block {
        ContentBlock::Call(call) => Some(call.id.clone()),
        ContentBlock::Text { .. } => None,
    });
    let mut taken: HashSet<String> = calls.collect();
    let mut number = 0;
    for block in blocks {
        let ContentBlock::Call(call) = block else { continue };
        while call.id.is_empty() {
            let id = format!("call_{number}");
            number += 1;
            if taken.insert(id.clone()) {
                call.id = id;
            }
        }
    }
}
