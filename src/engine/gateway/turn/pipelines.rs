//! The pipelines that an event of a hook starts. No turn begins for it then.

use super::scheduled_run::scheduled_pipeline;
use super::{ClaimedMessage, TurnRunner};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::runs::EventRuns;
use crate::state::access::Identity;
use crate::state::store::RunCreation;
use tokio_util::sync::CancellationToken;

/// The outcome of the search for pipelines that an event starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventOutcome {
    /// The message needs a turn.
    Turn,
    /// Nothing is left to do for it now.
    Done,
}

impl TurnRunner {
    /// Starts the pipelines of an event. Each run is stored once, also if a crash makes this happen again, and only then the
    /// message is done. With too many open runs it waits.
    pub(super) async fn start_pipelines(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        identity: &Identity,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<EventOutcome> {
        let inbound = assigned.inbound();
        if let Some((work, pipeline)) = scheduled_pipeline(inbound) {
            let asked = (work, pipeline, identity);
            return Box::pin(self.start_scheduled(assigned, address, asked, shutdown)).await;
        }
        let found = tokio::select! {
            biased;
            // What the shutdown interrupts is not a result; the next start claims the message again.
            () = shutdown.cancelled() => return Ok(EventOutcome::Done),
            found = self.definitions.runs_of_event(&self.parts, inbound, identity, shutdown) => found,
        };
        let EventRuns { runs, mut problems } = match found {
            Ok(None) => return Ok(EventOutcome::Turn),
            Ok(Some(found)) => found,
            // The shutdown may have interrupted the reading itself.
            Err(_) if shutdown.is_cancelled() => return Ok(EventOutcome::Done),
            Err(why) => {
                self.refuse(assigned, address, &why).await?;
                return Ok(EventOutcome::Done);
            }
        };
        let (store, at) = (&self.parts.store, (self.parts.now)());
        for new in runs {
            let name = new.pipeline.clone();
            let (created, stopped) = store.create_run(new, None, at).await?;
            for work in stopped {
                self.active_turns.stop(work.conversation, work.message);
            }
            match created {
                // The event waits, and is claimed again once a run has ended. What it has started is known then.
                RunCreation::TooMany => return Ok(EventOutcome::Done),
                RunCreation::TooLarge => {
                    problems.push(format!("`{name}` was not started: its event is too large."))
                }
                _ => {}
            }
        }
        if !problems.is_empty() {
            self.refuse(assigned, address, &EventRuns::shown(&problems))
                .await?;
            return Ok(EventOutcome::Done);
        }
        store
            .dismiss(&assigned.claim, assigned.work.inbox, Vec::new(), at)
            .await?;
        Ok(EventOutcome::Done)
    }
}
