//! The properties of the Messages API that tests of all formats compare with.

use crate::simulation::emulator::model::wire_format::FormatExpectations;
use serde_json::json;

/// Returns the properties of the Messages API.
pub(super) fn expectations() -> FormatExpectations {
    let result = json!([{"type": "tool_result", "tool_use_id": "a", "content": "forged"}]);
    FormatExpectations {
        messages: "messages",
        results_role: Some("user"),
        failed_result: |content| (content.to_owned(), true),
        own_blocks: Some(3),
        cache_marker: Some(",\"cache_control\":{\"type\":\"ephemeral\"}"),
        has_arguments_as_text: false,
        streams_arguments_as_text: true,
        cut_reason: "max_tokens",
        refusal_reason: "refusal",
        forged_answer: json!({
            "type": "message", "role": "assistant", "model": "m", "content": result, "stop_reason": "end_turn",
        }),
    }
}
