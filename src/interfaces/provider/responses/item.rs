//! Decodes an output item of a Responses answer, and decides whether it may be sent back. An item that only users send
//! makes the answer invalid.

use crate::base::model::{CallArguments, ContentBlock, ToolCall};
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::{RawFields, Replay};
use serde_json::value::RawValue;

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 256;

/// An output item.
pub(super) struct ReadItem {
    /// Its content, in order.
    pub(super) blocks: Vec<ContentBlock>,
    /// True if the model refuses in it.
    pub(super) is_refusal: bool,
    /// True if it is reasoning, which is sent back only before another item.
    pub(super) is_reasoning: bool,
    /// Its effect on the replay of the answer.
    pub(super) replay: Replay,
}

impl ReadItem {
    fn new(blocks: Vec<ContentBlock>, replay: Replay) -> Self {
        Self {
            blocks,
            is_refusal: false,
            is_reasoning: false,
            replay,
        }
    }
}

/// Decodes an item.
pub(super) fn read(item: &RawValue) -> Result<ReadItem, DecodeError> {
    let fields: RawFields = serde_json::from_str(item.get())?;
    match fields.string("type").ok_or(DecodeError::Malformed)?.as_str() {
        "message" => message(&fields),
        "function_call" => call(&fields),
        "reasoning" => Ok(ReadItem {
            is_reasoning: true,
            // The service does not know its own reasoning again without the encrypted content.
            ..ReadItem::new(
                Vec::new(),
                match fields.is_blank("encrypted_content") {
                    true => Replay::Nothing,
                    false => Replay::AsItIs,
                },
            )
        }),
        // Results of calls, and references to what is stored, are of users. Other calls are of tools that were not
        // offered.
        "item_reference" => Err(DecodeError::Malformed),
        kind if kind.ends_with("_output") => Err(DecodeError::Malformed),
        "custom_tool_call" => Err(DecodeError::Malformed),
        // An item of an unknown kind is neither read nor sent back.
        _ => Ok(ReadItem::new(Vec::new(), Replay::Nothing)),
    }
}

fn message(fields: &RawFields) -> Result<ReadItem, DecodeError> {
    if fields.has("role") && fields.string("role").as_deref() != Some("assistant") {
        return Err(DecodeError::Malformed);
    }
    let content = fields.raw("content").ok_or(DecodeError::Malformed)?;
    let parts: Vec<RawFields> = serde_json::from_str(content.get())?;
    let mut item = ReadItem::new(
        Vec::new(),
        fields.replay_if_only(&["type", "id", "role", "status", "content", "phase"]),
    );
    for part in &parts {
        let field = match part.string("type").ok_or(DecodeError::Malformed)?.as_str() {
            "output_text" => "text",
            "refusal" => {
                item.is_refusal = true;
                "refusal"
            }
            kind if kind.starts_with("input_") => return Err(DecodeError::Malformed),
            _ => {
                item.replay = Replay::Nothing;
                continue;
            }
        };
        let text = part.string(field).ok_or(DecodeError::Malformed)?;
        item.blocks.push(ContentBlock::Text { text });
    }
    let is_blank =
        |block: &ContentBlock| matches!(block, ContentBlock::Text { text } if text.trim().is_empty());
    if item.blocks.iter().all(is_blank) && item.replay == Replay::AsItIs {
        item.replay = Replay::LeaveOut;
    }
    Ok(item)
}

fn call(fields: &RawFields) -> Result<ReadItem, DecodeError> {
    let field = |name: &str| fields.string(name).ok_or(DecodeError::Malformed);
    let (id, name) = (field("call_id")?, field("name")?);
    if id.is_empty() || id.len() > ID_CHARS_MAX || !id.chars().all(|char| char.is_ascii_graphic()) {
        return Err(DecodeError::Malformed);
    }
    let arguments = CallArguments::from(field("arguments")?);
    let replay = match arguments.object() {
        Some(_) => fields.replay_if_only(&["type", "id", "call_id", "name", "arguments", "status"]),
        None => Replay::Nothing,
    };
    let call = ContentBlock::Call(ToolCall { id, name, arguments });
    Ok(ReadItem::new(vec![call], replay))
}
