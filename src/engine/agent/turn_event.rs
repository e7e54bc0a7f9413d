//! The events of a running turn.

use crate::base::model::{AskedQuestion, CallArguments, QuestionAnswer};
use crate::rendering::compare::CompareProgress;
use std::time::Duration;

/// An event of a running turn that users may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// A model call begins.
    StepStarted {
        /// The number of the step, from 1.
        step: u32,
    },
    /// The model writes text.
    Text(String),
    /// A model does not answer, and the next one gets the request. The text received so far belongs to a discarded
    /// answer.
    FallingBack {
        /// The model that does not answer, as `provider/model`.
        from: String,
        /// The model that is asked next, as `provider/model`.
        to: String,
        /// The reason, as a short text for users.
        why: String,
    },
    /// The provider requires a wait.
    Waiting {
        /// The reason, as a text for users.
        why: String,
        /// The length of the wait.
        wait: Duration,
    },
    /// A tool starts.
    ToolStarted {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The arguments, redacted.
        arguments: CallArguments,
        /// The argument that says what the call is about, such as a path; from the redacted arguments.
        subject: Option<String>,
    },
    /// A running tool reports progress. Messages that follow each other too fast are dropped.
    ToolProgress {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The progress, as a text for users; redacted.
        text: String,
    },
    /// A tool ended.
    ToolFinished {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The text that the model reads, redacted.
        content: String,
        /// True if the tool failed.
        is_error: bool,
    },
    /// The model summarises the oldest turns of a long conversation.
    Summarising,
    /// The model is done, and Drydock checks the files.
    Checking(CompareProgress),
    /// The turn took a message of the person that arrived while it ran.
    MessageTaken {
        /// The message, as the model reads it.
        text: String,
    },
    /// A check failed, and the answer goes back to the model.
    SentBack {
        /// The failed checks, one line each.
        failing: Vec<String>,
    },
    /// The person is asked while the turn waits.
    Asked(AskedQuestion),
    /// The question was answered or given up.
    Answered(QuestionAnswer),
}
