//! The answer to a message that ends without a result of the model: one line in its card.

use super::journal::TurnJournal;
use super::{ClaimedMessage, OpenedTurn, REVOKED, TurnRunner};
use crate::base::model::{Action, Op, Reply, TurnId};
use crate::engine::gateway::compose::Address;
use crate::state::store::{Claim, StoreError};

impl TurnRunner {
    /// Ends a message whose stored data cannot be read, and reports that in its chat.
    pub(in crate::engine::gateway) async fn end_unreadable(
        &self,
        claim: Claim,
        error: StoreError,
    ) -> anyhow::Result<()> {
        let store = &self.parts.store;
        let what = match &error {
            StoreError::Unreadable {
                what: "snapshot" | "file",
                ..
            } => "The edits of this conversation cannot be read any more; `discard` removes them.",
            StoreError::Unreadable {
                what: "history" | "step",
                ..
            } => "This conversation cannot be read any more; `clear` starts a new one.",
            _ => "This message cannot be read any more; send it again.",
        };
        let reference = self.parts.log_internal_error(&error.into(), "reading a message");
        let Some(inbox) = store.next_message(&claim).await? else {
            return Ok(());
        };
        let address = self.parts.address_in(claim.conversation, inbox).await?;
        let (why, at) = (format!("{what} (ref {reference})"), (self.parts.now)());
        if address.is_shown() {
            let mut ops = self.refusal(&address, &Reply::text(why));
            ops.extend(address.work_ended());
            store.dismiss(&claim, inbox, ops, at).await?;
        } else {
            store.refuse_step(&claim, inbox, why, at).await?;
        }
        self.outgoing.wake();
        Ok(())
    }

    /// Ends a turn whose person lost access while it ran. Its edits are reverted, and one line is sent. The model's
    /// last answer is dropped, but its usage is recorded.
    pub(super) async fn end_locked_out(
        &self,
        assigned: &ClaimedMessage,
        turn: TurnId,
        address: &Address,
        opened: &OpenedTurn,
        journal: Option<TurnJournal>,
    ) -> anyhow::Result<()> {
        if let Some(last) = journal.and_then(|journal| journal.last) {
            let (store, now) = (&self.parts.store, (self.parts.now)());
            store.record_cost(&assigned.claim, turn, &last.cost, now).await?;
        }
        tracing::info!(user.id = %opened.identity.user(), "a turn ended because the access of its person was revoked");
        let ended = address.work_ended();
        self.dismiss(assigned, address, &opened.locked_out_text(), ended)
            .await
    }

    /// Ends a message without a model call. If it has a card, the card shows the reason.
    pub(super) async fn refuse(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        why: &str,
    ) -> anyhow::Result<()> {
        // A turn that was cut short may have shown that work goes on.
        let was_begun = assigned.work.begun > 0;
        let ended = was_begun.then(|| address.work_ended()).flatten();
        self.dismiss(assigned, address, why, ended).await
    }

    async fn dismiss(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        why: &str,
        ended: Option<Op>,
    ) -> anyhow::Result<()> {
        // A revoked person gets one line.
        let why = match assigned.work.has_edited && why != REVOKED {
            true => format!("{why}\nIts edits before the interruption are undone."),
            false => why.to_owned(),
        };
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let (claim, inbox) = (&assigned.claim, assigned.work.inbox);
        if address.is_shown() {
            let mut ops = self.refusal(address, &Reply::text(why));
            ops.extend(ended);
            store.dismiss(claim, inbox, ops, at).await?;
        } else {
            store.refuse_step(claim, inbox, why, at).await?;
        }
        self.outgoing.wake();
        Ok(())
    }

    /// Returns the operations that answer a message which ends without a turn.
    pub(super) fn refusal(&self, address: &Address, answer: &Reply) -> Vec<Op> {
        self.refusal_form(address)(address, answer)
    }

    /// Returns the function that composes the answer to a message that ends without a turn.
    pub(super) fn refusal_form(&self, address: &Address) -> RefusalForm {
        match self.outgoing.can_find(address) {
            true => whole_refusal,
            false => filled_refusal,
        }
    }
}

/// A function that composes the answer to a message that ends without a turn.
pub(super) type RefusalForm = fn(&Address, &Reply) -> Vec<Op>;

/// Returns the answer to a message that ends without a turn. It goes into the card, if there is one.
fn whole_refusal(address: &Address, answer: &Reply) -> Vec<Op> {
    vec![address.post("card", answer.clone()), card_fill(address, answer)]
}

/// Returns the same answer as [`whole_refusal`], for a platform that cannot look up sent posts. A placeholder line,
/// which may show twice, is filled by an edit.
fn filled_refusal(address: &Address, answer: &Reply) -> Vec<Op> {
    vec![
        address.placeholder("card", Reply::text("…")),
        card_fill(address, answer),
    ]
}

fn card_fill(address: &Address, answer: &Reply) -> Op {
    let fill = Action::Fill {
        post: address.id("card"),
        reply: answer.clone(),
    };
    address.op("card/refused", fill)
}

#[cfg(test)]
mod tests {
    use super::filled_refusal;
    use crate::base::model::{Account, Action, ChatPlace, Platform, Reply};
    use crate::engine::gateway::compose::Address;

    /// R1
    #[test]
    fn the_reason_a_message_was_given_up_shows_once_even_if_its_first_line_repeats() {
        let address = Address {
            channel: "telegram".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Telegram,
                    id: "42".to_owned(),
                },
                chat: "7001".to_owned(),
                thread: None,
            },
            reply_to: None,
            mention: None,
            ephemeral_to: None,
            prefix: "inbox-7".to_owned(),
            response_url: None,
        };
        let ops = filled_refusal(&address, &Reply::text("It was cut short three times."));
        let saying: Vec<&str> = ops
            .iter()
            .filter(|op| format!("{:?}", op.action).contains("cut short"))
            .map(|op| op.id.as_str())
            .collect();
        assert_eq!(saying, ["inbox-7/card/refused"]);
        assert!(ops[0].action.is_placeholder());
        assert!(matches!(&ops[1].action, Action::Fill { post, .. } if *post == ops[0].id));
    }
}
