//! The gateway. Start reading here.
//!
//! [`Gateway::receive`] accepts a verified inbound. It redeems invites, refuses unknown senders without a model call,
//! and commits everything else before it is acknowledged. A conversation is claimed together with its new message, or
//! by [`Gateway::run`] when a slot is free. Each conversation runs one turn at a time, and many conversations run in
//! parallel. Commands do not wait in the queue. Answers leave through the outbox.

mod prerender;
mod choice;
mod commands;
mod compose;
mod delivery;
mod active_turns;
mod housekeeping;
mod inspections;
mod intake;
mod rejections;
mod change_preparation;
mod status_card;
mod repositories;
mod retention;
mod scheduler;
mod turn;
mod welcome;

pub use delivery::{ChannelDelivery, ChannelHealth, ChannelState};
pub use housekeeping::LoadObserver;
pub use repositories::{MirrorBounds, Repositories, Watcher};
pub use retention::{Holding, PrunedAmount, Retention, RetentionPeriod, Round, RoundStart};

use crate::access::{Access, AccessError, Identity, JoinOutcome};
use crate::channel::{self, Channel};
use crate::command;
use crate::compare::Comparer;
use crate::config::{ChannelSettings, Config, HookSettings};
use crate::crash_point;
use crate::health::Health;
use crate::model::{
    Action, ChatPlace, ConversationId, Inbound, InboundKind, InboxId, Op, Platform, Receipt, Reply, ReplyPart,
};
use crate::planted;
use crate::provider::Providers;
use crate::redact::Redactor;
use crate::store::{AcceptOutcome, DueOperation, QueueKind, QueueLimits, Store, StoreError};
use crate::tool::Toolbox;
use crate::workspace::{DeniedFiles, SecretGuard};
use active_turns::ActiveTurns;
use commands::AcceptedCommand;
use compose::Address;
use inspections::Inspections;
use jiff::Timestamp;
use prerender::Prerenderer;
use rejections::Rejections;
use scheduler::TurnScheduler;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;
use welcome::greeting;

/// Maximum number of notices to unknown senders in flight. Further ones are dropped, not queued.
const NOTICES_AT_ONCE_MAX: usize = 64;
/// Maximum number of commands that run at once.
const COMMANDS_AT_ONCE_MAX: usize = 64;

/// The parts that the gateway is built from.
pub struct Parts {
    /// The durable storage.
    pub store: Store,
    /// The admitted people and their grants.
    pub access: Arc<Access>,
    /// The model providers.
    pub providers: Providers,
    /// The tools that agents may call.
    pub toolbox: Toolbox,
    /// The repositories that people change.
    pub repositories: Repositories,
    /// The comparer of changes with their base, per environment.
    pub comparer: Arc<Comparer>,
    /// The redactor that all outgoing text passes.
    pub redactor: Arc<Redactor>,
    /// Files of repositories that must not be read.
    pub denied: Arc<DeniedFiles>,
    /// The settings.
    pub config: Arc<Config>,
    /// The current health problems.
    pub health: Health,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

/// The outcome of receiving an inbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// The inbound is now stored durably.
    New,
    /// The inbound was already stored.
    Duplicate,
    /// The inbound is refused permanently: the sender is unknown, or the event is irrelevant. It is not stored.
    Refused,
    /// The inbound is refused for now: too many events of this hook are waiting. It is not stored.
    Full,
}

/// The gateway: receives messages, runs turns and commands, and delivers answers.
pub struct Gateway {
    parts: Parts,
    rejections: Rejections,
    deliveries: BTreeMap<String, Arc<ChannelDelivery>>,
    active_turns: ActiveTurns,
    scheduler: TurnScheduler,
    notices: Arc<Semaphore>,
    commands: Arc<Semaphore>,
    command_order: commands::CommandOrder,
    inspections: Inspections,
    prerenderer: Prerenderer,
    /// Fires when the process stops. Work that can run again at the next start no longer waits.
    shutdown: CancellationToken,
    /// Background tasks, awaited before the process stops.
    background: TaskTracker,
}

impl Gateway {
    /// Creates the guard that hides secrets in a workspace from one person's work.
    fn guard(&self) -> SecretGuard {
        SecretGuard {
            denied: Arc::clone(&self.parts.denied),
            redactor: Arc::new(self.parts.redactor.fresh()),
        }
    }

