//! Questions of the model to the person of the turn. At most one call of a step asks, after all calls have run. A stored
//! question ends this run of the turn; an inline one is answered while the turn waits.

use super::calls::{CallOutcome, CallResult};
use super::{Journal, LoopEnd, StepRecord, TurnContext, TurnEvent, TurnLoop};
use crate::base::model::ASK_USER;
use crate::base::model::{
    AskedQuestion, Assistant, History, QuestionAnswer, Step, StoredOutput, ToolCall, ToolResult, Turn, Usage,
    Verdict, VerdictSource,
};
use crate::interfaces::tool::{ToolError, question_of_call};
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of questions of one turn.
const QUESTIONS_MAX: usize = 3;
/// The longest wait for the end of a question after its turn was stopped.
const STOP_TIME_MAX: Duration = Duration::from_millis(500);
/// The result of a call whose question was not asked, because the turn ends with its step, or because the person wrote in
/// the meantime.
const NOT_ASKED: &str = "not asked: the work ends here, or the person has written in the meantime";

/// The person who can be asked during a turn.
#[derive(Clone, Copy)]
pub enum Questions<'a> {
    /// Nobody. The tool is not offered.
    Nobody,
    /// A person in a chat. The question is stored, and the turn goes on with the answer later.
    Stored,
    /// A person who answers while the turn waits.
    Inline(&'a dyn Questioner),
}

/// A way to ask a person who is there.
#[async_trait]
pub trait Questioner: Send + Sync {
    /// Asks a question. Returns soon after `cancel` fires.
    async fn ask(&self, question: &AskedQuestion, cancel: &CancellationToken) -> QuestionAnswer;
}

/// The question of a step that is recorded.
#[derive(Clone, Copy, Debug)]
pub struct QuestionRecord<'a> {
    /// The question.
    pub question: &'a AskedQuestion,
    /// The id of the call that asks.
    pub call: &'a str,
    /// The number of the question in its turn, from 1.
    pub number: usize,
}

/// The question of a step.
pub(super) struct StepQuestion {
    /// The question; `None` if it cannot be read without its secrets.
    question: Option<AskedQuestion>,
    call: String,
    number: usize,
}

impl StepQuestion {
    /// Returns the call without its question, which is then not asked.
    pub(super) fn unasked(self) -> Self {
        Self {
            question: None,
            ..self
        }
    }
}

/// The call of a step that may ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuestionLimit {
    /// The index of the first call that asks.
    first: Option<usize>,
    /// The number of questions that the turn has asked.
    asked: usize,
}

impl QuestionLimit {
    /// Returns the limit of an answer in the open turn of a history.
    pub(super) fn of(assistant: &Assistant, history: &History) -> Self {
        Self {
            first: assistant.calls().position(|call| call.name == ASK_USER),
            asked: asked(history),
        }
    }

    /// True if a call of the answer asks.
    pub(super) fn asks(self) -> bool {
        self.first.is_some()
    }

    /// Refuses a call that may not ask.
    pub(super) fn check(self, index: usize, call: &ToolCall) -> Result<(), ToolError> {
        if call.name != ASK_USER {
            return Ok(());
        }
        let why = match self.first == Some(index) {
            true if self.asked < QUESTIONS_MAX => return Ok(()),
            true => format!(
                "not asked: {QUESTIONS_MAX} questions were asked in this work; decide yourself, or end it and say what is \
                 to be decided"
            ),
            false => "not asked: one answer asks one question; ask the next one later".to_owned(),
        };
        Err(ToolError::Failed(why))
    }
}

/// The part of a turn before the question with which it goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartBefore {
    pub(super) steps: u32,
    pub(super) tool_calls: u32,
    pub(super) usage: Usage,
}

impl PartBefore {
    /// Returns the part before of a turn that goes on; nothing of a new one.
    pub(super) fn of(cx: &TurnContext<'_>, history: &History) -> Self {
        let mut part = Self::default();
        // Steps before them are those of another turn, which this one continues.
        for step in open_steps(history).iter().rev().take(cx.resumed_steps) {
            part.steps += 1;
            part.tool_calls += u32::try_from(step.results().len()).unwrap_or(u32::MAX);
            part.usage += step.assistant().usage;
        }
        part
    }
}

