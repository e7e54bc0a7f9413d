//! Decodes a block of a Messages answer, and decides whether it may be sent back. A block that only other roles send
//! makes the answer invalid: if it were stored, every later request would be refused.

use crate::base::model::{CallArguments, ContentBlock, ToolCall};
use crate::interfaces::provider::codec::DecodeError;
use crate::interfaces::provider::raw_fields::{RawFields, Replay};

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 256;

/// Decodes a block. `arguments` are those of a streamed call, which are not in its fields.
pub(super) fn read(
    fields: &RawFields,
    arguments: Option<CallArguments>,
) -> Result<(Option<ContentBlock>, Replay), DecodeError> {
    let kind = fields.string("type").ok_or(DecodeError::Malformed)?;
    Ok(match kind.as_str() {
        "text" => {
            let text = fields.string("text").ok_or(DecodeError::Malformed)?;
            let replay = match text.trim().is_empty() {
                true => Replay::LeaveOut,
                false => fields.replay_if_only(&["type", "text", "citations"]),
            };
            (Some(ContentBlock::Text { text }), replay)
        }
        "tool_use" => {
            let call = call(fields, arguments)?;
            let is_object = fields
                .arguments("input")
                .is_some_and(|input| input.object().is_some());
            let replay = match is_object {
                true => fields.replay_if_only(&["type", "id", "name", "input", "caller"]),
                false => Replay::Nothing,
            };
            (Some(ContentBlock::Call(call)), replay)
        }
        // The provider would refuse a block without a signature in a later request.
        "thinking" if fields.is_blank("signature") => (None, Replay::LeaveOut),
        "thinking" => (None, fields.replay_if_only(&["type", "thinking", "signature"])),
        "redacted_thinking" if fields.is_blank("data") => (None, Replay::LeaveOut),
        "redacted_thinking" => (None, fields.replay_if_only(&["type", "data"])),
        "document" | "image" | "search_result" | "container_upload" => return Err(DecodeError::Malformed),
        // Either Drydock sends this kind of block, or it belongs to a provider's own tool, which was not offered.
        result if result.ends_with("tool_result") => return Err(DecodeError::Malformed),
        // A block of an unknown kind is neither read nor sent back.
        _ => (None, Replay::Nothing),
    })
}

fn call(fields: &RawFields, arguments: Option<CallArguments>) -> Result<ToolCall, DecodeError> {
    let field = |name: &str| fields.string(name).ok_or(DecodeError::Malformed);
    let (id, name) = (field("id")?, field("name")?);
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if id.is_empty() || id.len() > ID_CHARS_MAX || !id.chars().all(is_allowed) {
        return Err(DecodeError::Malformed);
    }
    let arguments = arguments
        .or_else(|| fields.arguments("input"))
        .unwrap_or_default();
    Ok(ToolCall { id, name, arguments })
}

/// Fails if the answer has another role than the assistant. A missing role means the assistant.
pub(super) fn check_role(role: Option<&str>) -> Result<(), DecodeError> {
    match role {
        None | Some("assistant") => Ok(()),
        Some(_) => Err(DecodeError::Malformed),
    }
}
