//! The button with which a person goes on with the change of a hook, in a conversation of their own in the thread of its
//! message.

use super::change::replaced_text;
use super::conversation::busy_reply;
use super::press::CountedPress;
use super::{ButtonEffect, CommandAnswer, CommandRunner};
use crate::base::model::{ChangeName, Reply};
use crate::engine::command::Verb;
use crate::state::store::{TakeOverOutcome, TakeOverRequest};

impl CommandRunner {
    /// Moves the change of a hook to the person who pressed, if their grants cover it.
    pub(super) async fn take_over(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        let asking = (Verb::Diff, "taken over");
        let named = self.named_change(asking, press.argument, press.identity, press.conversation);
        // Somebody else, or the same person later, may still take it over.
        let refused = |reply: Reply| CommandAnswer {
            buttons: ButtonEffect::Asks(Vec::new()),
            ..CommandAnswer::post(press.address, reply)
        };
        let done_before = self.parts.store.has_effect(press.asked.inbox).await?;
        if let Err(reply) = named.await?
            && !done_before
        {
            return Ok(refused(reply));
        }
        let meant: ChangeName = press.argument.parse()?;
        let request = TakeOverRequest {
            press: press.asked.inbox,
            from: press.conversation,
            into: press.asked.conversation,
            meant,
            person: press.identity.name().to_owned(),
        };
        let outcome = self.parts.store.take_over(request, (self.parts.now)()).await?;
        let text = match outcome {
            TakeOverOutcome::Taken { name } => {
                let text = format!(
                    "{name} is yours now. Say here what should be different; `diff`, `patch` and `discard` work."
                );
                return Ok(CommandAnswer::post(press.address, Reply::text(text)));
            }
            TakeOverOutcome::Busy => return Ok(refused(busy_reply())),
            TakeOverOutcome::Occupied => {
                "You have prepared something else in this thread. `discard` it first.".to_owned()
            }
            TakeOverOutcome::Another { name: Some(name) } => replaced_text(meant, &name)
                .unwrap_or_else(|| format!("{name} is prepared there now, so nothing was done.")),
            TakeOverOutcome::Another { name: None } => {
                format!("{meant} is not open any more, or somebody else goes on with it.")
            }
        };
        Ok(refused(Reply::text(text)))
    }
}
