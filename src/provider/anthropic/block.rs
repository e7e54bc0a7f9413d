//! A block of a Messages answer: which may stand there, what it says, and whether it may be sent back.
//! A block of anybody but an assistant is no answer: with one in it, every later request would be refused.

use crate::model::{ContentBlock, ToolCall};
use crate::provider::codec::DecodeError;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Characters of an id of a call.
const ID_CHARS_MAX: usize = 256;

/// The fields of a block, each byte for byte and each once.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct BlockFields(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for BlockFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = BlockFields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with each field once")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BlockFields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.insert(name, value).is_some() {
                        return Err(A::Error::custom("a field twice"));
                    }
                }
                Ok(BlockFields(fields))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

impl BlockFields {
    /// The text of a field, if it is there and is one.
    pub(super) fn string(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.0.get(field)?.get()).ok()
    }

    /// A field as it was written.
    pub(super) fn raw(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(|value| value.get())
    }

    /// Puts a field in the place of what was there.
    pub(super) fn set(&mut self, field: &str, value: Box<RawValue>) {
        self.0.insert(field.to_owned(), value);
    }

    fn has_only(&self, known: &[&str]) -> bool {
        self.0.keys().all(|field| known.contains(&field.as_str()))
    }

    fn is_blank(&self, field: &str) -> bool {
        self.string(field).unwrap_or_default().trim().is_empty()
    }
}

/// The way a block counts in replaying the answer it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// The block goes back as it is.
    AsItIs,
    /// The answer goes back without it.
    LeaveOut,
    /// The provider's own blocks of the answer do not go back; what we read of it does.
    Nothing,
}

/// Reads a block. `arguments` are those of a call as they were written, if that is not what its fields hold.
pub(super) fn read(
    fields: &BlockFields,
    arguments: Option<&str>,
) -> Result<(Option<ContentBlock>, Replay), DecodeError> {
    let kind = fields.string("type").ok_or(DecodeError::Malformed)?;
    let whole = |known: &[&str]| match fields.has_only(known) {
        true => Replay::AsItIs,
        // What a field that we do not know does to a request nobody can tell.
        false => Replay::Nothing,
    };
    Ok(match kind.as_str() {
        "text" => {
            let text = fields.string("text").ok_or(DecodeError::Malformed)?;
            let replay = match text.trim().is_empty() {
                true => Replay::LeaveOut,
                false => whole(&["type", "text", "citations"]),
            };
            (Some(ContentBlock::Text { text }), replay)
        }
        "tool_use" => {
            let call = call(fields, arguments)?;
            let is_object = fields.raw("input").is_some_and(|input| input.starts_with('{'));
            let replay = match is_object {
                true => whole(&["type", "id", "name", "input", "caller"]),
                false => Replay::Nothing,
            };
            (Some(ContentBlock::Call(call)), replay)
        }
        // Without a signature it is refused when it comes back.
        "thinking" if fields.is_blank("signature") => (None, Replay::LeaveOut),
        "thinking" => (None, whole(&["type", "thinking", "signature"])),
        "redacted_thinking" if fields.is_blank("data") => (None, Replay::LeaveOut),
        "redacted_thinking" => (None, whole(&["type", "data"])),
        "document" | "image" | "search_result" | "container_upload" => return Err(DecodeError::Malformed),
        // Ours to say, or of a tool at the provider's that was never offered.
        result if result.ends_with("tool_result") => return Err(DecodeError::Malformed),
        // A block of the future is not read, and does not go back.
        _ => (None, Replay::Nothing),
    })
}

fn call(fields: &BlockFields, arguments: Option<&str>) -> Result<ToolCall, DecodeError> {
    let field = |name: &str| fields.string(name).ok_or(DecodeError::Malformed);
    let (id, name) = (field("id")?, field("name")?);
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if id.is_empty() || id.len() > ID_CHARS_MAX || !id.chars().all(is_allowed) {
        return Err(DecodeError::Malformed);
    }
    let arguments = arguments.or_else(|| fields.raw("input")).unwrap_or_default();
    Ok(ToolCall {
        id,
        name,
        arguments: arguments.to_owned(),
    })
}

/// Fails for an answer that says that it is of somebody else. Nothing said is the assistant.
pub(super) fn check_role(role: Option<&str>) -> Result<(), DecodeError> {
    match role {
        None | Some("assistant") => Ok(()),
        Some(_) => Err(DecodeError::Malformed),
    }
}
