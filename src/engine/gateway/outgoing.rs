//! Outgoing messages: the delivery of each configured channel, and the messages that may be lost.

use super::compose::Address;
use super::delivery::{ChannelDelivery, ChannelHealth, ChannelState, Pacing};
use super::parts::Parts;
use crate::base::config::ChannelSettings;
use crate::base::model::{Account, Action, ChatPlace, Inbound, InboundKind, Op, Receipt, Reply, ReplyPart};
use crate::interfaces::channel::{self, Channel};
use crate::state::store::{DueOperation, StoreError};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of receipts and notices in flight. Further ones are dropped, not queued.
const BEST_EFFORT_AT_ONCE_MAX: usize = 64;

/// The deliveries of all configured channels, and of the comments of hooks, by name.
pub struct OutgoingMessages {
    deliveries: BTreeMap<String, Arc<ChannelDelivery>>,
    /// Notified when the driver has to look at a run.
    runs_changed: Arc<Notify>,
    best_effort: Arc<Semaphore>,
    shutdown: CancellationToken,
    background: TaskTracker,
}

impl OutgoingMessages {
    /// Creates the deliveries of the configured channels, which wait for their connections.
    pub(super) fn new(parts: &Parts, shutdown: &CancellationToken, background: &TaskTracker) -> Self {
        let runs_changed = Arc::<Notify>::default();
        let delivery = |(name, settings): (&String, &ChannelSettings)| {
            let pacing = Pacing::from_setting(settings.common().is_paced());
            let store = parts.store.clone();
            let delivery = ChannelDelivery::new(store, name.clone(), pacing, parts.now, parts.random);
            let (settings, config) = (settings.clone(), Arc::clone(&parts.config));
            let delivery = delivery
                .with_notice_of_replies(&runs_changed)
                .with_split(Arc::new(move |reply| {
                    channel::split(&settings, &config.server, reply)
                }));
            (name.clone(), Arc::new(delivery))
        };
        let hooks = parts.config.hooks.iter();
        let hooks = hooks.filter(|(_, hook)| hook.comments.is_some());
        let comments = hooks.map(|(hook, _)| {
            let (name, store) = (channel::comment_channel(hook), parts.store.clone());
            let delivery =
                ChannelDelivery::new(store, name.clone(), Pacing::Counted, parts.now, parts.random);
            (name, Arc::new(delivery.with_notice_of_replies(&runs_changed)))
        });
        Self {
            deliveries: parts
                .config
                .channels
                .iter()
                .map(delivery)
                .chain(comments)
                .collect(),
            runs_changed: Arc::clone(&runs_changed),
            best_effort: Arc::new(Semaphore::new(BEST_EFFORT_AT_ONCE_MAX)),
            shutdown: shutdown.clone(),
            background: background.clone(),
        }
    }

    /// Adds a connected channel and delivers its waiting operations until `cancel`.
    pub async fn attach(&self, name: &str, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        if let Some(delivery) = self.deliveries.get(name) {
            Arc::clone(delivery).run(channel, cancel).await;
        }
    }

    /// Returns the notification of the driver of runs, which deliveries give when a message of a reply is given up.
    pub(super) fn runs_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.runs_changed)
    }

    /// Makes all deliveries look for new operations.
    pub(super) fn wake(&self) {
        for delivery in self.deliveries.values() {
            delivery.wake();
        }
    }

    /// True if the commit that enqueues operations for this channel may lease them.
    pub(super) fn can_deliver_now(&self, channel: &str) -> bool {
        let delivery = self.deliveries.get(channel);
        delivery.is_some_and(|delivery| delivery.can_send_now())
    }

    /// Returns the health of each channel: its state and its waiting operations.
    pub async fn health(&self) -> Result<Vec<ChannelHealth>, StoreError> {
        let mut channels = Vec::with_capacity(self.deliveries.len());
        for delivery in self.deliveries.values() {
            channels.push(delivery.health().await?);
        }
        Ok(channels)
    }

    /// Returns the closed channels by name, with the reason. It reads nothing from the store.
    pub fn closed_channels(&self) -> Vec<(String, ChannelState)> {
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

    /// Returns the channels that have no connection over which messages arrive, by name, with the time since then.
    pub fn disconnected_channels(&self) -> Vec<(String, Timestamp)> {
        let channels = self.deliveries.iter();
        let since = channels.filter_map(|(name, delivery)| {
            let since = delivery.channel()?.disconnected_since()?;
            Some((name.clone(), since))
        });
        since.collect()
    }

    /// Makes a channel look for work at once.
    pub fn retry(&self, channel: &str) {
        if let Some(delivery) = self.deliveries.get(channel) {
            delivery.retry_now();
        }
    }

    /// Delivers the operations leased by a commit. If it leased none, all channels look for work, because a request to
    /// administrators may be of another channel.
    pub(super) async fn dispatch_leased(&self, channel: &str, taken: Option<Vec<DueOperation>>) {
        match (taken, self.deliveries.get(channel)) {
            (Some(due), Some(delivery)) => delivery.deliver_leased(due).await,
            (None, _) | (_, None) => self.wake(),
        }
    }

    /// Returns a channel if it is connected.
    pub(super) fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        self.deliveries.get(name)?.channel()
    }

    /// Returns the delivery of a configured channel.
    pub(super) fn delivery(&self, channel: &str) -> Option<&Arc<ChannelDelivery>> {
        self.deliveries.get(channel)
    }

    /// Returns the accounts of the connected channels in which people write.
    pub(super) fn connected_accounts(&self) -> Vec<Account> {
        let channels = self.deliveries.values().filter_map(|delivery| delivery.channel());
        channels
            .map(|channel| channel.installation().account.clone())
            .filter(|account| account.platform.chat().is_some())
            .collect()
    }

    /// True if the platform can look up sent posts.
    pub(super) fn can_find(&self, address: &Address) -> bool {
        self.channel(&address.channel)
            .is_some_and(|channel| channel.can_find())
    }

    /// Adds a receipt to the message of an inbound.
    pub(super) fn react(&self, inbound: &Inbound, receipt: Receipt) {
        if let Some(message) = inbound.message.clone() {
            let place = inbound.place.clone();
            self.deliver_now(inbound, place, Action::React { message, receipt });
        }
    }

    /// Sends a notice to the sender without storing it.
    pub(super) fn notice(&self, inbound: &Inbound, reply: Reply) {
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
        let Ok(slot) = Arc::clone(&self.best_effort).try_acquire_owned() else {
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
        | ReplyPart::Tasks { .. }
        | ReplyPart::Fold { .. }
        | ReplyPart::Buttons { .. } => None,
    });
    texts.collect::<Vec<_>>().join(" ").chars().take(200).collect()
}
