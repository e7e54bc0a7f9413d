//! Decodes a Gemini answer that is delivered as a stream. Before the reason for its end, only text for the user is
//! passed on.

use super::decode::GeminiAnswer;
use crate::interfaces::provider::codec::{AnswerDecoder, DecodeError};
use crate::interfaces::provider::sse::SseParser;
use crate::interfaces::provider::{Completion, StreamEvent};

/// A decoder for one answer.
#[derive(Debug)]
pub(super) struct GeminiStreamDecoder {
    label: String,
    events: SseParser,
    answer: GeminiAnswer,
}

impl GeminiStreamDecoder {
    /// Creates a decoder without any input yet.
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            events: SseParser::default(),
            answer: GeminiAnswer::default(),
        }
    }
}

impl AnswerDecoder for GeminiStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let mut events = Vec::new();
        for data in self.events.push(bytes)? {
            if !self.answer.is_complete() && !data.trim().is_empty() {
                events.extend(self.answer.add(serde_json::from_str(&data)?)?);
            }
        }
        Ok(events)
    }

    fn is_complete(&self) -> bool {
        self.answer.is_complete()
    }

    fn finish(self: Box<Self>) -> Result<Completion, DecodeError> {
        self.answer.finish(&self.label)
    }
}
