//! Who works, and on what: a message that arrives while there is a free slot is taken up at once; what
//! could not be is looked for when a slot comes free. One turn of a conversation at a time.

use super::turn::Assigned;
use super::{Gateway, hex};
use crate::config::LimitSettings;
use crate::store::{Claim, TakenUp, Work, Worker};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// How long a conversation belongs to this process without a sign of life.
const LEASE: Duration = Duration::from_secs(60);
/// How often a running turn renews its lease.
const LEASE_RENEWED_EVERY: Duration = Duration::from_secs(20);
/// How often the gateway looks for work nobody woke it for, such as a lease that ran out.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a message rests after an attempt to answer it broke off.
const REST: Duration = Duration::from_secs(5);

/// The turns of this process.
pub(super) struct Shift {
    worker: Worker,
    slots: Arc<Semaphore>,
    turns: Mutex<JoinSet<()>>,
    wake: Notify,
    /// There once turns may begin; fires when no more shall.
    shutdown: OnceLock<CancellationToken>,
}

/// The place of one turn.
pub(super) struct Slot {
    permit: OwnedSemaphorePermit,
    shutdown: CancellationToken,
}

/// Ends the turns that are left when nobody waits for them any more.
struct Abandoned<'a>(&'a Shift);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.turns().abort_all();
    }
}

impl Shift {
    /// At most `limits.turns_at_once_max` turns run at a time. `random` makes up the name of the worker.
    pub(super) fn new(random: [u8; 32], limits: &LimitSettings) -> Self {
        let worker = Worker {
            name: hex(&random[..8]),
            lease: LEASE,
            turns_max: limits.turn.history_turns_max,
        };
        Self {
            worker,
            slots: Arc::new(Semaphore::new(limits.turns_at_once_max)),
            turns: Mutex::default(),
            wake: Notify::new(),
            shutdown: OnceLock::new(),
        }
    }

    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }

    /// A slot for a message that arrives now, if turns run, one is free, and nobody waited for it.
    pub(super) fn free_slot(&self) -> Option<Slot> {
        let shutdown = self.shutdown.get().filter(|shutdown| !shutdown.is_cancelled())?;
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Slot {
            permit,
            shutdown: shutdown.child_token(),
        })
    }

    /// Somebody may find work now.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    fn turns(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_work(&self, cancel: &CancellationToken) {
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = cancel.cancelled() => {}
        }
    }
}

impl Gateway {
    /// Runs turns until `cancel`; turns that run then get a moment to reach the end of a step.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        self.resume_commands().await;
        let shift = &self.shift;
        let _abandoned = Abandoned(shift);
        let shutdown = shift.shutdown.get_or_init(|| cancel.clone());
        while !cancel.is_cancelled() {
            let Ok(permit) = Arc::clone(&shift.slots).acquire_owned().await else {
                break;
            };
            match self.parts.store.claim(&shift.worker, (self.parts.now)()).await {
                Ok(Some(claim)) => {
                    let shutdown = shutdown.child_token();
                    self.take_up(TakenUp { claim, work: None }, Slot { permit, shutdown });
                }
                Ok(None) => {
                    drop(permit);
                    shift.wait_for_work(&cancel).await;
                }
                Err(error) => {
                    drop(permit);
                    error!(%error, "no work can be claimed");
                    shift.wait_for_work(&cancel).await;
                }
            }
        }
        self.parts.repositories.stop();
        self.leaving.cancel();
        let mut turns = std::mem::take(&mut *shift.turns());
        while turns.join_next().await.is_some() {}
        self.ahead.ended().await;
        self.errands.close();
        self.errands.wait().await;
    }

    /// Begins the turn of a claimed conversation.
    pub(super) fn take_up(self: &Arc<Self>, TakenUp { claim, work }: TakenUp, slot: Slot) {
        let Slot { permit, shutdown } = slot;
        let gateway = Arc::clone(self);
        let mut turns = self.shift.turns();
        while turns.try_join_next().is_some() {}
        turns.spawn(async move {
            gateway.serve(claim, work, shutdown).await;
            drop(permit);
        });
    }

    /// Runs the oldest waiting message of a leased conversation, then gives the lease back.
    async fn serve(self: &Arc<Self>, claim: Claim, work: Option<Box<Work>>, shutdown: CancellationToken) {
        let done = CancellationToken::new();
        // A turn that panics must not keep its lease.
        let ended = done.clone().drop_guard();
        let renewing = tokio::spawn(Arc::clone(self).renew(claim, done));
        let result = self.answer_next(claim, work, &shutdown).await;
        drop(ended);
        if let Err(error) = renewing.await {
            warn!(%error, "a lease was not renewed");
        }
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let given_back = match result {
            Ok(()) => store.release(&claim, now).await,
            Err(error) => {
                error!(conversation.id = %claim.conversation, error = format!("{error:#}"), "a turn broke off");
                store.renew(&claim, now, REST).await
            }
        };
        if let Err(error) = given_back {
            warn!(%error, "a lease was not given back; it runs out by itself");
        }
        self.shift.wake();
    }

    async fn answer_next(
        &self,
        claim: Claim,
        work: Option<Box<Work>>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let seat = self.desk.sit(claim.conversation);
        let turns_max = self.shift.worker().turns_max;
        let work = match work {
            Some(work) => *work,
            None => match self.parts.store.work(&claim, turns_max).await? {
                Some(work) => work,
                None => return Ok(()),
            },
        };
        seat.card
            .send_modify(|card| card.add_waiting(work.behind as usize));
        self.turn(Assigned { claim, work }, &seat, shutdown).await
    }

    async fn renew(self: Arc<Self>, claim: Claim, done: CancellationToken) {
        loop {
            tokio::select! {
                () = done.cancelled() => return,
                () = tokio::time::sleep(LEASE_RENEWED_EVERY) => {}
            }
            if let Err(error) = self.parts.store.renew(&claim, (self.parts.now)(), LEASE).await {
                warn!(%error, "a lease could not be renewed");
            }
        }
    }
}
