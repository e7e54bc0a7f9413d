//! Takes operations out of the outbox, as the channel is open and its limits allow, and hands them to lanes, which
//! deliver side by side: a lane is one chat and thread.

mod circuit;
mod failure;
mod gate;
mod health;
mod fallback;
mod outcome;
mod delivery_thread;
mod rate_limit;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub(super) use fallback::Split;
pub use health::{ChannelHealth, ChannelState};

use crate::channel::{CallPurpose, Channel, Delivered, SendError};
use crate::model::Op;
use crate::store::{DueOperation, Store, StoreError};
use delivery_thread::DeliveryThread;
use gate::DeliveryGate;
use jiff::Timestamp;
use outcome::store_outcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Lanes delivered at once per channel.
const THREADS_MAX: usize = 32;
/// The pause of the delivery loop when the outbox cannot be read.
const BROKEN_WAIT: Duration = Duration::from_secs(1);
/// The longest pause of the delivery loop when nothing is due and nobody wakes it.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The pause of the delivery loop when it could take more than it may.
const CALLS_WAIT: Duration = Duration::from_millis(500);
/// Shortest sleep of the pump.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The outgoing side of one channel.
pub struct ChannelDelivery {
    store: Store,
    name: String,
    now: fn() -> Timestamp,
    wake_signal: Arc<Notify>,
    threads: Mutex<DeliveryThreads>,
    thread_slots: Arc<Semaphore>,
    gate: Arc<DeliveryGate>,
    channel: watch::Sender<Option<Arc<dyn Channel>>>,
    delivered: watch::Sender<u64>,
    split: Split,
}

/// The lanes something is delivered in.
#[derive(Default)]
struct DeliveryThreads {
    /// The channel to deliver to, and the token that ends it; none before it is connected and after it has ended.
    open: Option<(Arc<dyn Channel>, CancellationToken)>,
    running: JoinSet<()>,
}

/// Ends the lanes when nobody waits for them any more.
struct EndThreadsOnDrop<'a>(&'a ChannelDelivery);

impl Drop for EndThreadsOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.threads() = DeliveryThreads::default();
    }
}

impl ChannelDelivery {
    /// The outgoing side of a channel that is not connected yet.
    pub fn new(
        store: Store,
        name: String,
        is_paced: bool,
        now: fn() -> Timestamp,
        random: fn() -> [u8; 32],
    ) -> Self {
        Self {
            gate: Arc::new(DeliveryGate::new(name.clone(), is_paced, now, random)),
            store,
            name,
            now,
            wake_signal: Arc::default(),
            threads: Mutex::default(),
            thread_slots: Arc::new(Semaphore::new(THREADS_MAX)),
            channel: watch::Sender::new(None),
            delivered: watch::Sender::new(0),
            split: Arc::new(|reply| vec![reply.clone()]),
        }
    }

    /// Splits what is told instead of an operation this way.
    #[must_use]
    pub(super) fn with_split(self, split: Split) -> Self {
        Self { split, ..self }
    }

    /// Says that the outbox has something new for this channel.
    pub fn wake(&self) {
        self.wake_signal.notify_one();
    }

    /// Delivers operations that were taken out of the outbox already; those there is no room for go back.
    pub(super) async fn deliver_leased(&self, due: Vec<DueOperation>) {
        for due in due {
            let Err(due) = self.start(due) else { continue };
            if self.store.release_operation(&due).await.is_err() {
                self.release_later(*due);
            }
            self.wake();
        }
    }

    fn release_later(&self, due: DueOperation) {
        let (store, work) = (self.store.clone(), Arc::clone(&self.wake_signal));
        let mut lanes = self.threads();
        let cancel = lanes.open.as_ref().map(|(_, cancel)| cancel.clone());
        lanes.running.spawn(async move {
            let outcome = format!("that `{}` was not tried", due.op.id);
            store_outcome(&outcome, &cancel.unwrap_or_default(), || {
                store.release_operation(&due)
            })
            .await;
            work.notify_one();
        });
    }

    /// Delivers what a commit took; what it left in the outbox is looked for.
    pub(super) async fn dispatch_leased(&self, taken: Option<Vec<DueOperation>>) {
        match taken {
            Some(due) => self.deliver_leased(due).await,
            None => self.wake(),
        }
    }

    /// The channel, once it is connected.
    pub(super) fn channel(&self) -> Option<Arc<dyn Channel>> {
        self.channel.borrow().clone()
    }

    /// The channel, as soon as it is connected: turns begin before that, after a restart.
    pub(super) fn watch_channel(&self) -> watch::Receiver<Option<Arc<dyn Channel>>> {
        self.channel.subscribe()
    }

    /// True while operations may be taken by the commit that enqueues them, because they can be sent at once.
    pub(super) fn can_send_now(&self) -> bool {
        self.channel.borrow().is_some() && self.gate.free_calls() > 0
    }

    /// Returns the state of the channel: whether it delivers.
    pub fn state(&self) -> ChannelState {
        match self.gate.closed() {
            Some(closed) => closed,
            None if self.channel.borrow().is_some() => ChannelState::Open,
            None => ChannelState::NotConnected,
        }
    }

