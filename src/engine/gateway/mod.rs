//! The gateway. Start reading here.
//!
//! [`Reception::receive`] accepts a verified inbound and commits it before it is acknowledged. A conversation is claimed
//! together with its new message, or by the scheduler (`scheduler.rs`) when a slot is free. Each conversation runs one
//! turn (`turn/`) at a time, and many conversations run in parallel. Commands (`commands/`) do not wait in the queue.
//! Answers leave through the outbox (`delivery.rs`).

mod access_request;
mod active_turns;
mod agent_step;
mod audit;
mod change_preparation;
mod change_view;
mod choice;
mod clock_watch;
mod commands;
mod compose;
mod delivery;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fixture;
mod form_words;
mod handover;
mod home;
mod housekeeping;
mod inspections;
mod intake;
mod joined;
mod outgoing;
mod parts;
mod people;
mod prerender;
mod replaced_result;
mod questions;
mod reception;
mod repositories;
mod retention;
mod runs;
mod scheduler;
mod schedules;
mod status_card;
mod thread_question;
mod turn;
mod welcome;
mod written_text;

pub use audit::IngressAudit;
pub use delivery::{ChannelDelivery, ChannelHealth, ChannelState, Pacing};
pub use handover::{FieldProblem, Handover, HandoverAnswer};
pub use housekeeping::{Housekeeping, LoadObserver};
pub use outgoing::OutgoingMessages;
pub use parts::Parts;
pub use questions::QuestionDeadlines;
pub use reception::{ReceiveOutcome, Reception};
pub use repositories::{MirrorBounds, Repositories, Watcher};
pub use retention::{Holding, PrunedAmount, Retention, RetentionPeriod, Round, RoundStart};
pub use runs::{
    RunApi, RunDocument, RunFilter, RunListDocument, RunStartRequest, RunTracer, RunWatch, RunWatchEvent,
    Runs,
};
pub use schedules::{ScheduleStartError, Schedules, start_now, store_configured};

use crate::base::model::Inbound;
use crate::state::access::AccessError;
use crate::state::store::StoreError;
use active_turns::ActiveTurns;
use commands::CommandRunner;
use home::HomePages;
use jiff::{SignedDuration, Timestamp};
use prerender::Prerenderer;
use runs::PipelineDefinitions;
use scheduler::TurnScheduler;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};
use turn::{TurnRunner, WaitingGuards};

/// The longest time without a connection over which messages of a channel arrive.
const DISCONNECTED_TIME_MAX: SignedDuration = SignedDuration::from_mins(1);

/// The gateway: receives messages, runs turns and commands, and delivers answers.
pub struct Gateway {
    /// The entrance for messages and events.
    pub reception: Arc<Reception>,
    /// The deliveries of the channels.
    pub outgoing: Arc<OutgoingMessages>,
    /// The records of requests that were rejected or ignored.
    pub audit: Arc<IngressAudit>,
    /// The upkeep of repositories and of stored credentials.
    pub housekeeping: Housekeeping,
    /// The requests of people's machines.
    pub handover: Handover,
    /// The watch of the deadlines of questions.
    pub question_deadlines: QuestionDeadlines,
    /// The watch of the times of schedules.
    pub schedules: Arc<Schedules>,
    /// The driver of runs of pipelines.
    pub runs: Arc<Runs>,
    /// The requests of programs about runs.
    pub run_api: Arc<RunApi>,
    parts: Arc<Parts>,
    scheduler: Arc<TurnScheduler>,
    commands: Arc<CommandRunner>,
    prerenderer: Arc<Prerenderer>,
    /// Fires when the process stops. Work that can run again at the next start no longer waits.
    shutdown: CancellationToken,
    /// Background tasks, awaited before the process stops.
    background: TaskTracker,
}

