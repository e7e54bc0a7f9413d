//! Scripts of the model: a function of the conversation, or a list of answers. Answers follow the wire format unless
//! the script requests a fault by name.

use super::ModelRequest;
use crate::base::model::Usage;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// A source of answers.
pub trait AnswerScript: Send {
    /// Returns the answer to a valid request. `None` means that the request was not expected, which is a problem.
    fn answer(&mut self, asked: &ModelRequest) -> Option<ScriptedAnswer>;

    /// Returns short descriptions of the answers that were not requested.
    fn unused(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<F: FnMut(&ModelRequest) -> ScriptedAnswer + Send> AnswerScript for F {
    fn answer(&mut self, asked: &ModelRequest) -> Option<ScriptedAnswer> {
        Some(self(asked))
    }
}

/// A list of answers, one for each request.
#[derive(Debug, Default)]
pub struct AnswerQueue(VecDeque<ScriptedAnswer>);

/// Creates a script that answers in order.
pub fn queue(answers: impl IntoIterator<Item = ScriptedAnswer>) -> AnswerQueue {
    AnswerQueue(answers.into_iter().collect())
}

impl AnswerScript for AnswerQueue {
    fn answer(&mut self, _: &ModelRequest) -> Option<ScriptedAnswer> {
        self.0.pop_front()
    }

    fn unused(&self) -> Vec<String> {
        self.0.iter().map(ScriptedAnswer::summary).collect()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedAnswer {
    /// The text.
    pub text: String,
    /// Signed thinking before the text; Anthropic only.
    pub thinking: Option<String>,
    /// The calls: tool and arguments. They get ids in the service's own format.
    pub calls: Vec<(String, Value)>,
    /// The tokens it used.
    pub usage: Usage,
    /// The fault to apply to the answer.
    pub fault: Option<AnswerFault>,
}

/// A fault of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerFault {
    /// The answer is replaced by this status and body.
    Status {
        /// The status.
        status: u16,
        /// The headers in addition to the content type.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// The answer is delayed.
    Delay(Duration),
    /// The answer is held back until [`ModelEmulator::release`](super::ModelEmulator::release).
    Held,
    /// The body is held back from the first place of this text on, until
    /// [`ModelEmulator::release`](super::ModelEmulator::release).
    HeldBefore(&'static str),
    /// The request is read and never answered.
    Stall,
    /// The body stops after so many bytes, and the connection stays open.
    StallAfter(usize),
    /// The answer is delayed. Its body stops after so many bytes, and the connection stays open.
    StallLate {
        /// The delay.
        delay: Duration,
        /// The bytes of the body.
        bytes: usize,
    },
    /// The connection breaks after so many bytes.
    ResetAfter(usize),
    /// The answer ends after so many bytes, as if it were complete.
    EndAfter(usize),
    /// The body is neither JSON nor events.
    Malformed,
    /// The arguments of every call are this text.
    Arguments(String),
    /// Every call has this id.
    Ids(String),
    /// The stop reason, as the service names it.
    Stop(String),
    /// A streamed answer reports this kind of error in its middle.
    ErrorEvent(String),
}

/// Creates an answer with text.
pub fn says(text: impl Into<String>) -> ScriptedAnswer {
    let usage = Usage {
        input: 1_000,
        output: 50,
        cache_read: 0,
        cache_write: 0,
    };
    ScriptedAnswer {
        text: text.into(),
        thinking: None,
        calls: Vec::new(),
        usage,
        fault: None,
    }
}

/// Creates an answer that calls a tool.
pub fn calls(tool: impl Into<String>, arguments: Value) -> ScriptedAnswer {
    says("").with_call(tool, arguments)
}

impl ScriptedAnswer {
    /// Adds one more call.
    #[must_use]
    pub fn with_call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.calls.push((tool.into(), arguments));
        self
    }

    /// Adds thinking before the text.
    #[must_use]
    pub fn with_thinking(mut self, thinking: impl Into<String>) -> Self {
        self.thinking = Some(thinking.into());
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn with_fault(mut self, fault: AnswerFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Sets the used tokens.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    fn summary(&self) -> String {
        let calls: Vec<&str> = self.calls.iter().map(|(tool, _)| tool.as_str()).collect();
        match calls.is_empty() {
            true => format!("says {:?}", self.text.chars().take(40).collect::<String>()),
            false => format!("calls {}", calls.join(", ")),
        }
    }

    /// Returns the arguments of a call as text.
    pub(super) fn arguments(&self, arguments: &Value) -> String {
        match &self.fault {
            Some(AnswerFault::Arguments(text)) => text.clone(),
            _ => arguments.to_string(),
        }
    }

    /// Returns the id of a call, which is `own` unless the script requests another.
    pub(super) fn call_id(&self, own: String) -> String {
        match &self.fault {
            Some(AnswerFault::Ids(id)) => id.clone(),
            _ => own,
        }
    }

    /// Returns the stop reason.
    pub(super) fn stop<'a>(&'a self, with_calls: &'a str, without: &'a str) -> &'a str {
        match &self.fault {
            Some(AnswerFault::Stop(reason)) => reason,
            _ if self.calls.is_empty() => without,
            _ => with_calls,
        }
    }
}
