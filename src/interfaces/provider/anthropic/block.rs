//! Decodes a block of a Messages answer, and decides whether it may be sent back. A block that only other roles send
//! makes the answer invalid: if it were stored, every later request would be refused.

use crate::base::model::{CallArguments, ContentBlock, ToolCall};
use crate::interfaces::provider::codec::DecodeError;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 256;

/// The fields of a block, byte for byte and without duplicates.
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
    /// Returns the text of a field, if it exists and is a text.
    pub(super) fn string(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.0.get(field)?.get()).ok()
    }

    /// Returns the arguments of a call.
    pub(super) fn input(&self) -> Option<CallArguments> {
        self.0.get("input").cloned().map(CallArguments::from)
    }

    /// Sets a field, or replaces its value.
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

/// The effect of a block on the replay of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// The block is sent back unchanged.
    AsItIs,
    /// The answer is sent back without the block.
    LeaveOut,
    /// The answer is sent back in Drydock's own format instead of the provider's blocks.
    Nothing,
}

/// Decodes a block. `arguments` are those of a streamed call, which are not in its fields.
pub(super) fn read(
    fields: &BlockFields,
    arguments: Option<CallArguments>,
) -> Result<(Option<ContentBlock>, Replay), DecodeError> {
    let kind = fields.string("type").ok_or(DecodeError::Malformed)?;
    let whole = |known: &[&str]| match fields.has_only(known) {
        true => Replay::AsItIs,
        // The effect of an unknown field in a request is unknown as well.
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
            let is_object = fields.input().is_some_and(|input| input.object().is_some());
            let replay = match is_object {
                true => whole(&["type", "id", "name", "input", "caller"]),
                false => Replay::Nothing,
            };
            (Some(ContentBlock::Call(call)), replay)
        }
        // The provider would refuse a block without a signature in a later request.
        "thinking" if fields.is_blank("signature") => (None, Replay::LeaveOut),
        "thinking" => (None, whole(&["type", "thinking", "signature"])),
        "redacted_thinking" if fields.is_blank("data") => (None, Replay::LeaveOut),
        "redacted_thinking" => (None, whole(&["type", "data"])),
        "document" | "image" | "search_result" | "container_upload" => return Err(DecodeError::Malformed),
        // Either Drydock sends this kind of block, or it belongs to a provider's own tool, which was not offered.
        result if result.ends_with("tool_result") => return Err(DecodeError::Malformed),
        // A block of an unknown kind is neither read nor sent back.
        _ => (None, Replay::Nothing),
    })
}

fn call(fields: &BlockFields, arguments: Option<CallArguments>) -> Result<ToolCall, DecodeError> {
    let field = |name: &str| fields.string(name).ok_or(DecodeError::Malformed);
    let (id, name) = (field("id")?, field("name")?);
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if id.is_empty() || id.len() > ID_CHARS_MAX || !id.chars().all(is_allowed) {
        return Err(DecodeError::Malformed);
    }
    let arguments = arguments.or_else(|| fields.input()).unwrap_or_default();
    Ok(ToolCall { id, name, arguments })
}

/// Fails if the answer has another role than the assistant. A missing role means the assistant.
pub(super) fn check_role(role: Option<&str>) -> Result<(), DecodeError> {
    match role {
        None | Some("assistant") => Ok(()),
        Some(_) => Err(DecodeError::Malformed),
    }
}
