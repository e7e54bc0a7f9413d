//! The agent loop: model and tools alternate on one workspace until there is an answer, a limit is reached or the
//! turn is stopped.
//!
//! A failing tool never ends a turn, and a failing provider never loses one. The loop uses no channel, no store and
//! no clock except its own deadline. Durable data goes through [`Journal`], and progress for users through
//! [`TurnEvent`].

mod attachments;
mod call_costs;
mod calls;
pub mod context;
mod excerpt;
mod inference;
mod model_calls;
mod models;
mod postconditions;
pub mod prompt;
mod questions;
mod repetition;
mod summary;
pub mod shorthand;
mod answer_record;
mod steering;
mod verdicts;
mod window;
mod writes;

pub use call_costs::{AnsweringModel, CallLosses, DiscardedAnswer};
pub use models::{ModelChain, TurnModel, call_cost_max};
pub use postconditions::{Postconditions, REMARK_PREFIX};
pub use questions::{QuestionRecord, Questioner, Questions};
pub use steering::{SteeringMessage, TakeResult};
pub use verdicts::VerdictRule;
pub use writes::WriteCounts;

use crate::base::model::{
    AskedQuestion, Assistant, CallArguments, ContentBlock, ContextState, Effect, History, Limits,
    OutputNumber, QuestionAnswer, Step, StopReason, StoredOutput, Turn, Usage, Verdict, VerdictSource,
};
use crate::base::redact::Redactor;
use crate::crash_point;
use crate::interfaces::provider::{Completion, fixed_bytes};
use crate::interfaces::tool::{self, Outputs, Toolbox};
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use crate::state::access::Identity;
use crate::state::workspace::Workspace;
use answer_record::RecordedAnswer;
use anyhow::Context;
use async_trait::async_trait;
use calls::{Calls, StepResults};
use context::{ContextBudget, ContextStrategy};
use inference::inferred_verdict;
use model_calls::{CallEnd, CallError, FailedModel};
use questions::QuestionLimit;
use repetition::Repetition;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use verdicts::Notes;
use window::RequestTooLong;

/// The costs of earlier attempts at the same message that a restart interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierAttempts {
    /// The number of attempts.
    pub turns: u32,
    /// The steps of those attempts.
    pub steps: u32,
    /// The tokens of those attempts.
    pub usage: Usage,
}

/// The services and settings that one turn works with.
#[derive(Clone, Copy)]
pub struct TurnContext<'a> {
    /// The user on whose behalf the turn runs.
    pub identity: &'a Identity,
    /// The models that may answer, in order. At least one.
    pub models: &'a [TurnModel<'a>],
    /// The system prompt.
    pub system: &'a str,
    /// The tools.
    pub toolbox: &'a Toolbox,
    /// The workspace with the files.
    pub workspace: &'a Workspace,
    /// The conditions that the files must meet before the turn may end as done.
    pub postconditions: &'a dyn Postconditions,
    /// The source of the verdict.
    pub verdict: VerdictRule,
    /// The person who can be asked.
    pub questions: Questions<'a>,
    /// The number of finished steps of a turn that goes on after a question. They are the last ones of the history.
    pub resumed_steps: usize,
    /// The limits of the turn.
    pub limits: &'a Limits,
    /// The way in which the conversation is shortened.
    pub strategy: &'a dyn ContextStrategy,
    /// The redactor that is applied to every tool result before the model or a user sees it.
    pub redactor: &'a Redactor,
    /// The whole texts of the conversation's shortened results.
    pub outputs: &'a Arc<dyn Outputs>,
    /// The number of the conversation's last output before the turn; 0 if there was none.
    pub last_output: OutputNumber,
    /// Bytes of the conversation's requests in a thousand tokens, if a provider has counted them.
    pub bytes_per_1000_tokens: Option<u32>,
    /// The costs of earlier attempts at the turn's message.
    pub earlier_attempts: EarlierAttempts,
    /// The start of the turn, from which its time limit counts.
    pub began: Instant,
    /// Fires when the turn is stopped.
    pub cancel: &'a CancellationToken,
}

