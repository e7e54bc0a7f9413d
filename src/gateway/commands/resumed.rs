//! Commands that a restart found unanswered. Each is carried out again, unless that cannot be wanted any more: one that
//! changes something and was said long ago, and one that may end the process again, are answered instead.

use super::{Asked, is_inspection, may_change};
use crate::gateway::Gateway;
use crate::model::{ConversationId, InboxId, Reply};
use crate::store::{StoreError, Unanswered};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// Ends of the process after which a command is given up whose effect is not on record.
const CRASHES_MAX: u32 = 3;
/// Ends of the process after which a command is given up whose effect is on record.
const CRASHES_WITH_EFFECT_MAX: u32 = 6;
/// How old a command that changes something may be when it is carried out after a restart.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(5);

impl Gateway {
    /// Begins to carry out commands that a restart left unanswered, beside everything else: in their order, and those
    /// that may take long at the same time.
    pub(in crate::gateway) async fn resume_commands(self: &Arc<Self>) {
        let unanswered = match self.parts.store.unanswered().await {
            Ok(unanswered) => unanswered,
            Err(error) => return tracing::error!(%error, "unanswered commands could not be read"),
        };
        let is_long = |command: &Unanswered| {
            let inbound = command.inbound.as_ref();
            inbound.is_ok_and(|inbound| is_inspection(&inbound.kind))
        };
        let (long, short): (Vec<_>, Vec<_>) = unanswered.into_iter().partition(is_long);
        for commands in long.into_iter().map(|command| vec![command]).chain([short]) {
            let gateway = Arc::clone(self);
            self.errands.spawn(async move {
                for command in commands {
                    gateway.resume(command).await;
                }
            });
        }
    }

    async fn resume(self: &Arc<Self>, command: Unanswered) {
        let instead = instead(&command, (self.parts.now)());
        let Unanswered {
            inbox,
            conversation,
            crashes,
            inbound,
            ..
        } = command;
        match inbound {
            Ok(inbound) => {
                let asked = Asked {
                    inbox,
                    conversation,
                    inbound: *inbound,
                    crashes,
                    instead,
                };
                self.command(asked).await;
            }
            Err(error) => {
                if let Err(error) = self.answer_unreadable(inbox, conversation, error).await {
                    tracing::error!(%error, "a command that cannot be read could not be answered");
                }
            }
        }
    }

    async fn answer_unreadable(
        &self,
        inbox: InboxId,
        conversation: ConversationId,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let reference = self.failed(&error.into(), "reading a command");
        let address = self.address_in(conversation, inbox).await?;
        let text = format!("This command cannot be read any more; say it again. (ref {reference})");
        let ops = vec![address.post("answer", Reply::text(text))];
        let store = &self.parts.store;
        store.command_done(inbox, ops, (self.parts.now)()).await?;
        self.wake_deliveries();
        Ok(())
    }
}

/// What a command is answered instead of being carried out.
fn instead(command: &Unanswered, at: Timestamp) -> Option<Reply> {
    let crashes_max = match command.has_effect {
        true => CRASHES_WITH_EFFECT_MAX,
        false => CRASHES_MAX,
    };
    if command.crashes >= crashes_max {
        return Some(Reply::text(format!(
            "I was restarted {} times before I could answer this, so I gave it up. `status` shows how things are; \
             say it again if you still want it.",
            command.crashes
        )));
    }
    let changes = command.inbound.as_ref();
    let changes = changes.is_ok_and(|inbound| may_change(&inbound.kind));
    let is_old = at.duration_since(command.accepted_at) > AGE_MAX;
    if changes && !command.has_effect && is_old {
        let text = "I was restarted before I could do this, and that is some minutes ago, so I did nothing. \
                    Say it again if you still want it.";
        return Some(Reply::text(text));
    }
    None
}
