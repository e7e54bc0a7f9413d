//! Decodes a Responses answer that is delivered as a stream. Before its last event, only text for the user is passed on.

use super::decode::{ResponsesError, decode_last};
use crate::interfaces::provider::codec::{AnswerDecoder, DecodeError};
use crate::interfaces::provider::sse::SseParser;
use crate::interfaces::provider::{Completion, StreamEvent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// An event of any type; the type determines its fields.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    delta: Value,
    item: Option<Box<RawValue>>,
    response: Option<Box<RawValue>>,
    error: Option<ResponsesError>,
    code: Option<String>,
}

#[derive(Deserialize)]
struct AddedItem {
    r#type: String,
    #[serde(default)]
    name: String,
}

/// A decoder for one answer.
#[derive(Debug)]
pub(super) struct ResponsesStreamDecoder {
    label: String,
    events: SseParser,
    done: BTreeMap<u64, Box<RawValue>>,
    completion: Option<Completion>,
}

impl ResponsesStreamDecoder {
    /// Creates a decoder without any input yet.
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            events: SseParser::default(),
            done: BTreeMap::new(),
            completion: None,
        }
    }

    fn read(&mut self, event: Event) -> Result<Option<StreamEvent>, DecodeError> {
        match event.r#type.as_str() {
            "response.output_text.delta" => {
                let text = event.delta.as_str().ok_or(DecodeError::Malformed)?;
                return Ok((!text.is_empty()).then(|| StreamEvent::Text(text.to_owned())));
            }
            "response.output_item.added" => {
                let item = event.item.ok_or(DecodeError::Malformed)?;
                let item: AddedItem = serde_json::from_str(item.get())?;
                let is_call = item.r#type == "function_call";
                return Ok(is_call.then_some(StreamEvent::CallStarted { name: item.name }));
            }
            "response.output_item.done" => {
                let item = event.item.ok_or(DecodeError::Malformed)?;
                self.done.insert(event.output_index, item);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.response.ok_or(DecodeError::Malformed)?;
                let done = std::mem::take(&mut self.done).into_values().collect();
                self.completion = Some(decode_last(&self.label, &response, done)?);
            }
            "error" => {
                let error = event.error.unwrap_or(ResponsesError {
                    code: event.code,
                    r#type: None,
                });
                return Err(error.into());
            }
            // Other events repeat what the last one has.
            _ => {}
        }
        Ok(None)
    }
}

impl AnswerDecoder for ResponsesStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let mut events = Vec::new();
        for data in self.events.push(bytes)? {
            let data = data.trim();
            // Some services end the stream as chat completions do.
            if self.completion.is_none() && !data.is_empty() && data != "[DONE]" {
                events.extend(self.read(serde_json::from_str(data)?)?);
            }
        }
        Ok(events)
    }

    fn is_complete(&self) -> bool {
        self.completion.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Completion, DecodeError> {
        self.completion.ok_or(DecodeError::Incomplete)
    }
}