/// An event of a running turn that users may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// A model call begins.
    StepStarted {
        /// The number of the step, from 1.
        step: u32,
    },
    /// The model writes text.
    Text(String),
    /// A model does not answer, and the next one gets the request. The text received so far belongs to a discarded
    /// answer.
    FallingBack {
        /// The model that does not answer, as `provider/model`.
        from: String,
        /// The model that is asked next, as `provider/model`.
        to: String,
        /// The reason, as a short text for users.
        why: String,
    },
    /// The provider requires a wait.
    Waiting {
        /// The reason, as a text for users.
        why: String,
        /// The length of the wait.
        wait: Duration,
    },
    /// A tool starts.
    ToolStarted {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The arguments, redacted.
        arguments: CallArguments,
        /// The argument that says what the call is about, such as a path; from the redacted arguments.
        subject: Option<String>,
    },
    /// A running tool reports progress. Messages that follow each other too fast are dropped.
    ToolProgress {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The progress, as a text for users; redacted.
        text: String,
    },
    /// A tool ended.
    ToolFinished {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The text that the model reads, redacted.
        content: String,
        /// True if the tool failed.
        is_error: bool,
    },
    /// The model summarises the oldest turns of a long conversation.
    Summarising,
    /// The model is done, and Drydock checks the files.
    Checking(CompareProgress),
    /// The turn took a message of the person that arrived while it ran.
    MessageTaken {
        /// The message, as the model reads it.
        text: String,
    },
    /// A check failed, and the answer goes back to the model.
    SentBack {
        /// The failed checks, one line each.
        failing: Vec<String>,
    },
    /// The person is asked while the turn waits.
    Asked(AskedQuestion),
    /// The question was answered or given up.
    Answered(QuestionAnswer),
}

/// The size of a model call, from which follows what it may cost at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSize {
    /// Bytes of the request.
    pub request_bytes: usize,
    /// The bytes in a thousand tokens that the provider last counted in this conversation.
    pub bytes_per_1000_tokens: Option<u32>,
    /// The maximum number of tokens of the answer.
    pub answer_tokens_max: u32,
}

/// The answer to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPermission {
    /// The call may be made.
    Granted,
    /// A budget does not cover the call. The text says which, in words for users.
    Refused(String),
}

/// A journal that makes the steps of a turn durable.
#[async_trait]
pub trait Journal: Send {
    /// Reserves the next model call in the budgets of the turn.
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission>;

    /// Records that the reserved call failed, and what it did cost. Without a possible charge for lost answers, its
    /// reservation ends; with one, the reservation stays and counts in full.
    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()>;

    /// Records that an answer of the model has arrived, before it is processed, and what its call did cost beside it.
    /// If answers were lost, the reservation stays and counts in full for them.
    async fn answer_received(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()>;

    /// Records the usage of an answer that is discarded: it costs tokens as well.
    async fn answer_discarded(&mut self, answer: DiscardedAnswer<'_>) -> anyhow::Result<()>;

    /// Records a step after it ends and before the next model call. Its edits are already in the workspace.
    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()>;

    /// Returns the messages of the person that wait and may be taken, oldest first.
    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        Ok(Vec::new())
    }

    /// Records a step like [`Journal::record_step`], and in the same transaction that the turn took these messages.
    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        let _ = (record, messages);
        Ok(TakeResult::Left)
    }

    /// Records a step with the question that it asks. The turn ends, and goes on when the question is closed. Only a
    /// journal of a turn with [`Questions::Stored`] is asked to.
    async fn record_question(
        &mut self,
        record: StepRecord<'_>,
        question: QuestionRecord<'_>,
    ) -> anyhow::Result<()> {
        let _ = (record, question);
        anyhow::bail!("this journal stores no questions")
    }
}

