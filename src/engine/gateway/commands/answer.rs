//! The answer of a command or press, and the transaction that stores it.

use super::result_button::ResultButton;
use super::{AcceptedCommand, CommandRunner};
use crate::base::model::{ConversationId, InboundKind, InboxId, Op, Reply, totals};
use crate::engine::gateway::compose::{self, Address, COMPOSITIONS_MAX, outdated_too_often};
use crate::engine::gateway::intake::hash_of_click;
use crate::state::access::Identity;
use crate::state::store::{
    ComposedWrite, NewAction, NewChange, NewLoginCode, ProspectiveChange, StoreError, UndoRemainder,
};

/// The result of a command. One transaction stores it and marks the command as answered.
pub(super) struct CommandAnswer {
    pub(super) ops: Vec<Op>,
    pub(super) revision: Option<Revision>,
    /// The effect of a press on buttons.
    pub(super) buttons: ButtonEffect,
    /// The code that the answer shows.
    pub(super) login: Option<NewLoginCode>,
}

/// The effect of the press of a button on this and other buttons.
pub(super) enum ButtonEffect {
    /// The pressed button is used.
    Used,
    /// The answer only asks: the button can be pressed again, and the answer has these buttons.
    Asks(Vec<NewAction>),
    /// The button is used, and the answer has these buttons.
    Offers(Vec<NewAction>),
    /// The press decides whether this change is discarded in this conversation, and the buttons of all such questions are
    /// used.
    Decides(ConversationId, String),
}

/// The workspace after an undo, to be stored as a revision of the open change.
pub(super) struct Revision {
    pub(super) conversation: ConversationId,
    pub(super) identity: Identity,
    /// The snapshot of the edits it was made from. If the edits differ by now, the revision is dropped.
    pub(super) snapshot: String,
    /// The prepared change; `None` if the workspace equals its base.
    pub(super) change: Option<NewChange>,
    pub(super) address: Address,
}

impl CommandAnswer {
    pub(super) fn ops(ops: Vec<Op>) -> Self {
        Self {
            ops,
            revision: None,
            buttons: ButtonEffect::Used,
            login: None,
        }
    }

    pub(super) fn post(address: &Address, reply: Reply) -> Self {
        Self::ops(vec![address.post("answer", reply)])
    }
}

impl Revision {
    /// Composes the answers after `ops`, for the grants of `prospect`.
    fn remainder(&self, ops: &[Op], prospect: &ProspectiveChange) -> UndoRemainder {
        let covered = match (&self.change, prospect.grants()) {
            (None, _) => Ok(()),
            (Some(change), Some(grants)) => self
                .identity
                .with_stored(grants)
                .may_prepare(&change.repository, &change.needs),
            (Some(_), None) => Err("access was revoked".to_owned()),
        };
        let withheld = covered.err();
        let text = match (&withheld, prospect.change()) {
            (Some(why), _) => format!("Undone. Remaining: {}", compose::withheld(why)),
            (None, Some(numbered)) => {
                let change = &numbered.change;
                let totals = totals(&change.stats);
                format!("Undone. {change} is now {totals}; `diff` shows it.")
            }
            (None, None) => {
                "Undone; the workspace equals the base again, and nothing is prepared.".to_owned()
            }
        };
        let answers = |text: &str| {
            let answer = self.address.post("answer", Reply::text(text));
            ops.iter().cloned().chain([answer]).collect()
        };
        UndoRemainder {
            snapshot: self.snapshot.clone(),
            withheld,
            ops: answers(&text),
            ops_if_overtaken: answers(
                "Undone. The workspace was changed again since; `diff` shows what is prepared.",
            ),
        }
    }
}

impl CommandRunner {
    /// Stores an answer. If a revision can never be stored, the answer says so in text; otherwise it would be prepared
    /// again forever.
    pub(super) async fn store_answer(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        answer: CommandAnswer,
    ) -> Result<(), StoreError> {
        let (store, inbox, now) = (&self.parts.store, asked.inbox, (self.parts.now)());
        let CommandAnswer {
            ops,
            revision,
            buttons,
            login,
        } = answer;
        if let (Some(preset), InboundKind::Click { token, .. }) = (&asked.preset_reply, &asked.inbound.kind)
            && preset.returns_press(&asked.inbound.kind)
        {
            let unusable = vec![address.post("answer", preset.unusable_reply())];
            let (hash, by) = (hash_of_click(token), &asked.inbound.sender);
            return store.return_press(hash, by, inbox, (ops, unusable), now).await;
        }
        match (buttons, &asked.inbound.kind) {
            (ButtonEffect::Asks(buttons), InboundKind::Click { token, .. }) => {
                let hash = hash_of_click(token);
                return store.finish_asking_press(hash, inbox, (ops, buttons), now).await;
            }
            (ButtonEffect::Offers(buttons), _) => {
                return store.finish_offering_press(inbox, (ops, buttons), now).await;
            }
            (ButtonEffect::Decides(conversation, change), _) => {
                let question = (conversation, change, ResultButton::decisions());
                return store.finish_deciding_press(inbox, question, ops, now).await;
            }
            (ButtonEffect::Asks(_) | ButtonEffect::Used, _) => {}
        }
        if let Some(code) = login {
            return store.finish_login_command(inbox, code, ops, now).await;
        }
        let Some(revision) = revision else {
            return store.finish_command(inbox, ops, now).await;
        };
        match self.store_revision(inbox, &ops, &revision).await {
            Ok(()) => Ok(()),
            Err(error) if error.may_pass() => Err(error),
            Err(error) => {
                let CommandAnswer { ops: notice, .. } = self.unprepared_answer(address, &error.into());
                let ops = ops.into_iter().chain(notice).collect();
                store.finish_command(inbox, ops, now).await
            }
        }
    }

    /// Stores a revision with its answers. They are composed again if what they depend on changed in between.
    async fn store_revision(
        &self,
        inbox: InboxId,
        ops: &[Op],
        revision: &Revision,
    ) -> Result<(), StoreError> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let (id, user) = (revision.conversation, revision.identity.user());
        let mut basis = store.change_basis(id, user).await?;
        for _ in 0..COMPOSITIONS_MAX {
            let prospect = store.prospective_change(basis, revision.change.clone());
            let rest = revision.remainder(ops, &prospect);
            match store.finish_undo(inbox, id, prospect, rest, now).await? {
                ComposedWrite::Stored(()) => return Ok(()),
                ComposedWrite::Outdated(stored) => basis = stored,
            }
        }
        Err(outdated_too_often())
    }
}
