//! The turn scheduler. A message that arrives while a slot is free is claimed at once. Other messages are claimed when
//! a slot becomes free. Each conversation runs one turn at a time.

use super::active_turns::ActiveTurns;
use super::parts::Parts;
use super::turn::{ClaimedMessage, TurnRunner};
use crate::base::config::Config;
use crate::base::model::{Account, InboundKind, Sender};
use crate::crash_point;
use crate::rendering::jsonnet::Budget;
use crate::state::store::{
    Claim, Claimable, ClaimedWork, DirectClaim, RunStarter, Store, StoreError, TurnWorker,
};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// The interval at which the scheduler looks for work without a wake signal.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The wait before a message is retried after its turn failed.
const RETRY_WAIT: Duration = Duration::from_secs(5);

/// The turns of this process.
pub(super) struct TurnScheduler {
    store: Store,
    runner: Arc<TurnRunner>,
    active_turns: ActiveTurns,
    worker: TurnWorker,
    slots: Arc<Semaphore>,
    /// Slots for hook events: half of all, so that the rest stays free for people.
    hooks: Arc<Semaphore>,
    /// A permit for messages that were active in more than one crash. They run one at a time.
    suspects: Arc<Semaphore>,
    /// The running turns; `None` when no more turns may begin.
    turns: Mutex<Option<JoinSet<()>>>,
    wake: Notify,
    /// Notified when a message has ended with which a run of a pipeline may begin or go on.
    runs_changed: Arc<Notify>,
    /// The shutdown token. It is set when turns may begin, and fires when no more may.
    shutdown: OnceLock<CancellationToken>,
}

pub(super) struct Slot {
    permits: Vec<OwnedSemaphorePermit>,
    shutdown: CancellationToken,
}

/// Aborts the remaining turns when the scheduler's run is dropped.
struct EndTurnsOnDrop<'a>(&'a TurnScheduler);

impl Drop for EndTurnsOnDrop<'_> {
    fn drop(&mut self) {
        // Dropping the set aborts its tasks.
        *self.0.turns() = None;
    }
}

/// The outcome of the work on a conversation.
enum WorkOutcome {
    /// The message is answered, or is left for the next start.
    Done,
    /// The message is retried later.
    Retry,
    /// The message is retried later, and the failure counts against it.
    RetryAndBlame,
}

impl TurnScheduler {
    /// Creates the scheduler. At most `limits.turns_at_once_max` turns run at a time.
    pub(super) fn new(parts: &Parts, runner: Arc<TurnRunner>, active_turns: ActiveTurns) -> Self {
        let limits = &parts.config.limits;
        let worker = TurnWorker {
            name: hex::encode(&(parts.random)()[..8]),
            turns_max: limits.turn.history_turns_max,
            // A turn that read much is larger than a request until it is trimmed.
            bytes_max: limits.turn.history_bytes_max.saturating_mul(4),
            of_person_max: i64::try_from(limits.turns_at_once_max.div_ceil(2)).unwrap_or(i64::MAX),
            run_starters: run_starters(&parts.config),
        };
        Self {
            store: parts.store.clone(),
            runs_changed: runner.outgoing.runs_changed(),
            runner,
            active_turns,
            worker,
            slots: Arc::new(Semaphore::new(limits.turns_at_once_max)),
            hooks: Arc::new(Semaphore::new(limits.turns_at_once_max.div_ceil(2))),
            suspects: Arc::new(Semaphore::new(1)),
            turns: Mutex::new(Some(JoinSet::new())),
            wake: Notify::new(),
            shutdown: OnceLock::new(),
        }
    }

    pub(super) fn worker(&self) -> &TurnWorker {
        &self.worker
    }

    /// Returns a slot for a person's new message, if turns run and a slot is free.
    pub(super) fn free_slot(&self) -> Option<Slot> {
        self.slot(&[&self.slots])
    }

