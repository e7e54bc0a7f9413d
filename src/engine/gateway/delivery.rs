//! Delivery of operations from the outbox. Operations are leased while the channel is open and its limits allow.
//! Delivery threads, one per chat and thread, deliver them in parallel.

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
pub use rate_limit::Pacing;

use crate::base::model::Op;
use crate::interfaces::channel::{CallPurpose, Channel, Delivered, SendError};
use crate::state::store::{DueOperation, Store, StoreError};
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

/// Maximum number of delivery threads at once per channel.
const THREADS_MAX: usize = 32;
/// Pause of the delivery loop if the outbox cannot be read.
const BROKEN_WAIT: Duration = Duration::from_secs(1);
/// Longest pause of the delivery loop when nothing is due and no wake signal arrives.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Pause of the delivery loop when operations wait for a free call slot.
const CALLS_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of simpler forms in which an operation is tried that may be lost.
const SIMPLER_FORMS_MAX: u32 = 4;
/// Shortest pause of the delivery loop.
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
    /// Notified when a message of a reply of a run is given up.
    reply_given_up: Arc<Notify>,
}

#[derive(Default)]
struct DeliveryThreads {
    /// The connected channel and the token that ends it; `None` before connection and after the end.
    open: Option<(Arc<dyn Channel>, CancellationToken)>,
    running: JoinSet<()>,
}

/// Aborts the delivery threads when the delivery loop is dropped.
struct EndThreadsOnDrop<'a>(&'a ChannelDelivery);

impl Drop for EndThreadsOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.threads() = DeliveryThreads::default();
    }
}

impl ChannelDelivery {
    /// Creates the delivery of a channel that is not connected yet.
    pub fn new(
        store: Store,
        name: String,
        pacing: Pacing,
        now: fn() -> Timestamp,
        random: fn() -> [u8; 32],
    ) -> Self {
        Self {
            gate: Arc::new(DeliveryGate::new(name.clone(), pacing, now, random)),
            store,
            name,
            now,
            wake_signal: Arc::default(),
            threads: Mutex::default(),
            thread_slots: Arc::new(Semaphore::new(THREADS_MAX)),
            channel: watch::Sender::new(None),
            delivered: watch::Sender::new(0),
            split: Arc::new(|reply| vec![reply.clone()]),
            reply_given_up: Arc::default(),
        }
    }

    /// Sets the function that splits fallback messages.
    #[must_use]
    pub(super) fn with_split(self, split: Split) -> Self {
        Self { split, ..self }
    }

    /// Sets what is notified when a message of a reply of a run is given up.
    #[must_use]
    pub(super) fn with_notice_of_replies(self, reply_given_up: &Arc<Notify>) -> Self {
        Self {
            reply_given_up: Arc::clone(reply_given_up),
            ..self
        }
    }

    /// Signals that the outbox has new operations for this channel.
    pub fn wake(&self) {
        self.wake_signal.notify_one();
    }

