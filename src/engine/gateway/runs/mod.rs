//! Runs of pipelines. One task makes the next moves of the runs that are due: what begins, what ends and what is posted is one
//! transaction; see `store/run`. An agent step is a message, which takes the way of all others, and its turn ends the step.

mod abandonment;
mod api;
mod ask;
mod broken_run;
mod definitions;
mod event;
mod moves;
mod plan;
mod quiet;
mod reply;
mod report;
mod request;
mod schedule;
mod slash;
mod start;
mod task;
mod trace;
mod trace_text;
mod visibility;

pub use api::{RunApi, RunDocument, RunFilter, RunListDocument, RunStartRequest, RunWatch, RunWatchEvent};
pub(super) use definitions::PipelineDefinitions;
pub(super) use event::EventRuns;
pub(super) use moves::MESSAGE;
pub(super) use plan::needs_editor;
pub(super) use report::{RunReport, list};
pub(super) use request::{RUN_USAGE, RunRequest, RunVerb, RunsRequest, parse_run, parse_runs};
pub(super) use schedule::{PublishedTimes, UnscheduledReason};
pub(super) use slash::{SlashRequest, is_slash_command, unknown_command};
pub(super) use start::unknown_pipeline;
pub use trace::RunTracer;
pub(super) use visibility::{is_own, may_see};

use super::active_turns::ActiveTurns;
use super::clock_watch::ClockWatch;
use super::compose::Address;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::scheduler::TurnScheduler;
use crate::base::model::{ChatPlace, MessageRef, RunId};
use crate::state::store::{StoppedWork, StoreError};
use broken_run::reason_to_end;
use jiff::Timestamp;
use std::sync::Arc;
use task::TaskRunner;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The most runs that are read at a time.
const DUE_AT_ONCE_MAX: u32 = 50;

/// The driver of runs.
pub struct Runs {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    scheduler: Arc<TurnScheduler>,
    active_turns: ActiveTurns,
    definitions: Arc<PipelineDefinitions>,
    tasks: Arc<TaskRunner>,
    /// Also notified at the end of a message with which a run may begin or go on.
    changed: Arc<Notify>,
    /// The writer of the traces of their steps.
    pub tracer: Arc<RunTracer>,
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
        let changed = scheduler.runs_changed();
        Self {
            parts: Arc::clone(parts),
            outgoing: Arc::clone(outgoing),
            scheduler: Arc::clone(scheduler),
            active_turns,
            definitions: Arc::clone(definitions),
            tasks: Arc::new(TaskRunner::new(parts, &changed)),
            changed,
            tracer: Arc::new(RunTracer::new(parts)),
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
        self.tasks.resume(&cancel).await;
        let mut watch = ClockWatch::new(self.parts.now, Arc::clone(&self.changed), cancel);
        while watch.look().is_some() {
            let next = self.advance_due().await;
            watch.wait(next, "runs are tried again later").await;
        }
        self.tasks.ended().await;
    }

    /// Closes the questions whose time is over, makes the moves of all runs that are due, and returns the next deadline of any.
    /// A run that fails to move does not keep the others from it.
    async fn advance_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let store = &self.parts.store;
        loop {
            let at = (self.parts.now)();
            let mut work = store.run_work(at, DUE_AT_ONCE_MAX).await?;
            if work.next_deadline.is_some_and(|deadline| deadline <= at) {
                store.close_late_run_questions(at).await?;
                work = store.run_work(at, DUE_AT_ONCE_MAX).await?;
            }
            if work.due.is_empty() {
                return Ok(work.next_deadline);
            }
            let mut failed = None;
            for id in work.due {
                if let Err(error) = self.advance_one(id, at).await {
                    warn!(run = %id, %error, "a run cannot go on");
                    failed = Some(error);
                }
                self.tracer.note(id);
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
        let moving = Box::pin(self.read_and_advance(id, at));
        let Some(why) = reason_to_end(id, moving).await? else {
            return Ok(());
        };
        self.abandon(id, why, at).await
    }

    async fn read_and_advance(&self, id: RunId, at: Timestamp) -> Result<(), StoreError> {
        match self.parts.store.run(id).await? {
            Some(row) => self.advance(&row, at).await,
            None => Ok(()),
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
