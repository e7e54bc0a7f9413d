//! The conversation of one person in one chat: its history, its private files, and the work on its messages, one after the
//! other.

use super::behaviour::{BotAppended, BotContext};
use super::messenger::BotMessage;
use super::{BotError, BotOptions, Injector};
use crate::base::model::{History, OutputNumber, Step};
use crate::engine::agent::{
    CallLosses, CallPermission, CallSize, EarlierAttempts, Journal, PaidAnswer, Postconditions, Questions,
    Recipients, StepRecord, TurnContext, TurnModel, TurnOutcome, VerdictRule, run_turn,
};
use crate::interfaces::provider::{Completion, EventSink, Provider, ProviderError, TurnRequest};
use crate::interfaces::tool::{MemoryOutputs, Outputs, Toolbox};
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use crate::state::access::{Access, Role};
use crate::state::workspace::{Overlay, Tree, Workspace, WorkspaceEdits};
use async_trait::async_trait;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// A conversation in memory.
pub(super) struct LiveConversation {
    options: Arc<BotOptions>,
    injector: Arc<Injector>,
    history: History,
    workspace: Workspace,
    overlay: Arc<Overlay>,
    outputs: Arc<MemoryOutputs>,
    last_output: OutputNumber,
    bytes_per_1000_tokens: Option<u32>,
    cancel: CancellationToken,
}

impl LiveConversation {
    /// Creates a conversation on the newest commit of the repository.
    pub(super) async fn open(
        options: Arc<BotOptions>,
        injector: Arc<Injector>,
        cancel: CancellationToken,
    ) -> Result<Self, BotError> {
        let repository = Arc::clone(&options.repository);
        let opened = tokio::task::spawn_blocking(move || {
            let head = repository.head()?;
            let base = head
                .as_deref()
                .map(|head| repository.base(head, &|_| ()))
                .transpose()?;
            Ok((head, base))
        });
        let (head, base) = opened
            .await
            .map_err(|_| BotError::NoCommits)?
            .map_err(BotError::Repository)?;
        let base = base.ok_or(BotError::NoCommits)?;
        let overlay = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        Ok(Self {
            workspace: Workspace {
                repository: Arc::clone(&options.repository),
                base: head,
                tree: Arc::clone(&overlay) as Arc<dyn Tree>,
                guard: options.guard.clone(),
            },
            overlay,
            injector,
            history: History::default(),
            outputs: Arc::default(),
            last_output: OutputNumber(0),
            bytes_per_1000_tokens: None,
            options,
            cancel,
        })
    }

    /// Answers messages until there are no more, or until the bot stops.
    pub(super) async fn serve(mut self, mut messages: mpsc::Receiver<BotMessage>) {
        let cancel = self.cancel.clone();
        while let Some(Some(message)) = cancel.run_until_cancelled(messages.recv()).await {
            let text = match self.answer(&message).await {
                Ok(text) => text,
                Err(error) => {
                    warn!("a message of a bot failed: {error:#}");
                    "That failed on my side. What was edited before is kept. Try again.".to_owned()
                }
            };
            if let Err(error) = self.options.messenger.send(&message.conversation, &text).await {
                warn!("an answer of a bot could not be sent: {error:#}");
            }
        }
    }

    async fn answer(&mut self, message: &BotMessage) -> anyhow::Result<String> {
        let options = Arc::clone(&self.options);
        let behaviour = &options.behaviour;
        if let Some(payload) = start_payload(&message.text)
            && let Some(reply) = behaviour.handle_start(message, payload).await?
        {
            return Ok(reply);
        }
        let role = match behaviour.authorise(message).await {
            Ok(role) => role,
            Err(rejection) => return Ok(rejection),
        };
        let context = BotContext {
            conversation: message.conversation.clone(),
            at: (options.now)(),
            extra: behaviour.build_extra(message).await?,
            injector: Arc::clone(&self.injector),
            messenger: Arc::clone(&options.messenger),
        };
        let toolbox = Toolbox::new(behaviour.build_tools(&context).await?)?;
        let prompt = behaviour.build_prompt(&context).await?;
        let system = prompt.as_deref().unwrap_or(&options.system);
        let redactor = &options.guard.redactor;
        let user = self
            .injector
            .with_waiting(&message.conversation, &message.text, redactor);
        self.history.begin(user.clone())?;
        let outcome = match behaviour.on_append(&context, BotAppended::User(&user)).await {
            Ok(()) => self.turn(&context, (role, &toolbox, system)).await,
            Err(error) => Err(error),
        };
        // A turn that broke leaves a history that can be continued.
        self.history.close("(interrupted)");
        Ok(answer_text(outcome?))
    }

