//! Decodes a Messages answer that is delivered as a stream. Before `message_stop`, only text for the user is passed
//! on.

use super::block::{check_role, read};
use super::decode::{AnthropicError, AnthropicUsage, stop_reason};
use crate::base::model::{CallArguments, StopReason, Usage};
use crate::interfaces::provider::answer::Draft;
use crate::interfaces::provider::codec::{AnswerDecoder, DecodeError};
use crate::interfaces::provider::raw_fields::{RawFields, Replay};
use crate::interfaces::provider::sse::SseParser;
use crate::interfaces::provider::{Completion, StreamEvent};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An event of any type; the type determines its fields.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    index: Option<u64>,
    message: Option<MessageStart>,
    content_block: Option<RawFields>,
    delta: Option<Delta>,
    usage: Option<AnthropicUsage>,
    error: Option<AnthropicError>,
}

#[derive(Deserialize)]
struct MessageStart {
    role: Option<String>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: AnthropicUsage,
}

#[derive(Deserialize)]
struct Delta {
    r#type: Option<String>,
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    citation: Option<Box<RawValue>>,
    stop_reason: Option<String>,
}

/// A block that is not complete yet.
#[derive(Debug, Default)]
struct PartialBlock {
    fields: RawFields,
    text: String,
    json: String,
    thinking: String,
    signature: String,
    citations: Vec<Box<RawValue>>,
    is_ended: bool,
}

/// A decoder for one answer.
#[derive(Debug, Default)]
pub(super) struct AnthropicStreamDecoder {
    label: Cow<'static, str>,
    events: SseParser,
    blocks: BTreeMap<u64, PartialBlock>,
    model: Option<String>,
    usage: Usage,
    stop: Option<StopReason>,
    is_stopped: bool,
    has_unknown_parts: bool,
}

impl AnswerDecoder for AnthropicStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let mut events = Vec::new();
        for data in self.events.push(bytes)? {
            if !self.is_stopped && !data.trim().is_empty() {
                events.extend(self.read(serde_json::from_str(&data)?)?);
            }
        }
        Ok(events)
    }

    fn is_complete(&self) -> bool {
        self.is_stopped
    }

    fn finish(self: Box<Self>) -> Result<Completion, DecodeError> {
        let whole = self.is_stopped && self.blocks.values().all(|block| block.is_ended);
        let (Some(model), Some(stop), true) = (self.model, self.stop, whole) else {
            return Err(DecodeError::Incomplete);
        };
        let mut blocks = Vec::new();
        let mut raw = (!self.has_unknown_parts).then(Vec::new);
        for mut block in self.blocks.into_values() {
            let json = std::mem::take(&mut block.json);
            let arguments = (!json.is_empty()).then(|| CallArguments::from(json));
            let fields = block.into_fields(arguments.as_ref())?;
            let (canonical, replay) = read(&fields, arguments)?;
            blocks.extend(canonical);
            match replay {
                Replay::AsItIs => {
                    let block = to_raw_value(&fields)?;
                    raw.iter_mut().for_each(|raw| raw.push(block.clone()));
                }
                Replay::LeaveOut => {}
                Replay::Nothing => raw = None,
            }
        }
        Draft {
            blocks,
            raw,
            stop,
            usage: self.usage,
            model,
        }
        .finish(&self.label)
    }
}

impl AnthropicStreamDecoder {
    /// Creates a decoder without any input yet.
    pub(super) fn new(label: Cow<'static, str>) -> Self {
        Self {
            label,
            ..Self::default()
        }
    }

    fn read(&mut self, event: Event) -> Result<Option<StreamEvent>, DecodeError> {
        match event.r#type.as_str() {
            "message_start" => {
                let message = event.message.ok_or(DecodeError::Malformed)?;
                check_role(message.role.as_deref())?;
                message.usage.update(&mut self.usage);
                self.model = Some(message.model);
            }
            "content_block_start" => {
                let index = event.index.ok_or(DecodeError::Malformed)?;
                let fields = event.content_block.ok_or(DecodeError::Malformed)?;
                return self.start(index, fields);
            }
            "content_block_delta" => {
                let delta = event.delta.ok_or(DecodeError::Malformed)?;
                return self.apply_delta(event.index, delta);
            }
            "content_block_stop" => self.block(event.index)?.is_ended = true,
            "message_delta" => {
                event.usage.unwrap_or_default().update(&mut self.usage);
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.stop = reason.as_deref().map(stop_reason).or(self.stop);
            }
            "message_stop" => self.is_stopped = true,
            "error" => {
                let error = event.error.ok_or(DecodeError::Malformed)?;
                return Err(error.into());
            }
            // `ping`, and events that the API may add.
            _ => {}
        }
        Ok(None)
    }

    fn start(&mut self, index: u64, fields: RawFields) -> Result<Option<StreamEvent>, DecodeError> {
        if self.model.is_none() || self.blocks.contains_key(&index) {
            return Err(DecodeError::Malformed);
        }
        let mut block = PartialBlock {
            fields,
            ..PartialBlock::default()
        };
        block.text = block.fields.string("text").unwrap_or_default();
        let event = match block.fields.string("type").as_deref() {
            Some("tool_use") => Some(StreamEvent::CallStarted {
                name: block.fields.string("name").unwrap_or_default(),
            }),
            Some("text") if !block.text.is_empty() => Some(StreamEvent::Text(block.text.clone())),
            _ => None,
        };
        self.blocks.insert(index, block);
        Ok(event)
    }

    fn apply_delta(&mut self, index: Option<u64>, delta: Delta) -> Result<Option<StreamEvent>, DecodeError> {
        let block = self.block(index)?;
        if block.is_ended {
            return Err(DecodeError::Malformed);
        }
        match delta.r#type.as_deref() {
            Some("text_delta") => {
                let text = delta.text.unwrap_or_default();
                block.text.push_str(&text);
                return Ok((!text.is_empty()).then_some(StreamEvent::Text(text)));
            }
            Some("input_json_delta") => block.json.push_str(&delta.partial_json.unwrap_or_default()),
            Some("thinking_delta") => block.thinking.push_str(&delta.thinking.unwrap_or_default()),
            Some("signature_delta") => block.signature.push_str(&delta.signature.unwrap_or_default()),
            Some("citations_delta") => block.citations.extend(delta.citation),
            // An unknown part of the block was not stored, so the block cannot be replayed byte for byte.
            _ => self.has_unknown_parts = true,
        }
        Ok(None)
    }

    fn block(&mut self, index: Option<u64>) -> Result<&mut PartialBlock, DecodeError> {
        index
            .and_then(|index| self.blocks.get_mut(&index))
            .ok_or(DecodeError::Malformed)
    }
}

impl PartialBlock {
    /// Returns the block as in an answer delivered whole, with the content of its deltas and the `arguments` that they
    /// add up to.
    fn into_fields(mut self, arguments: Option<&CallArguments>) -> Result<RawFields, DecodeError> {
        let grown = [
            ("text", &self.text),
            ("thinking", &self.thinking),
            ("signature", &self.signature),
        ];
        for (field, value) in grown {
            if !value.is_empty() {
                self.fields.set(field, to_raw_value(value)?);
            }
        }
        if !self.citations.is_empty() {
            self.fields.set("citations", to_raw_value(&self.citations)?);
        }
        if let Some(input) = arguments.cloned().or_else(|| self.fields.arguments("input")) {
            self.fields.set("input", input.object_or_empty().to_owned());
        }
        Ok(self.fields)
    }
}