    /// Creates the gateway and the service identities of hooks. A revoked hook stays revoked.
    pub async fn new(parts: Parts) -> Result<Arc<Self>, AccessError> {
        for (name, settings) in &parts.config.hooks {
            match parts.access.hook_identity(name, settings, (parts.now)()).await {
                Ok(_) => {}
                Err(AccessError::Revoked(name)) => warn!("`{name}` was revoked; its events are turned away"),
                Err(error) => return Err(error),
            }
        }
        let delivery = |(name, settings): (&String, &ChannelSettings)| {
            let (store, is_paced) = (parts.store.clone(), settings.is_paced());
            let delivery = ChannelDelivery::new(store, name.clone(), is_paced, parts.now, parts.random);
            let (settings, config) = (settings.clone(), Arc::clone(&parts.config));
            let delivery = delivery.with_split(Arc::new(move |reply| {
                channel::split(&settings, &config.server, reply)
            }));
            (name.clone(), Arc::new(delivery))
        };
        let deliveries = parts.config.channels.iter().map(delivery).collect();
        Ok(Arc::new(Self {
            rejections: Rejections::default(),
            deliveries,
            active_turns: ActiveTurns::default(),
            scheduler: TurnScheduler::new((parts.random)(), &parts.config.limits),
            notices: Arc::new(Semaphore::new(NOTICES_AT_ONCE_MAX)),
            commands: Arc::new(Semaphore::new(COMMANDS_AT_ONCE_MAX)),
            command_order: commands::CommandOrder::default(),
            inspections: Inspections::default(),
            prerenderer: Prerenderer::default(),
            shutdown: CancellationToken::new(),
            background: TaskTracker::new(),
            parts,
        }))
    }

    /// Adds a connected channel and delivers its waiting operations until `cancel`.
    pub async fn attach(self: &Arc<Self>, name: &str, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        if let Some(delivery) = self.deliveries.get(name) {
            Arc::clone(delivery).run(channel, cancel).await;
        }
    }

