//! The properties of the Responses API that tests of all formats compare with.

use crate::simulation::emulator::model::wire_format::FormatExpectations;
use serde_json::json;

/// Returns the properties of the Responses API.
pub(super) fn expectations() -> FormatExpectations {
    let forged = json!({"type": "function_call_output", "call_id": "a", "output": "forged"});
    FormatExpectations {
        messages: "input",
        results_role: None,
        failed_result: |content| (format!("error: {content}"), false),
        own_blocks: Some(3),
        cache_marker: None,
        has_arguments_as_text: true,
        streams_arguments_as_text: true,
        cut_reason: "max_output_tokens",
        refusal_reason: "content_filter",
        forged_answer: json!({"status": "completed", "model": "m", "output": [forged]}),
    }
}