    async fn turn(
        &mut self,
        context: &BotContext,
        (role, toolbox, system): (Role, &Toolbox, &str),
    ) -> anyhow::Result<TurnOutcome> {
        let options = Arc::clone(&self.options);
        let identity = Access::program_identity(&context.conversation.person, role);
        let provider = ConvertingProvider { options: &options };
        let models = [TurnModel {
            provider: &provider,
            name: &options.model,
            facts: options.facts,
        }];
        let checks = EditChecks {
            options: &options,
            context,
            workspace: &self.workspace,
            overlay: &self.overlay,
        };
        let cx = TurnContext {
            identity: &identity,
            models: &models,
            system,
            toolbox,
            workspace: &self.workspace,
            postconditions: &checks,
            verdict: VerdictRule::Computed,
            questions: Questions::Nobody,
            recipients: Recipients::Nobody,
            resumed_steps: 0,
            limits: &options.limits,
            strategy: options.strategy.as_ref(),
            redactor: &options.guard.redactor,
            outputs: &(Arc::clone(&self.outputs) as Arc<dyn Outputs>),
            last_output: self.last_output,
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            earlier_attempts: EarlierAttempts::default(),
            began: Instant::now(),
            cancel: &self.cancel,
        };
        let mut journal = BotJournal {
            options: &options,
            context,
            outputs: &self.outputs,
        };
        let outcome = run_turn(cx, &mut self.history, &mut journal, &mut |_| ()).await?;
        self.last_output = outcome.last_output;
        self.bytes_per_1000_tokens = outcome.context.bytes_per_1000_tokens;
        Ok(outcome)
    }
}

/// Returns the text after `/start`; `None` for another message.
fn start_payload(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("/start")?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim())
}

fn answer_text(outcome: TurnOutcome) -> String {
    match outcome.notice {
        Some(notice) if outcome.answer.is_empty() => notice,
        Some(notice) => format!("{}\n\n{notice}", outcome.answer),
        None => outcome.answer,
    }
}

/// The journal of a bot: its program receives every step.
struct BotJournal<'a> {
    options: &'a BotOptions,
    context: &'a BotContext,
    outputs: &'a MemoryOutputs,
}

#[async_trait]
impl Journal for BotJournal<'_> {
    async fn reserve_call(&mut self, _call: CallSize) -> anyhow::Result<CallPermission> {
        Ok(CallPermission::Granted)
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.append_unused(losses).await
    }

    async fn answer_received(
        &mut self,
        _answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.append_unused(losses).await
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.append(BotAppended::Unused(answer.usage)).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.outputs.keep(record.outputs);
        let step: &Step = record.step;
        self.append(BotAppended::Step(step)).await
    }
}

impl BotJournal<'_> {
    async fn append(&self, appended: BotAppended<'_>) -> anyhow::Result<()> {
        self.options.behaviour.on_append(self.context, appended).await
    }

    async fn append_unused(&self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        for answer in &losses.discarded {
            self.append(BotAppended::Unused(answer.usage)).await?;
        }
        Ok(())
    }
}

/// The checks of a bot: its program checks the edits, if there are any.
struct EditChecks<'a> {
    options: &'a BotOptions,
    context: &'a BotContext,
    workspace: &'a Workspace,
    overlay: &'a Overlay,
}

#[async_trait]
impl Postconditions for EditChecks<'_> {
    async fn check(
        &self,
        _progress: &mut (dyn FnMut(CompareProgress) + Send),
        _cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome> {
        match self.overlay.edits().is_empty() {
            true => Ok(CheckOutcome::Unchanged),
            false => {
                self.options
                    .behaviour
                    .check_edits(self.context, self.workspace)
                    .await
            }
        }
    }
}

/// The provider of a bot: its program filters the turns of each request.
struct ConvertingProvider<'a> {
    options: &'a BotOptions,
}

#[async_trait]
impl Provider for ConvertingProvider<'_> {
    fn id(&self) -> &str {
        self.options.provider.id()
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let turns = match request.turns.split_last() {
            None => Cow::Borrowed(request.turns),
            Some((open, earlier)) => match self.options.behaviour.convert(earlier) {
                Cow::Borrowed(kept) if kept.len() == earlier.len() => Cow::Borrowed(request.turns),
                kept => Cow::Owned(kept.iter().chain([open]).cloned().collect()),
            },
        };
        let request = TurnRequest {
            turns: &turns,
            ..request
        };
        self.options.provider.turn(request, sink, cancel).await
    }
}
