//! The reception of verified messages and events. It redeems invites, refuses unknown senders without a model call, and
//! commits everything else before it is acknowledged.

use super::access_request;
use super::active_turns::ActiveTurns;
use super::audit::IngressAudit;
use super::commands::{self, AcceptedCommand, CommandRunner};
use super::compose::Address;
use super::home::{HomeOpening, HomePages};
use super::intake;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::scheduler::TurnScheduler;
use super::thread_question;
use super::turn::TurnRunner;
use super::welcome::greeting;
use crate::base::model::{AskedQuestion, ConversationId, Inbound, InboundKind, InboxId, Receipt, Reply};
use crate::crash_point;
use crate::engine::command;
use crate::planted;
use crate::state::access::{AccessError, JoinOutcome};
use crate::state::store::{AcceptOutcome, AnswerReader, QueueKind, QueueLimits, StoreError};
use jiff::Timestamp;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// The outcome of receiving an inbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// The inbound is now stored durably.
    New,
    /// The inbound was already stored.
    Duplicate,
    /// The inbound is not stored, and need not come again: the sender is unknown, the event is irrelevant, or what it asks
    /// for may be lost.
    Refused,
    /// The inbound is refused for now: too many events of this hook are waiting. It is not stored.
    Full,
}

/// The entrance of the gateway.
pub struct Reception {
    pub(super) parts: Arc<Parts>,
    pub(super) outgoing: Arc<OutgoingMessages>,
    pub(super) audit: Arc<IngressAudit>,
    pub(super) active_turns: ActiveTurns,
    pub(super) turns: Arc<TurnRunner>,
    pub(super) scheduler: Arc<TurnScheduler>,
    pub(super) commands: Arc<CommandRunner>,
    pub(super) homes: Arc<HomePages>,
    pub(super) shutdown: CancellationToken,
    pub(super) background: TaskTracker,
}

impl Reception {
    /// Receives one verified inbound. Returns only when it is stored durably or refused permanently. After an error the
    /// sender must deliver it again.
    pub async fn receive(&self, inbound: Inbound, at: Timestamp) -> Result<ReceiveOutcome, AccessError> {
        // The token comes before the check: a shutdown then waits for this call and the work that it begins.
        let _counted = self.background.token();
        if self.shutdown.is_cancelled() {
            return Err(StoreError::Unavailable("the process stops".to_owned()).into());
        }
        let inbound = intake::extract_invite(inbound);
        if let InboundKind::Join { token } = &inbound.kind {
            return self.join(&inbound, token, at).await;
        }
        if inbound.kind == InboundKind::HomeOpened {
            if self.homes.open(&inbound, at) == HomeOpening::Denied {
                self.audit
                    .note("auth.denied", &inbound.channel, "home.unknown", at);
            }
            return Ok(ReceiveOutcome::Refused);
        }
        if self.parts.identity(&inbound).is_none() {
            if access_request::is_request(&inbound.kind) {
                return self.request_access(&inbound, at).await;
            }
            return self.deny_unknown_sender(&inbound, at).await;
        }
        let inbound = intake::without_secrets(inbound, &self.parts.redactor);
        let queue_kind = self.queue_kind(&inbound).await;
        let is_hook = self.parts.hook(&inbound).is_some();
        let slot = match (queue_kind, is_hook) {
            (QueueKind::Turn, false) => self.scheduler.free_slot(),
            (QueueKind::Turn, true) => self.scheduler.free_hook_slot(),
            (QueueKind::Command | QueueKind::Change, _) => None,
        };
        let worker = slot.as_ref().map(|_| self.scheduler.worker());
        let limits = self.queue_limits(&inbound, queue_kind);
        let has_notices = !limits.notices.is_empty();
        let store = &self.parts.store;
        let accepted = store.accept(&inbound, queue_kind, limits, worker, at).await?;
        crash_point::before("B4");
        match accepted {
            AcceptOutcome::Duplicate => {
                // The first delivery may not be durable yet.
                store.wait_durable().await?;
                Ok(ReceiveOutcome::Duplicate)
            }
            AcceptOutcome::Answered => {
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                crash_point::after("B4");
                self.outgoing.react(&inbound, Receipt::Seen);
                if !inbound.files.is_empty() {
                    let text = "I read the words of your answer, and not the files beside it. Send them with a message.";
                    self.outgoing.notice(&inbound, Reply::text(text));
                }
                self.outgoing.wake();
                self.scheduler.wake();
                Ok(ReceiveOutcome::New)
            }
            AcceptOutcome::Held => {
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                crash_point::after("B4");
                self.outgoing.wake();
                Ok(ReceiveOutcome::New)
            }
            AcceptOutcome::NotAddressed => Ok(ReceiveOutcome::Refused),
            AcceptOutcome::Full => {
                warn!(inbound.channel, "a message was refused: too many messages wait");
                self.audit
                    .note("ingress.full", &inbound.channel, "queue.full", at);
                if is_hook && !planted::is("D1") {
                    return Ok(ReceiveOutcome::Full);
                }
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                self.outgoing.wake();
                Ok(ReceiveOutcome::Refused)
            }
            AcceptOutcome::Stored {
                inbox,
                conversation,
                queue_position,
                direct_claim,
            } => {
                // The turn begins while the commit reaches the disk. None of its output is sent before that.
                match direct_claim.zip(slot) {
                    Some((direct_claim, slot)) => self.scheduler.start_claimed(direct_claim, slot),
                    None if queue_kind == QueueKind::Turn => self.scheduler.wake(),
                    None => {}
                }
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                crash_point::after("B4");
                if has_notices {
                    self.outgoing.wake();
                }
                self.handle_stored(inbound, inbox, conversation, queue_kind, queue_position);
                Ok(ReceiveOutcome::New)
            }
        }
    }