fn open_steps(history: &History) -> &[Step] {
    history.turns().last().map_or(&[], Turn::steps)
}

/// Returns the number of questions that the open turn has asked.
fn asked(history: &History) -> usize {
    let steps = open_steps(history).iter();
    let calls = steps.flat_map(|step| step.assistant().calls().zip(step.results()));
    calls
        .filter(|(call, result)| call.name == ASK_USER && !result.is_error)
        .count()
}

impl TurnLoop<'_> {
    /// Returns the question that a step asks: that of the call whose arguments the tool accepted. `kept` is the answer
    /// without secrets.
    pub(super) fn question(
        &self,
        kept: &Assistant,
        done: &[CallResult],
        history: &History,
    ) -> Option<StepQuestion> {
        if matches!(self.cx.questions, Questions::Nobody) {
            return None;
        }
        let mut calls = kept.calls().zip(done);
        let (call, _) =
            calls.find(|(call, done)| call.name == ASK_USER && done.outcome == CallOutcome::Read)?;
        let question = question_of_call(call);
        Some(StepQuestion {
            question: question.map(|question| question.within(self.cx.limits.question_minutes_max)),
            call: call.id.clone(),
            number: asked(history) + 1,
        })
    }

    /// Returns the question of a step if it is stored, and the turn ends with it.
    pub(super) fn stored_question<'q>(
        &self,
        question: Option<&'q StepQuestion>,
    ) -> Option<QuestionRecord<'q>> {
        let StepQuestion {
            question: Some(question),
            call,
            number,
        } = question?
        else {
            return None;
        };
        let is_stored = matches!(self.cx.questions, Questions::Stored);
        (is_stored && self.limit_reached().is_none()).then_some(QuestionRecord {
            question,
            call,
            number: *number,
        })
    }

    /// Records a step with its question, and ends this run of the turn.
    pub(super) async fn wait_for_answer(
        &self,
        step: Step,
        question: QuestionRecord<'_>,
        (outputs, model): (&[StoredOutput], &str),
        history: &mut History,
        journal: &mut dyn Journal,
    ) -> anyhow::Result<LoopEnd> {
        let record = StepRecord {
            step: &step,
            model: self.answering(model),
            outputs,
            context: self.context_state(history),
        };
        journal.record_question(record, question).await?;
        history.push(step)?;
        Ok(LoopEnd {
            verdict: Verdict::Incomplete,
            source: VerdictSource::Harness,
            answer: String::new(),
            notice: None,
            is_waiting: true,
        })
    }

    /// Asks a person who is there until the turn is stopped.
    async fn ask_person(&self, questioner: &dyn Questioner, question: &AskedQuestion) -> QuestionAnswer {
        let mut answer = questioner.ask(question, self.cx.cancel);
        tokio::select! {
            answer = &mut answer => return answer,
            () = self.cx.cancel.cancelled() => {}
        }
        let ended = tokio::time::timeout(STOP_TIME_MAX, answer).await;
        ended.unwrap_or(QuestionAnswer::Stopped)
    }

    /// Asks a person who is there, and puts the answer into the result of the call. The time limit of the turn does not
    /// run meanwhile. If the turn ends with its step, nobody is asked.
    pub(super) async fn answer_inline(
        &mut self,
        asked: StepQuestion,
        results: &mut [ToolResult],
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) {
        let is_over = self.limit_reached().is_some();
        let (text, is_error) = match (self.cx.questions, asked.question) {
            (Questions::Inline(questioner), Some(question)) if !is_over => {
                events(TurnEvent::Asked(question.clone()));
                let began = Instant::now();
                let answer = self.ask_person(questioner, &question).await;
                self.deadline += began.elapsed();
                let text = self.cx.redactor.redact(&answer.result()).into_owned();
                events(TurnEvent::Answered(answer));
                (text, false)
            }
            (Questions::Inline(_) | Questions::Stored | Questions::Nobody, _) => (NOT_ASKED.to_owned(), true),
        };
        for result in results.iter_mut().filter(|result| result.call == asked.call) {
            if let Some(rest) = result.content.strip_prefix(AskedQuestion::WAITING) {
                (result.content, result.is_error) = (format!("{text}{rest}"), is_error);
            }
        }
    }
}