impl Gateway {
    /// Creates the gateway, and the service identities of hooks, schedules and services. A revoked one stays revoked.
    pub async fn new(parts: Parts) -> Result<Arc<Self>, AccessError> {
        let config = &parts.config;
        let services = parts.access.service_identities(
            &config.hooks,
            &config.schedules,
            &config.services,
            (parts.now)(),
        );
        for name in services.await? {
            warn!("`{name}` was revoked; nothing starts in its name");
        }
        let parts = Arc::new(parts);
        let (shutdown, background) = (CancellationToken::new(), TaskTracker::new());
        let active_turns = ActiveTurns::default();
        let prerenderer = Arc::<Prerenderer>::default();
        let audit = Arc::new(IngressAudit::new(parts.store.clone(), &background));
        let outgoing = Arc::new(OutgoingMessages::new(&parts, &shutdown, &background));
        let homes = Arc::new(HomePages::new(&parts, &outgoing, (&shutdown, &background)));
        let definitions = Arc::new(PipelineDefinitions::new(&parts));
        let turns = Arc::new(TurnRunner {
            parts: Arc::clone(&parts),
            outgoing: Arc::clone(&outgoing),
            homes: Arc::clone(&homes),
            active_turns: active_turns.clone(),
            prerenderer: Arc::clone(&prerenderer),
            definitions: Arc::clone(&definitions),
            shutdown: shutdown.clone(),
            background: background.clone(),
            waiting_guards: Arc::<WaitingGuards>::default(),
        });
        let scheduler = Arc::new(TurnScheduler::new(
            &parts,
            Arc::clone(&turns),
            active_turns.clone(),
        ));
        let schedules = Arc::new(Schedules::new(
            &parts,
            &outgoing,
            (&scheduler, active_turns.clone()),
            &definitions,
        ));
        let runs = Arc::new(Runs::new(
            &parts,
            &outgoing,
            (&scheduler, active_turns.clone()),
            &definitions,
        ));
        let commands = Arc::new(CommandRunner::new(
            Arc::clone(&parts),
            (Arc::clone(&outgoing), Arc::clone(&homes)),
            active_turns.clone(),
            (Arc::clone(&scheduler), Arc::clone(&schedules), Arc::clone(&runs)),
            (&shutdown, &background),
        ));
        let handover = Handover::new(&parts, &commands, &audit);
        let run_api = Arc::new(RunApi::new(&parts, (&runs, &audit), (&shutdown, &background)));
        let reception = Arc::new(Reception {
            parts: Arc::clone(&parts),
            outgoing: Arc::clone(&outgoing),
            audit: Arc::clone(&audit),
            active_turns,
            turns,
            scheduler: Arc::clone(&scheduler),
            commands: Arc::clone(&commands),
            homes,
            shutdown: shutdown.clone(),
            background: background.clone(),
        });
        let question_deadlines = QuestionDeadlines {
            parts: Arc::clone(&parts),
            outgoing: Arc::clone(&outgoing),
            scheduler: Arc::clone(&scheduler),
        };
        Ok(Arc::new(Self {
            reception,
            outgoing,
            audit,
            housekeeping: Housekeeping::new(Arc::clone(&parts)),
            handover,
            question_deadlines,
            schedules,
            runs,
            run_api,
            parts,
            scheduler,
            commands,
            prerenderer,
            shutdown,
            background,
        }))
    }

    /// Runs turns until `cancel`. Running turns then get a moment to reach the end of a step.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let _abandoned = self.scheduler.abort_on_drop();
        while !cancel.is_cancelled() {
            let begun = tokio::select! {
                begun = self.begin_work() => begun,
                () = cancel.cancelled() => break,
            };
            match begun {
                Ok(()) => break,
                Err(error) => {
                    error!(%error, "no work can be started; it is tried again");
                    self.scheduler.wait_for_work(&cancel).await;
                }
            }
        }
        self.scheduler.claim_until(&cancel).await;
        self.parts.repositories.stop();
        self.shutdown.cancel();
        self.scheduler.finish_turns().await;
        self.prerenderer.wait_idle().await;
        self.finish_background().await;
        self.parts.repositories.ended().await;
    }

    /// Receives an inbound in a task of its own, so that it is processed completely if its sender disconnects. A shutdown
    /// waits for the task.
    pub fn receive(
        self: &Arc<Self>,
        inbound: Inbound,
        at: Timestamp,
    ) -> JoinHandle<Result<ReceiveOutcome, AccessError>> {
        let gateway = Arc::clone(self);
        self.background
            .spawn(async move { gateway.reception.receive(inbound, at).await })
    }

    /// Waits for the background tasks. Some may begin until nothing is received any more, such as the records of refused
    /// requests.
    pub async fn finish_background(&self) {
        self.background.close();
        self.background.wait().await;
    }

    /// Returns the problems of channels and repositories that do not keep the server from accepting messages, one line
    /// each.
    pub fn problems(&self, at: Timestamp) -> Vec<String> {
        let disconnected = self.outgoing.disconnected_channels().into_iter();
        let too_long = disconnected.filter(|(_, since)| at.duration_since(*since) >= DISCONNECTED_TIME_MAX);
        let mut problems: Vec<String> = too_long
            .map(|(name, since)| {
                format!("channel {name}: no connection is open over which messages arrive, since {since:.0}")
            })
            .collect();
        let closed = self.outgoing.closed_channels().into_iter();
        problems.extend(closed.map(|(name, state)| format!("channel {name}: {state}")));
        problems.extend(self.housekeeping.stale_repositories());
        problems
    }

    /// Returns the number of turns that run now.
    pub fn running_turns(&self) -> usize {
        self.reception.active_turns.count()
    }

    /// Records that this process works, and resumes the commands of the previous one. No turn begins before that.
    /// Otherwise a crash would not be counted, and an unanswered command would block its conversation.
    async fn begin_work(&self) -> Result<(), StoreError> {
        self.parts.store.begin_work().await?;
        self.question_deadlines.show_waiting().await?;
        self.commands.resume_commands().await
    }

    /// Releases all claims of this process. Unfinished messages are claimed at the next start, and the stop does not
    /// count against them.
    pub async fn end_work(&self) {
        if let Err(error) = self.parts.store.end_work().await {
            warn!(%error, "the next start treats this stop as a crash");
        }
    }
}
