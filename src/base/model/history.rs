//! A conversation in the form that providers require; the types rule out an invalid one.
//!
//! Providers refuse a history if its roles do not alternate or if a tool result has no matching call. Here, results
//! are stored with their calls, and only [`Step::new`] combines them. A turn is a user text, with attachments, followed
//! by steps, and only whole turns are left out. An interrupted turn is closed with an answer by Drydock before the next one begins.

mod answer;
mod attachments;
mod late_result;
mod request_size;
mod steering;
mod trimming;

pub use answer::{Assistant, ContentBlock, RawBlocks, StopReason, ToolCall, ToolResult, Usage};
pub use attachments::with_absent_files;
pub use request_size::{json_bytes, result_bytes, result_bytes_with};
pub use trimming::{ContextState, TrimBoundary};

use super::{Attachment, TurnId};
use request_size::{StepBytes, user_bytes};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An answer of the model with the results of its calls, or with Drydock's remark, and with messages of the person that
/// arrived in the meantime.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "StepParts")]
pub struct Step {
    assistant: Assistant,
    results: Vec<ToolResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    /// The person's messages that arrived during the turn and follow the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
    /// The size in a request, counted once.
    #[serde(skip)]
    bytes: StepBytes,
}

#[derive(Deserialize)]
struct StepParts {
    assistant: Assistant,
    results: Vec<ToolResult>,
    #[serde(default)]
    remark: Option<String>,
    #[serde(default)]
    messages: Vec<String>,
}

impl TryFrom<StepParts> for Step {
    type Error = HistoryError;

    fn try_from(parts: StepParts) -> Result<Self, HistoryError> {
        let step = Self::new(parts.assistant, parts.results)?;
        let step = match parts.remark {
            Some(remark) => step.with_remark(remark)?,
            None => step,
        };
        Ok(step.with_messages(parts.messages))
    }
}

/// The reason why a history cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// Calls and results do not pair one to one, in order.
    #[error("the results {results:?} do not pair with the calls {calls:?}")]
    Unpaired {
        /// The ids of the calls.
        calls: Vec<String>,
        /// The ids in the results.
        results: Vec<String>,
    },
    /// An answer with calls cannot be sent back with a remark: their results are sent instead.
    #[error("an answer with calls has results and no remark")]
    Remark,
    /// The turn already has its final answer.
    #[error("the turn has its final answer already")]
    Closed,
    /// The last turn has no final answer yet, so no new one can begin.
    #[error("the last turn has no final answer yet")]
    Open,
}

impl Step {
    /// Combines an answer with the results of its calls, one for each call and in the same order.
    pub fn new(assistant: Assistant, results: Vec<ToolResult>) -> Result<Self, HistoryError> {
        let paired = assistant
            .calls()
            .map(|call| &call.id)
            .eq(results.iter().map(|result| &result.call));
        if !paired {
            return Err(HistoryError::Unpaired {
                calls: assistant.calls().map(|call| call.id.clone()).collect(),
                results: results.into_iter().map(|result| result.call).collect(),
            });
        }
        Ok(Self {
            bytes: StepBytes::of(&assistant, &results),
            assistant,
            results,
            remark: None,
            messages: Vec::new(),
        })
    }

    /// Adds Drydock's remark to an answer without calls. The answer is then not final: the model reads the remark and
    /// answers again.
    pub fn with_remark(self, remark: impl Into<String>) -> Result<Self, HistoryError> {
        if !self.results.is_empty() {
            return Err(HistoryError::Remark);
        }
        let remark = remark.into();
        Ok(Self {
            bytes: self.bytes.with_remark(&remark),
            remark: Some(remark),
            ..self
        })
    }

    /// Returns the answer.
    pub fn assistant(&self) -> &Assistant {
        &self.assistant
    }

    /// Returns the results in the order of the calls; empty for an answer without calls.
    pub fn results(&self) -> &[ToolResult] {
        &self.results
    }

    /// Returns the remark with which the answer was sent back, if it was.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Returns true if the step ends its turn.
    pub fn is_final(&self) -> bool {
        self.results.is_empty() && self.remark.is_none() && self.messages.is_empty()
    }
}

