//! Takes operations out of the outbox and delivers them: in order within a lane (one chat and
//! thread), lanes side by side, retried with patience, never repeated when the outcome is unknown.

use crate::channel::{Channel, SendError};
use crate::model::{Action, Op};
use crate::store::{Due, Outgoing, Store, StoreError};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Lanes delivered at once per channel.
const LANES_MAX: usize = 32;
/// Tries before an operation is given up and kept as a dead letter.
const ATTEMPTS_MAX: u32 = 8;
/// Longest wait between two tries that we choose ourselves.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// Longest wait that a platform is granted.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// How long the pump sleeps when the outbox cannot be read.
const BROKEN_WAIT: Duration = Duration::from_secs(1);
/// How long the pump sleeps when nothing is due and nobody wakes it.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Shortest sleep of the pump.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The outgoing side of one channel.
pub(super) struct Delivery {
    store: Store,
    name: String,
    now: fn() -> Timestamp,
    work: Arc<Notify>,
    handed: mpsc::Sender<Due>,
    taken_over: Mutex<mpsc::Receiver<Due>>,
    channel: watch::Sender<Option<Arc<dyn Channel>>>,
    delivered: watch::Sender<u64>,
}

impl Delivery {
    pub(super) fn new(store: Store, name: String, now: fn() -> Timestamp) -> Self {
        let (handed, taken_over) = mpsc::channel(LANES_MAX);
        Self {
            store,
            name,
            now,
            work: Arc::default(),
            handed,
            taken_over: Mutex::new(taken_over),
            channel: watch::Sender::new(None),
            delivered: watch::Sender::new(0),
        }
    }

    /// Says that the outbox has something new for this channel.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// Delivers operations that were taken out of the outbox already; those there is no room for go back.
    pub(super) async fn take_over(&self, due: Vec<Due>) {
        for due in due {
            let Err(error) = self.handed.try_send(due) else {
                continue;
            };
            let (TrySendError::Full(due) | TrySendError::Closed(due)) = error;
            if let Err(error) = self.store.give_back(&due.op.id).await {
                error!(op.id = due.op.id, %error, "an operation could not be given back");
            }
            self.wake();
        }
    }

    /// Delivers operations that were taken out of the outbox, as soon as it is durable that they are.
    pub(super) fn take_over_when_durable(self: &Arc<Self>, outgoing: Outgoing) {
        let delivery = Arc::clone(self);
        tokio::spawn(async move {
            match outgoing.durable().await {
                Ok(due) => delivery.take_over(due).await,
                Err(error) => error!(channel = delivery.name, %error, "operations are not sent"),
            }
        });
    }

    /// The channel, once it is connected.
    pub(super) fn channel(&self) -> Option<Arc<dyn Channel>> {
        self.channel.borrow().clone()
    }

    /// The channel, as soon as it is connected: turns begin before that, after a restart.
    pub(super) fn connected(&self) -> watch::Receiver<Option<Arc<dyn Channel>>> {
        self.channel.subscribe()
    }

    /// Changes each time an operation was delivered or given up.
    pub(super) fn delivered(&self) -> watch::Receiver<u64> {
        self.delivered.subscribe()
    }

    /// Delivers until `cancel`; what is on its way then is finished first.
    pub(super) async fn run(self: Arc<Self>, channel: Arc<dyn Channel>, cancel: CancellationToken) {
        let mut taken_over = self.taken_over.lock().await;
        self.channel.send_replace(Some(Arc::clone(&channel)));
        let mut tasks = JoinSet::new();
        // What is left from before waits in the outbox.
        self.wake();
        let mut wake_at = Instant::now();
        while !cancel.is_cancelled() {
            tokio::select! {
                Some(due) = taken_over.recv() => {
                    tasks.spawn(self.lane(&channel, &cancel).run(due));
                    while tasks.try_join_next().is_some() {}
                    continue;
                }
                Some(_) = tasks.join_next(), if tasks.len() >= LANES_MAX => {}
                () = self.work.notified() => {}
                () = tokio::time::sleep_until(wake_at) => {}
                () = cancel.cancelled() => break,
            }
            while tasks.try_join_next().is_some() {}
            self.start_due(&channel, &mut tasks, &cancel).await;
            wake_at = Instant::now() + self.wait().await;
        }
        // Nothing more is taken over; what was is delivered.
        taken_over.close();
        while let Some(due) = taken_over.recv().await {
            tasks.spawn(self.lane(&channel, &cancel).run(due));
        }
        while tasks.join_next().await.is_some() {}
    }

