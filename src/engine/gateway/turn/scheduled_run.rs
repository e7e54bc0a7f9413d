//! The run of a pipeline that a schedule starts at its time. No turn begins for its message.

use super::pipelines::EventOutcome;
use super::{ClaimedMessage, TurnRunner};
use crate::base::model::{Inbound, Reply, ScheduledPipeline, ScheduledWork, quoted};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::parts::scheduled;
use crate::engine::gateway::runs::UnscheduledReason;
use crate::state::access::Identity;
use crate::state::store::RunCreation;
use tokio_util::sync::CancellationToken;

/// Returns the work of a message that starts a pipeline at a time of its schedule.
pub(super) fn scheduled_pipeline(inbound: &Inbound) -> Option<(&ScheduledWork, &ScheduledPipeline)> {
    let work = scheduled(inbound)?;
    Some((work, work.pipeline.as_ref()?))
}

impl TurnRunner {
    /// Starts the run, or nothing if the trigger of the pipeline does not want it. The run and the end of its message are one
    /// transaction. With too many open runs the message waits. A run that cannot start otherwise is one failed fire, with its
    /// reason in the chat of the schedule.
    pub(super) async fn start_scheduled(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        (work, pipeline, identity): (&ScheduledWork, &ScheduledPipeline, &Identity),
        shutdown: &CancellationToken,
    ) -> anyhow::Result<EventOutcome> {
        let channel = assigned.inbound().channel.as_str();
        let (what, by) = ((work, pipeline), (identity, channel));
        let planning = self.definitions.run_of_schedule(&self.parts, what, by, shutdown);
        let planned = tokio::select! {
            biased;
            // What the shutdown interrupts is not a result; the next start claims the message again.
            () = shutdown.cancelled() => return Ok(EventOutcome::Done),
            planned = planning => planned,
        };
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let (claim, inbox) = (&assigned.claim, assigned.work.inbox);
        let (why, ops) = match planned {
            Ok(new) => {
                let (creation, stopped) = store.start_fire_run(claim, inbox, new, at).await?;
                for work in stopped {
                    self.active_turns.stop(work.conversation, work.message);
                }
                let name = quoted(&pipeline.name);
                let why = match creation {
                    Some(RunCreation::TooLarge) => format!("{name} was not started: its plan is too large."),
                    // With too many open runs the message waits, and is claimed again once one has ended.
                    _ => return Ok(EventOutcome::Done),
                };
                let ops = self.refusal(address, &Reply::text(why.as_str()));
                (why, ops)
            }
            // The shutdown may have interrupted the reading itself.
            Err(_) if shutdown.is_cancelled() => return Ok(EventOutcome::Done),
            // It was said for this commit, once for all pipelines.
            Err(why @ UnscheduledReason::Definition(_)) => (why.line(), Vec::new()),
            Err(why) => (why.line(), self.refusal(address, &Reply::text(why.to_string()))),
        };
        store.refuse_fire_run(claim, inbox, (why, ops), at).await?;
        self.outgoing.wake();
        Ok(EventOutcome::Done)
    }
}
