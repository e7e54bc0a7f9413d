//! The agent loop: model and tools alternate on one workspace until there is an answer, a limit is reached or the
//! turn is stopped.
//!
//! A failing tool never ends a turn, and a failing provider never loses one. The loop uses no channel, no store and
//! no clock except its own deadline. Durable data goes through [`Journal`], and progress for users through
//! [`TurnEvent`].

mod answer_record;
mod attachments;
mod call_costs;
mod call_ids;
mod calls;
pub mod context;
mod excerpt;
mod final_answer;
mod inference;
mod journal;
mod messages;
mod model_calls;
mod models;
mod offered_tools;
mod postconditions;
pub mod prompt;
mod questions;
mod repetition;
pub mod shorthand;
mod steering;
mod summary;
mod turn_event;
mod turn_limits;
mod verdicts;
mod window;
mod writes;

pub use call_costs::{AnsweringModel, CallLosses, PaidAnswer};
pub use journal::{CallPermission, CallSize, Journal, StepRecord};
pub use messages::Recipients;
pub use models::{ModelChain, TurnModel, call_cost_max};
pub use offered_tools::ToolOffer;
pub use postconditions::{Postconditions, REMARK_PREFIX};
pub use questions::{QuestionRecord, Questioner, Questions};
pub use steering::{SteeringMessage, TakeResult};
pub use turn_event::TurnEvent;
pub use verdicts::VerdictRule;
pub use writes::WriteCounts;

use crate::base::model::{
    ContextState, Effect, History, Limits, OutputNumber, Step, StoredOutput, Turn, Usage, Verdict,
    VerdictSource,
};
use crate::base::redact::Redactor;
use crate::crash_point;
use crate::interfaces::provider::{Completion, fixed_bytes};
use crate::interfaces::tool::{Outputs, Toolbox};
use crate::state::access::Identity;
use crate::state::workspace::Workspace;
use answer_record::RecordedAnswer;
use anyhow::Context;
use calls::{Calls, StepResults};
use context::{ContextBudget, ContextStrategy};
use inference::inferred_verdict;
use model_calls::{AbsentModel, CallEnd};
use questions::QuestionLimit;
use repetition::Repetition;
use std::borrow::Cow;
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
    /// The people to whom the model may send messages.
    pub recipients: Recipients,
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
    /// The time from the start of the turn to its end.
    pub took: Duration,
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
    let offered = cx.tool_offer().tools()?;
    let before = questions::PartBefore::of(&cx, history);
    let default = cx.models.first().context("there is no model")?;
    let mut turn = TurnLoop {
        default,
        cx,
        deadline: cx.began + cx.limits.turn_time_max,
        last_step_tools: verdicts::last_step_tools(cx.verdict)?,
        notes: Notes::of(&cx, history),
        budget: default.budget(cx.limits, fixed_bytes(cx.system, offered.specs())),
        offered,
        current: 0,
        absent: Vec::new(),
        repetition: Repetition::new(cx.limits.identical_calls_max, cx.limits.malformed_calls_max),
        repairs: 0,
        // It is not known what the earlier steps of a turn that goes on have edited.
        has_written: history
            .turns()
            .last()
            .is_some_and(|turn| !turn.steps().is_empty()),
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
        took: cx.began.elapsed(),
        last_output: turn.last_output,
        context,
        is_waiting: end.is_waiting,
    })
}

struct TurnLoop<'a> {
    cx: TurnContext<'a>,
    deadline: Instant,
    offered: Toolbox,
    /// The tools that run in the last step.
    last_step_tools: Toolbox,
    notes: Notes,
    /// The bounds of requests to the default model, to which the conversation is trimmed.
    budget: ContextBudget,
    default: &'a TurnModel<'a>,
    /// The index of the model that is asked.
    current: usize,
    /// The models that did not answer.
    absent: Vec<AbsentModel>,
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

