//! The limits that end a turn without an answer, and the texts that say so.

use super::window::RequestTooLong;
use super::{LoopEnd, TurnLoop};
use crate::base::model::{History, Verdict};
use tokio::time::Instant;

impl TurnLoop<'_> {
    pub(super) fn limit_reached(&self) -> Option<LoopEnd> {
        let limits = self.cx.limits;
        let why = if self.cx.cancel.is_cancelled() || self.is_locked_out() {
            return Some(self.stopped());
        } else if self.steps >= limits.steps_max {
            format!("I stopped after {} steps without an answer.", self.steps)
        } else if Instant::now() >= self.deadline {
            format!(
                "I stopped after {} s without an answer.",
                limits.turn_time_max.as_secs()
            )
        } else if limits.turn_tokens_max > 0 && self.spent() >= limits.turn_tokens_max {
            format!(
                "I stopped at {} tokens; the limit of one turn is {}.",
                self.spent(),
                limits.turn_tokens_max
            )
        } else {
            return None;
        };
        Some(LoopEnd::notice(Verdict::Limit, why))
    }

    /// Returns true if the user has lost read access: then no model is called on their behalf.
    pub(super) fn is_locked_out(&self) -> bool {
        let repository = self.cx.workspace.repository.name();
        self.cx.identity.role(repository).is_none()
    }

    /// Returns the tokens spent on the message, including those before a restart.
    pub(super) fn spent(&self) -> u64 {
        self.cx
            .earlier_attempts
            .usage
            .total()
            .saturating_add(self.usage.total())
    }

    pub(super) fn stopped(&self) -> LoopEnd {
        let before = self.cx.earlier_attempts;
        let why = match before.steps.saturating_add(self.steps) {
            0 if before.turns == 0 => "Stopped before the first step.".to_owned(),
            // The interrupted attempt had begun its first step.
            steps => format!("Stopped at step {}.", steps.max(1)),
        };
        LoopEnd::notice(Verdict::Cancelled, why)
    }

    pub(super) fn too_long(&self, too_long: RequestTooLong, history: &History) -> LoopEnd {
        let has_attachments = history
            .turns()
            .last()
            .is_some_and(|turn| !turn.attachments().is_empty());
        let bytes = too_long.bytes;
        let budget = self.model().budget(self.cx.limits, self.budget.fixed);
        let bound = budget.bound_text(self.bytes_per_1000_tokens);
        let why = match self.steps {
            0 if has_attachments => format!(
                "I did not ask the model: your message counts {bytes} bytes with its attached files, my instructions \
                 and tools, and {bound}. Attach fewer or shorter files."
            ),
            0 => format!(
                "I did not ask the model: your message has {bytes} bytes with my instructions and tools, and {bound}. \
                 Send a shorter one."
            ),
            _ => format!(
                "I stopped: the request to the model has {bytes} bytes, and {bound}. Ask for less in one message."
            ),
        };
        LoopEnd::notice(Verdict::Limit, why)
    }
}
