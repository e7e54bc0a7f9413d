//! The question which repository a message is about. The message is held until a button is pressed, and the repository is
//! remembered for the conversation.

use super::answer::new_button;
use super::{ClaimedMessage, TurnRunner};
use crate::base::model::{Button, ButtonStyle, Inbound, InboundKind, Reply, ReplyPart};
use crate::engine::command;
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;
use crate::state::store::choice_argument;

/// The verb of the buttons. It is no command that people can type.
pub(in crate::engine::gateway) const REPOSITORY_VERB: &str = "repository";

/// Maximum number of repositories that are offered as buttons.
const OFFERED_MAX: usize = 12;

impl TurnRunner {
    /// Ends a message with the question which repository it is about.
    pub(super) async fn ask_for_repository(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        identity: &Identity,
        names: &[String],
    ) -> anyhow::Result<()> {
        let (work, inbound) = (&assigned.work, assigned.inbound());
        let goes_on = work.answered.is_some() || work.continues.is_some() || work.begun > 0;
        let (true, InboundKind::Text { .. }) = (!goes_on, &inbound.kind) else {
            return self.refuse(assigned, address, &typed_choice(names)).await;
        };
        let offered = names.iter().take(OFFERED_MAX).map(|name| {
            let action = (REPOSITORY_VERB, choice_argument(work.inbox, Some(name)));
            let (token, action) = new_button(&self.parts, action, identity, work.conversation.id);
            (Button::new(name.clone(), token, ButtonStyle::Plain), action)
        });
        let (buttons, actions): (Vec<_>, Vec<_>) = offered.unzip();
        let reply = Reply::text(typed_choice(names)).with(ReplyPart::Buttons { buttons });
        let content = Inbound {
            kind: request(&inbound.kind),
            ..inbound.clone()
        };
        let ops = self.refusal(address, &reply);
        let (store, now) = (&self.parts.store, (self.parts.now)());
        store
            .hold(&assigned.claim, (work.inbox, content), (ops, actions), now)
            .await?;
        self.outgoing.wake();
        Ok(())
    }
}

/// Returns the question, with how to answer it in words.
fn typed_choice(names: &[String]) -> String {
    format!(
        "Which repository? I keep your message until you choose. Next time you can start it with one of `{}:`.",
        names.join(":`, `")
    )
}

/// Returns the content without the word that asked for a turn of its own, which the choice gives it anyway.
fn request(kind: &InboundKind) -> InboundKind {
    let mut kind = kind.clone();
    if let InboundKind::Text { text, .. } = &mut kind
        && let Some(request) = command::queued(text).map(str::to_owned)
    {
        *text = request;
    }
    kind
}
