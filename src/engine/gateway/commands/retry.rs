//! The repetition of a message whose turn has failed, by the command or by the button of its answer.

use super::{AcceptedCommand, CommandRunner};
use crate::base::model::{ConversationId, InboundKind, Reply, pluralize};
use crate::state::store::{PressOutcome, RetryOutcome, RetryRequest};

impl CommandRunner {
    /// Runs the last message of a conversation again, if its turn has failed.
    pub(super) async fn retry(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
    ) -> anyhow::Result<Reply> {
        let at = (self.parts.now)();
        let outcome = self.parts.store.retry(conversation, request(asked), at).await?;
        Ok(retry_reply(outcome))
    }

    /// Uses the button of a failed turn. One transaction uses the button and stores the message again.
    pub(super) async fn press_retry(
        &self,
        asked: &AcceptedCommand,
        token_hash: [u8; 32],
    ) -> anyhow::Result<(PressOutcome, Option<RetryOutcome>)> {
        let at = (self.parts.now)();
        let by = &asked.inbound.sender;
        let pressed = self
            .parts
            .store
            .press_retry(token_hash, by, request(asked), at)
            .await?;
        Ok(pressed)
    }
}

fn request(asked: &AcceptedCommand) -> RetryRequest {
    let inbound = &asked.inbound;
    // Only a typed command is a message of the person, which the answer may reply to.
    let is_typed = matches!(
        inbound.kind,
        InboundKind::Text { .. } | InboundKind::Command { .. }
    );
    RetryRequest {
        command: asked.inbox,
        reply_to: inbound.message.clone().filter(|_| is_typed),
        direct: inbound.direct,
        by: inbound.sender.clone(),
    }
}

/// Returns the answer to a retry.
pub(super) fn retry_reply(outcome: RetryOutcome) -> Reply {
    Reply::text(match outcome {
        RetryOutcome::Again { steps: 0, .. } => "I work on your last message again.".to_owned(),
        RetryOutcome::Again { steps, .. } => {
            let steps = pluralize(steps as usize, "finished step is", "finished steps are");
            format!("I go on with your last message; {steps} kept.")
        }
        RetryOutcome::Busy => {
            "I am still working on a message of yours, or it waits. `retry` is for one that has failed."
                .to_owned()
        }
        RetryOutcome::Nothing => "There is no message here to work on again.".to_owned(),
        RetryOutcome::Answered => {
            "Your last message was answered, so there is nothing to retry. Say what should be different."
                .to_owned()
        }
        RetryOutcome::Stopped => {
            "You stopped this before it began. Write `retry` again if you still want it.".to_owned()
        }
        RetryOutcome::Earlier => {
            "You sent another message since. `retry` runs only the last one again, if it has failed."
                .to_owned()
        }
    })
}