/// A turn: the user's text with its attachments, and the steps after it. Only the last turn of a history may lack its final answer.
#[derive(Clone, Debug)]
pub struct Turn {
    user: String,
    attachments: Vec<Attachment>,
    /// Shared by the copies of a turn.
    steps: Arc<Vec<Step>>,
    /// The stored turn that it was read from.
    id: Option<TurnId>,
    /// The size in a request, counted once.
    bytes: usize,
}

impl Turn {
    /// Returns the user's text.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn is_closed(&self) -> bool {
        self.steps.last().is_some_and(Step::is_final)
    }

    fn new(id: Option<TurnId>, user: String) -> Self {
        Self {
            bytes: user_bytes(&user),
            user,
            attachments: Vec::new(),
            steps: Arc::default(),
            id,
        }
    }

    fn push(&mut self, step: Step) {
        self.bytes += step.bytes();
        Arc::make_mut(&mut self.steps).push(step);
    }
}

/// The turns of a conversation, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    turns: Vec<Turn>,
    /// The size of all turns in a request.
    bytes: usize,
    /// The number of turns at the beginning whose results are placeholders.
    trimmed: usize,
    boundary: TrimBoundary,
    /// The text of the first turn, if that stands for turns that are left out.
    summary: Option<Arc<str>>,
}

impl History {
    /// Starts a turn.
    pub fn begin(&mut self, user: impl Into<String>) -> Result<(), HistoryError> {
        self.begin_turn(Turn::new(None, user.into()))
    }

    /// Starts a turn that was read from the store.
    pub fn begin_stored(&mut self, id: TurnId, user: impl Into<String>) -> Result<(), HistoryError> {
        self.begin_turn(Turn::new(Some(id), user.into()))?;
        self.trimmed += usize::from(self.boundary.is_trimmed(id));
        Ok(())
    }

    fn begin_turn(&mut self, turn: Turn) -> Result<(), HistoryError> {
        if self.is_open() {
            return Err(HistoryError::Open);
        }
        self.bytes += turn.bytes;
        self.turns.push(turn);
        Ok(())
    }

    /// Adds a step to the open turn. A final step closes it.
    pub fn push(&mut self, step: Step) -> Result<(), HistoryError> {
        match self.turns.last_mut() {
            Some(turn) if !turn.is_closed() => {
                self.bytes += step.bytes();
                turn.push(step);
            }
            Some(_) | None => return Err(HistoryError::Closed),
        }
        Ok(())
    }

    /// Closes the open turn, if there is one, with an answer by Drydock: after a stop, a limit or a crash.
    pub fn close(&mut self, answer: &str) {
        if let Some(turn) = self.turns.last_mut()
            && !turn.is_closed()
            && let Ok(step) = Step::new(Assistant::synthetic(answer), Vec::new())
        {
            self.bytes += step.bytes();
            turn.push(step);
        }
    }

    /// Opens the last turn again, without its final answer, so that the model continues after its last step. Returns
    /// false if there is no closed turn.
    pub fn reopen(&mut self) -> bool {
        let is_summary = self.turns.len() == self.summary_turns();
        let Some(turn) = self
            .turns
            .last_mut()
            .filter(|turn| turn.is_closed() && !is_summary)
        else {
            return false;
        };
        let Some(step) = Arc::make_mut(&mut turn.steps).pop() else {
            return false;
        };
        turn.bytes -= step.bytes();
        self.bytes -= step.bytes();
        true
    }

    /// Opens the last turn again, if it was read from the stored turn `earlier`, for the steps of the stored turn `later`
    /// that continues it.
    pub fn reopen_stored(&mut self, earlier: TurnId, later: TurnId) -> bool {
        if self.turns.last().and_then(|turn| turn.id) != Some(earlier) || !self.reopen() {
            return false;
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.id = Some(later);
        }
        true
    }

    /// Returns true if the last turn has no final answer.
    pub fn is_open(&self) -> bool {
        self.turns.last().is_some_and(|turn| !turn.is_closed())
    }

    /// Names the last turn by the number under which it is recorded.
    pub fn name_last_turn(&mut self, id: TurnId) {
        if let Some(turn) = self.turns.last_mut() {
            turn.id = Some(id);
        }
    }