/// Records the cost of an answer that no step records because of an error. Returns the error.
async fn discard_after(
    error: anyhow::Error,
    answer: PaidAnswer<'_>,
    journal: &mut dyn Journal,
) -> anyhow::Error {
    match journal.answer_discarded(answer).await {
        Ok(()) => error,
        Err(unrecorded) => error.context(format!("its cost was not recorded: {unrecorded:#}")),
    }
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
            match journal.reserve_call(call).await? {
                CallPermission::Granted => self.notes.set_budget_note(None),
                CallPermission::GrantedNearEnd(note) => self.notes.set_budget_note(Some(note)),
                CallPermission::Refused(why) => {
                    return Ok(LoopEnd::notice(Verdict::Limit, format!("I stopped: {why}.")));
                }
            }
            self.steps += 1;
            events(TurnEvent::StepStarted { step: self.steps });
            let CallEnd { outcome, sides } = self.call(turns, history, events).await;
            let losses = self.losses(&sides);
            let unused = losses.usage();
            let completion = match outcome {
                Ok(completion) => completion,
                Err(error) => {
                    journal.call_failed(&losses).await?;
                    self.usage += unused;
                    return Ok(self.call_failed(&error));
                }
            };
            crash_point::after("B12");
            let received = self.paid(completion.assistant.usage, &completion.model);
            journal.answer_received(received, &losses).await?;
            self.usage += unused;
            self.usage += completion.assistant.usage;
            // Another model has other tokens.
            let is_measured = self.current == 0;
            self.bytes_per_1000_tokens = context::measured(call.request_bytes, completion.assistant.usage)
                .filter(|_| is_measured)
                .or(self.bytes_per_1000_tokens);
            let (completion, concluded) = self.take_conclusion(completion);
            if completion.assistant.calls().next().is_none() {
                let is_first = empty_answers == 0 && sides.iter().all(|(_, side)| side.unused.is_none());
                if is_first && final_answer::has_ended_without_words(&completion.assistant) {
                    empty_answers += 1;
                    let usage = completion.assistant.usage;
                    journal
                        .answer_discarded(self.paid(usage, &completion.model))
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

    fn context_state(&self, history: &History) -> ContextState {
        ContextState {
            boundary: history.boundary(),
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            summary: history.summary().cloned(),
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
        let calls = Calls::new(self.cx, self.callable_tools(), self.deadline)
            .with_questions(QuestionLimit::of(&assistant, history));
        let ran = calls.run(&assistant, self.last_output, events).await;
        let StepResults { done, outputs } = match ran {
            Ok(results) => results,
            Err(error) => {
                let answer = self.paid(assistant.usage, &model);
                return Err(discard_after(error, answer, journal).await);
            }
        };
        self.last_output = outputs.last().map_or(self.last_output, |output| output.number);
        self.tool_calls += u32::try_from(done.len()).unwrap_or(u32::MAX);
        self.writes.count(&done);
        self.has_written |= done.iter().any(|done| done.outcome == calls::CallOutcome::Wrote);
        let calls: Vec<_> = assistant.calls().cloned().collect();
        let stop = self.repetition.observe(&calls, &done);
        let question = self.question(&kept, &done, history);
        let messages = self.messages(&kept, &done);
        let mut results: Vec<_> = done.into_iter().map(|done| done.result).collect();
        if let (Some(note), Some(last)) = (self.note(), results.last_mut()) {
            last.content.push_str("\n\n");
            last.content.push_str(&note);
        }
        if !messages.is_empty() {
            let (step, recorded) = ((kept, results), (outputs.as_slice(), model.as_str()));
            self.record_sending(step, messages, recorded, history, journal, events)
                .await?;
            return Ok(self.step_end(stop));
        }
        let question = match question {
            // The person may have written the answer already.
            Some(question) if !journal.waiting_messages().await?.is_empty() => Some(question.unasked()),
            question => question,
        };
        if stop.is_none()
            && let Some(question) = self.stored_question(question.as_ref())
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
        Ok(self.step_end(stop))
    }

    /// Returns the end of the turn after a recorded step: because it was stopped, or because it must stop.
    fn step_end(&self, stop: Option<String>) -> Option<LoopEnd> {
        if self.cx.cancel.is_cancelled() {
            return Some(self.stopped());
        }
        stop.map(|why| LoopEnd::notice(Verdict::Limit, why))
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

#[cfg(test)]
mod tests;
