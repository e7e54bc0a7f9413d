//! Messages of the model to other people. A call that sends is only checked when it runs. The journal sends the messages
//! of a step together with the step, and decides then what became of each. So a message is sent exactly if the model
//! knows of it.

use super::calls::{CallOutcome, CallResult};
use super::questions::QuestionLimit;
use super::{Journal, StepRecord, TurnEvent, TurnLoop};
use crate::base::model::{
    Assistant, History, NOT_PERMITTED, PersonMessage, SEND_USER_MESSAGE, Step, StoredOutput, ToolCall,
    ToolResult,
};
use crate::interfaces::tool::{ToolError, message_of_call};

/// The result of a call whose message cannot be read without its secrets.
const NOT_SENT: &str = "not sent: without its secrets, this is no message";

/// The people to whom the model may send messages during a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Nobody. The tool is not offered.
    Nobody,
    /// The other people of the server. The journal decides who gets a message.
    People,
}

/// The messages that the calls of a step send.
#[derive(Debug, Default)]
pub(super) struct StepMessages {
    messages: Vec<PersonMessage>,
    /// The calls whose messages cannot be read.
    unreadable: Vec<String>,
}

impl StepMessages {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.unreadable.is_empty()
    }

    /// Marks the results of the calls whose messages cannot be read.
    fn refuse_unreadable(&self, results: &mut [ToolResult]) {
        let refused = results
            .iter_mut()
            .filter(|result| self.unreadable.contains(&result.call));
        for result in refused {
            if let Some(rest) = result.content.strip_prefix(PersonMessage::WAITING) {
                (result.content, result.is_error) = (format!("{NOT_SENT}{rest}"), true);
            }
        }
    }

    fn is_of(&self, call: &ToolCall) -> bool {
        self.unreadable.contains(&call.id) || self.messages.iter().any(|message| message.call == call.id)
    }
}

/// Refuses a call that sends if the same answer asks the person: the answer may change what is to be sent.
pub(super) fn check(call: &ToolCall, questions: QuestionLimit) -> Result<(), ToolError> {
    match call.name == SEND_USER_MESSAGE && questions.asks() {
        true => Err(ToolError::Failed(
            "not sent: this answer also asks the person; send it when you have read their answer".to_owned(),
        )),
        false => Ok(()),
    }
}

/// True for a result that is decided when the step is recorded.
pub(super) fn is_waiting(done: &CallResult) -> bool {
    done.outcome == CallOutcome::Notified && done.result.content.starts_with(PersonMessage::WAITING)
}

impl TurnLoop<'_> {
    /// Returns the messages that the calls of a step send. `kept` is the answer without secrets.
    pub(super) fn messages(&self, kept: &Assistant, done: &[CallResult]) -> StepMessages {
        let mut messages = StepMessages::default();
        if self.cx.recipients == Recipients::Nobody {
            return messages;
        }
        let calls = kept.calls().zip(done);
        for (call, _) in calls.filter(|(call, done)| call.name == SEND_USER_MESSAGE && is_waiting(done)) {
            match message_of_call(call) {
                Some(message) => messages.messages.push(message),
                None => messages.unreadable.push(call.id.clone()),
            }
        }
        messages
    }

    /// Records a step together with its messages. It takes no message of the person; those that wait reach the next step.
    pub(super) async fn record_sending(
        &mut self,
        (kept, mut results): (Assistant, Vec<ToolResult>),
        messages: StepMessages,
        (outputs, model): (&[StoredOutput], &str),
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<()> {
        messages.refuse_unreadable(&mut results);
        let step = Step::new(kept, results)?;
        let record = StepRecord {
            step: &step,
            model: self.answering(model),
            outputs,
            context: self.context_state(history),
        };
        let sent = journal.record_step_sending(record, &messages.messages).await?;
        let decided = sent.assistant().calls().zip(sent.results());
        for (call, result) in decided.filter(|(call, _)| messages.is_of(call)) {
            // A person whose role has changed reads this from Drydock, whatever the model says.
            if result.content.starts_with(NOT_PERMITTED) {
                self.writes.refuse(NOT_PERMITTED);
            }
            events(TurnEvent::ToolFinished {
                call: call.id.clone(),
                name: call.name.clone(),
                content: result.content.clone(),
                is_error: result.is_error,
            });
        }
        history.push(sent)?;
        Ok(())
    }
}
