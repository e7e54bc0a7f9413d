//! The end of a turn with an answer: the answer is checked, and goes back to the model if a check fails.

use super::answer_record::RecordedAnswer;
use super::inference::inferred_verdict;
use super::postconditions::{self, SentBackFor};
use super::{Journal, LoopEnd, PaidAnswer, TurnEvent, TurnLoop, VerdictRule, discard_after};
use crate::base::model::{Assistant, History, Step, StopReason, Verdict, VerdictSource};
use crate::interfaces::provider::Completion;
use crate::rendering::change_checks::CheckOutcome;

/// Returns true if another attempt may have words: nothing cut or refused the answer.
pub(super) fn has_ended_without_words(assistant: &Assistant) -> bool {
    assistant.text().is_empty() && matches!(assistant.stop, StopReason::EndTurn | StopReason::ToolUse)
}

/// Returns the reason why a turn ends with an answer without words.
fn without_words(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::ToolUse => "The model gave an empty answer twice.",
        StopReason::MaxTokens => {
            "The answer reached its token limit before its first word. Ask for less at once, or raise \
             `limits.answer_tokens_max`."
        }
        StopReason::Refusal => "The model refused to answer.",
    }
}

impl TurnLoop<'_> {
    /// Handles an answer without calls. It ends the turn, unless a check fails that the model may still fix. Then the
    /// answer goes back to the model. If a verdict is asked for, it is that of the model, or is inferred from its words.
    pub(super) async fn handle_final_answer(
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
                .answer_discarded(self.paid(assistant.usage, &model))
                .await?;
            let mut end = LoopEnd::notice(Verdict::Incomplete, without_words(stop));
            // No words count as a failure, but the reason for a cut or refused answer is known.
            if self.cx.verdict == VerdictRule::Asked
                && matches!(stop, StopReason::EndTurn | StopReason::ToolUse)
            {
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
        let paid = self.paid(step.assistant().usage, &model);
        let (verdict, source, notice) = match stop {
            StopReason::EndTurn | StopReason::ToolUse => match self
                .check_answer(paid, journal, events)
                .await?
            {
                CheckOutcome::Failed(failing)
                    if !self.has_failed(concluded, &answer) && self.may_repair() =>
                {
                    let sent_back_for = match self.has_written {
                        true => SentBackFor::Repair,
                        false => SentBackFor::Verdict,
                    };
                    self.repairs += 1;
                    self.has_written = false;
                    let step = step.with_remark(postconditions::remark(&failing, sent_back_for))?;
                    events(TurnEvent::SentBack { failing });
                    self.record(step, &[], &model, history, journal).await?;
                    return Ok(None);
                }
                CheckOutcome::Passed => self.model_verdict(Verdict::Pass, concluded, &answer),
                CheckOutcome::Unchanged => self.model_verdict(Verdict::NoChange, concluded, &answer),
                CheckOutcome::Failed(_) if self.was_asked_and_fails(concluded) => {
                    (Verdict::Fail, VerdictSource::Concluded, Some(self.unmended()))
                }
                CheckOutcome::Failed(_) => (Verdict::Fail, VerdictSource::Verified, Some(self.unmended())),
                CheckOutcome::Incomplete(why) => {
                    let (verdict, source) = match self.was_asked_and_fails(concluded) {
                        // What could not be checked does not make it better.
                        true => (Verdict::Fail, VerdictSource::Concluded),
                        false => (Verdict::Incomplete, VerdictSource::Harness),
                    };
                    let notice = format!("I could not check all of this change: {why}.");
                    (verdict, source, Some(notice))
                }
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

    /// Checks the files after an answer. If that fails, no step records the answer, so its cost is recorded.
    async fn check_answer(
        &self,
        answer: PaidAnswer<'_>,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<CheckOutcome> {
        match self.check_postconditions(events).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(discard_after(error, answer, journal).await),
        }
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
                // The check ends soon. What it has prepared is not prepared again.
                looking.await
            }
        }
    }

    /// Returns true if an answer may go back to the model. The number of repairs is limited. A model that has edited
    /// no files since the last report, or only answered a question, has nothing to fix; but it may change a verdict that
    /// it was asked for.
    fn may_repair(&self) -> bool {
        let has_work = self.has_written || self.cx.verdict == VerdictRule::Asked;
        has_work && self.repairs < self.cx.limits.repairs_max && self.limit_reached().is_none()
    }

    /// Returns true if the model itself says that the work has failed.
    fn has_failed(&self, concluded: Option<Verdict>, answer: &str) -> bool {
        let (verdict, ..) = self.model_verdict(Verdict::NoChange, concluded, answer);
        concluded == Some(Verdict::Fail) || verdict == Verdict::Fail
    }

    /// Returns true if the model was asked for its verdict, and concludes that the work has failed.
    fn was_asked_and_fails(&self, concluded: Option<Verdict>) -> bool {
        self.cx.verdict == VerdictRule::Asked && concluded == Some(Verdict::Fail)
    }

    fn unmended(&self) -> String {
        // A model that only gives a verdict fixes nothing.
        let repairs = match self.cx.verdict == VerdictRule::Asked && self.writes.done == 0 {
            true => 0,
            false => self.repairs,
        };
        match repairs {
            0 => "A check of mine fails.".to_owned(),
            1 => "A check of mine still fails after one attempt to fix it.".to_owned(),
            repairs => format!("A check of mine still fails after {repairs} attempts to fix it."),
        }
    }
}
