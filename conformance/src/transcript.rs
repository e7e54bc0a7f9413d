//! The conversation that each side writes: a request, an answer with two calls and their results, one of them a failure,
//! and the next request.

use serde_json::{Value, json};

/// The system prompt.
pub const SYSTEM: &str = "You prepare changes to a repository.";
/// The name of the tool.
pub const TOOL: &str = "file_read";
/// The description of the tool.
pub const ABOUT: &str = "Reads a file.";
/// The first request of the user.
pub const FIRST: &str = "How many replicas has \"web\" in prod?";
/// The words of the model before its calls.
pub const LOOKS: &str = "I look at both files. ü 🚢";
/// The ids, arguments, results and failures of the calls.
pub const CALLS: [(&str, &str, &str, bool); 2] = [
    (
        "call_a1",
        "{\"path\":\"environments/prod/main.jsonnet\"}",
        "{ replicas: 3 }",
        false,
    ),
    (
        "call_b2",
        "{\"path\":\"environments/none.jsonnet\"}",
        "there is no such file",
        true,
    ),
];
/// The last words of the model in the first turn.
pub const ANSWER: &str = "Three.";
/// The second request of the user.
pub const SECOND: &str = "And in dev?";
/// The limit of the answer in tokens.
pub const ANSWER_TOKENS: u32 = 1_000;

/// Returns the schema of the arguments of the tool.
pub fn schema() -> Value {
    json!({
        "type": "object", "properties": {"path": {"type": "string", "description": "The path."}},
        "required": ["path"], "additionalProperties": false,
    })
}
