//! One call of the models of a turn: the current model, and if it does not answer, the next ones, each once.
//!
//! A turn stays with the model that answered, whose prompt cache is warm by then. The next turn begins with the default
//! model again. Its provider remembers that it does not answer, and then refuses at once.

use super::call_costs::CallLosses;
use super::call_ids::unique_ids;
use super::models::TurnModel;
use super::window::RequestTooLong;
use super::{AnsweringModel, LoopEnd, PaidAnswer, TurnEvent, TurnLoop};
use crate::base::model::{History, Turn, Usage, Verdict};
use crate::crash_point;
use crate::interfaces::provider::{
    Completion, Patience, ProviderError, ProviderFailure, ProviderFailureKind, SideCosts, StreamEvent,
    TurnRequest,
};
use futures_util::future::BoxFuture;
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest wait for a provider to end a cancelled call.
const CANCEL_TIME_MAX: Duration = Duration::from_millis(500);

/// A model that did not answer, and the reason.
#[derive(Clone, Debug)]
pub(super) struct AbsentModel {
    model: String,
    why: AbsenceReason,
}

/// The reason why a model did not answer.
#[derive(Clone, Debug)]
enum AbsenceReason {
    /// It was asked.
    Failed(ProviderFailure),
    /// It was not asked, because it cannot take the request.
    NotAsked(String),
}

impl AbsentModel {
    /// Returns a sentence for the person.
    fn sentence(&self) -> String {
        let model = &self.model;
        match &self.why {
            AbsenceReason::Failed(failure) => format!("`{model}` did not answer: {failure}."),
            AbsenceReason::NotAsked(why) => format!("`{model}` was not asked: {why}."),
        }
    }

    /// Returns its part of a text that says that no model answered.
    fn item(&self) -> String {
        match &self.why {
            AbsenceReason::Failed(failure) => format!("`{}`: {failure}.", self.model),
            AbsenceReason::NotAsked(_) => self.sentence(),
        }
    }
}

/// The end of a call, and what it did cost beside its answer: by the index of the model.
pub(super) struct CallEnd {
    pub(super) outcome: Result<Completion, CallError>,
    pub(super) sides: Vec<(usize, SideCosts)>,
}

/// The reason why a call has no answer.
pub(super) enum CallError {
    /// The turn was stopped, or its time is over.
    Cancelled,
    /// The models that did not answer, in order. The first one was asked.
    Failed(Vec<AbsentModel>),
}

/// Returns true if another model may answer a request that failed so. A request that one model rejects, such as an
/// invalid one, is not sent to the others.
fn may_fall_back(kind: ProviderFailureKind) -> bool {
    match kind {
        ProviderFailureKind::RateLimiting
        | ProviderFailureKind::Overloaded
        | ProviderFailureKind::Faulty
        | ProviderFailureKind::Unreached
        | ProviderFailureKind::Silent
        | ProviderFailureKind::Broken
        | ProviderFailureKind::Malformed
        | ProviderFailureKind::Refused => true,
        ProviderFailureKind::Rejected => false,
    }
}

/// Waits for the answer of a provider until the turn is stopped or its time is over. Then the provider ends the call and
/// says what it may have cost.
pub(super) async fn until_stopped(
    mut answer: BoxFuture<'_, Result<Completion, ProviderError>>,
    cancel: &CancellationToken,
    deadline: Instant,
) -> Result<Completion, ProviderError> {
    tokio::select! {
        answer = &mut answer => return answer,
        () = cancel.cancelled() => {}
        () = tokio::time::sleep_until(deadline) => cancel.cancel(),
    }
    let ended = tokio::time::timeout(CANCEL_TIME_MAX, answer).await;
    ended.unwrap_or_else(|_| Err(ProviderError::Cancelled(SideCosts::of_lost_answer())))
}

impl<'a> TurnLoop<'a> {
    /// Returns the model that is asked.
    pub(super) fn model(&self) -> &'a TurnModel<'a> {
        let models = self.cx.models;
        models.get(self.current).unwrap_or(self.default)
    }