    /// Delivers operations that are already leased. Operations without room are released.
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
        let mut threads = self.threads();
        let cancel = threads.open.as_ref().map(|(_, cancel)| cancel.clone());
        threads.running.spawn(async move {
            let outcome = format!("that `{}` was not tried", due.op.id);
            store_outcome(&outcome, &cancel.unwrap_or_default(), || {
                store.release_operation(&due)
            })
            .await;
            work.notify_one();
        });
    }

    /// Delivers the operations leased by a commit, and wakes the loop for those left in the outbox.
    pub(super) async fn dispatch_leased(&self, taken: Option<Vec<DueOperation>>) {
        match taken {
            Some(due) => self.deliver_leased(due).await,
            None => self.wake(),
        }
    }

    /// Returns the channel if it is connected.
    pub(super) fn channel(&self) -> Option<Arc<dyn Channel>> {
        self.channel.borrow().clone()
    }

    /// Returns a receiver for the channel's connection. After a restart, turns may begin before the channel is
    /// connected.
    pub(super) fn watch_channel(&self) -> watch::Receiver<Option<Arc<dyn Channel>>> {
        self.channel.subscribe()
    }

    /// True while operations can be sent at once, so that the commit that enqueues them may lease them.
    pub(super) fn can_send_now(&self) -> bool {
        self.channel.borrow().is_some() && self.gate.free_calls() > 0
    }

    /// Returns the state of the channel.
    pub fn state(&self) -> ChannelState {
        match self.gate.closed() {
            Some(closed) => closed,
            None if self.channel.borrow().is_some() => ChannelState::Open,
            None => ChannelState::NotConnected,
        }
    }

    /// Returns the state of the channel and the number of waiting operations.
    pub async fn health(&self) -> Result<ChannelHealth, StoreError> {
        Ok(ChannelHealth {
            channel: self.name.clone(),
            state: self.state(),
            waiting: self.store.unsent_count(&self.name).await?,
            given_up: self.store.given_up_count(&self.name).await?,
        })
    }

    /// Retries at once, after an operator reports a change. Looks for work and probes a closed platform.
    pub(super) fn retry_now(&self) {
        self.gate.probe_now();
        self.wake();
    }

    /// Delivers one operation without the outbox, at once or not at all. Used for operations that may be lost. Leaves
    /// call slots for operations that people wait for.
    pub(super) async fn deliver_best_effort(&self, op: &Op) -> Result<Delivered, SendError> {
        let Some(channel) = self.channel() else {
            return Err(SendError::Unreachable("it is not connected".to_owned()));
        };
        let mut delivered = self.spare_call(&channel, op).await;
        for _ in 0..SIMPLER_FORMS_MAX {
            if !matches!(delivered, Err(SendError::OtherForm(_))) {
                break;
            }
            delivered = self.spare_call(&channel, op).await;
        }
        delivered
    }

    async fn spare_call(&self, channel: &Arc<dyn Channel>, op: &Op) -> Result<Delivered, SendError> {
        let limits = channel.limits(op, CallPurpose::Deliver);
        self.gate.admit_spare(&limits)?;
        let delivered = channel.deliver(op).await;
        if let Err(error) = &delivered {
            self.gate.record_best_effort_failure(error, &limits);
        }
        delivered
    }

    /// Returns a receiver that changes each time an operation is delivered or given up.
    pub fn watch_delivered(&self) -> watch::Receiver<u64> {
        self.delivered.subscribe()
    }

    /// Delivers until `cancel`. Operations that are being sent then are finished first.
    pub async fn run(self: Arc<Self>, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        let _abandoned = EndThreadsOnDrop(&self);
        self.threads().open = Some((Arc::clone(&channel), cancel.clone()));
        self.channel.send_replace(Some(Arc::clone(&channel)));
        // Operations from before the start wait in the outbox.
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
        // No new operations are accepted. Those already leased are delivered.
        let DeliveryThreads { mut running, .. } = std::mem::take(&mut *self.threads());
        self.channel.send_replace(None);
        while running.join_next().await.is_some() {}
        if let Err(error) = self.store.reset_ready(&self.name).await {
            warn!(channel = self.name, %error, "operations that were not sent are recorded as sent with unknown \
                                                outcome");
        }
    }

    fn threads(&self) -> MutexGuard<'_, DeliveryThreads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts delivery of an operation in its thread. Returns the operation if there is no room, no channel, or a
    /// limit.
    fn start(&self, due: DueOperation) -> Result<(), Box<DueOperation>> {
        let mut threads = self.threads();
        while threads.running.try_join_next().is_some() {}
        let (Some((channel, cancel)), Ok(place)) = (
            threads.open.clone(),
            Arc::clone(&self.thread_slots).try_acquire_owned(),
        ) else {
            return Err(Box::new(due));
        };
        let limits = channel.limits(&due.op, call(&due));
        if !self.gate.admit(&limits) {
            return Err(Box::new(due));
        }
        let thread = DeliveryThread {
            store: self.store.clone(),
            name: self.name.clone(),
            channel,
            gate: Arc::clone(&self.gate),
            split: Arc::clone(&self.split),
            now: self.now,
            wake_signal: Arc::clone(&self.wake_signal),
            delivered: self.delivered.clone(),
            reply_given_up: Arc::clone(&self.reply_given_up),
            cancel,
        };
        threads.running.spawn(async move {
            thread.run(due).await;
            drop(place);
        });
        Ok(())
    }

    /// Starts the operations that are due and admitted. Returns when to look again. A delivery thread that ends wakes
    /// the loop.
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

/// Returns the purpose of the first call for an operation.
fn call(due: &DueOperation) -> CallPurpose {
    match due.ambiguous_since {
        Some(_) => CallPurpose::Find,
        None => CallPurpose::Deliver,
    }
}