    /// Returns a slot for a new hook event, if turns run and a slot is free.
    pub(super) fn free_hook_slot(&self) -> Option<Slot> {
        self.slot(&[&self.slots, &self.hooks])
    }

    fn slot(&self, places: &[&Arc<Semaphore>]) -> Option<Slot> {
        let shutdown = self.shutdown.get().filter(|shutdown| !shutdown.is_cancelled())?;
        let permits = places.iter().map(|places| permit(places));
        Some(Slot {
            permits: permits.collect::<Option<_>>()?,
            shutdown: shutdown.child_token(),
        })
    }

    /// Wakes the scheduler because there may be new work.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns the notification of the end of a message with which a run of a pipeline may begin or go on.
    pub(super) fn runs_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.runs_changed)
    }

    fn turns(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a wake signal, for the poll interval or for `cancel`.
    pub(super) async fn wait_for_work(&self, cancel: &CancellationToken) {
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = cancel.cancelled() => {}
        }
    }
}

/// Returns the services whose messages start runs of pipelines.
fn run_starters(config: &Config) -> Arc<[RunStarter]> {
    let hooks = config.hooks.iter().filter(|(_, hook)| hook.starts_pipelines);
    let hooks = hooks.map(|(name, _)| RunStarter {
        sender: Sender::of_hook(name),
        account: Account::of_hook(name),
    });
    let schedules = config.schedules.iter();
    let schedules = schedules.filter(|(_, schedule)| schedule.starts_pipelines);
    let schedules = schedules.map(|(name, _)| RunStarter {
        sender: Sender::of_schedule(name),
        account: Account::of_schedules(),
    });
    hooks.chain(schedules).collect()
}

fn permit(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(places).try_acquire_owned().ok()
}

impl TurnScheduler {
    /// Returns a guard that aborts all turns when it is dropped.
    pub(super) fn abort_on_drop(&self) -> impl Drop {
        EndTurnsOnDrop(self)
    }

