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

/// The end of an answer, as a side understood it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model has finished.
    Finished,
    /// The model waits for the results of its calls.
    Calls,
    /// The answer reached its limit.
    Cut,
    /// The service or the model refused.
    Refused,
    /// The side has no word for it.
    Unknown,
}

/// The reading of an answer by a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// An answer.
    Answer(Understood),
    /// An error.
    Failed(String),
}

impl Reading {
    /// Returns the reading as JSON, to compare it. The words of an error are not compared.
    pub fn as_json(&self) -> Value {
        match self {
            Self::Answer(understood) => understood.as_json(),
            Self::Failed(_) => json!({"failed": true}),
        }
    }
}

/// The content of an answer as a side understood it: text, calls, end and tokens, in one form for all sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// The text.
    pub text: String,
    /// The ids, names and arguments of the calls. An id that the service did not give is empty.
    pub calls: Vec<(String, String, Value)>,
    /// The end.
    pub stop: Stop,
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
            "text": self.text, "calls": calls.collect::<Vec<_>>(), "stop": format!("{:?}", self.stop), "input": self.input,
            "cache_read": self.cache_read, "output": self.output,
        })
    }
}