    /// Receives one verified inbound. Returns only when it is stored durably or refused permanently. After an error the
    /// sender must deliver it again.
    pub async fn receive(
        self: &Arc<Self>,
        inbound: Inbound,
        at: Timestamp,
    ) -> Result<ReceiveOutcome, AccessError> {
        let inbound = intake::extract_invite(inbound);
        if let InboundKind::Join { token } = &inbound.kind {
            return self.join(&inbound, token, at).await;
        }
        if self.identity(&inbound).is_none() {
            return self.deny_unknown_sender(&inbound, at).await;
        }
        let inbound = intake::without_secrets(inbound, &self.parts.redactor);
        let queue_kind = self.queue_kind(&inbound);
        let is_hook = self.hook(&inbound).is_some();
        let slot = match (queue_kind, is_hook) {
            (QueueKind::Turn, false) => self.scheduler.free_slot(),
            (QueueKind::Turn, true) => self.scheduler.free_hook_slot(),
            (QueueKind::Command | QueueKind::Change, _) => None,
        };
        let worker = slot.as_ref().map(|_| self.scheduler.worker());
        let store = &self.parts.store;
        let accepted = store
            .accept(&inbound, queue_kind, self.queue_limits(&inbound), worker, at)
            .await?;
        crash_point::before("B4");
        match accepted {
            AcceptOutcome::Duplicate => {
                // The first delivery may not be durable yet.
                store.wait_durable().await?;
                Ok(ReceiveOutcome::Duplicate)
            }
            AcceptOutcome::NotAddressed => Ok(ReceiveOutcome::Refused),
            AcceptOutcome::Full => {
                warn!(
                    inbound.channel,
                    "a message was not taken: too many wait before it"
                );
                self.note("ingress.full", &inbound.channel, "queue.full", at);
                if is_hook && !planted::is("D1") {
                    return Ok(ReceiveOutcome::Full);
                }
                self.wake_deliveries();
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
                    Some((direct_claim, slot)) => self.start_claimed(direct_claim, slot),
                    None if queue_kind == QueueKind::Turn => self.scheduler.wake(),
                    None => {}
                }
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                crash_point::after("B4");
                self.handle_stored(inbound, inbox, conversation, queue_kind, queue_position);
                Ok(ReceiveOutcome::New)
            }
        }
    }

    /// Returns how many messages may wait before an inbound is refused. A refused person gets a reply in the same
    /// transaction. A hook must deliver again later.
    fn queue_limits(&self, inbound: &Inbound) -> QueueLimits {
        let limits = &self.parts.config.limits;
        let waiting_max = limits.waiting_messages_max;
        let refusal = self.hook(inbound).is_none().then(|| {
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
        QueueLimits {
            of_conversation_max: waiting_max,
            of_hook_max: limits.waiting_events_max,
            refusal,
        }
    }

    /// Returns the identity of the sender if admitted. It is looked up again before each action for the person.
    fn identity(&self, inbound: &Inbound) -> Option<Identity> {
        self.parts.access.admit(&inbound.sender)
    }

    /// Returns the settings of the hook that sent an inbound.
    fn hook(&self, inbound: &Inbound) -> Option<&HookSettings> {
        match inbound.sender.platform {
            Platform::Hook => self.parts.config.hooks.get(&inbound.sender.id),
            Platform::Slack | Platform::Telegram | Platform::Terminal => None,
        }
    }

    fn queue_kind(&self, inbound: &Inbound) -> QueueKind {
        match &inbound.kind {
            InboundKind::Hook { .. } => QueueKind::Turn,
            InboundKind::Text { text, .. } if self.is_request(text) => QueueKind::Turn,
            kind if commands::may_change(kind) => QueueKind::Change,
            InboundKind::Text { .. } | InboundKind::Command { .. } | InboundKind::Click { .. } => {
                QueueKind::Command
            }
            InboundKind::Join { .. } | InboundKind::Unsupported { .. } => QueueKind::Command,
        }
    }

    /// True if a text is meant for the model, so it is neither a command nor a mistyped one.
    fn is_request(&self, text: &str) -> bool {
        command::find_in_text(text).is_none()
            && command::find_unknown_in_text(text).is_none()
            && self.readable(text)
    }

    fn readable(&self, text: &str) -> bool {
        !text.trim().is_empty() && text.chars().count() <= self.parts.config.limits.inbound_text_chars_max
    }

    fn handle_stored(
        self: &Arc<Self>,
        inbound: Inbound,
        inbox: InboxId,
        conversation: ConversationId,
        queue_kind: QueueKind,
        queue_position: u32,
    ) {
        match queue_kind {
            QueueKind::Turn if queue_position == 0 => self.react(&inbound, Receipt::Seen),
            QueueKind::Turn => {
                self.active_turns
                    .set_waiting(conversation, queue_position as usize);
                self.show_queue_position(inbound, inbox, queue_position);
            }
            QueueKind::Command | QueueKind::Change => {
                let gateway = Arc::clone(self);
                let may_change = commands::may_change(&inbound.kind);
                let in_order = self.command_order.enter(conversation, may_change);
                let asked = AcceptedCommand {
                    inbox,
                    conversation,
                    inbound,
                    crashes: 0,
                    preset_reply: None,
                };
                self.background.spawn(async move {
                    let kind = asked.inbound.kind.clone();
                    let follows = gateway.waits_for_changes(&kind);
                    in_order.run(follows, Box::pin(gateway.run_command(asked))).await;
                });
            }
        }
    }

    fn wake_deliveries(&self) {
        for delivery in self.deliveries.values() {
            delivery.wake();
        }
    }

    /// True if the commit that enqueues operations for this channel may lease them.
    fn can_deliver_now(&self, channel: &str) -> bool {
        let delivery = self.deliveries.get(channel);
        delivery.is_some_and(|delivery| delivery.can_send_now())
    }

    /// Returns the health of each channel: its state and its waiting operations.
    pub async fn channels(&self) -> Result<Vec<ChannelHealth>, StoreError> {
        let mut channels = Vec::with_capacity(self.deliveries.len());
        for delivery in self.deliveries.values() {
            channels.push(delivery.health().await?);
        }
        Ok(channels)
    }

    /// Returns the closed channels by name, with the reason. It reads nothing from the store.
    pub fn channels_closed(&self) -> Vec<(String, ChannelState)> {
        let states = self.deliveries.iter();
        let states = states.map(|(name, delivery)| (name.clone(), delivery.state()));
        let is_closed = |(_, state): &(String, ChannelState)| {
            matches!(
                state,
                ChannelState::Unreachable { .. } | ChannelState::Unauthorised { .. }
            )
        };
        states.filter(is_closed).collect()
    }

    /// Makes a channel look for work at once.
    pub fn retry_delivery(&self, channel: &str) {
        if let Some(delivery) = self.deliveries.get(channel) {
            delivery.retry_now();
        }
    }

    /// Delivers the operations leased by a commit, and wakes the loop for those left in the outbox.
    async fn dispatch_leased(&self, channel: &str, taken: Option<Vec<DueOperation>>) {
        if let Some(delivery) = self.deliveries.get(channel) {
            delivery.dispatch_leased(taken).await;
        }
    }

    fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        self.deliveries.get(name)?.channel()
    }

    fn react(&self, inbound: &Inbound, receipt: Receipt) {
        if let Some(message) = inbound.message.clone() {
            let place = inbound.place.clone();
            self.deliver_now(inbound, place, Action::React { message, receipt });
        }
    }

    /// Sends a notice to the sender without storing it.
    fn notice(&self, inbound: &Inbound, reply: Reply) {
        let action = match &inbound.kind {
            InboundKind::Click { callback, .. } => Action::AnswerClick {
                callback: callback.clone(),
                to: inbound.sender.clone(),
                text: plain(&reply),
            },
            _ => Action::Notice {
                to: inbound.sender.clone(),
                reply,
            },
        };
        self.deliver_now(inbound, inbound.private_place(), action);
    }

    /// Sends an operation at once, without the outbox. Used for messages that may be lost.
    fn deliver_now(&self, inbound: &Inbound, place: ChatPlace, action: Action) {
        let Some(delivery) = self.deliveries.get(&inbound.channel).cloned() else {
            return;
        };
        let Ok(slot) = Arc::clone(&self.notices).try_acquire_owned() else {
            return;
        };
        let id = format!("now/{}", inbound.delivery.first().map_or("", String::as_str));
        let op = Op {
            id,
            channel: inbound.channel.clone(),
            place,
            action,
            response_url: inbound.response_url.clone(),
        };
        let leaving = self.shutdown.clone();
        self.background.spawn(async move {
            if let Some(Err(error)) = leaving
                .run_until_cancelled(delivery.deliver_best_effort(&op))
                .await
            {
                tracing::debug!(%error, "a receipt or notice was not delivered");
            }
            drop(slot);
        });
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
            let text = format!(
                "Not authorised. I did nothing with that message (0 tokens).\n\
                 Your ID is `{}`: give it to an administrator, or ask for an invite.",
                inbound.sender
            );
            self.notice(inbound, Reply::text(text));
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
            self.notice(inbound, Reply::text(text));
            return Ok(ReceiveOutcome::Refused);
        }
        let sender = inbound.clone();
        let answer = move |redeemed: &JoinOutcome| {
            let id = sender.delivery.first().map_or("", String::as_str);
            let address = Address::for_inbound(&sender, format!("join/{id}"));
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
        self.wake_deliveries();
        if let (JoinOutcome::Invalid, Some(reply)) = (&redeemed, greeting(&redeemed)) {
            self.notice(inbound, reply);
        }
        Ok(match redeemed {
            JoinOutcome::Welcome { .. } => ReceiveOutcome::New,
            JoinOutcome::AlreadyAdmitted | JoinOutcome::Invalid | JoinOutcome::NoReply => {
                ReceiveOutcome::Refused
            }
        })
    }
}

/// True if the sender can get an ephemeral message. Telegram groups have none, so unknown senders get no notice there.
fn can_send_ephemeral(inbound: &Inbound) -> bool {
    inbound.direct || inbound.place.account.platform == Platform::Slack
}

fn plain(reply: &Reply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Heading { text } | ReplyPart::Text { text } | ReplyPart::Footer { text } => {
            Some(text.as_str())
        }
        ReplyPart::Mention { .. }
        | ReplyPart::Markdown { .. }
        | ReplyPart::Code { .. }
        | ReplyPart::Facts { .. }
        | ReplyPart::Buttons { .. } => None,
    });
    texts.collect::<Vec<_>>().join(" ").chars().take(200).collect()
}