    /// Claims waiting conversations and starts their turns until `cancel`.
    pub(super) async fn claim_until(self: &Arc<Self>, cancel: &CancellationToken) {
        let shutdown = self.shutdown.get_or_init(|| cancel.clone());
        while !cancel.is_cancelled() {
            let slot = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                slot = Arc::clone(&self.slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            match self.claim_next(slot, shutdown).await {
                Ok(Some((direct_claim, slot))) => self.start_claimed(direct_claim, slot),
                Ok(None) => self.wait_for_work(cancel).await,
                Err(error) => {
                    error!(%error, "no work can be claimed");
                    self.wait_for_work(cancel).await;
                }
            }
        }
    }

    /// Waits for the running turns. From here on no message is claimed, not even one that arrives at this moment.
    pub(super) async fn finish_turns(&self) {
        let turns = self.turns().take();
        if let Some(mut turns) = turns {
            while turns.join_next().await.is_some() {}
        }
    }

    /// Claims the conversation that has waited longest and may use the slot.
    async fn claim_next(
        &self,
        slot: OwnedSemaphorePermit,
        shutdown: &CancellationToken,
    ) -> Result<Option<(DirectClaim, Slot)>, StoreError> {
        let (hook, suspect) = (permit(&self.hooks), permit(&self.suspects));
        let claimable = Claimable {
            hooks: hook.is_some(),
            suspects: suspect.is_some(),
        };
        let Some(claimed) = self.store.claim(&self.worker, claimable).await? else {
            return Ok(None);
        };
        let mut permits = vec![slot];
        permits.extend(hook.filter(|_| claimed.is_hook));
        permits.extend(suspect.filter(|_| claimed.is_suspect));
        let direct_claim = DirectClaim {
            claim: claimed.claim,
            work: None,
        };
        let shutdown = shutdown.child_token();
        Ok(Some((direct_claim, Slot { permits, shutdown })))
    }

    /// Starts the turn of a claimed conversation. If the process stops, the claim is released with all others instead.
    pub(super) fn start_claimed(self: &Arc<Self>, DirectClaim { claim, work }: DirectClaim, slot: Slot) {
        crash_point::before("B6");
        let scheduler = Arc::clone(self);
        let mut turns = self.turns();
        let Some(turns) = turns.as_mut().filter(|_| !slot.shutdown.is_cancelled()) else {
            return;
        };
        while turns.try_join_next().is_some() {}
        turns.spawn(async move { scheduler.run_claimed(claim, work, slot).await });
    }

    /// Runs the oldest waiting message of a claimed conversation, then releases the claim.
    async fn run_claimed(self: &Arc<Self>, claim: Claim, work: Option<Box<ClaimedWork>>, slot: Slot) {
        let Slot { permits, shutdown } = slot;
        // A turn that panics must not keep its claim or end other turns.
        let answering = AssertUnwindSafe(self.answer_next(claim, work, &shutdown)).catch_unwind();
        let served = match answering.await {
            Ok(Ok(())) => WorkOutcome::Done,
            Ok(Err(error)) => {
                error!(conversation.id = %claim.conversation, error = format!("{error:#}"), "a turn failed");
                match error.downcast_ref() {
                    // A failure during shutdown does not count against the message.
                    _ if shutdown.is_cancelled() => WorkOutcome::Retry,
                    Some(StoreError::Fenced) => WorkOutcome::Retry,
                    Some(error) if error.may_pass() => WorkOutcome::Retry,
                    Some(_) | None => WorkOutcome::RetryAndBlame,
                }
            }
            Err(_) => {
                error!(conversation.id = %claim.conversation, "a turn panicked");
                WorkOutcome::RetryAndBlame
            }
        };
        drop(permits);
        if matches!(served, WorkOutcome::RetryAndBlame)
            && let Err(error) = self.store.blame(&claim).await
        {
            warn!(%error, "the failure of a turn could not be counted");
        }
        if !matches!(served, WorkOutcome::Done) {
            tokio::select! {
                () = tokio::time::sleep(RETRY_WAIT) => {}
                () = shutdown.cancelled() => {}
            }
        }
        crash_point::before("B22");
        self.release_claim(claim, &shutdown).await;
        crash_point::after("B22");
        self.wake();
    }

    /// Releases a claim, with retries until it succeeds, because no other worker could answer the conversation. A stop
    /// of the process releases all claims.
    async fn release_claim(&self, claim: Claim, shutdown: &CancellationToken) {
        loop {
            match self.store.release(&claim).await {
                Ok(()) | Err(StoreError::Fenced) => return,
                Err(error) => warn!(%error, "a claim could not be released; it is tried again"),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_WAIT) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn answer_next(
        &self,
        claim: Claim,
        work: Option<Box<ClaimedWork>>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let handle = self.active_turns.register(claim.conversation);
        let worker = self.worker();
        let work = match work {
            Some(work) => *work,
            None => match self.store.work(&claim, worker.turns_max, worker.bytes_max).await {
                Ok(Some(work)) => work,
                Ok(None) => return Ok(()),
                Err(error @ StoreError::Unreadable { .. }) => {
                    let ended = self.runner.end_unreadable(claim, error).await;
                    self.runs_changed.notify_one();
                    return ended;
                }
                Err(error) => return Err(error.into()),
            },
        };
        crash_point::after("B6");
        handle.set_message(work.inbox);
        handle
            .card
            .send_modify(|card| card.add_waiting(work.behind as usize));
        let person = self.runner.person(&work.inbound);
        let moves_runs = matches!(
            work.inbound.kind,
            InboundKind::Pipeline(_) | InboundKind::Hook { .. } | InboundKind::Schedule(_)
        );
        let turn = self
            .runner
            .run_message_turn(ClaimedMessage { claim, work }, &handle, shutdown);
        let ended = match person {
            Some(person) => Box::pin(Budget::for_person(person).charge(turn)).await,
            None => Box::pin(turn).await,
        };
        if moves_runs {
            self.runs_changed.notify_one();
        }
        ended
    }
}
