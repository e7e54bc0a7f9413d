//! Execution of commands and button clicks. They use no model and no queue, and each gets one answer.

mod admission;
mod answer;
mod asker;
mod budget;
mod change;
mod click;
mod joining;
mod conversation;
mod diff_tab;
mod dispatch;
mod environments;
mod export;
mod kind;
mod login;
mod messages;
mod order;
mod people;
mod press;
mod result_button;
mod resumed;
mod retry;
mod run;
mod run_question;
mod schedule;
mod slash;
mod take_over;
mod undo;
mod usage;
mod zone;

use answer::{ButtonEffect, CommandAnswer, Revision};
pub(super) use change::PreparedState;
pub(super) use kind::may_change;
use kind::{is_inspection, is_stop, may_be_without_bot, pressed_at, starts_runs, stopped_message, written};
use order::{CommandNeeds, CommandOrder, LaterCommands};
pub(super) use result_button::{ResultButton, discard_question};
use resumed::PresetReply;

use super::active_turns::ActiveTurns;
use super::compose::{Address, FULL_REPLY_FILE, MESSAGES_MAX};
use super::inspections::Inspections;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::runs::Runs;
use super::scheduler::TurnScheduler;
use super::schedules::Schedules;
use super::turn::REVOKED;
use crate::base::model::{ConversationId, Inbound, InboundKind, InboxId, Op, Reply};
use crate::crash_point;
use crate::engine::command::Verb;
use crate::rendering::jsonnet::Budget;
use crate::state::store::StoreError;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of commands that run at once.
const COMMANDS_AT_ONCE_MAX: usize = 64;
/// First wait before a command is retried after a store failure. Each further wait is twice as long.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// Longest wait before a retry.
const WAIT_MAX: Duration = Duration::from_secs(4);

pub(super) struct AcceptedCommand {
    pub(super) inbox: InboxId,
    pub(super) conversation: ConversationId,
    pub(super) inbound: Inbound,
    /// Number of crashes since the command was accepted.
    pub(super) crashes: u32,
    /// The answer to give instead of running the command.
    pub(super) preset_reply: Option<PresetReply>,
}

/// The error when the process stops. The command runs again at the next start.
#[derive(Debug, thiserror::Error)]
#[error("the process stops")]
struct ShuttingDown;

/// Runs commands and button clicks.
pub(super) struct CommandRunner {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    homes: Arc<super::home::HomePages>,
    active_turns: ActiveTurns,
    scheduler: Arc<TurnScheduler>,
    schedules: Arc<Schedules>,
    runs: Arc<Runs>,
    slots: Semaphore,
    export_slots: Semaphore,
    order: CommandOrder,
    inspections: Inspections,
    shutdown: CancellationToken,
    background: TaskTracker,
}

impl CommandRunner {
    pub(super) fn new(
        parts: Arc<Parts>,
        (outgoing, homes): (Arc<OutgoingMessages>, Arc<super::home::HomePages>),
        active_turns: ActiveTurns,
        (scheduler, schedules, runs): (Arc<TurnScheduler>, Arc<Schedules>, Arc<Runs>),
        (shutdown, background): (&CancellationToken, &TaskTracker),
    ) -> Self {
        Self {
            parts,
            outgoing,
            homes,
            active_turns,
            scheduler,
            schedules,
            runs,
            slots: Semaphore::new(COMMANDS_AT_ONCE_MAX),
            export_slots: Semaphore::new(export::EXPORTS_AT_ONCE_MAX),
            order: CommandOrder::default(),
            inspections: Inspections::default(),
            shutdown: shutdown.clone(),
            background: background.clone(),
        }
    }

    /// Runs a stored command in the background, in the order of its conversation.
    pub(super) fn start(self: &Arc<Self>, asked: AcceptedCommand) {
        let runner = Arc::clone(self);
        let later = match may_change(&asked.inbound.kind) {
            true => LaterCommands::Wait,
            false => LaterCommands::Continue,
        };
        let in_order = self.order.enter(asked.conversation, later);
        self.background.spawn(async move {
            let kind = asked.inbound.kind.clone();
            let needs = async {
                CommandNeeds {
                    waits: runner.waits_for_changes(&kind).await,
                    later: match runner.only_shows(&kind).await {
                        true => LaterCommands::Continue,
                        false => later,
                    },
                }
            };
            in_order.run(needs, Box::pin(runner.run_command(asked))).await;
        });
    }

    /// True for commands that show or change the prepared change. They run after the earlier commands of the
    /// conversation. Inspections of environments are not included: they may take long, and a stop can end them.
    pub(super) async fn waits_for_changes(&self, kind: &InboundKind) -> bool {
        match (kind, written(kind)) {
            (InboundKind::Click { token, .. }, _) => !self.is_stop_button(token).await,
            (_, Some(command)) => match command.verb {
                Verb::Undo | Verb::Discard | Verb::Clear | Verb::Patch | Verb::Retry => true,
                Verb::Diff => !is_inspection(kind),
                _ => false,
            },
            _ => false,
        }
    }

    /// Runs one command and stores its answer in the outbox. A panic is answered with an error. A store failure is
    /// retried; an effect that is already stored is not repeated.
    pub(super) async fn run_command(self: &Arc<Self>, asked: AcceptedCommand) {
        self.run_command_within(&asked, u32::MAX).await;
    }

