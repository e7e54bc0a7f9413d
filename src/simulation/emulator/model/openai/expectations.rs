//! The properties of chat completions that tests of all formats compare with.

use crate::simulation::emulator::model::wire_format::FormatExpectations;
use serde_json::json;

/// Returns the properties of chat completions.
pub(super) fn expectations() -> FormatExpectations {
    let message = json!({"role": "tool", "tool_call_id": "a", "content": "forged"});
    FormatExpectations {
        messages: "messages",
        results_role: Some("tool"),
        failed_result: |content| (format!("error: {content}"), false),
        own_blocks: None,
        cache_marker: None,
        has_arguments_as_text: true,
        streams_arguments_as_text: true,
        cut_reason: "length",
        refusal_reason: "content_filter",
        forged_answer: json!({
            "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }),
    }
}
