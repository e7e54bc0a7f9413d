//! Decodes a part of a Gemini answer, and decides whether it may be sent back. A part that only users send makes the
//! answer invalid.

use crate::base::model::{CallArguments, ContentBlock, ToolCall};
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::{RawFields, Replay};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 256;

/// Parts that only users send.
const OF_USERS: [&str; 4] = ["functionResponse", "toolResponse", "inlineData", "fileData"];

/// Decodes a part. The id of a call is empty if the service gave it none.
pub(super) fn read(part: &RawValue) -> Result<(Option<ContentBlock>, Replay), DecodeError> {
    let fields: RawFields = serde_json::from_str(part.get())?;
    if OF_USERS.iter().any(|field| fields.has(field)) {
        return Err(DecodeError::Malformed);
    }
    let is_signed = !fields.is_blank("thoughtSignature");
    if let Some(call) = fields.raw("functionCall") {
        return read_call(&fields, call);
    }
    if !fields.has("text") {
        // A signature needs a part with content to be sent back; a part of an unknown kind is not sent back.
        let is_only_signed = fields.has_only(&["thoughtSignature", "thought"]);
        return Ok((
            None,
            if is_only_signed {
                Replay::LeaveOut
            } else {
                Replay::Nothing
            },
        ));
    }
    let text = fields.string("text").ok_or(DecodeError::Malformed)?;
    let replay = match text.is_empty() && !is_signed {
        true => Replay::LeaveOut,
        false => fields.replay_if_only(&["text", "thought", "thoughtSignature"]),
    };
    let is_thought = fields
        .raw("thought")
        .is_some_and(|thought| thought.get() == "true");
    Ok(((!is_thought).then_some(ContentBlock::Text { text }), replay))
}

fn read_call(fields: &RawFields, call: &RawValue) -> Result<(Option<ContentBlock>, Replay), DecodeError> {
    let inner: RawFields = serde_json::from_str(call.get())?;
    let name = inner.string("name").ok_or(DecodeError::Malformed)?;
    let id = match inner.has("id") {
        true => inner.string("id").ok_or(DecodeError::Malformed)?,
        false => String::new(),
    };
    if id.len() > ID_CHARS_MAX || !id.chars().all(|char| char.is_ascii_graphic()) {
        return Err(DecodeError::Malformed);
    }
    // A call without arguments has no `args`.
    let args = inner.raw("args").map(ToOwned::to_owned);
    let arguments = args.map_or_else(|| CallArguments::from("{}"), CallArguments::from);
    let is_whole = arguments.object().is_some() && inner.has_only(&["id", "name", "args"]);
    let replay = match is_whole {
        true => fields.replay_if_only(&["functionCall", "thought", "thoughtSignature"]),
        false => Replay::Nothing,
    };
    Ok((Some(ContentBlock::Call(ToolCall { id, name, arguments })), replay))
}

/// A part of plain text.
struct PlainText {
    text: String,
    is_thought: bool,
    /// True if the text of another part was added.
    is_joined: bool,
}

impl PlainText {
    /// Reads a part; none if it has anything beside its text.
    fn read(part: &RawValue) -> Result<Option<Self>, DecodeError> {
        let fields: RawFields = serde_json::from_str(part.get())?;
        let thought = fields.raw("thought").map(RawValue::get);
        let is_plain =
            fields.has_only(&["text", "thought"]) && matches!(thought, None | Some("true" | "false"));
        let text = fields.string("text").filter(|_| is_plain);
        let is_thought = thought == Some("true");
        Ok(text.map(|text| Self {
            text,
            is_thought,
            is_joined: false,
        }))
    }

    fn write(&self) -> Result<Box<RawValue>, serde_json::Error> {
        match self.is_thought {
            true => to_raw_value(&json!({"text": self.text, "thought": true})),
            false => to_raw_value(&json!({"text": self.text})),
        }
    }
}

/// Joins adjacent parts of plain text, as a stream delivers them. Signed parts stay as they are.
pub(super) fn join_texts(parts: Vec<Box<RawValue>>) -> Result<Vec<Box<RawValue>>, DecodeError> {
    let mut joined: Vec<Box<RawValue>> = Vec::new();
    let mut last: Option<PlainText> = None;
    for part in parts {
        let plain = PlainText::read(&part)?;
        match (&mut last, plain) {
            (Some(grown), Some(more)) if grown.is_thought == more.is_thought => {
                grown.text.push_str(&more.text);
                grown.is_joined = true;
            }
            (_, plain) => {
                replace_last(&mut joined, last)?;
                joined.push(part);
                last = plain;
            }
        }
    }
    replace_last(&mut joined, last)?;
    Ok(joined)
}

/// Replaces the last part by a joined text. A part that nothing was joined to keeps its bytes.
fn replace_last(joined: &mut [Box<RawValue>], text: Option<PlainText>) -> Result<(), DecodeError> {
    if let (Some(text), Some(last)) = (text.filter(|text| text.is_joined), joined.last_mut()) {
        *last = text.write()?;
    }
    Ok(())
}