    /// Runs one command with at most this number of attempts. Returns false if it must be retried.
    async fn run_command_within(self: &Arc<Self>, asked: &AcceptedCommand, attempts_max: u32) -> bool {
        let address = address_of(&asked.inbound, asked.inbox.op_id_prefix());
        let (mut attempts, mut wait) = (0, WAIT_MIN);
        loop {
            let Some(answer) = self.attempt(asked, &address).await else {
                return true;
            };
            crash_point::before("answer");
            let stored = match answer {
                Ok(answer) => self.store_answer(asked, &address, answer).await,
                Err(error) => Err(error),
            };
            crash_point::after("answer");
            match stored {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "a command is tried again"),
            }
            attempts += 1;
            if attempts >= attempts_max {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.shutdown.cancelled() => return true,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
        self.outgoing.wake();
        if let Some(identity) = self.parts.identity(&asked.inbound) {
            match self.parts.store.conversation(asked.conversation).await {
                Ok(conversation) => {
                    let owner = &conversation.key.user;
                    self.homes.refresh_with_owner(identity.user(), owner);
                }
                Err(_) => self.homes.refresh(identity.user()),
            }
        }
        // Turns of the conversation may be waiting for the command.
        self.scheduler.wake();
        if starts_runs(&asked.inbound.kind) {
            self.runs.wake();
        }
        true
    }

    /// Runs a command once. Returns `None` if the process stops first.
    async fn attempt(
        self: &Arc<Self>,
        asked: &AcceptedCommand,
        address: &Address,
    ) -> Option<Result<CommandAnswer, StoreError>> {
        let _slot = self.slots.acquire().await.ok()?;
        let answering = AssertUnwindSafe(self.authorised(asked, address)).catch_unwind();
        let answered = tokio::select! {
            answered = answering => answered,
            // An inspection changes nothing, so the next start can run it again.
            () = self.shutdown.cancelled(), if is_inspection(&asked.inbound.kind) => return None,
        };
        let error = match answered {
            Ok(Ok(answer)) => return Some(Ok(answer)),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("it panicked"),
        };
        if error.is::<ShuttingDown>() {
            return None;
        }
        if let Some(error) = error.downcast_ref().filter(|_| is_passing(&error)) {
            return Some(Err(StoreError::clone(error)));
        }
        let text = self.parts.internal_error_text(&error, "command");
        Some(Ok(CommandAnswer::post(address, Reply::text(text))))
    }

    async fn authorised(&self, asked: &AcceptedCommand, address: &Address) -> anyhow::Result<CommandAnswer> {
        if let Some(preset) = &asked.preset_reply {
            return Ok(CommandAnswer::post(address, preset.reply(&asked.inbound.kind)));
        }
        let Some(identity) = self.parts.identity(&asked.inbound) else {
            return Ok(CommandAnswer::post(address, Reply::text(REVOKED)));
        };
        // The evaluation budget of the person is charged for the command.
        let answering = self.answer(asked, address, &identity);
        let answer = Budget::for_person(identity.user()).charge(answering).await?;
        // The command may have taken long. A person who was revoked in the meantime must not see the result.
        match identity.is_revoked() {
            true => Ok(CommandAnswer::post(address, Reply::text(REVOKED))),
            false => Ok(answer),
        }
    }

    /// Returns the answer with a reply, in as many messages as it needs.
    fn posted(&self, address: &Address, reply: Reply) -> CommandAnswer {
        match address.fits(&self.parts.config, &reply, 1) {
            true => CommandAnswer::post(address, reply),
            false => CommandAnswer::ops(self.posts(address, &reply)),
        }
    }

    /// Returns a reply as a few messages, plus a file with the full text if it needs more.
    fn posts(&self, address: &Address, reply: &Reply) -> Vec<Op> {
        let mut messages = address.split(&self.parts.config, reply);
        let mut file = None;
        if messages.len() > MESSAGES_MAX {
            let left = messages.len() - (MESSAGES_MAX - 1);
            messages.truncate(MESSAGES_MAX - 1);
            // A file cannot be ephemeral.
            file = address
                .ephemeral_to
                .is_none()
                .then(|| address.full_reply_file(reply));
            messages.push(Reply::text(match &file {
                Some(_) => format!("This is cut here; the full text follows as `{FULL_REPLY_FILE}`."),
                None => format!(
                    "This is cut here: {left} more messages would be too many, and I cannot show a file to you \
                     alone. Ask in a thread, with `!` before the command."
                ),
            }));
        }
        let numbered = messages.into_iter().enumerate();
        let posts = numbered.map(|(index, part)| address.post(&format!("answer-{}", index + 1), part));
        posts.chain(file).collect()
    }

    /// True if a reply needs more messages than one answer may have.
    fn is_long(&self, address: &Address, reply: &Reply) -> bool {
        !address.fits(&self.parts.config, reply, MESSAGES_MAX)
    }
}

/// Returns the address for the answer to a command. A slash command leaves no message to reply to.
pub(super) fn address_of(inbound: &Inbound, prefix: String) -> Address {
    let address = Address::for_inbound(inbound, prefix);
    let is_slash =
        matches!(inbound.kind, InboundKind::Command { .. }) && inbound.message.is_none() && !inbound.direct;
    Address {
        mention: None,
        ephemeral_to: is_slash.then(|| inbound.sender.clone()),
        ..address
    }
}

/// True for a failure that ends when the store works again.
fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StoreError::may_pass)
}
