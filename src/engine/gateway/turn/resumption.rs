//! A turn that goes on with the answer to its question, as if it had never waited.

use super::ClaimedMessage;
use crate::base::model::{History, ToolResult, Turn, TurnId, Usage};
use crate::base::redact::Redactor;
use crate::engine::agent::EarlierAttempts;
use crate::state::recording::RecordedEvent;
use crate::state::store::AnsweredTurn;
use std::borrow::Cow;
use tokio::time::Instant;

/// The earlier steps with which a turn goes on.
pub(super) enum TurnContinuation<'a> {
    /// The turn begins anew.
    None,
    /// The turn had asked, and its question is answered.
    Answered(ResumedTurn<'a>),
    /// The turn continues this one, which was cut short or has failed.
    Earlier(TurnId),
}

impl<'a> TurnContinuation<'a> {
    /// Opens the last turn of a history again, if it is the one that goes on.
    pub(super) fn reopen(assigned: &'a ClaimedMessage, history: &mut History, redactor: &Redactor) -> Self {
        if let Some(resumed) = ResumedTurn::reopen(assigned, history, redactor) {
            return Self::Answered(resumed);
        }
        let newest = history.turns().last().and_then(Turn::id);
        match assigned.work.continues {
            Some(turn) if newest == Some(turn) && history.reopen() => Self::Earlier(turn),
            _ => Self::None,
        }
    }

    /// Returns the turn that goes on with the answer to its question.
    pub(super) fn answered(&self) -> Option<&ResumedTurn<'a>> {
        match self {
            Self::Answered(resumed) => Some(resumed),
            Self::None | Self::Earlier(_) => None,
        }
    }

    /// Returns the turn that a new one continues.
    pub(super) fn earlier(&self) -> Option<TurnId> {
        match self {
            Self::Earlier(turn) => Some(*turn),
            Self::None | Self::Answered(_) => None,
        }
    }
}

/// A turn that goes on with the answer to its question.
pub(super) struct ResumedTurn<'a> {
    answered: &'a AnsweredTurn,
    /// The result of the call that asked.
    result: ToolResult,
    usage: Usage,
}

impl<'a> ResumedTurn<'a> {
    /// Opens the last turn of a history again, if it is the one that goes on. If the history does not hold it, because
    /// it is too long, the message is answered anew. The answer to the question is redacted again: if it arrived after a
    /// restart, the secrets of the turn were not known.
    fn reopen(assigned: &'a ClaimedMessage, history: &mut History, redactor: &Redactor) -> Option<Self> {
        let answered = assigned.work.answered.as_ref()?;
        let results = |turn: &Turn| {
            turn.steps()
                .iter()
                .rev()
                .nth(1)
                .map(|step| step.results().to_vec())
        };
        // The last step is the answer with which an unfinished turn was closed.
        let last = history.turns().last().and_then(results)?;
        let mut result = last.into_iter().find(|result| result.call == answered.call)?;
        if !history.reopen() {
            return None;
        }
        if let Cow::Owned(redacted) = redactor.redact(&result.content) {
            result.content = redacted;
            history.replace_result(&result).ok()?;
        }
        let steps = history.turns().last().map_or(&[][..], Turn::steps);
        // Steps before them are those of another turn, which this one continues.
        let own = steps.iter().rev().take(answered.steps);
        let mut usage = Usage::default();
        own.for_each(|step| usage += step.assistant().usage);
        Some(Self {
            answered,
            result,
            usage,
        })
    }

    pub(super) fn turn(&self) -> TurnId {
        self.answered.turn
    }

    /// Returns the number of its finished steps.
    pub(super) fn steps(&self) -> usize {
        self.answered.steps
    }

    /// Returns the start of the turn as if it had not waited, for its time limit.
    pub(super) fn began(&self, resumed: Instant) -> Instant {
        resumed.checked_sub(self.answered.ran).unwrap_or(resumed)
    }

    /// Returns the answer for the recording of the conversation.
    pub(super) fn recorded_answer(&self) -> RecordedEvent {
        RecordedEvent::Result {
            call: self.result.call.clone(),
            content: self.result.content.clone(),
            is_error: self.result.is_error,
        }
    }
}

/// Returns the costs of the attempts before the turn. The part of the turn before its question is not one of them.
pub(super) fn earlier_attempts(
    assigned: &ClaimedMessage,
    resumed: Option<&ResumedTurn<'_>>,
) -> EarlierAttempts {
    let work = &assigned.work;
    let (turns, steps, usage) = resumed.map_or((0, 0, Usage::default()), |resumed| {
        let steps = u32::try_from(resumed.steps()).unwrap_or(u32::MAX);
        (1, steps, resumed.usage)
    });
    let before = work.usage_before;
    EarlierAttempts {
        turns: work.begun.saturating_sub(turns),
        steps: work.steps_before.saturating_sub(steps),
        usage: Usage {
            input: before.input.saturating_sub(usage.input),
            output: before.output.saturating_sub(usage.output),
            cache_read: before.cache_read.saturating_sub(usage.cache_read),
            cache_write: before.cache_write.saturating_sub(usage.cache_write),
        },
    }
}
