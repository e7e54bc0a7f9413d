//! The loop: model and tools take turns on one workspace until there is an answer, a limit or a stop.
//!
//! A failing tool never ends a turn and a failing provider never loses one. The loop knows no
//! channel, no store and no clock but its own deadline; what must be durable goes through
//! [`Journal`], what people may watch through [`Event`].

mod calls;
mod ends;
mod postconditions;
mod repetition;
mod said;
mod window;
mod writes;

pub use postconditions::{Finding, Postconditions, SENT_BACK};
pub use writes::Writes;

use crate::access::Identity;
use crate::compare::Progress;
use crate::crash_point;
use crate::model::{
    Assistant, Block, Effect, History, Limits, Source, Step, StopReason, Turn, Usage, Verdict,
};
use crate::provider::{Completion, Provider, ProviderError, StreamEvent, TurnRequest, fixed_bytes};
use crate::redact::Redactor;
use crate::tool::Toolbox;
use crate::workspace::Workspace;
use async_trait::async_trait;
use calls::Calls;
use repetition::Repetition;
use said::Said;
use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use window::{Bounds, TooLong};

/// The costs of attempts at the same message that a restart cut short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
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
    /// The person on whose behalf it runs.
    pub identity: &'a Identity,
    /// The provider that answers.
    pub provider: &'a dyn Provider,
    /// The model's name without its provider.
    pub model: &'a str,
    /// The system prompt.
    pub system: &'a str,
    /// The tools.
    pub toolbox: &'a Toolbox,
    /// The files.
    pub workspace: &'a Workspace,
    /// The conditions that must hold of the files before the turn may end as done.
    pub postconditions: &'a dyn Postconditions,
    /// The bounds.
    pub limits: &'a Limits,
    /// Applied to every tool result before the model, or anybody, sees it.
    pub redactor: &'a Redactor,
    /// The cost of its message so far.
    pub before: Before,
    /// The time the turn began: its limit counts from here.
    pub began: Instant,
    /// Fires when the turn is stopped.
    pub cancel: &'a CancellationToken,
}

/// An event that people may watch while a turn runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A model call begins.
    StepStarted {
        /// The number of the step, from 1.
        step: u32,
    },
    /// The model writes words.
    Text(String),
    /// The provider made us wait.
    Waiting {
        /// The reason, for a person.
        why: String,
        /// The time until then.
        wait: Duration,
    },
    /// A tool starts.
    ToolStarted {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The arguments as JSON, redacted.
        arguments: String,
    },
    /// A tool that runs says how far it is. Seldom, and what comes too fast is left out.
    ToolProgress {
        /// The id of its call.
        call: String,
        /// The name of the tool.
        name: String,
        /// The progress, for a person; redacted.
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
        /// True when it failed.
        is_error: bool,
    },
    /// The model is done, and we look at what it made of the files.
    Checking(Progress),
    /// A check of ours does not hold, and the answer goes back to the model.
    SentBack {
        /// The checks that do not hold, one line each.
        failing: Vec<String>,
    },
}

/// Makes the steps of a turn durable.
#[async_trait]
pub trait Journal: Send {
    /// Called with each answer of the model, before anything is done with it.
    async fn answered(&mut self) -> anyhow::Result<()>;

    /// Called with an answer that is thrown away: it is paid for all the same.
    async fn thrown_away(&mut self, usage: Usage, model: &str) -> anyhow::Result<()>;

    /// Called after each step, with its edits already in the workspace, before the next model call.
    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()>;
}

/// The end of a turn. The facts in it were counted here, none was read from model text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The source of the verdict.
    pub source: Source,
    /// The model's last words; empty if it had none.
    pub answer: String,
    /// The words for the person when there is no proper answer.
    pub notice: Option<String>,
    /// Model calls made.
    pub steps: u32,
    /// Tool calls run, those that failed included.
    pub tool_calls: u32,
    /// The outcome of those that were to write.
    pub writes: Writes,
    /// Tokens of all calls.
    pub usage: Usage,
}

/// Runs one turn. The history's last turn must be open; it is closed when this returns.
///
/// An `Err` means that the journal failed: nothing after its last success is durable.
pub async fn run_turn(
    cx: TurnContext<'_>,
    history: &mut History,
    journal: &mut dyn Journal,
    events: &mut (dyn FnMut(Event) + Send),
) -> anyhow::Result<Outcome> {
    let mut turn = Running {
        cx,
        deadline: cx.began + cx.limits.turn_time_max,
        offered: cx.toolbox.offered(cx.identity, cx.workspace.repository.name()),
        repetition: Repetition::new(cx.limits.identical_calls_max, cx.limits.malformed_calls_max),
        repairs: 0,
        has_written: false,
        steps: 0,
        tool_calls: 0,
        writes: Writes::default(),
        usage: Usage::default(),
    };
    let end = turn.run(history, journal, events).await?;
    if let Some(notice) = &end.notice {
        history.close(notice);
    }
    Ok(Outcome {
        verdict: end.verdict,
        source: end.source,
        answer: end.answer,
        notice: end.notice,
        steps: turn.steps,
        tool_calls: turn.tool_calls,
        writes: turn.writes,
        usage: turn.usage,
    })
}

