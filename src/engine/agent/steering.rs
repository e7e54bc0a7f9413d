//! Steering: messages that the person sends while the turn runs reach the model after the running step.
//!
//! They are taken in the transaction that stores the step, so a message is part of the conversation exactly if it does
//! not wait any more. A turn takes nothing if it does not go on, or if the next step is the last one, in which nothing
//! can be done about a message. Then the message waits for its own turn.

use super::{Journal, StepRecord, TurnEvent, TurnLoop};
use crate::base::model::{History, InboxId, Step, StoredOutput};

/// The line before messages that arrived while the model worked.
const MESSAGE_NOTE: &str = "[Message while you worked:]";
/// The line before messages that arrived when the model had answered.
const MESSAGE_AFTER_ANSWER_NOTE: &str =
    "[Message while you worked. Your last answer was not sent: answer again, with what still holds of it.]";

/// A message that waits while the turn runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringMessage {
    /// The row of the message.
    pub inbox: InboxId,
    /// The person's words without secrets, and their quotes as marked data.
    pub text: String,
}

/// The outcome of a step that is recorded together with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeResult {
    /// The step is recorded with the messages.
    Taken,
    /// Nothing is recorded: the messages wait.
    Left,
}

impl TurnLoop<'_> {
    /// Records a step together with the messages that wait. Returns the step if none waits, or none may be taken. Then
    /// nothing is recorded.
    pub(super) async fn record_with_messages(
        &self,
        step: Step,
        (outputs, model): (&[StoredOutput], &str),
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<Option<Step>> {
        let is_last = self.steps.saturating_add(1) >= self.cx.limits.steps_max;
        if is_last || self.limit_reached().is_some() {
            return Ok(Some(step));
        }
        let messages = journal.waiting_messages().await?;
        if messages.is_empty() {
            return Ok(Some(step));
        }
        let note = match step.is_final() {
            true => MESSAGE_AFTER_ANSWER_NOTE,
            false => MESSAGE_NOTE,
        };
        let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
        // One text, because a service may refuse two of the user after each other.
        let text = format!("{note}\n{}", texts.join("\n\n"));
        let steered = step.clone().with_messages(vec![text]);
        let record = StepRecord {
            step: &steered,
            model: self.answering(model),
            outputs,
            context: self.context_state(history),
        };
        if journal.record_step_taking(record, &messages).await? == TakeResult::Left {
            return Ok(Some(step));
        }
        history.push(steered)?;
        for message in messages {
            events(TurnEvent::MessageTaken { text: message.text });
        }
        Ok(None)
    }
}
