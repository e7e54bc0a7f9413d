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
mod environments;
mod export;
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
mod usage;

use answer::{ButtonEffect, CommandAnswer, Revision};
pub(super) use change::PreparedState;
use order::{CommandNeeds, CommandOrder, LaterCommands};
pub(super) use result_button::{ResultButton, discard_question};
use resumed::PresetReply;

use super::active_turns::ActiveTurns;
use super::compose::{Address, FULL_REPLY_FILE, MESSAGES_MAX};
use super::inspections::Inspections;
use super::joined::ConversationRights;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::runs::Runs;
use super::scheduler::TurnScheduler;
use super::schedules::Schedules;
use super::turn::REVOKED;
use crate::base::model::{
    ConversationId, Inbound, InboundKind, InboxId, MessageConsent, Op, Platform, Reply, ReplyPart,
    ResponseUrlUse, group_thousands,
};
use crate::crash_point;
use crate::engine::command::{self, Command, Verb};
use crate::rendering::jsonnet::Budget;
use crate::state::access::Identity;
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

    async fn answer(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
    ) -> anyhow::Result<CommandAnswer> {
        let inbound = &asked.inbound;
        if let Some(command) = written(&inbound.kind) {
            let conversation = self.target_conversation(asked).await?;
            return self
                .carry_out(command, asked, address, identity, conversation)
                .await;
        }
        if let Some(command) = slash::of_pipelines(&inbound.kind) {
            return Box::pin(self.start_by_command(command, asked, address, identity)).await;
        }
        let text = match &inbound.kind {
            InboundKind::Click { token, .. } => return self.click(asked, address, token).await,
            InboundKind::Command { verb, .. } => command::unknown_reply(verb),
            InboundKind::Text { text, .. } => match command::find_unknown_in_text(text) {
                Some(word) => command::unknown_reply(word),
                None => self.unreadable_text(identity, text),
            },
            InboundKind::Unsupported { what } => format!("I can't read a {what}; send me text."),
            InboundKind::Join { .. }
            | InboundKind::Hook { .. }
            | InboundKind::Schedule(_)
            | InboundKind::Pipeline(_)
            | InboundKind::HomeOpened => {
                return Ok(CommandAnswer::ops(Vec::new()));
            }
        };
        Ok(CommandAnswer::post(address, Reply::text(text)))
    }

    fn unreadable_text(&self, identity: &Identity, text: &str) -> String {
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        if command::queued(text) == Some("") {
            return "Say what I should do after the running work: `queue: ` and your request.".to_owned();
        }
        if text.trim().is_empty() {
            return match identity.may_edit() {
                true => "Say what should change, or `help`.".to_owned(),
                false => "Ask a question, or say `help`.".to_owned(),
            };
        }
        format!(
            "That message is too long: I read up to {} characters.",
            group_thousands(chars_max as u64)
        )
    }

    /// Returns the conversation that a command is about. A platform may send a command without its thread. Then it
    /// means the sender's newest conversation in that chat at the time of typing.
    async fn target_conversation(&self, asked: &AcceptedCommand) -> anyhow::Result<ConversationId> {
        let (own, inbound) = (asked.conversation, &asked.inbound);
        let chat = inbound.place.account.platform.chat();
        let drops_threads = chat.is_some_and(|chat| chat.drops_threads_of_commands);
        if inbound.place.thread.is_some() || !drops_threads {
            return Ok(own);
        }
        let place = &inbound.place;
        let latest = self
            .parts
            .store
            .latest_conversation(&inbound.sender, &place.account, &place.chat, asked.inbox)
            .await?;
        Ok(latest.unwrap_or(own))
    }

    async fn carry_out(
        &self,
        command: Command<'_>,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let verb = command.verb;
        if verb.is_about_a_conversation()
            && let Some(refusal) = self.refusal_to_joined(asked, identity, conversation).await?
        {
            let allowed = Box::pin(self.answer_to_asker(command, asked, identity, conversation)).await?;
            return Ok(self.posted(address, allowed.unwrap_or(refusal)));
        }
        // An effect that was stored before the answer is reported as done, even if the person's grants have changed
        // since.
        if let Some(refusal) = self.missing_grant_reply(verb, identity, conversation).await?
            && !self.parts.store.has_effect(asked.inbox).await?
        {
            return Ok(CommandAnswer::post(address, refusal));
        }
        if let Some(question) = verb.question(command.arguments) {
            return match question {
                Ok(_) => {
                    let ops = self.inspect(command, address, identity, conversation).await?;
                    Ok(CommandAnswer::ops(ops))
                }
                Err(missing) => Ok(CommandAnswer::post(address, Reply::text(missing.hint("")))),
            };
        }
        let reply = match verb {
            Verb::Help => help(identity),
            Verb::Status => self.status(asked, identity, conversation).await?,
            // All of these except `diff` are inspections, which were answered above.
            Verb::Diff | Verb::Risk | Verb::Envs | Verb::Render | Verb::WhoImports => {
                return Ok(CommandAnswer::ops(
                    self.diff(command.arguments, address, identity, conversation)
                        .await?,
                ));
            }
            Verb::Patch => {
                return Ok(CommandAnswer::ops(
                    self.patch(command.arguments, address, identity, conversation)
                        .await?,
                ));
            }
            Verb::Undo => {
                return self
                    .undo(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Discard => {
                let discarded = self.discard(command.arguments, asked, address, conversation);
                let (reply, closing) = discarded.await?;
                let mut answer = self.posted(address, reply);
                answer.ops.extend(closing);
                return Ok(answer);
            }
            Verb::Clear => self.clear(asked, conversation).await?,
            Verb::Context => self.context(identity, conversation).await?,
            Verb::Export => {
                return self
                    .export(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Usage => self.usage(command.arguments, identity).await?,
            Verb::Budget => {
                return self
                    .budget_command(command.arguments, asked, address, identity, conversation)
                    .await;
            }
            Verb::Stop => match (stopped_message(command.arguments), pressed_at(command.arguments)) {
                (Some(message), _) => self.stop_message(asked, conversation, message).await?,
                (None, Some(pressed)) => self.stop_begun(asked, conversation, pressed).await?,
                (None, None) => self.stop(asked, conversation).await?,
            },
            Verb::Retry => self.retry(asked, conversation).await?,
            Verb::Schedule => {
                let arguments = command.arguments;
                return Box::pin(self.schedule(arguments, asked, address, identity, conversation)).await;
            }
            Verb::Run => {
                let arguments = command.arguments;
                return Box::pin(self.run_pipeline(arguments, asked, address, identity, conversation)).await;
            }
            Verb::Runs => Box::pin(self.own_runs(command.arguments, asked, identity)).await?,
            Verb::Login => return Ok(self.log_in(asked, identity)),
            Verb::User => self.user_command(command.arguments, asked, identity).await?,
            Verb::Accept => {
                self.decide_messages(MessageConsent::Accepted, command.arguments, asked, identity)
                    .await?
            }
            Verb::Block => {
                self.decide_messages(MessageConsent::Blocked, command.arguments, asked, identity)
                    .await?
            }
        };
        Ok(self.posted(address, reply))
    }

    /// Returns the answer with a reply, in as many messages as it needs.
    fn posted(&self, address: &Address, reply: Reply) -> CommandAnswer {
        match address.fits(&self.parts.config, &reply, 1) {
            true => CommandAnswer::post(address, reply),
            false => CommandAnswer::ops(self.posts(address, &reply)),
        }
    }

    /// Returns the refusal to a person in the conversation of another; `None` if they may act there. An effect that was
    /// stored before the answer is reported as done.
    async fn refusal_to_joined(
        &self,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        let store = &self.parts.store;
        let conversation = store.conversation(conversation).await?;
        let why = match self.parts.conversation_rights(identity, &conversation).await? {
            ConversationRights::Own | ConversationRights::Joined => return Ok(None),
            ConversationRights::Questions(change) => change.refusal(),
            ConversationRights::Nothing(why) => why,
        };
        Ok(match store.has_effect(asked.inbox).await? {
            true => None,
            false => Some(Reply::text(why)),
        })
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

/// Returns the command in a typed message or slash command.
fn written(kind: &InboundKind) -> Option<Command<'_>> {
    match kind {
        InboundKind::Command { verb, arguments } => Some(Command {
            verb: Verb::parse(verb)?,
            arguments,
        }),
        InboundKind::Text { text, .. } => command::find_in_text(text),
        InboundKind::Click { .. }
        | InboundKind::Unsupported { .. }
        | InboundKind::HomeOpened
        | InboundKind::Join { .. }
        | InboundKind::Schedule(_)
        | InboundKind::Pipeline(_)
        | InboundKind::Hook { .. } => None,
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

/// True for a slash command that may come from a chat without the bot, such as the private chat of two people.
fn may_be_without_bot(inbound: &Inbound) -> bool {
    let chat = inbound.place.account.platform.chat();
    let works_anywhere = chat.is_some_and(|chat| chat.response_urls == ResponseUrlUse::OutsideThreads);
    let is_slash = matches!(inbound.kind, InboundKind::Command { .. }) && inbound.message.is_none();
    is_slash && works_anywhere
}

/// True for commands that may change the workspace, the history or the running turn of their conversation. No turn of
/// that conversation begins before such a command has taken effect.
pub(super) fn may_change(kind: &InboundKind) -> bool {
    let changes = |command: Command<'_>| {
        matches!(
            command.verb,
            Verb::Undo | Verb::Discard | Verb::Clear | Verb::Stop | Verb::Retry
        )
    };
    matches!(kind, InboundKind::Click { .. }) || written(kind).is_some_and(changes)
}

/// True for commands that start a run.
fn starts_runs(kind: &InboundKind) -> bool {
    slash::of_pipelines(kind).is_some() || written(kind).is_some_and(|command| command.verb == Verb::Run)
}

/// True for a failure that ends when the store works again.
fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StoreError::may_pass)
}

/// True for a typed `stop`.
fn is_stop(kind: &InboundKind) -> bool {
    written(kind).is_some_and(|command| command.verb == Verb::Stop)
}

/// True for a query about environments. It may take long and changes nothing.
fn is_inspection(kind: &InboundKind) -> bool {
    let question = |command: Command<'_>| command.verb.question(command.arguments);
    written(kind).and_then(question).is_some()
}

/// Returns the message that a stop names by its number, such as `#7`.
fn stopped_message(arguments: &str) -> Option<InboxId> {
    arguments.strip_prefix('#')?.parse().ok().map(InboxId)
}

/// Returns the time at which a stop was meant, such as `at 2026-11-24T10:00:00Z`. A platform may deliver it later.
fn pressed_at(arguments: &str) -> Option<jiff::Timestamp> {
    arguments.strip_prefix("at ")?.parse().ok()
}

fn help(identity: &Identity) -> Reply {
    let known = command::ALL.iter();
    let rows = known
        .filter(|known| identity.is_admin() || !known.verb.is_for_administrators())
        .map(|known| (known.usage(), known.what.to_owned()))
        .collect();
    let admin = if identity.is_admin() {
        " You admit people with `user add`, or with an invite that `drydock invite` makes on the server."
    } else {
        ""
    };
    let offer = match identity.may_edit() {
        true => "Say what should change, and I prepare it: a summary, the diff, checks and a patch.",
        false => {
            "Ask about the files and environments, and look at what they render to and how they differ; you change nothing."
        }
    };
    // The newest platform is first.
    let forms = Platform::chats().rev().map(|chat| chat.command_form);
    let forms = forms.collect::<Vec<_>>().join(", ");
    let text = format!(
        "{offer} I never apply, commit or push.{admin}\n\
         A message while I work reaches me at my next step; one that begins with `queue:` waits for its own turn.\n\
         These are answered without a model, as {forms}, and `!word` in threads:"
    );
    Reply::text(text).with(ReplyPart::Facts { rows })
}