    /// Returns the costs of a call beside its answer.
    pub(super) fn losses<'s>(&self, sides: &'s [(usize, SideCosts)]) -> CallLosses<'s>
    where
        'a: 's,
    {
        let mut losses = CallLosses::default();
        for (index, side) in sides {
            if let Some(model) = self.cx.models.get(*index) {
                losses.add((model.provider.id(), model.name), side);
            }
        }
        losses
    }

    /// Returns the model that answered, which the provider calls `reported`.
    pub(super) fn answering<'m>(&self, reported: &'m str) -> AnsweringModel<'m>
    where
        'a: 'm,
    {
        let model = self.model();
        AnsweringModel {
            provider: model.provider.id(),
            name: model.name,
            reported,
        }
    }

    /// Returns the cost of an answer of the current model.
    pub(super) fn paid<'m>(&self, usage: Usage, reported: &'m str) -> PaidAnswer<'m>
    where
        'a: 'm,
    {
        PaidAnswer {
            model: self.answering(reported),
            usage,
        }
    }

    /// Returns the maximum number of tokens of an answer of the current model or a later one, for the reservation.
    pub(super) fn later_answer_tokens_max(&self) -> u32 {
        let later = self.cx.models.iter().skip(self.current);
        let tokens = later.map(|model| model.answer_tokens_max(self.cx.limits));
        tokens.max().unwrap_or(self.cx.limits.answer_tokens_max)
    }

    /// Sends a request to the current model, and if it does not answer, to the next ones in which it has room.
    pub(super) async fn call(
        &mut self,
        turns: Cow<'_, [Turn]>,
        history: &History,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> CallEnd {
        let mut turns = turns;
        let mut sides = Vec::new();
        let mut failed = Vec::new();
        let outcome = loop {
            let failure = match self.ask(&turns, history, events).await {
                Ok(mut completion) => {
                    sides.push((self.current, std::mem::take(&mut completion.side)));
                    self.absent.append(&mut failed);
                    break Ok(completion);
                }
                Err(ProviderError::Cancelled(side)) => {
                    sides.push((self.current, side));
                    break Err(CallError::Cancelled);
                }
                Err(ProviderError::Failed(failure)) => failure,
            };
            sides.push((self.current, failure.side.clone()));
            let (from, kind) = (self.model().full_name(), failure.kind);
            failed.push(AbsentModel {
                model: from.clone(),
                why: AbsenceReason::Failed(failure),
            });
            let next = match may_fall_back(kind) {
                true => self.next_model(&turns, history, &mut failed),
                false => None,
            };
            let Some((index, shorter)) = next else {
                break Err(CallError::Failed(failed));
            };
            self.current = index;
            if let Some(shorter) = shorter {
                turns = Cow::Owned(shorter);
            }
            events(TurnEvent::FallingBack {
                from,
                to: self.model().full_name(),
                why: kind.to_string(),
            });
        };
        CallEnd { outcome, sides }
    }

    /// Returns the next model that takes the attachments and whose context window has room for the request, and the turns
    /// to send to it if they are others. The request never gets longer, because its cost was reserved. The models before it
    /// are added to `absent`, each with the reason why it is not asked.
    fn next_model(
        &self,
        turns: &[Turn],
        history: &History,
        absent: &mut Vec<AbsentModel>,
    ) -> Option<(usize, Option<Vec<Turn>>)> {
        let mut skip = |model: &TurnModel<'_>, why: String| {
            absent.push(AbsentModel {
                model: model.full_name(),
                why: AbsenceReason::NotAsked(why),
            });
            None
        };
        let bytes = self.budget.fixed + turns.iter().map(Turn::bytes).sum::<usize>();
        let mut later = self.cx.models.iter().enumerate().skip(self.current + 1);
        later.find_map(|(index, model)| {
            if let Some(why) = model.refusal_of_open_turn(history) {
                return skip(model, why);
            }
            let budget = model.budget(self.cx.limits, self.budget.fixed);
            if bytes <= budget.bytes_max(self.bytes_per_1000_tokens) {
                let taken = match model.taken(Cow::Borrowed(turns)) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(turns) => Some(turns),
                };
                return Some((index, taken));
            }
            let mut shorter = history.clone();
            budget.trim(&mut shorter, self.bytes_per_1000_tokens);
            match self.window_of(&budget, &shorter) {
                Ok(window) => Some((index, Some(model.taken(window).into_owned()))),
                Err(RequestTooLong { bytes }) => {
                    let bound = budget.bound_text(self.bytes_per_1000_tokens);
                    skip(
                        model,
                        format!("the request has at least {bytes} bytes, and {bound}"),
                    )
                }
            }
        })
    }

    /// Returns the turns that the current model gets. Nothing of the conversation is trimmed for good because a
    /// fallback has a smaller window.
    pub(super) fn request_turns<'h>(&self, history: &'h History) -> Result<Cow<'h, [Turn]>, RequestTooLong> {
        let budget = self.model().budget(self.cx.limits, self.budget.fixed);
        let bytes = self.budget.fixed + history.bytes();
        if self.current == 0 || bytes <= budget.bytes_max(self.bytes_per_1000_tokens) {
            return Ok(self.model().taken(self.window_of(&budget, history)?));
        }
        let mut shorter = history.clone();
        budget.trim(&mut shorter, self.bytes_per_1000_tokens);
        let turns = self.model().taken(self.window_of(&budget, &shorter)?);
        Ok(Cow::Owned(turns.into_owned()))
    }

    async fn ask(
        &self,
        turns: &[Turn],
        history: &History,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<Completion, ProviderError> {
        let model = self.model();
        let request = TurnRequest {
            identity: self.cx.identity,
            model: model.name,
            system: self.cx.system,
            tools: self.offered.specs(),
            tool_choice: self.tool_choice(),
            turns,
            answer_tokens_max: model.answer_tokens_max(self.cx.limits),
            patience: match self.current + 1 < self.cx.models.len() {
                true => Patience::Short,
                false => Patience::Full,
            },
        };
        let cancel = self.cx.cancel.child_token();
        let mut sink = |event| match event {
            StreamEvent::Text(text) => {
                crash_point::before("B12");
                events(TurnEvent::Text(text));
            }
            StreamEvent::CallStarted { .. } => crash_point::before("B12"),
            StreamEvent::Retrying { why, wait } => events(TurnEvent::Waiting { why, wait }),
        };
        let answer = model.provider.turn(request, &mut sink, &cancel);
        let completion = until_stopped(answer, &cancel, self.deadline).await;
        completion.map(|completion| unique_ids(completion, history))
    }

    pub(super) fn call_failed(&self, error: &CallError) -> LoopEnd {
        match error {
            CallError::Cancelled => self.limit_reached().unwrap_or_else(|| self.stopped()),
            CallError::Failed(failed) => {
                let why = match failed.as_slice() {
                    [
                        AbsentModel {
                            why: AbsenceReason::Failed(failure),
                            ..
                        },
                    ] => format!("No answer: {failure}."),
                    failed => {
                        let each: Vec<String> = failed.iter().map(AbsentModel::item).collect();
                        format!("No model answered. {}", each.join(" "))
                    }
                };
                LoopEnd::notice(Verdict::Error, why)
            }
        }
    }

    /// Returns a line about the models that did not answer, if a fallback answered for them.
    pub(super) fn fallback_line(&self) -> Option<String> {
        let absent: Vec<String> = self.absent.iter().map(AbsentModel::sentence).collect();
        match absent.is_empty() {
            true => None,
            false => Some(format!(
                "{} `{}` answered instead.",
                absent.join(" "),
                self.model().full_name()
            )),
        }
    }
}
