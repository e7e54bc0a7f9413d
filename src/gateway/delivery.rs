//! Takes operations out of the outbox and hands them to lanes, which deliver side by side: a lane is one chat
//! and thread.

mod lane;

use crate::channel::Channel;
use crate::store::{Due, Store};
use jiff::Timestamp;
use lane::LaneDelivery;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Lanes delivered at once per channel.
const LANES_MAX: usize = 32;
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
    lanes: Mutex<Lanes>,
    places: Arc<Semaphore>,
    channel: watch::Sender<Option<Arc<dyn Channel>>>,
    delivered: watch::Sender<u64>,
}

/// The lanes something is delivered in.
#[derive(Default)]
struct Lanes {
    /// Where to, and until when; none before it is connected and after it has ended.
    open: Option<(Arc<dyn Channel>, CancellationToken)>,
    running: JoinSet<()>,
}

/// Ends the lanes when nobody waits for them any more.
struct Abandoned<'a>(&'a Delivery);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        *self.0.lanes() = Lanes::default();
    }
}

impl Delivery {
    pub(super) fn new(store: Store, name: String, now: fn() -> Timestamp) -> Self {
        Self {
            store,
            name,
            now,
            work: Arc::default(),
            lanes: Mutex::default(),
            places: Arc::new(Semaphore::new(LANES_MAX)),
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
            let id = due.op.id.clone();
            if self.start(due) {
                continue;
            }
            if let Err(error) = self.store.give_back(&id).await {
                error!(op.id = id, %error, "an operation could not be given back");
            }
            self.wake();
        }
    }

    /// Delivers what a commit took; what it left in the outbox is looked for.
    pub(super) async fn hand_out(&self, taken: Option<Vec<Due>>) {
        match taken {
            Some(due) => self.take_over(due).await,
            None => self.wake(),
        }
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
        let _abandoned = Abandoned(&self);
        self.lanes().open = Some((Arc::clone(&channel), cancel.clone()));
        self.channel.send_replace(Some(channel));
        // What is left from before waits in the outbox.
        self.wake();
        let mut wake_at = Instant::now();
        while !cancel.is_cancelled() {
            let is_full = self.places.available_permits() == 0;
            tokio::select! {
                Ok(_) = self.places.acquire(), if is_full => {}
                () = self.work.notified() => {}
                () = tokio::time::sleep_until(wake_at) => {}
                () = cancel.cancelled() => break,
            }
            self.start_due().await;
            wake_at = Instant::now() + self.wait().await;
        }
        // Nothing more is taken over; what was is delivered.
        let Lanes { mut running, .. } = std::mem::take(&mut *self.lanes());
        self.channel.send_replace(None);
        while running.join_next().await.is_some() {}
        if let Err(error) = self.store.unready(&self.name).await {
            warn!(channel = self.name, %error, "what was not sent counts as sent with unknown outcome");
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to deliver in the lane of an operation; false if there is no room, or no channel.
    fn start(&self, due: Due) -> bool {
        let mut lanes = self.lanes();
        while lanes.running.try_join_next().is_some() {}
        let (Some((channel, cancel)), Ok(place)) =
            (lanes.open.clone(), Arc::clone(&self.places).try_acquire_owned())
        else {
            return false;
        };
        let lane = LaneDelivery {
            store: self.store.clone(),
            name: self.name.clone(),
            channel,
            now: self.now,
            work: Arc::clone(&self.work),
            delivered: self.delivered.clone(),
            cancel,
        };
        lanes.running.spawn(async move {
            lane.run(vec![due]).await;
            drop(place);
        });
        true
    }

    async fn start_due(&self) {
        let free = self.places.available_permits();
        if free == 0 {
            return;
        }
        match self.store.due(&self.name, (self.now)(), free).await {
            Ok(due) => self.take_over(due).await,
            Err(error) => warn!(channel = self.name, %error, "the outbox could not be read"),
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
