//! The verdict of the model, and the notes by which it ends its work in time.

use super::{TurnContext, TurnLoop, inferred_verdict};
use crate::base::model::{ContentBlock, History, Step, StopReason, Turn, Verdict, VerdictSource};
use crate::interfaces::provider::{Completion, ToolChoice};
use crate::interfaces::tool::{self, CONCLUDE, Conclusion, Toolbox, ToolboxError};
use std::time::Duration;
use tokio::time::Instant;

/// The part of the tokens and of the time of a turn, in percent, after which the model is told what is left.
const NEARLY_USED: u64 = 80;

/// The source of a turn's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictRule {
    /// Drydock computes it from its checks.
    Computed,
    /// The model is asked for it, with `conclude`. Checks that fail still decide.
    Asked,
}

/// The words of the notes about tokens and time, by which a turn that goes on finds them in its earlier steps.
const TOKENS_NOTE: &str = "tokens of this work are used. Come to an end.";
const TIME_NOTE: &str = "seconds are left. Come to an end.";

/// The notes that the model has got.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    tokens: bool,
    time: bool,
    /// The note about budgets that the model gets with the results of the running step.
    budget: Option<String>,
}

impl Notes {
    /// Returns the notes that the model has got in the earlier steps of a turn. The time of a turn that begins again is a
    /// new one; its tokens are not.
    pub(super) fn of(cx: &TurnContext<'_>, history: &History) -> Self {
        let attempts = usize::try_from(cx.earlier_attempts.turns).unwrap_or(usize::MAX);
        let mut turns = history.turns().iter().rev();
        let open = turns.next().map_or(&[][..], Turn::steps);
        let resumed = open.iter().rev().take(cx.resumed_steps);
        let attempted = turns.take(attempts).flat_map(Turn::steps);
        // An attempt that was cut short may be the beginning of the open turn, after the steps that a retry goes on from.
        let earlier = usize::try_from(cx.earlier_attempts.steps).unwrap_or(usize::MAX);
        let begun = open.iter().rev().take(earlier).filter(|_| attempts > 0);
        Self {
            tokens: resumed
                .clone()
                .chain(attempted)
                .chain(begun)
                .any(|step| has_note(step, TOKENS_NOTE)),
            time: resumed.clone().any(|step| has_note(step, TIME_NOTE)),
            budget: None,
        }
    }

    /// Sets the note about budgets of the running step.
    pub(super) fn set_budget_note(&mut self, note: Option<String>) {
        self.budget = note;
    }
}

/// True if the last result of a step ends with a note that has these words.
fn has_note(step: &Step, words: &str) -> bool {
    let last = step.results().last();
    let note = last.and_then(|result| result.content.rsplit_once("\n\n[Drydock: "));
    note.is_some_and(|(_, note)| note.contains(words))
}

/// Returns the tools that run in the last of several steps.
pub(super) fn last_step_tools(verdict: VerdictRule) -> Result<Toolbox, ToolboxError> {
    match verdict {
        VerdictRule::Asked => Toolbox::new(vec![tool::conclude()]),
        VerdictRule::Computed => Toolbox::new(Vec::new()),
    }
}

impl TurnLoop<'_> {
    /// Returns the tools that run in the current step. The last one has at most `conclude`, so that a turn ends with an
    /// answer. Its request offers all tools nevertheless, because a prompt cache begins with them. A service that ignores the
    /// choice of tools is offered no others.
    pub(super) fn callable_tools(&self) -> &Toolbox {
        match self.ends_work() {
            true => &self.last_step_tools,
            false => &self.offered,
        }
    }

    /// Returns the calls that the answer of the current step may make. The last step of a turn whose verdict is asked for
    /// has to conclude; another turn ends with words.
    pub(super) fn tool_choice(&self) -> ToolChoice<'static> {
        match self.cx.verdict {
            VerdictRule::Asked if self.is_last_step() => ToolChoice::Forced(CONCLUDE),
            VerdictRule::Computed if self.ends_work() => ToolChoice::Text,
            VerdictRule::Asked | VerdictRule::Computed => ToolChoice::Free,
        }
    }

    fn is_last_step(&self) -> bool {
        self.steps == self.cx.limits.steps_max
    }

    /// Returns true in the last of several steps.
    fn ends_work(&self) -> bool {
        self.cx.limits.steps_max > 1 && self.is_last_step()
    }

    /// Turns a call of `conclude` that stands alone into the answer of the turn.
    pub(super) fn take_conclusion(&mut self, mut completion: Completion) -> (Completion, Option<Verdict>) {
        let assistant = &mut completion.assistant;
        let only_call = {
            let mut calls = assistant.calls();
            calls.next().filter(|_| calls.next().is_none())
        };
        let conclusion = only_call.and_then(Conclusion::of_call);
        let is_offered = self.callable_tools().find(CONCLUDE).is_some();
        let Some(conclusion) = conclusion.filter(|_| is_offered && assistant.stop != StopReason::MaxTokens)
        else {
            return (completion, None);
        };
        self.tool_calls += 1;
        // The blocks of the provider hold the call, which has no result.
        assistant.raw = None;
        assistant.stop = StopReason::EndTurn;
        assistant
            .blocks
            .retain(|block| matches!(block, ContentBlock::Text { .. }));
        assistant.blocks.push(ContentBlock::Text {
            text: conclusion.summary,
        });
        (completion, Some(conclusion.verdict))
    }

    /// Returns the verdict on an answer whose checks did not fail.
    pub(super) fn model_verdict(
        &self,
        computed: Verdict,
        concluded: Option<Verdict>,
        answer: &str,
    ) -> (Verdict, VerdictSource, Option<String>) {
        match (self.cx.verdict, concluded) {
            (VerdictRule::Computed, _) => (computed, VerdictSource::Verified, None),
            (VerdictRule::Asked, Some(verdict)) => (verdict, VerdictSource::Concluded, None),
            (VerdictRule::Asked, None) => (inferred_verdict(answer), VerdictSource::Inferred, None),
        }
    }

    /// Returns a note for the model about what is left of the limits of the turn, at the points where it matters. It is
    /// data after the results of a step, not words of the person.
    pub(super) fn note(&mut self) -> Option<String> {
        let limits = self.cx.limits;
        let mut notes = Vec::new();
        match limits.steps_max.saturating_sub(self.steps) {
            1 => {
                let calls = match self.cx.verdict {
                    VerdictRule::Asked => "its only tool is `conclude`",
                    VerdictRule::Computed => "it cannot call tools",
                };
                notes.push(format!(
                    "The next step is the last one, and {calls}. Answer with what you know, and say what is left to do."
                ));
            }
            2 if limits.steps_max > 2 => {
                notes.push("Two steps are left. Finish what you have begun.".to_owned())
            }
            _ => {}
        }
        let (spent, tokens_max) = (self.spent(), limits.turn_tokens_max);
        if !self.notes.tokens && tokens_max > 0 && spent >= tokens_max / 100 * NEARLY_USED {
            self.notes.tokens = true;
            notes.push(format!("{spent} of the {tokens_max} {TOKENS_NOTE}"));
        }
        notes.extend(self.notes.budget.take());
        let left = self.deadline.saturating_duration_since(Instant::now());
        let is_late = left <= limits.turn_time_max.mul_f64(0.2) && limits.turn_time_max > Duration::ZERO;
        if !self.notes.time && is_late && !left.is_zero() {
            self.notes.time = true;
            notes.push(format!("{} {TIME_NOTE}", left.as_secs()));
        }
        (!notes.is_empty()).then(|| format!("[Drydock: {}]", notes.join(" ")))
    }
}
