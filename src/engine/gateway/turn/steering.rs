//! Messages that a running turn takes: those of its own person that need no other repository and no turn of their own.
//! They get the same treatment as the opening message of a turn.

use super::opening_text::{cut, with_quote};
use super::{ClaimedMessage, OpenedTurn};
use crate::base::model::{Action, Inbound, InboundKind, InboxId, Receipt, Reply};
use crate::engine::agent::SteeringMessage;
use crate::engine::command;
use crate::engine::gateway::active_turns::ActiveTurns;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::outgoing::OutgoingMessages;
use crate::engine::gateway::parts::Parts;
use crate::state::access::Identity;
use crate::state::store::{Claim, Conversation, MessagesBehind, TakenMessage, TakenMessages};
use crate::state::workspace::SecretGuard;
use std::sync::Arc;

/// Maximum number of messages that one step takes.
const MESSAGES_AT_ONCE_MAX: usize = 8;
/// Maximum number of bytes of the messages that one step takes, beside the first.
const BYTES_AT_ONCE_MAX: usize = 64 << 10;
/// The line in the card of a message that waited before it was taken.
const CARD_TAKEN: &str = "I read this while I worked on your earlier message; one answer covers both.";

/// The messages that wait while a turn of a person runs.
pub(super) struct Steering {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    active_turns: ActiveTurns,
    claim: Claim,
    inbox: InboxId,
    identity: Identity,
    /// The conversation with the repository of the turn.
    conversation: Conversation,
    repository: String,
    guard: SecretGuard,
    /// The waiting messages that were composed last.
    composed: Vec<(InboxId, Inbound)>,
    /// The newest message that was looked at.
    known: InboxId,
}

impl Steering {
    /// Returns the waiting messages of a turn; `None` for the turn of a hook, whose events are independent.
    pub(super) fn new(
        (parts, outgoing): (&Arc<Parts>, &Arc<OutgoingMessages>),
        active_turns: &ActiveTurns,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
    ) -> Option<Self> {
        if !matches!(assigned.inbound().kind, InboundKind::Text { .. }) {
            return None;
        }
        let repository = opened.workspace.repository.name().to_owned();
        Some(Self {
            parts: Arc::clone(parts),
            outgoing: Arc::clone(outgoing),
            active_turns: active_turns.clone(),
            claim: assigned.claim,
            inbox: assigned.work.inbox,
            identity: opened.identity.clone(),
            conversation: Conversation {
                repository: Some(repository.clone()),
                ..opened.conversation.clone()
            },
            repository,
            guard: opened.workspace.guard.clone(),
            composed: Vec::new(),
            known: assigned.work.inbox,
        })
    }

    /// Returns the newest message of the conversation that the turn knows.
    pub(super) fn known(&self) -> InboxId {
        self.known
    }

    /// Returns the messages that the turn may take, oldest first, within both bounds.
    pub(super) async fn waiting(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        self.composed.clear();
        let store = &self.parts.store;
        let MessagesBehind {
            messages: waiting,
            newest,
        } = store.waiting_messages(&self.claim, self.inbox).await?;
        // Messages that were not read wait for their own turns. Because of them nobody is left unasked.
        self.known = newest.map_or(self.known, |newest| self.known.max(newest));
        let mut messages = Vec::new();
        let mut bytes = 0;
        for (inbox, inbound) in waiting {
            let Some(text) = self.text(&inbound) else { continue };
            bytes += text.len();
            let is_more = !messages.is_empty() && bytes > BYTES_AT_ONCE_MAX;
            if is_more || messages.len() == MESSAGES_AT_ONCE_MAX {
                break;
            }
            messages.push(SteeringMessage { inbox, text });
            self.composed.push((inbox, inbound));
        }
        Ok(messages)
    }

    /// Returns a message for the model, as the opening of a turn would; `None` if the message needs its own turn.
    fn text(&self, inbound: &Inbound) -> Option<String> {
        let InboundKind::Text { text, quoted, .. } = &inbound.kind else {
            return None;
        };
        // The access of the sender is looked up again, as at the beginning of a turn.
        let identity = self.parts.identity(inbound)?;
        let needs_own_turn = command::queued(text).is_some() || !inbound.files.is_empty();
        if identity.user() != self.identity.user() || needs_own_turn {
            return None;
        }
        let chosen = self
            .parts
            .resolve_repository(&identity, &inbound.channel, &self.conversation, text);
        let (_, words) = chosen.ok().filter(|(name, _)| *name == self.repository)?;
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        let redactor = &self.guard.redactor;
        let quoted = quoted.as_ref().map(|quoted| cut(quoted, chars_max, redactor));
        Some(
            redactor
                .redact(&with_quote(&words, quoted.as_deref()))
                .into_owned(),
        )
    }

    /// Returns the messages as they are stored with a step.
    pub(super) fn taken(&self, messages: &[SteeringMessage]) -> TakenMessages {
        let taken = messages.iter().filter_map(|message| {
            let (_, inbound) = self.composed.iter().find(|(inbox, _)| *inbox == message.inbox)?;
            let address = Address::for_message(inbound, message.inbox);
            let fill = Action::Fill {
                post: address.id("card"),
                reply: Reply::text(CARD_TAKEN),
            };
            Some(TakenMessage {
                inbox: message.inbox,
                words: message.text.clone(),
                card: (address.id("card"), address.op("card/taken", fill)),
            })
        });
        TakenMessages {
            user: self.identity.user(),
            messages: taken.collect(),
        }
    }

    /// Shows that the messages do not wait any more. The others have their receipt since they arrived.
    pub(super) async fn show_taken(&mut self, waited: &[InboxId]) {
        for (inbox, inbound) in self.composed.drain(..) {
            if waited.contains(&inbox) {
                self.outgoing.react(&inbound, Receipt::Started);
            }
        }
        self.outgoing.wake();
        let id = self.claim.conversation;
        if let Ok(waiting) = self.parts.store.waiting(id).await {
            let behind = usize::try_from(waiting.saturating_sub(1)).unwrap_or(usize::MAX);
            self.active_turns.set_waiting(id, behind);
        }
    }
}