/// A step, with what becomes durable together with it.
#[derive(Clone, Debug)]
pub struct StepRecord<'a> {
    /// The step.
    pub step: &'a Step,
    /// The model that answered.
    pub model: AnsweringModel<'a>,
    /// The whole texts of its results that were shortened.
    pub outputs: &'a [StoredOutput],
    /// The state of the context that the model was called with.
    pub context: ContextState,
}

/// The end of a turn. The loop itself counted its facts; none was taken from model text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOutcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The source of the verdict.
    pub source: VerdictSource,
    /// The model's last text; empty if it had none.
    pub answer: String,
    /// The message for the user if there is no proper answer.
    pub notice: Option<String>,
    /// The model that was asked last, as `provider/model`.
    pub model: String,
    /// A line about the models that did not answer, if a fallback answered for them.
    pub fallback: Option<String>,
    /// The number of model calls.
    pub steps: u32,
    /// The number of tool calls, including failed ones.
    pub tool_calls: u32,
    /// The outcome of the writing calls.
    pub writes: WriteCounts,
    /// The tokens of all model calls.
    pub usage: Usage,
    /// The number of the conversation's newest output.
    pub last_output: OutputNumber,
    /// The state of the context after the last model call.
    pub context: ContextState,
    /// True if the turn is not over: it waits for the answer to a stored question.
    pub is_waiting: bool,
}

/// Runs one turn. The history's last turn must be open; it is closed when this function returns, unless the turn waits for
/// an answer.
///
/// An `Err` means that the journal failed: no step after its last success is durable.
pub async fn run_turn(
    cx: TurnContext<'_>,
    history: &mut History,
    journal: &mut dyn Journal,
    events: &mut (dyn FnMut(TurnEvent) + Send),
) -> anyhow::Result<TurnOutcome> {
    let offered = cx
        .toolbox
        .for_identity(cx.identity, cx.workspace.repository.name());
    let mut offered = match cx.verdict {
        VerdictRule::Computed => offered,
        VerdictRule::Asked => offered.with(tool::conclude())?,
    };
    for tool in cx.strategy.tools() {
        offered = offered.with(tool)?;
    }
    if !matches!(cx.questions, Questions::Nobody) {
        offered = offered.with(tool::ask_user())?;
    }
    let before = questions::PartBefore::of(&cx, history);
    let default = cx.models.first().context("there is no model")?;
    let mut turn = TurnLoop {
        default,
        cx,
        deadline: cx.began + cx.limits.turn_time_max,
        last_step_tools: Toolbox::new(vec![tool::conclude()])?,
        notes: Notes::default(),
        budget: default.budget(cx.limits, fixed_bytes(cx.system, offered.specs())),
        offered,
        current: 0,
        absent: Vec::new(),
        repetition: Repetition::new(cx.limits.identical_calls_max, cx.limits.malformed_calls_max),
        repairs: 0,
        // It is not known what a turn that goes on has edited.
        has_written: cx.resumed_steps > 0,
        steps: before.steps,
        tool_calls: before.tool_calls,
        writes: WriteCounts::default(),
        usage: before.usage,
        last_output: cx.last_output,
        bytes_per_1000_tokens: cx.bytes_per_1000_tokens,
    };
    let end = turn.run(history, journal, events).await?;
    let context = turn.context_state(history);
    if let Some(notice) = &end.notice {
        history.close(notice);
    }
    Ok(TurnOutcome {
        verdict: end.verdict,
        source: end.source,
        answer: end.answer,
        notice: end.notice,
        model: turn.model().full_name(),
        fallback: turn.fallback_line(),
        steps: turn.steps,
        tool_calls: turn.tool_calls,
        writes: turn.writes,
        usage: turn.usage,
        last_output: turn.last_output,
        context,
        is_waiting: end.is_waiting,
    })
}

