//! Runs of pipelines. One task makes the next moves of the runs that are due: what begins, what ends and what is posted is one
//! transaction; see `store/run`. An agent step is a message, which takes the way of all others, and its turn ends the step.

mod api;
mod definitions;
mod event;
mod moves;
mod plan;
mod report;
mod request;
mod start;
mod visibility;

pub use api::{RunApi, RunDocument, RunFilter, RunListDocument, RunStartRequest, RunWatch, RunWatchEvent};
pub(super) use definitions::PipelineDefinitions;
pub(super) use event::EventRuns;
pub(super) use moves::MESSAGE;
pub(super) use plan::needs_editor;
pub(super) use report::{RunReport, list};
pub(super) use request::{RUN_USAGE, RunRequest, RunVerb, RunsRequest, parse_run, parse_runs};
pub(super) use start::unknown_pipeline;
pub(super) use visibility::{is_own, may_see};

use super::active_turns::ActiveTurns;
use super::compose::Address;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::scheduler::TurnScheduler;
use crate::base::model::{ChatPlace, MessageRef, RunId};
use crate::state::store::{StoppedWork, StoreError};
use futures_util::FutureExt;
use jiff::Timestamp;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// The most runs that are read at a time.
const DUE_AT_ONCE_MAX: u32 = 50;
/// The longest sleep before the clock is compared again, which may have been set.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// The wait before another attempt after a failure of the store.
const RETRY_WAIT: Duration = Duration::from_secs(5);

/// The reason of the end of a run whose row is not readable.
const UNREADABLE: &str = "it cannot be read by this version; start it again";
/// The reason of the end of a run whose moves fail in another way.
const BROKEN: &str = "an internal error ended it; the log has the reason";

/// The driver of runs.
pub struct Runs {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    scheduler: Arc<TurnScheduler>,
    active_turns: ActiveTurns,
    definitions: Arc<PipelineDefinitions>,
    /// Also notified at the end of a message with which a run may begin or go on.
    changed: Arc<Notify>,
    /// Counts the passes in which runs have moved, for those who watch a run.
    moved: watch::Sender<u64>,
}

impl Runs {
    pub(super) fn new(
        parts: &Arc<Parts>,
        outgoing: &Arc<OutgoingMessages>,
        (scheduler, active_turns): (&Arc<TurnScheduler>, ActiveTurns),
        definitions: &Arc<PipelineDefinitions>,
    ) -> Self {
        Self {
            parts: Arc::clone(parts),
            outgoing: Arc::clone(outgoing),
            scheduler: Arc::clone(scheduler),
            active_turns,
            definitions: Arc::clone(definitions),
            changed: scheduler.runs_changed(),
            moved: watch::Sender::new(0),
        }
    }

    /// Makes the driver look at the runs again, because one was started or changed.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Ends the turns of steps that were stopped. One that has not begun yet finds the stored stop.
    pub fn stop(&self, stopped: Vec<StoppedWork>) {
        for work in stopped {
            self.active_turns.stop(work.conversation, work.message);
        }
    }

    /// Drives the runs until `cancel`.
    pub async fn watch(self: Arc<Self>, cancel: CancellationToken) {
        while !cancel.is_cancelled() {
            let next = match self.advance_due().await {
                Ok(next) => next,
                Err(error) => {
                    warn!(%error, "runs are tried again later");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_WAIT) => {}
                        () = cancel.cancelled() => {}
                    }
                    continue;
                }
            };
            tokio::select! {
                () = self.wait_until(next) => {}
                () = self.changed.notified() => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Makes the moves of all runs that are due, and returns the next deadline of any. A run that fails to move does not keep
    /// the others from it.
    async fn advance_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let store = &self.parts.store;
        loop {
            let at = (self.parts.now)();
            let due = store.open_runs(at, DUE_AT_ONCE_MAX).await?;
            if due.is_empty() {
                return store.next_run_deadline().await;
            }
            let mut failed = None;
            for id in due {
                if let Err(error) = self.advance_one(id, at).await {
                    warn!(run = %id, %error, "a run cannot go on");
                    failed = Some(error);
                }
            }
            self.outgoing.wake();
            self.scheduler.wake();
            self.moved.send_modify(|passes| *passes = passes.wrapping_add(1));
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }

    /// Makes the moves of one run. One that can never go on is ended, and keeps no other from going on.
    async fn advance_one(&self, id: RunId, at: Timestamp) -> Result<(), StoreError> {
        let moving = AssertUnwindSafe(self.read_and_advance(id, at)).catch_unwind();
        let why = match moving.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.may_pass() => return Err(error),
            Ok(Err(error)) => {
                error!(run = %id, %error, "a run can never go on, and is ended");
                match matches!(error, StoreError::Unreadable { .. }) {
                    true => UNREADABLE,
                    false => BROKEN,
                }
            }
            Err(_) => {
                error!(run = %id, "the moves of a run panicked, and it is ended");
                BROKEN
            }
        };
        self.stop(self.parts.store.abandon_run(id, why, at).await?);
        Ok(())
    }

    async fn read_and_advance(&self, id: RunId, at: Timestamp) -> Result<(), StoreError> {
        match self.parts.store.run(id).await? {
            Some(row) => self.advance(&row, at).await,
            None => Ok(()),
        }
    }

    /// Waits until a time has come; forever without one.
    async fn wait_until(&self, time: Option<Timestamp>) {
        let Some(time) = time else {
            return std::future::pending().await;
        };
        while let Ok(left) = Duration::try_from(time.duration_since((self.parts.now)()))
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(SLEEP_MAX)).await;
        }
    }

    /// Returns the address of what a run posts. Its message is the operation `message`, which each edit replaces.
    pub(super) fn address(
        &self,
        run: RunId,
        (channel, place): (&str, &ChatPlace),
        reply_to: Option<MessageRef>,
    ) -> Address {
        let mut place = place.clone();
        if let Some(connected) = self.outgoing.channel(channel) {
            place.account = connected.installation().account.clone();
        }
        Address {
            channel: channel.to_owned(),
            place,
            reply_to,
            mention: None,
            ephemeral_to: None,
            prefix: format!("run-{run}"),
            response_url: None,
        }
    }
}
