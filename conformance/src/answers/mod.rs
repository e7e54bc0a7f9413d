//! The answers that each side reads, in each format, in one piece and as a stream. The shapes are those of the
//! documentation of the services, whose addresses are beside each format.

mod chat;
mod gemini;
mod messages;
mod responses;

use crate::Wire;
use serde_json::Value;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Words and two calls.
    Calls,
    /// Words after thoughts that the service shows.
    Thoughts,
    /// Words that end at the limit of the answer.
    Cut,
    /// A refusal.
    Refused,
    /// An answer that ends well and says nothing.
    Empty,
}

impl Answer {
    /// The answers.
    pub const ALL: [Self; 5] = [Self::Calls, Self::Thoughts, Self::Cut, Self::Refused, Self::Empty];

    /// Returns the word of the answer in the table of differences.
    pub fn word(self) -> &'static str {
        match self {
            Self::Calls => "answer",
            Self::Thoughts => "answer with thoughts",
            Self::Cut => "cut answer",
            Self::Refused => "refusal",
            Self::Empty => "empty answer",
        }
    }

    /// Returns the words of the answer, in the pieces of a stream.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Calls | Self::Thoughts => &WORDS,
            Self::Cut => &[WORDS[0]],
            Self::Refused | Self::Empty => &[],
        }
    }

    /// Returns the number of the calls.
    fn calls(self) -> usize {
        match self {
            Self::Calls => ARGUMENTS.len(),
            Self::Thoughts | Self::Cut | Self::Refused | Self::Empty => 0,
        }
    }
}

const WORDS: [&str; 2] = ["Okay, let me check ", "the weather. ü 🚢"];
const THOUGHTS: &str = "The user asks for the weather.";
const REFUSAL: &str = "I cannot help with that.";
const NAME: &str = "get_weather";
const ARGUMENTS: [&str; 2] = [
    "{\"location\": \"San Francisco, CA\"}",
    "{\"location\": \"Zürich\"}",
];

/// Returns the body of the answer.
pub fn body(wire: Wire, is_streamed: bool, answer: Answer) -> String {
    match (wire, is_streamed) {
        (Wire::Messages, false) => messages::message(answer).to_string(),
        (Wire::Messages, true) => named_events(&messages::events(answer)),
        (Wire::Chat, false) => chat::completion(answer).to_string(),
        (Wire::Chat, true) => chat::events(answer),
        (Wire::Responses, false) => responses::response(answer).to_string(),
        (Wire::Responses, true) => named_events(&responses::events(answer)),
        (Wire::Gemini, false) => gemini::generated(answer).to_string(),
        (Wire::Gemini, true) => gemini::events(answer),
    }
}

/// Returns what the service signed or encrypted in the answer with calls. It is sent back unchanged.
pub fn signed(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::Messages => &[THOUGHTS, messages::SIGNATURE],
        Wire::Chat => &[],
        Wire::Responses => &[responses::ENCRYPTED],
        Wire::Gemini => &[gemini::SIGNATURE],
    }
}

fn arguments(index: usize) -> Value {
    serde_json::from_str(ARGUMENTS[index]).expect("JSON")
}

fn named_events(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().expect("a type")
        )
    };
    events.iter().map(line).collect()
}
