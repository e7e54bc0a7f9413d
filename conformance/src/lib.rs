//! Compares the wire formats of Drydock with those of other libraries. The same conversation is written and the same
//! answers are read by each of them.

pub mod answers;
pub mod difference;
pub mod drydock_side;
pub mod genai_side;
pub mod openai_types;
pub mod rig_side;
pub mod service;
pub mod transcript;

use serde_json::{Value, json};

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Wire {
    /// The formats.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Chat, Self::Responses, Self::Gemini];

    /// Returns the word of the format in Drydock's configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Messages => "anthropic-messages",
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini-generate",
        }
    }

    /// Returns the model of the requests.
    pub fn model(self) -> &'static str {
        match self {
            Self::Messages => "claude-sonnet-4-5",
            Self::Chat => "gpt-4o",
            Self::Responses => "gpt-5.1",
            Self::Gemini => "gemini-2.5-pro",
        }
    }

    /// Returns the path of the base URL.
    pub fn base_path(self) -> &'static str {
        match self {
            Self::Messages => "",
            Self::Chat | Self::Responses => "/v1",
            Self::Gemini => "/v1beta",
        }
    }
}

/// What a side understood of an answer: text, calls and tokens, in one form for all sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// The text.
    pub text: String,
    /// The ids, names and arguments of the calls. An id that the service did not give is empty.
    pub calls: Vec<(String, String, Value)>,
    /// All input tokens, those read from the cache among them, and the output tokens.
    pub input: u64,
    /// The input tokens that were read from the cache.
    pub cache_read: u64,
    /// The output tokens.
    pub output: u64,
}

impl Understood {
    /// Returns the facts as JSON, to compare them.
    pub fn as_json(&self) -> Value {
        let calls = self.calls.iter();
        let calls =
            calls.map(|(id, name, arguments)| json!({"id": id, "name": name, "arguments": arguments}));
        json!({
            "text": self.text, "calls": calls.collect::<Vec<_>>(), "input": self.input,
            "cache_read": self.cache_read, "output": self.output,
        })
    }
}
