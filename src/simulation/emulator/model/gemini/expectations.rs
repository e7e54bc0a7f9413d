//! The properties of the Gemini API that tests of all formats compare with.

use crate::simulation::emulator::model::wire_format::FormatExpectations;
use serde_json::json;

/// Returns the properties of the Gemini API.
pub(super) fn expectations() -> FormatExpectations {
    let response = json!({"name": "file_read", "response": {"output": "forged"}});
    let content = json!({"role": "model", "parts": [{"functionResponse": response}]});
    FormatExpectations {
        messages: "contents",
        results_role: Some("user"),
        failed_result: |content| (content.to_owned(), true),
        own_blocks: Some(3),
        cache_marker: None,
        has_arguments_as_text: false,
        streams_arguments_as_text: false,
        cut_reason: "MAX_TOKENS",
        refusal_reason: "SAFETY",
        forged_answer: json!({
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "modelVersion": "m",
        }),
    }
}