    /// Returns how many messages may wait before an inbound is refused. A refused person gets a reply in the same
    /// transaction. A hook must deliver again later.
    fn queue_limits(&self, inbound: &Inbound, queue_kind: QueueKind) -> QueueLimits {
        let limits = &self.parts.config.limits;
        let waiting_max = limits.waiting_messages_max;
        let refusal = self.parts.hook(inbound).is_none().then(|| {
            if planted::is("D1") {
                return Vec::new();
            }
            let id = inbound.delivery.first().map_or("", String::as_str);
            let address = commands::address_of(inbound, format!("refused/{id}"));
            let text = format!(
                "{waiting_max} messages wait already, so I did not accept this one. Send it again later."
            );
            vec![address.post("answer", Reply::text(text))]
        });
        let wants_own_turn = match &inbound.kind {
            // The words of a form are about a change, so they answer no question of the model.
            InboundKind::Text { text, .. } => inbound.about.is_some() || command::queued(text).is_some(),
            _ => false,
        };
        QueueLimits {
            answers: (!wants_own_turn).then(|| self.answer_reader()),
            notices: match queue_kind {
                QueueKind::Turn => self.parts.form_words(inbound),
                QueueKind::Command | QueueKind::Change => Vec::new(),
            },
            thread_question: match queue_kind {
                QueueKind::Turn => thread_question::composer(&self.parts, inbound),
                QueueKind::Command | QueueKind::Change => None,
            },
            of_conversation_max: waiting_max,
            of_hook_max: limits.waiting_events_max,
            refusal,
        }
    }

    fn answer_reader(&self) -> AnswerReader {
        let turns = Arc::clone(&self.turns);
        Arc::new(move |id, question: &AskedQuestion, inbound: &Inbound| {
            turns.typed_answer(id, question, inbound)
        })
    }

    async fn queue_kind(&self, inbound: &Inbound) -> QueueKind {
        match &inbound.kind {
            // Turns need not wait for what a button only shows.
            kind if self.commands.only_shows(kind).await => QueueKind::Command,
            InboundKind::Hook { .. } | InboundKind::Schedule(_) | InboundKind::Pipeline(_) => QueueKind::Turn,
            InboundKind::Text { text, .. } if inbound.about.is_some() && self.readable(text) => {
                QueueKind::Turn
            }
            InboundKind::Text { text, .. } if self.is_request(text) => QueueKind::Turn,
            kind if commands::may_change(kind) => QueueKind::Change,
            InboundKind::Text { .. } | InboundKind::Command { .. } | InboundKind::Click { .. } => {
                QueueKind::Command
            }
            InboundKind::Join { .. } | InboundKind::HomeOpened | InboundKind::Unsupported { .. } => {
                QueueKind::Command
            }
        }
    }

    /// True if a text is meant for the model, so it is neither a command nor a mistyped one.
    fn is_request(&self, text: &str) -> bool {
        command::find_in_text(text).is_none()
            && command::find_unknown_in_text(text).is_none()
            && command::queued(text).is_none_or(|request| !request.is_empty())
            && self.readable(text)
    }

    fn readable(&self, text: &str) -> bool {
        !text.trim().is_empty() && text.chars().count() <= self.parts.config.limits.inbound_text_chars_max
    }