struct Running<'a> {
    cx: TurnContext<'a>,
    deadline: Instant,
    offered: Toolbox,
    repetition: Repetition,
    repairs: u32,
    /// True if it edited anything since its answer was sent back last.
    has_written: bool,
    steps: u32,
    tool_calls: u32,
    writes: Writes,
    usage: Usage,
}

struct End {
    verdict: Verdict,
    source: Source,
    answer: String,
    notice: Option<String>,
}

impl End {
    fn notice(verdict: Verdict, notice: impl Into<String>) -> Self {
        Self {
            verdict,
            source: Source::Harness,
            answer: String::new(),
            notice: Some(notice.into()),
        }
    }
}

impl Running<'_> {
    async fn run(
        &mut self,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> anyhow::Result<End> {
        let mut empty_answers = 0;
        loop {
            if let Some(end) = self.limit_reached() {
                return Ok(end);
            }
            let turns = match self.window(history) {
                Ok(turns) => turns,
                Err(too_long) => return Ok(self.too_long(too_long)),
            };
            self.steps += 1;
            events(Event::StepStarted { step: self.steps });
            let completion = match self.ask(&turns, history, events).await {
                Ok(completion) => completion,
                Err(error) => return Ok(self.provider_failed(&error)),
            };
            crash_point::after("B12");
            journal.answered().await?;
            self.usage += completion.assistant.usage;
            if completion.assistant.calls().next().is_none() {
                if completion.assistant.text().is_empty() && empty_answers == 0 {
                    empty_answers += 1;
                    journal
                        .thrown_away(completion.assistant.usage, &completion.model)
                        .await?;
                    continue;
                }
                match self.finish(completion, history, journal, events).await? {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
            if let Some(end) = self.step(completion, history, journal, events).await? {
                return Ok(end);
            }
        }
    }

    fn limit_reached(&self) -> Option<End> {
        let limits = self.cx.limits;
        let why = if self.cx.cancel.is_cancelled() || self.is_shut_out() {
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
        Some(End::notice(Verdict::Limit, why))
    }

    /// True if the person may not even look any more: then no model is asked on their behalf.
    fn is_shut_out(&self) -> bool {
        let repository = self.cx.workspace.repository.name();
        self.cx.identity.role(repository).is_none()
    }

    /// Tokens of the message, with what was spent before a restart.
    fn spent(&self) -> u64 {
        self.cx.before.usage.total().saturating_add(self.usage.total())
    }

    fn stopped(&self) -> End {
        let before = self.cx.before;
        let why = match before.steps.saturating_add(self.steps) {
            0 if before.turns == 0 => "Stopped before the first step.".to_owned(),
            // The one that was cut short had begun.
            steps => format!("Stopped at step {}.", steps.max(1)),
        };
        End::notice(Verdict::Cancelled, why)
    }

    /// The part of the conversation that a request has room for.
    fn window<'h>(&self, history: &'h History) -> Result<Cow<'h, [Turn]>, TooLong> {
        let limits = self.cx.limits;
        let bounds = Bounds {
            turns_max: limits.history_turns_max,
            bytes_max: limits.history_bytes_max,
            fixed: fixed_bytes(self.cx.system, self.offered.specs()),
        };
        let repeats = |name: &str| {
            let tool = self.offered.find(name);
            tool.is_some_and(|tool| tool.effect() == Effect::Read)
        };
        window::fit(history, bounds, &repeats)
    }

    fn too_long(&self, too_long: TooLong) -> End {
        let (bytes, max) = (too_long.bytes, self.cx.limits.history_bytes_max);
        let why = match self.steps {
            0 => format!(
                "I did not ask the model: your message takes {bytes} bytes with my instructions and tools, and \
                 `limits.history_bytes_max` is {max}. Send a shorter one."
            ),
            _ => format!(
                "I stopped: what the model has to read takes {bytes} bytes, and `limits.history_bytes_max` is {max}. \
                 Ask for less at once."
            ),
        };
        End::notice(Verdict::Limit, why)
    }

    async fn ask(
        &self,
        turns: &[Turn],
        history: &History,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Completion, ProviderError> {
        let limits = self.cx.limits;
        let request = TurnRequest {
            identity: self.cx.identity,
            model: self.cx.model,
            system: self.cx.system,
            tools: self.offered.specs(),
            turns,
            answer_tokens_max: limits.answer_tokens_max,
        };
        let cancel = self.cx.cancel.child_token();
        let mut sink = |event| match event {
            StreamEvent::Text(text) => {
                crash_point::before("B12");
                events(Event::Text(text));
            }
            StreamEvent::CallStarted { .. } => crash_point::before("B12"),
            StreamEvent::Retrying { why, wait } => events(Event::Waiting { why, wait }),
        };
        let answer = self.cx.provider.turn(request, &mut sink, &cancel);
        tokio::select! {
            completion = answer => completion.map(|completion| unique_ids(completion, history)),
            () = self.cx.cancel.cancelled() => Err(ProviderError::Cancelled),
            () = tokio::time::sleep_until(self.deadline) => Err(ProviderError::Cancelled),
        }
    }

    fn provider_failed(&self, error: &ProviderError) -> End {
        match error {
            ProviderError::Cancelled => self.limit_reached().unwrap_or_else(|| self.stopped()),
            ProviderError::Failed(failure) => End::notice(Verdict::Error, format!("No answer: {failure}.")),
        }
    }

    /// Takes in an answer without calls: it ends the turn, unless what we check fails and may still be
    /// mended. Then it goes back to the model.
    async fn finish(
        &mut self,
        completion: Completion,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> anyhow::Result<Option<End>> {
        let Completion { assistant, model } = completion;
        let stop = assistant.stop;
        let Said { kept: assistant, .. } = Said::new(assistant, self.cx.redactor);
        let answer = self.cx.redactor.redact(&assistant.text()).into_owned();
        if answer.is_empty() {
            journal.thrown_away(assistant.usage, &model).await?;
            let end = End::notice(Verdict::Incomplete, "The model gave an empty answer twice.");
            return Ok(Some(end));
        }
        let step = Step::new(assistant, Vec::new())?;
        let (verdict, source, notice) = match stop {
            StopReason::EndTurn | StopReason::ToolUse => match self.look(events).await? {
                Finding::Fail(failing) if self.may_repair() => {
                    self.repairs += 1;
                    self.has_written = false;
                    let step = step.sent_back(postconditions::remark(&failing))?;
                    events(Event::SentBack { failing });
                    self.record(step, &model, history, journal).await?;
                    return Ok(None);
                }
                Finding::Hold => (Verdict::Pass, Source::Verified, None),
                Finding::Unchanged => (Verdict::NoChange, Source::Verified, None),
                Finding::Fail(_) => (Verdict::Fail, Source::Verified, Some(self.unmended())),
                Finding::Unknown(why) => (
                    Verdict::Incomplete,
                    Source::Harness,
                    Some(format!("I could not check all of this change: {why}.")),
                ),
            },
            StopReason::MaxTokens => (
                Verdict::Incomplete,
                Source::Harness,
                Some("The answer was cut at its token limit.".to_owned()),
            ),
            StopReason::Refusal => (
                Verdict::Incomplete,
                Source::Harness,
                Some("The model refused to go on.".to_owned()),
            ),
        };
        self.record(step, &model, history, journal).await?;
        Ok(Some(End {
            verdict,
            source,
            answer,
            notice,
        }))
    }

    /// Looks at the files, for as long as the turn has time.
    async fn look(&self, events: &mut (dyn FnMut(Event) + Send)) -> anyhow::Result<Finding> {
        let enough = self.cx.cancel.child_token();
        let mut progress = |progress| events(Event::Checking(progress));
        let looking = self.cx.postconditions.look(&mut progress, &enough);
        tokio::pin!(looking);
        tokio::select! {
            finding = &mut looking => finding,
            () = tokio::time::sleep_until(self.deadline) => {
                enough.cancel();
                looking.await
            }
        }
    }

    /// True if an answer may go back to the model: there is a limit to that, as to everything else, and
    /// a model that edited nothing since it was told, or only answered a question, mends nothing.
    fn may_repair(&self) -> bool {
        self.has_written && self.repairs < self.cx.limits.repairs_max && self.limit_reached().is_none()
    }

    fn unmended(&self) -> String {
        match self.repairs {
            0 => "A check of mine fails; see below.".to_owned(),
            1 => "A check of mine still fails after one attempt to mend it; see below.".to_owned(),
            repairs => format!("A check of mine still fails after {repairs} attempts to mend it; see below."),
        }
    }

    async fn step(
        &mut self,
        completion: Completion,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> anyhow::Result<Option<End>> {
        let Completion { assistant, model } = completion;
        let Said { assistant, kept } = Said::new(assistant, self.cx.redactor);
        let calls = Calls::new(self.cx, &self.offered, self.deadline);
        let done = calls.run(&assistant, events).await?;
        self.tool_calls += u32::try_from(done.len()).unwrap_or(u32::MAX);
        self.writes.count(&done);
        self.has_written |= done.iter().any(|done| done.outcome == calls::Outcome::Wrote);
        let calls: Vec<_> = assistant.calls().cloned().collect();
        let stop = self.repetition.observe(&calls, &done);
        let results = done.into_iter().map(|done| done.result).collect();
        self.record(Step::new(kept, results)?, &model, history, journal)
            .await?;
        if self.cx.cancel.is_cancelled() {
            return Ok(Some(self.stopped()));
        }
        Ok(stop.map(|why| End::notice(Verdict::Limit, why)))
    }

    async fn record(
        &self,
        step: Step,
        model: &str,
        history: &mut History,
        journal: &mut dyn Journal,
    ) -> anyhow::Result<()> {
        journal.step(&step, model).await?;
        history.push(step)?;
        Ok(())
    }
}

/// Makes the ids of an answer's calls unique in the whole conversation, so that each result has
/// exactly one call. The provider's own blocks carry the old ids and are dropped with them.
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
        Block::Call(call) => Some(call),
        Block::Text { .. } => None,
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