struct TurnLoop<'a> {
    cx: TurnContext<'a>,
    deadline: Instant,
    offered: Toolbox,
    /// The only tool of the last step.
    last_step_tools: Toolbox,
    notes: Notes,
    /// The bounds of requests to the default model, to which the conversation is trimmed.
    budget: ContextBudget,
    default: &'a TurnModel<'a>,
    /// The index of the model that is asked.
    current: usize,
    /// The models that did not answer.
    absent: Vec<FailedModel>,
    repetition: Repetition,
    repairs: u32,
    /// True if the model has edited files since its answer was last sent back.
    has_written: bool,
    steps: u32,
    tool_calls: u32,
    writes: WriteCounts,
    usage: Usage,
    last_output: OutputNumber,
    bytes_per_1000_tokens: Option<u32>,
}

struct LoopEnd {
    verdict: Verdict,
    source: VerdictSource,
    answer: String,
    notice: Option<String>,
    is_waiting: bool,
}

impl LoopEnd {
    fn notice(verdict: Verdict, notice: impl Into<String>) -> Self {
        Self {
            verdict,
            source: VerdictSource::Harness,
            answer: String::new(),
            notice: Some(notice.into()),
            is_waiting: false,
        }
    }
}

impl TurnLoop<'_> {
    async fn run(
        &mut self,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<LoopEnd> {
        let mut empty_answers = 0;
        loop {
            if let Some(end) = self.limit_reached() {
                return Ok(end);
            }
            self.shorten(history, journal, events).await?;
            // A summary may have taken the rest of the time.
            if let Some(end) = self.limit_reached() {
                return Ok(end);
            }
            if let Some(end) = self.refuse_attachments(history) {
                return Ok(end);
            }
            let turns = match self.request_turns(history) {
                Ok(turns) => turns,
                Err(too_long) => return Ok(self.too_long(too_long, history)),
            };
            let call = self.call_size(&turns);
            if let CallPermission::Refused(why) = journal.reserve_call(call).await? {
                return Ok(LoopEnd::notice(Verdict::Limit, format!("I stopped: {why}.")));
            }
            self.steps += 1;
            events(TurnEvent::StepStarted { step: self.steps });
            let CallEnd { outcome, sides } = self.call(turns, history, events).await;
            let losses = self.losses(&sides);
            let unused = losses.usage();
            let completion = match outcome {
                Ok(completion) => completion,
                Err(error) => {
                    match error {
                        CallError::Failed(_) => journal.call_failed(&losses).await?,
                        // The cost of a cancelled call is not known, so it stays reserved. Those of the models before
                        // it are known.
                        CallError::Cancelled if !losses.discarded.is_empty() => {
                            journal.answer_received(&losses).await?;
                        }
                        CallError::Cancelled => {}
                    }
                    self.usage += unused;
                    return Ok(self.call_failed(&error));
                }
            };
            crash_point::after("B12");
            journal.answer_received(&losses).await?;
            self.usage += unused;
            self.usage += completion.assistant.usage;
            // Another model has other tokens.
            let is_measured = self.current == 0;
            self.bytes_per_1000_tokens = context::measured(call.request_bytes, completion.assistant.usage)
                .filter(|_| is_measured)
                .or(self.bytes_per_1000_tokens);
            let (completion, concluded) = self.take_conclusion(completion);
            if completion.assistant.calls().next().is_none() {
                if completion.assistant.text().is_empty() && empty_answers == 0 {
                    empty_answers += 1;
                    let usage = completion.assistant.usage;
                    journal
                        .answer_discarded(self.discarded(usage, &completion.model))
                        .await?;
                    continue;
                }
                match self
                    .handle_final_answer(completion, concluded, history, journal, events)
                    .await?
                {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
            if let Some(end) = self.run_step(completion, history, journal, events).await? {
                return Ok(end);
            }
        }
    }

    fn limit_reached(&self) -> Option<LoopEnd> {
        let limits = self.cx.limits;
        let why = if self.cx.cancel.is_cancelled() || self.is_locked_out() {
            return Some(self.stopped());
        } else if self.steps >= limits.steps_max {
            format!("I stopped after {} steps without an answer.", self.steps)
        } else if Instant::now() >= self.deadline {
            format!(
                "I stopped after {} s without an answer.",
                limits.turn_time_max.as_secs()
            )
        } else if limits.turn_tokens_max > 0 && self.spent() >= limits.turn_tokens_max {
            format!(
                "I stopped at {} tokens; the limit of one turn is {}.",
                self.spent(),
                limits.turn_tokens_max
            )
        } else {
            return None;
        };
        Some(LoopEnd::notice(Verdict::Limit, why))
    }

    /// Returns true if the user has lost read access: then no model is called on their behalf.
    fn is_locked_out(&self) -> bool {
        let repository = self.cx.workspace.repository.name();
        self.cx.identity.role(repository).is_none()
    }

    /// Returns the tokens spent on the message, including those before a restart.
    fn spent(&self) -> u64 {
        self.cx
            .earlier_attempts
            .usage
            .total()
            .saturating_add(self.usage.total())
    }

    fn stopped(&self) -> LoopEnd {
        let before = self.cx.earlier_attempts;
        let why = match before.steps.saturating_add(self.steps) {
            0 if before.turns == 0 => "Stopped before the first step.".to_owned(),
            // The interrupted attempt had begun its first step.
            steps => format!("Stopped at step {}.", steps.max(1)),
        };
        LoopEnd::notice(Verdict::Cancelled, why)
    }

    /// Returns the part of the conversation that fits into a request within a budget.
    fn window_of<'h>(
        &self,
        budget: &ContextBudget,
        history: &'h History,
    ) -> Result<Cow<'h, [Turn]>, RequestTooLong> {
        let repeats = |name: &str| {
            let tool = self.offered.find(name);
            tool.is_some_and(|tool| tool.effect() == Effect::Read)
        };
        budget.turns(history, self.bytes_per_1000_tokens, &repeats)
    }

    fn call_size(&self, turns: &[Turn]) -> CallSize {
        CallSize {
            request_bytes: self.budget.fixed + turns.iter().map(Turn::bytes).sum::<usize>(),
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            answer_tokens_max: self.later_answer_tokens_max(),
        }
    }

    fn too_long(&self, too_long: RequestTooLong, history: &History) -> LoopEnd {
        let has_attachments = history
            .turns()
            .last()
            .is_some_and(|turn| !turn.attachments().is_empty());
        let bytes = too_long.bytes;
        let budget = self.model().budget(self.cx.limits, self.budget.fixed);
        let bound = budget.bound_text(self.bytes_per_1000_tokens);
        let why = match self.steps {
            0 if has_attachments => format!(
                "I did not ask the model: your message counts {bytes} bytes with its attached files, my instructions \
                 and tools, and {bound}. Attach fewer or shorter files."
            ),
            0 => format!(
                "I did not ask the model: your message has {bytes} bytes with my instructions and tools, and {bound}. \
                 Send a shorter one."
            ),
            _ => format!(
                "I stopped: the request to the model has {bytes} bytes, and {bound}. Ask for less in one message."
            ),
        };
        LoopEnd::notice(Verdict::Limit, why)
    }

    /// Returns the state of the context that is stored with a step.
    fn context_state(&self, history: &History) -> ContextState {
        ContextState {
            boundary: history.boundary(),
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            summary: history.summary().cloned(),
        }
    }

    /// Handles an answer without calls. It ends the turn, unless a check fails that the model may still fix. Then the
    /// answer goes back to the model. If a verdict is asked for, it is that of the model, or is inferred from its words.
    async fn handle_final_answer(
        &mut self,
        completion: Completion,
        concluded: Option<Verdict>,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<Option<LoopEnd>> {
        let Completion { assistant, model, .. } = completion;
        let stop = assistant.stop;
        let RecordedAnswer {
            redacted: assistant, ..
        } = RecordedAnswer::new(assistant, self.cx.redactor);
        let answer = self.cx.redactor.redact(&assistant.text()).into_owned();
        if answer.is_empty() {
            journal
                .answer_discarded(self.discarded(assistant.usage, &model))
                .await?;
            let mut end = LoopEnd::notice(Verdict::Incomplete, "The model gave an empty answer twice.");
            if self.cx.verdict == VerdictRule::Asked {
                (end.verdict, end.source) = (inferred_verdict(&answer), VerdictSource::Inferred);
            }
            return Ok(Some(end));
        }
        let mut step = Step::new(assistant, Vec::new())?;
        if matches!(stop, StopReason::EndTurn | StopReason::ToolUse) && concluded.is_none() {
            // A message that arrived in the meantime is part of the turn before its answer is checked.
            let parts = (&[][..], model.as_str());
            match self
                .record_with_messages(step, parts, history, journal, events)
                .await?
            {
                Some(unsteered) => step = unsteered,
                None => return Ok(None),
            }
        }
        let (verdict, source, notice) = match stop {
            StopReason::EndTurn | StopReason::ToolUse => match self.check_postconditions(events).await? {
                CheckOutcome::Failed(failing) if concluded != Some(Verdict::Fail) && self.may_repair() => {
                    self.repairs += 1;
                    self.has_written = false;
                    let step = step.with_remark(postconditions::remark(&failing))?;
                    events(TurnEvent::SentBack { failing });
                    self.record(step, &[], &model, history, journal).await?;
                    return Ok(None);
                }
                CheckOutcome::Passed => self.model_verdict(Verdict::Pass, concluded, &answer),
                CheckOutcome::Unchanged => self.model_verdict(Verdict::NoChange, concluded, &answer),
                CheckOutcome::Failed(_) => (Verdict::Fail, VerdictSource::Verified, Some(self.unmended())),
                CheckOutcome::Incomplete(why) => (
                    Verdict::Incomplete,
                    VerdictSource::Harness,
                    Some(format!("I could not check all of this change: {why}.")),
                ),
            },
            StopReason::MaxTokens => (
                Verdict::Incomplete,
                VerdictSource::Harness,
                Some("The answer was cut at its token limit.".to_owned()),
            ),
            StopReason::Refusal => (
                Verdict::Incomplete,
                VerdictSource::Harness,
                Some("The model refused to continue.".to_owned()),
            ),
        };
        self.record(step, &[], &model, history, journal).await?;
        Ok(Some(LoopEnd {
            verdict,
            source,
            answer,
            notice,
            is_waiting: false,
        }))
    }

    /// Checks the files, within the turn's time limit.
    async fn check_postconditions(
        &self,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<CheckOutcome> {
        let enough = self.cx.cancel.child_token();
        let mut progress = |progress| events(TurnEvent::Checking(progress));
        let looking = self.cx.postconditions.check(&mut progress, &enough);
        tokio::pin!(looking);
        tokio::select! {
            finding = &mut looking => finding,
            () = tokio::time::sleep_until(self.deadline) => {
                enough.cancel();
                looking.await
            }
        }
    }

    /// Returns true if an answer may go back to the model. The number of repairs is limited. A model that has edited
    /// no files since the last report, or only answered a question, has nothing to fix.
    fn may_repair(&self) -> bool {
        self.has_written && self.repairs < self.cx.limits.repairs_max && self.limit_reached().is_none()
    }

    fn unmended(&self) -> String {
        match self.repairs {
            0 => "A check of mine fails; see below.".to_owned(),
            1 => "A check of mine still fails after one attempt to fix it; see below.".to_owned(),
            repairs => format!("A check of mine still fails after {repairs} attempts to fix it; see below."),
        }
    }

    async fn run_step(
        &mut self,
        completion: Completion,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<Option<LoopEnd>> {
        let Completion { assistant, model, .. } = completion;
        let RecordedAnswer {
            assistant,
            redacted: kept,
        } = RecordedAnswer::new(assistant, self.cx.redactor);
        let calls = Calls::new(self.cx, self.tools(), self.deadline)
            .with_questions(QuestionLimit::of(&assistant, history));
        let StepResults { done, outputs } = calls.run(&assistant, self.last_output, events).await?;
        self.last_output = outputs.last().map_or(self.last_output, |output| output.number);
        self.tool_calls += u32::try_from(done.len()).unwrap_or(u32::MAX);
        self.writes.count(&done);
        self.has_written |= done.iter().any(|done| done.outcome == calls::CallOutcome::Wrote);
        let calls: Vec<_> = assistant.calls().cloned().collect();
        let stop = self.repetition.observe(&calls, &done);
        let question = self.question(&kept, &done, history);
        let mut results: Vec<_> = done.into_iter().map(|done| done.result).collect();
        if let (Some(note), Some(last)) = (self.note(), results.last_mut()) {
            last.content.push_str("\n\n");
            last.content.push_str(&note);
        }
        if stop.is_none()
            && let Some(question) = self.stored_question(question.as_ref())
            // The person may have written the answer already.
            && journal.waiting_messages().await?.is_empty()
        {
            let (step, recorded) = (Step::new(kept, results)?, (outputs.as_slice(), model.as_str()));
            let waits = self.wait_for_answer(step, question, recorded, history, journal);
            return waits.await.map(Some);
        }
        if let Some(question) = question {
            self.answer_inline(question, &mut results, events).await;
        }
        let step = Step::new(kept, results)?;
        let parts = (outputs.as_slice(), model.as_str());
        // A turn that ends with this step leaves the messages for their own turns.
        let unsteered = match stop {
            Some(_) => Some(step),
            None => {
                self.record_with_messages(step, parts, history, journal, events)
                    .await?
            }
        };
        if let Some(step) = unsteered {
            self.record(step, &outputs, &model, history, journal).await?;
        }
        if self.cx.cancel.is_cancelled() {
            return Ok(Some(self.stopped()));
        }
        Ok(stop.map(|why| LoopEnd::notice(Verdict::Limit, why)))
    }

    async fn record(
        &self,
        step: Step,
        outputs: &[StoredOutput],
        model: &str,
        history: &mut History,
        journal: &mut dyn Journal,
    ) -> anyhow::Result<()> {
        let record = StepRecord {
            step: &step,
            model: self.answering(model),
            outputs,
            context: self.context_state(history),
        };
        journal.record_step(record).await?;
        history.push(step)?;
        Ok(())
    }
}

/// Makes the ids of an answer's calls unique in the whole conversation, so that each result has exactly one call. The
/// provider's own blocks contain the old ids, so they are dropped if an id changes.
fn unique_ids(mut completion: Completion, history: &History) -> Completion {
    let steps = history.turns().iter().flat_map(Turn::steps);
    let mut known: HashSet<String> = steps
        .flat_map(|step| step.assistant().calls().map(|call| call.id.clone()))
        .chain([String::new()])
        .collect();
    let earlier = known.len();
    let distinct = completion
        .assistant
        .calls()
        .all(|call| known.insert(call.id.clone()));
    if !distinct {
        completion.assistant.raw = None;
        renumber(&mut completion.assistant, earlier, &mut known);
    }
    completion
}

fn renumber(assistant: &mut Assistant, earlier: usize, known: &mut HashSet<String>) {
    let calls = assistant.blocks.iter_mut().filter_map(|block| match block {
        ContentBlock::Call(call) => Some(call),
        ContentBlock::Text { .. } => None,
    });
    let mut number = earlier;
    for call in calls {
        while !known.insert(format!("call_{number}")) {
            number += 1;
        }
        call.id = format!("call_{number}");
    }
}

#[cfg(test)]
mod tests;
