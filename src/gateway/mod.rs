//! The way of one message. Read this first.
//!
//! [`Gateway::receive`] takes a verified inbound: an invite is redeemed, a stranger is turned away
//! with no model call, everything else is committed before it is acknowledged. A conversation is claimed
//! with the message that wakes it, or by [`Gateway::run`] when there is room; turns run one at a time each,
//! many side by side, and commands go past the queue. Answers leave through the outbox.

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
use crate::store::{AcceptOutcome, DueOperation, QueueKind, QueueLimits, RefusalNotice, Store, StoreError};
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

/// Notices to strangers on their way at once; more are dropped, not queued.
const NOTICES_AT_ONCE_MAX: usize = 64;
/// Commands carried out at once.
const COMMANDS_AT_ONCE_MAX: usize = 64;

/// The parts that the gateway is built from.
pub struct Parts {
    /// The durable storage.
    pub store: Store,
    /// The rights of people.
    pub access: Arc<Access>,
    /// The providers of models.
    pub providers: Providers,
    /// The tools an agent may call.
    pub toolbox: Toolbox,
    /// The repositories people change.
    pub repositories: Repositories,
    /// The comparer of their changes with the base, by environment.
    pub comparer: Arc<Comparer>,
    /// The choke point for secrets.
    pub redactor: Arc<Redactor>,
    /// Files of repositories that nobody looks into.
    pub denied: Arc<DeniedFiles>,
    /// The settings.
    pub config: Arc<Config>,
    /// The list of what does not work.
    pub health: Health,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

/// The outcome of an inbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Durable now.
    New,
    /// Durable before.
    Duplicate,
    /// Refused for good: a stranger, or nothing for us. Not stored.
    Refused,
    /// Refused for now: too many events of this hook wait. Not stored.
    Full,
}

/// The engine of the server.
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
    /// Fires when the process stops: what may be done again at the next start waits no longer.
    shutdown: CancellationToken,
    /// The tasks that nobody waits for, before the process stops.
    background: TaskTracker,
}

impl Gateway {
    /// Returns the guard that keeps secrets from whoever looks at a workspace from now on, on behalf of one person.
    fn guard(&self) -> SecretGuard {
        SecretGuard {
            denied: Arc::clone(&self.parts.denied),
            redactor: Arc::new(self.parts.redactor.fresh()),
        }
    }

    /// Builds the engine; hooks get their service identities. A revoked hook stays what it is.
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

    /// Adds a connected channel and delivers what waits for it, until `cancel`.
    pub async fn attach(self: &Arc<Self>, name: &str, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        if let Some(delivery) = self.deliveries.get(name) {
            Arc::clone(delivery).run(channel, cancel).await;
        }
    }

    /// Takes in one verified inbound. Returns only when it is durable, or refused for good; an error
    /// means that the sender has to deliver it again.
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
        let lane = self.queue_kind(&inbound);
        let is_hook = self.hook(&inbound).is_some();
        let slot = match (lane, is_hook) {
            (QueueKind::Turn, false) => self.scheduler.free_slot(),
            (QueueKind::Turn, true) => self.scheduler.free_hook_slot(),
            (QueueKind::Command | QueueKind::Change, _) => None,
        };
        let worker = slot.as_ref().map(|_| self.scheduler.worker());
        let store = &self.parts.store;
        let accepted = store
            .accept(&inbound, lane, self.queue_limits(&inbound), worker, at)
            .await?;
        crash_point::before("B4");
        match accepted {
            AcceptOutcome::Duplicate => {
                // What it repeats may have been taken a moment ago.
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
                queue_position: ahead,
                direct_claim: taken_up,
            } => {
                // The turn begins while the disk works; nothing of it shows before that is done.
                match taken_up.zip(slot) {
                    Some((taken_up, slot)) => self.start_claimed(taken_up, slot),
                    None if lane == QueueKind::Turn => self.scheduler.wake(),
                    None => {}
                }
                if worker.is_some() {
                    store.wait_durable().await?;
                }
                crash_point::after("B4");
                self.handle_stored(inbound, inbox, conversation, lane, ahead);
                Ok(ReceiveOutcome::New)
            }
        }
    }

    /// Returns the number of messages that may wait before an inbound. A person who is refused is told in the same transaction; a hook is
    /// to deliver again.
    fn queue_limits(&self, inbound: &Inbound) -> QueueLimits {
        let limits = &self.parts.config.limits;
        let waiting_max = limits.waiting_messages_max;
        let refusal = self.hook(inbound).is_none().then(|| {
            let inbound = inbound.clone();
            Box::new(move || {
                if planted::is("D1") {
                    return Vec::new();
                }
                let id = inbound.delivery.first().map_or("", String::as_str);
                let address = commands::address_of(&inbound, format!("refused/{id}"));
                let text = format!(
                    "{waiting_max} messages wait already, so I did not take this one. Send it again later."
                );
                vec![address.post("answer", Reply::text(text))]
            }) as RefusalNotice
        });
        QueueLimits {
            of_conversation_max: waiting_max,
            of_hook_max: limits.waiting_events_max,
            refusal,
        }
    }

    /// Returns the identity an inbound is from, if it was admitted. Looked up again whenever something is about to happen on somebody's
    /// behalf.
    fn identity(&self, inbound: &Inbound) -> Option<Identity> {
        self.parts.access.admit(&inbound.sender)
    }

    /// The settings of the hook an inbound came from.
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

    /// True if a text is for the model: no command, also none that was mistyped.
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
        lane: QueueKind,
        ahead: u32,
    ) {
        match lane {
            QueueKind::Turn if ahead == 0 => self.react(&inbound, Receipt::Seen),
            QueueKind::Turn => {
                self.active_turns.set_waiting(conversation, ahead as usize);
                self.show_queue_position(inbound, inbox, ahead);
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

    /// True if operations for this channel may be taken by the commit that enqueues them.
    fn can_deliver_now(&self, channel: &str) -> bool {
        let delivery = self.deliveries.get(channel);
        delivery.is_some_and(|delivery| delivery.can_send_now())
    }

    /// Returns the health of each channel: whether it delivers, and what waits for it.
    pub async fn channels(&self) -> Result<Vec<ChannelHealth>, StoreError> {
        let mut channels = Vec::with_capacity(self.deliveries.len());
        for delivery in self.deliveries.values() {
            channels.push(delivery.health().await?);
        }
        Ok(channels)
    }

    /// The channels that hold everything, by name, and why; nothing is read for it.
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

    /// Looks for work of a channel at once, whatever it waits for.
    pub fn retry_delivery(&self, channel: &str) {
        if let Some(delivery) = self.deliveries.get(channel) {
            delivery.retry_now();
        }
    }

    /// Delivers what a commit took; what it left in the outbox is looked for.
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

    /// Tells the sender something without storing anything.
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

    /// Delivers at once, past the outbox: for what nobody misses when it is lost.
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

    /// Turns away somebody we do not know: at most one notice a day, no model call, nothing stored but a bounded counter.
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
            let is_burned = access.revoke_invite(token, at).await?;
            // Whoever makes tokens up is told as often as anybody who is not admitted, or tries in vain.
            let is_told = match access.admit(&inbound.sender) {
                Some(_) => access.allow_attempt(&inbound.sender, at),
                None => {
                    access.record_denial(&inbound.sender, at).await?.notify && can_send_ephemeral(inbound)
                }
            };
            if !is_burned && !is_told {
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
            // Nothing is stored of a guess, and nobody misses what is said of it.
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

/// Returns true if a stranger can be told something: in a Telegram group there is no way to tell one person alone, so strangers hear
/// nothing there.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