    fn lane(&self, channel: &Arc<dyn Channel>, cancel: &CancellationToken) -> LaneDelivery {
        LaneDelivery {
            store: self.store.clone(),
            channel: Arc::clone(channel),
            now: self.now,
            work: Arc::clone(&self.work),
            delivered: self.delivered.clone(),
            cancel: cancel.clone(),
        }
    }

    async fn start_due(
        &self,
        channel: &Arc<dyn Channel>,
        tasks: &mut JoinSet<()>,
        cancel: &CancellationToken,
    ) {
        let free = LANES_MAX.saturating_sub(tasks.len());
        if free == 0 {
            return;
        }
        let due = match self.store.due(&self.name, (self.now)(), free).await {
            Ok(due) => due,
            Err(error) => return warn!(channel = self.name, %error, "the outbox could not be read"),
        };
        for due in due {
            tasks.spawn(self.lane(channel, cancel).run(due));
        }
    }

    /// How long nothing is due. Never zero: what is due and not handed out waits for its lane.
    async fn wait(&self) -> Duration {
        let wait = match self.store.next_due(&self.name).await {
            Ok(Some(due)) => Duration::try_from(due.duration_since((self.now)())).unwrap_or_default(),
            Ok(None) => IDLE_MAX,
            Err(_) => BROKEN_WAIT,
        };
        wait.clamp(WAIT_MIN, IDLE_MAX)
    }
}

/// Delivers what waits in one lane, one after another, for as long as it goes well.
struct LaneDelivery {
    store: Store,
    channel: Arc<dyn Channel>,
    now: fn() -> Timestamp,
    work: Arc<Notify>,
    delivered: watch::Sender<u64>,
    cancel: CancellationToken,
}

impl LaneDelivery {
    async fn run(self, first: Due) {
        let mut next = Some(first);
        while let Some(due) = next {
            next = match self.one(&due).await {
                Ok(next) => next,
                Err(error) => {
                    error!(op.id = due.op.id, %error, "the outcome of a delivery could not be stored");
                    None
                }
            };
            self.delivered.send_modify(|count| *count += 1);
        }
    }

    /// Delivers one operation and answers what comes after it, if that is due at once.
    async fn one(&self, Due { op, attempts }: &Due) -> Result<Option<Due>, StoreError> {
        let result = self.channel.deliver(op).await;
        let at = (self.now)();
        let stored = match result {
            Ok(delivered) if self.cancel.is_cancelled() => {
                self.store.delivered(&op.id, delivered.message, at).await
            }
            Ok(delivered) => {
                let next = self.store.delivered_and_next(op, delivered.message, at).await?;
                if next.is_none() && !repeatable(&op.action) {
                    // A fill in another lane may have waited for this post.
                    self.work.notify_one();
                }
                return Ok(next);
            }
            Err(SendError::NotSent { why, retry_after }) => {
                self.again(op, attempts + 1, &why, retry_after).await
            }
            Err(SendError::Refused(why)) => {
                error!(op.id = op.id, why, "refused by the platform");
                self.store.failed(&op.id, &why, at).await
            }
            // An edit can be repeated safely; a post or a file that may have arrived must not be.
            Err(SendError::Ambiguous(why)) if repeatable(&op.action) => {
                self.again(op, attempts + 1, &why, None).await
            }
            Err(SendError::Ambiguous(why)) => {
                warn!(op.id = op.id, why, "sent with unknown outcome; not repeated");
                self.store.ambiguous(&op.id, &why, at).await
            }
        };
        // Something may be due later, or elsewhere, because of this.
        self.work.notify_one();
        stored.map(|()| None)
    }

    async fn again(
        &self,
        op: &Op,
        attempts: u32,
        why: &str,
        retry_after: Option<Duration>,
    ) -> Result<(), StoreError> {
        let at = (self.now)();
        if attempts >= ATTEMPTS_MAX {
            error!(op.id = op.id, why, attempts, "given up");
            return self.store.failed(&op.id, why, at).await;
        }
        let patience = Duration::from_secs(1 << attempts.min(8)).min(WAIT_MAX);
        let wait = retry_after.map_or(patience, |asked| asked.min(RETRY_AFTER_MAX));
        let due = at.checked_add(wait).unwrap_or(at);
        self.store.retry(&op.id, due, why).await
    }
}

fn repeatable(action: &Action) -> bool {
    match action {
        Action::Edit { .. } | Action::React { .. } | Action::AnswerClick { .. } | Action::Fill { .. } => true,
        Action::Post { .. } | Action::Notice { .. } | Action::Upload { .. } => false,
    }
}
