//! Decodes a chat completion that is delivered as a stream. Before `[DONE]`, only text for the user is passed on.

use super::decode::{
    ChatAnswer, FunctionPart, OpenaiError, OpenaiUsage, arguments_text, check_fields, check_kind, says_more,
    text_of,
};
use crate::base::model::{ToolCall, Usage};
use crate::interfaces::provider::codec::{AnswerDecoder, DecodeError};
use crate::interfaces::provider::sse::SseParser;
use crate::interfaces::provider::{Completion, StreamEvent};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    model: Option<String>,
    usage: Option<OpenaiUsage>,
    error: Option<OpenaiError>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Value,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    #[serde(default)]
    function: FunctionPart,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A call that is not complete yet.
#[derive(Debug)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    others: Map<String, Value>,
}

/// A complete call with its unknown fields.
type FinishedCall = (ToolCall, Map<String, Value>);

/// A decoder for one answer.
#[derive(Debug)]
pub(super) struct OpenaiStreamDecoder {
    provider: Cow<'static, str>,
    events: SseParser,
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    others: Map<String, Value>,
    reason: Option<String>,
    usage: Usage,
    model: String,
    is_done: bool,
}

impl AnswerDecoder for OpenaiStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let mut events = Vec::new();
        for data in self.events.push(bytes)? {
            match data.trim() {
                _ if self.is_done => {}
                "" => {}
                "[DONE]" => self.is_done = true,
                chunk => self.read(serde_json::from_str(chunk)?, &mut events)?,
            }
        }
        Ok(events)
    }

    fn is_complete(&self) -> bool {
        self.is_done
    }

    fn finish(mut self: Box<Self>) -> Result<Completion, DecodeError> {
        let (Some(reason), true) = (self.reason.take(), self.is_done) else {
            return Err(DecodeError::Incomplete);
        };
        let calls: Vec<_> = std::mem::take(&mut self.calls)
            .into_iter()
            .map(PartialCall::finish)
            .collect();
        let answer = ChatAnswer {
            raw: self.raw(&calls)?,
            text: self.text,
            refusal: self.refusal,
            calls: calls.into_iter().map(|(call, _)| call).collect(),
            reason,
            usage: self.usage,
            model: self.model,
        };
        answer.finish(&self.provider)
    }
}

impl OpenaiStreamDecoder {
    /// Creates a decoder without any input yet.
    pub(super) fn new(provider: Cow<'static, str>) -> Self {
        Self {
            provider,
            events: SseParser::default(),
            text: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            others: Map::new(),
            reason: None,
            usage: Usage::default(),
            model: String::new(),
            is_done: false,
        }
    }

    fn read(&mut self, chunk: Chunk, events: &mut Vec<StreamEvent>) -> Result<(), DecodeError> {
        if let Some(error) = chunk.error {
            return Err(error.into());
        }
        if let Some(model) = chunk.model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.into();
        }
        let Some(choice) = chunk.choices.into_iter().find(|choice| choice.index == 0) else {
            return Ok(());
        };
        if let Some(delta) = choice.delta {
            self.apply_delta(delta, events)?;
        }
        self.reason = choice.finish_reason.or(self.reason.take());
        Ok(())
    }

    fn apply_delta(&mut self, delta: Delta, events: &mut Vec<StreamEvent>) -> Result<(), DecodeError> {
        check_fields(&delta.others)?;
        let text = text_of(&delta.content)?;
        if !text.is_empty() {
            self.text.push_str(&text);
            events.push(StreamEvent::Text(text));
        }
        self.refusal.push_str(&delta.refusal.unwrap_or_default());
        merge(&mut self.others, delta.others);
        for call in delta.tool_calls.unwrap_or_default() {
            check_kind(&call.others)?;
            events.extend(self.apply_call_delta(call));
        }
        Ok(())
    }

    fn apply_call_delta(&mut self, delta: CallDelta) -> Option<StreamEvent> {
        let arguments = arguments_text(&delta.function.arguments);
        if let Some(growing) = self.continued(&delta) {
            growing.arguments.push_str(&arguments);
            merge(&mut growing.others, delta.others);
            return None;
        }
        let name = delta.function.name.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        self.calls.push(PartialCall {
            index: delta.index,
            id,
            name: name.clone(),
            arguments,
            others: delta.others,
        });
        Some(StreamEvent::CallStarted { name })
    }

    /// Returns the call that a delta continues. Some servers omit the index or use 0 for every call, so a new id, or
    /// a name without an index, also begins a call.
    fn continued(&mut self, delta: &CallDelta) -> Option<&mut PartialCall> {
        let growing = match delta.index {
            Some(_) => self
                .calls
                .iter_mut()
                .rev()
                .find(|growing| growing.index == delta.index)?,
            None => self.calls.last_mut()?,
        };
        let id = delta.id.as_deref().unwrap_or_default();
        let is_other = !id.is_empty() && id != growing.id;
        let begins_unnumbered = delta.index.is_none() && id.is_empty() && delta.function.name.is_some();
        (!is_other && !begins_unnumbered).then_some(growing)
    }

    /// Returns the message as in an answer delivered whole, if it has content beyond Drydock's own format.
    fn raw(&self, calls: &[FinishedCall]) -> Result<Option<Box<RawValue>>, DecodeError> {
        let says_more = says_more(&self.others) || calls.iter().any(|(_, others)| says_more(others));
        // The provider accepts a replayed call only if its arguments are an object.
        if !says_more || !calls.iter().all(|(call, _)| call.arguments.object().is_some()) {
            return Ok(None);
        }
        let mut message = self.others.clone();
        message.remove("function_call");
        message.insert("role".to_owned(), "assistant".into());
        let content = Some(self.text.as_str()).filter(|text| !text.is_empty());
        message.insert("content".to_owned(), content.into());
        if !calls.is_empty() {
            let calls: Vec<Value> = calls.iter().map(to_json).collect();
            message.insert("tool_calls".to_owned(), calls.into());
        }
        Ok(Some(to_raw_value(&message)?))
    }
}

impl PartialCall {
    fn finish(self) -> FinishedCall {
        let call = ToolCall {
            id: self.id,
            name: self.name,
            arguments: self.arguments.into(),
        };
        (call, self.others)
    }
}

fn to_json((call, others): &FinishedCall) -> Value {
    let mut json = others.clone();
    let ToolCall { id, name, arguments } = call;
    json.insert("id".to_owned(), id.as_str().into());
    json.insert("type".to_owned(), "function".into());
    json.insert(
        "function".to_owned(),
        json!({"name": name, "arguments": arguments}),
    );
    json.into()
}

/// Adds parts to unknown fields. Texts and lists are continued, other values are replaced.
fn merge(whole: &mut Map<String, Value>, parts: Map<String, Value>) {
    for (field, part) in parts {
        match (whole.get_mut(&field), part) {
            (Some(Value::String(text)), Value::String(more)) if field != "role" && field != "type" => {
                text.push_str(&more);
            }
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(_), Value::Null) => {}
            (_, part) => {
                whole.insert(field, part);
            }
        }
    }
}
