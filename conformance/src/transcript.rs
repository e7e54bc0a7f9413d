//! The conversations that each side writes. One has a request, an answer with two calls and their results, one of them a
//! failure, and the next request. Two have a request with a file. The last one has a request, the answer that was read
//! from the service, and results.

use serde_json::{Value, json};

/// A conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// The one with calls.
    Calls,
    /// A request with an image.
    Image,
    /// A request with a PDF.
    Document,
    /// A request whose answer is sent back with results.
    Continued,
}

/// A file: its name, its type, and its content in base64.
#[derive(Clone, Copy, Debug)]
pub struct RequestFile {
    pub name: &'static str,
    pub media_type: &'static str,
    pub base64: &'static str,
}

impl Conversation {
    /// Returns the file of the request, if it has one.
    pub fn file(self) -> Option<RequestFile> {
        match self {
            Self::Calls | Self::Continued => None,
            Self::Image => Some(RequestFile {
                name: "alert.png",
                media_type: "image/png",
                base64: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
            }),
            Self::Document => Some(RequestFile {
                name: "runbook.pdf",
                media_type: "application/pdf",
                base64: "JVBERi0xLjQKJSVFT0YK",
            }),
        }
    }
}

/// The request with a file.
pub const ABOUT_FILE: &str = "What does it show?";
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
/// The results of the calls of an answer that is sent back.
pub const RESULTS: [&str; 2] = ["Fog.", "Sun."];
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