    /// Returns the state of the channel, and how much waits for it.
    pub async fn health(&self) -> Result<ChannelHealth, StoreError> {
        Ok(ChannelHealth {
            channel: self.name.clone(),
            state: self.state(),
            waiting: self.store.unsent_count(&self.name).await?,
            given_up: self.store.given_up_count(&self.name).await?,
        })
    }

    /// An operator says that something has changed: looks for work, and for the platform if it was gone.
    pub(super) fn retry_now(&self) {
        self.gate.probe_now();
        self.wake();
    }

    /// Delivers past the outbox, at once or not at all: for what nobody misses when it is lost. Leaves room for
    /// what somebody waits for.
    pub(super) async fn deliver_best_effort(&self, op: &Op) -> Result<Delivered, SendError> {
        let Some(channel) = self.channel() else {
            return Err(SendError::Unreachable("it is not connected".to_owned()));
        };
        let limits = channel.limits(op, CallPurpose::Deliver);
        self.gate.admit_spare(&limits)?;
        let delivered = channel.deliver(op).await;
        if let Err(error) = &delivered {
            self.gate.record_best_effort_failure(error, &limits);
        }
        delivered
    }

    /// Changes each time an operation was delivered or given up.
    pub fn watch_delivered(&self) -> watch::Receiver<u64> {
        self.delivered.subscribe()
    }

    /// Delivers until `cancel`; what is on its way then is finished first.
    pub async fn run(self: Arc<Self>, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        let _abandoned = EndThreadsOnDrop(&self);
        self.threads().open = Some((Arc::clone(&channel), cancel.clone()));
        self.channel.send_replace(Some(Arc::clone(&channel)));
        // What is left from before waits in the outbox.
        self.wake();
        let mut wake_at = Instant::now();
        while !cancel.is_cancelled() {
            let is_full = self.thread_slots.available_permits() == 0;
            tokio::select! {
                Ok(_) = self.thread_slots.acquire(), if is_full => {}
                () = self.wake_signal.notified() => {}
                () = tokio::time::sleep_until(wake_at) => {}
                () = cancel.cancelled() => break,
            }
            if self.gate.probe_at().is_some_and(|at| at <= Instant::now()) {
                cancel.run_until_cancelled(self.gate.probe(&channel)).await;
            }
            wake_at = match self.gate.probe_at() {
                Some(probe_at) => probe_at,
                None => self.start_due(&channel).await,
            };
        }
        // Nothing more is taken over; what was is delivered.
        let DeliveryThreads { mut running, .. } = std::mem::take(&mut *self.threads());
        self.channel.send_replace(None);
        while running.join_next().await.is_some() {}
        if let Err(error) = self.store.reset_ready(&self.name).await {
            warn!(channel = self.name, %error, "what was not sent counts as sent with unknown outcome");
        }
    }

    fn threads(&self) -> MutexGuard<'_, DeliveryThreads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to deliver in the lane of an operation; gives it back if there is no room, no channel, or a limit.
    fn start(&self, due: DueOperation) -> Result<(), Box<DueOperation>> {
        let mut lanes = self.threads();
        while lanes.running.try_join_next().is_some() {}
        let (Some((channel, cancel)), Ok(place)) = (
            lanes.open.clone(),
            Arc::clone(&self.thread_slots).try_acquire_owned(),
        ) else {
            return Err(Box::new(due));
        };
        let limits = channel.limits(&due.op, call(due.ambiguous_since.is_some()));
        if !self.gate.admit(&limits) {
            return Err(Box::new(due));
        }
        let lane = DeliveryThread {
            store: self.store.clone(),
            name: self.name.clone(),
            channel,
            gate: Arc::clone(&self.gate),
            split: Arc::clone(&self.split),
            now: self.now,
            wake_signal: Arc::clone(&self.wake_signal),
            delivered: self.delivered.clone(),
            cancel,
        };
        lanes.running.spawn(async move {
            lane.run(due).await;
            drop(place);
        });
        Ok(())
    }

    /// Starts what is due and admitted; answers when to look again. Whatever ends a lane says so.
    async fn start_due(&self, channel: &Arc<dyn Channel>) -> Instant {
        let (now, at) = (Instant::now(), (self.now)());
        let free = self.thread_slots.available_permits().min(self.gate.free_calls());
        if free == 0 {
            return now + CALLS_WAIT;
        }
        let batch = self.gate.quota_snapshot(channel);
        let (due, batch) = match self.store.lease_due_admitted(&self.name, at, free, batch).await {
            Ok(taken) => taken,
            Err(error) => {
                warn!(channel = self.name, %error, "the outbox could not be read");
                return now + BROKEN_WAIT;
            }
        };
        let is_all = due.len() < free;
        self.deliver_leased(due).await;
        let later = match self.store.next_due_after(&self.name, at).await {
            Ok(Some(due)) => Duration::try_from(due.duration_since(at)).unwrap_or_default(),
            Ok(None) => IDLE_MAX,
            Err(_) => BROKEN_WAIT,
        };
        let later = if is_all { later } else { later.min(CALLS_WAIT) };
        let wake_at = batch.next.map_or(now + later, |next| next.min(now + later));
        wake_at.clamp(now + WAIT_MIN, now + IDLE_MAX)
    }
}

/// Returns the first call for an operation.
fn call(is_doubtful: bool) -> CallPurpose {
    match is_doubtful {
        true => CallPurpose::Find,
        false => CallPurpose::Deliver,
    }
}