    fn handle_stored(
        &self,
        inbound: Inbound,
        inbox: InboxId,
        conversation: ConversationId,
        queue_kind: QueueKind,
        queue_position: u32,
    ) {
        match queue_kind {
            QueueKind::Turn if queue_position == 0 => self.outgoing.react(&inbound, Receipt::Seen),
            QueueKind::Turn => {
                self.active_turns
                    .set_waiting(conversation, queue_position as usize);
                match self.waits_for_its_turn(&inbound, conversation) {
                    true => self.turns.show_queue_position(inbound, inbox, queue_position),
                    false => self.outgoing.react(&inbound, Receipt::Seen),
                }
            }
            QueueKind::Command | QueueKind::Change => {
                self.commands.start(AcceptedCommand {
                    inbox,
                    conversation,
                    inbound,
                    crashes: 0,
                    preset_reply: None,
                });
            }
        }
    }

    /// True if no turn that runs or waits before the message takes it.
    fn waits_for_its_turn(&self, inbound: &Inbound, conversation: ConversationId) -> bool {
        let InboundKind::Text { text, .. } = &inbound.kind else {
            return true;
        };
        command::queued(text).is_some() || self.active_turns.is_ending(conversation)
    }

    /// Refuses an unknown sender: at most one notice a day, no model call, and nothing stored except a bounded counter.
    async fn deny_unknown_sender(
        &self,
        inbound: &Inbound,
        at: Timestamp,
    ) -> Result<ReceiveOutcome, AccessError> {
        if !inbound.is_addressed() {
            return Ok(ReceiveOutcome::Refused);
        }
        let denied = self.parts.access.record_denial(&inbound.sender, at).await?;
        if denied.notify && can_send_ephemeral(inbound) {
            let notice = self.denial_notice(inbound).await?;
            self.outgoing.notice(inbound, notice);
        }
        Ok(ReceiveOutcome::Refused)
    }

    async fn join(
        &self,
        inbound: &Inbound,
        token: &str,
        at: Timestamp,
    ) -> Result<ReceiveOutcome, AccessError> {
        if !inbound.direct {
            let access = &self.parts.access;
            let is_revoked = access.revoke_invite(token, at).await?;
            // Replies to made-up tokens have the same limits as denial notices and join attempts.
            let may_reply = match access.admit(&inbound.sender) {
                Some(_) => access.allow_attempt(&inbound.sender, at),
                None => {
                    access.record_denial(&inbound.sender, at).await?.notify && can_send_ephemeral(inbound)
                }
            };
            if !is_revoked && !may_reply {
                return Ok(ReceiveOutcome::Refused);
            }
            let text = "An invite works only in a direct message to me. Others could read this one, \
                        so it is revoked now: ask for a new one.";
            self.outgoing.notice(inbound, Reply::text(text));
            return Ok(ReceiveOutcome::Refused);
        }
        let sender = inbound.clone();
        let answer = move |redeemed: &JoinOutcome| {
            let id = sender.delivery.first().map_or("", String::as_str);
            let prefix = format!("{}{id}", sender.sender.join_op_prefix());
            let address = Address::for_inbound(&sender, prefix);
            let reply = greeting(redeemed);
            // A failed guess is not stored, and its reply may be lost.
            reply
                .filter(|_| *redeemed != JoinOutcome::Invalid)
                .map(|reply| address.post("welcome", reply))
                .into_iter()
                .collect()
        };
        crash_point::before("B25");
        let redeemed = self
            .parts
            .access
            .redeem(token, &inbound.sender, &inbound.delivery, answer, at)
            .await?;
        crash_point::after("B25");
        self.outgoing.wake();
        if let (JoinOutcome::Invalid, Some(reply)) = (&redeemed, greeting(&redeemed)) {
            self.outgoing.notice(inbound, reply);
        }
        Ok(match redeemed {
            JoinOutcome::Welcome { .. } => ReceiveOutcome::New,
            JoinOutcome::AlreadyAdmitted | JoinOutcome::Invalid | JoinOutcome::NoReply => {
                ReceiveOutcome::Refused
            }
        })
    }
}

/// True if the sender can get a private answer. In groups of other platforms, unknown senders get no notice.
fn can_send_ephemeral(inbound: &Inbound) -> bool {
    let chat = inbound.place.account.platform.chat();
    inbound.direct || inbound.response_url.is_some() || chat.is_some_and(|chat| chat.has_ephemeral_notices)
}