    /// Returns the turns, oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Assistant, ContentBlock, History, HistoryError, Step, StopReason, ToolCall, ToolResult, Usage,
    };

    fn asks(ids: &[&str]) -> Assistant {
        let call = |id: &&str| {
            ContentBlock::Call(ToolCall {
                id: (*id).to_owned(),
                name: "file_read".into(),
                arguments: "{}".into(),
            })
        };
        Assistant {
            blocks: ids.iter().map(call).collect(),
            raw: None,
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        }
    }

    fn answers(ids: &[&str]) -> Vec<ToolResult> {
        ids.iter()
            .map(|id| ToolResult {
                call: (*id).to_owned(),
                content: "ok".into(),
                is_error: false,
            })
            .collect()
    }

    /// STK-47, STK-48, STK-32
    #[test]
    fn results_pair_with_calls_or_there_is_no_step() {
        assert!(Step::new(asks(&["a", "b"]), answers(&["a", "b"])).is_ok());
        for wrong in [&["a"][..], &["b", "a"], &["a", "b", "c"], &[]] {
            assert!(matches!(
                Step::new(asks(&["a", "b"]), answers(wrong)),
                Err(HistoryError::Unpaired { .. })
            ));
        }
    }

    /// STK-32
    #[test]
    fn a_stored_step_that_does_not_pair_is_refused() {
        let step = Step::new(asks(&["a"]), answers(&["a"])).map(|step| serde_json::to_string(&step));
        let text = step.ok().and_then(Result::ok).unwrap_or_default();
        assert!(serde_json::from_str::<Step>(&text).is_ok());
        assert!(serde_json::from_str::<Step>(&text.replace("\"call\":\"a\"", "\"call\":\"z\"")).is_err());
    }

    /// STK-45
    #[test]
    fn turns_alternate_and_close() {
        let mut history = History::default();
        assert_eq!(history.begin("one"), Ok(()));
        assert_eq!(history.begin("two"), Err(HistoryError::Open));
        history.close("stopped");
        assert_eq!(history.begin("two"), Ok(()));
        let last = Step::new(Assistant::synthetic("done"), Vec::new());
        assert_eq!(last.and_then(|step| history.push(step)), Ok(()));
        let late = Step::new(Assistant::synthetic("late"), Vec::new());
        assert_eq!(
            late.and_then(|step| history.push(step)),
            Err(HistoryError::Closed)
        );
    }

    #[test]
    fn a_turn_that_is_opened_again_keeps_its_finished_steps() {
        let mut history = History::default();
        assert!(!history.reopen());
        assert_eq!(history.begin("one"), Ok(()));
        assert!(!history.reopen());
        let step = Step::new(asks(&["a"]), answers(&["a"]));
        assert_eq!(step.and_then(|step| history.push(step)), Ok(()));
        let bytes = history.bytes();
        history.close("stopped");
        assert!(history.reopen());
        assert_eq!((history.bytes(), history.turns()[0].bytes()), (bytes, bytes));
        assert_eq!(history.turns()[0].steps().len(), 1);
        assert_eq!(history.begin("two"), Err(HistoryError::Open));
        let last = Step::new(Assistant::synthetic("done"), Vec::new());
        assert_eq!(last.and_then(|step| history.push(step)), Ok(()));
        assert_eq!(history.begin("two"), Ok(()));
    }

    #[test]
    fn an_answer_that_is_sent_back_leaves_its_turn_open_and_survives_storage() {
        let mut history = History::default();
        assert_eq!(history.begin("one"), Ok(()));
        let answer = Step::new(Assistant::synthetic("done"), Vec::new());
        let step = answer.and_then(|step| step.with_remark("it is not")).ok();
        let text = step.as_ref().and_then(|step| serde_json::to_string(step).ok());
        let stored: Option<Step> = text.and_then(|text| serde_json::from_str(&text).ok());
        assert_eq!(stored.as_ref().and_then(Step::remark), Some("it is not"));
        assert_eq!(stored.map(|step| history.push(step)), Some(Ok(())));
        assert_eq!(history.begin("two"), Err(HistoryError::Open));
        history.close("done now");
        assert_eq!(history.begin("two"), Ok(()));
        let calls = Step::new(asks(&["a"]), answers(&["a"]));
        assert!(matches!(
            calls.and_then(|step| step.with_remark("no")),
            Err(HistoryError::Remark)
        ));
    }
}
