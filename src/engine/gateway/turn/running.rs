//! The run of the agent loop in a turn: with the settings, the journal and the steering of the gateway. A shutdown and the
//! loss of access stop it.

use super::journal::{TurnJournal, TurnStartReceiver};
use super::outputs::StoredOutputs;
use super::postconditions::ChangePreparer;
use super::resumption::{self, ResumedTurn};
use super::steering::Steering;
use super::{ClaimedMessage, OpenedTurn, TurnRunner};
use crate::base::health::HealthSeverity;
use crate::base::model::{History, Usage, Verdict, VerdictSource};
use crate::engine::agent::{
    self, ModelChain, Questions, Recipients, TurnContext, TurnEvent, TurnOutcome, VerdictRule, WriteCounts,
};
use crate::engine::gateway::active_turns::TurnHandle;
use crate::engine::gateway::parts::agent_step;
use crate::state::workspace::{Overlay, Tree};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl TurnRunner {
    /// Runs the agent loop. Returns its outcome, and the journal with the last step.
    pub(super) async fn run_agent(
        &self,
        assigned: &ClaimedMessage,
        (mut history, resumed): (History, Option<&ResumedTurn<'_>>),
        beginning: TurnStartReceiver,
        preparing: &ChangePreparer<'_>,
        handle: &TurnHandle,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<(TurnOutcome, TurnJournal)> {
        let opened = preparing.opened;
        let step = agent_step(assigned.inbound());
        let models = match step {
            Some(work) => self.parts.step_model(&work.bounds),
            None => ModelChain::resolve(&self.parts.config, &self.parts.providers),
        };
        let models = models.map_err(anyhow::Error::msg)?;
        let models = models.models();
        let step_tools = step.map(|work| self.parts.step_tools(work)).transpose()?;
        let limits = self.parts.turn_limits(assigned.inbound());
        let sources = (&self.parts, &self.outgoing);
        let steering = Steering::new(sources, &self.active_turns, assigned, opened);
        let mut journal = TurnJournal::new(&self.parts, assigned, opened, beginning, steering, &models);
        let questions = match self.parts.is_event(assigned.inbound()) {
            true => Questions::Nobody,
            false => {
                journal.composer = Some(self.question_composer(assigned, opened));
                Questions::Stored
            }
        };
        journal.messages = self.message_composer(assigned, opened);
        let recipients = match journal.messages {
            Some(_) => Recipients::People,
            None => Recipients::Nobody,
        };
        let cancel = handle.stop.child_token();
        let cx = TurnContext {
            identity: &opened.identity,
            models: &models,
            system: &opened.system,
            toolbox: step_tools.as_ref().unwrap_or(&self.parts.toolbox),
            workspace: &opened.workspace,
            postconditions: preparing,
            verdict: match step {
                Some(_) => VerdictRule::Asked,
                None => VerdictRule::Computed,
            },
            questions,
            recipients,
            resumed_steps: resumed.map_or(0, ResumedTurn::steps),
            limits: &limits,
            strategy: agent::context::strategy(limits.context_strategy),
            redactor: &opened.workspace.guard.redactor,
            outputs: &StoredOutputs::of_conversation(&self.parts.store, opened.conversation.id),
            last_output: opened.conversation.last_output,
            bytes_per_1000_tokens: opened.conversation.context.bytes_per_1000_tokens,
            earlier_attempts: resumption::earlier_attempts(assigned, resumed),
            began: opened.began,
            cancel: &cancel,
        };
        let mut events = |event: TurnEvent| {
            if let TurnEvent::FallingBack { from, to, why } = &event {
                let why = format!("{why}; {to} is asked instead");
                self.parts
                    .health
                    .set(&model_part(from), HealthSeverity::Degraded, why);
            }
            handle.card.send_modify(|card| card.observe(&event));
        };
        let outcome = {
            let running = agent::run_turn(cx, &mut history, &mut journal, &mut events);
            tokio::pin!(running);
            tokio::select! {
                outcome = &mut running => outcome?,
                () = shutdown.cancelled() => {
                    cancel.cancel();
                    running.await?
                }
                () = opened.wait_until_locked_out() => {
                    cancel.cancel();
                    running.await?
                }
            }
        };
        if matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange | Verdict::Fail) {
            // The model that was asked last has answered.
            self.parts.health.clear(&model_part(&outcome.model));
        }
        Ok((outcome, journal))
    }

    /// Returns the outcome of a turn with an internal error. The person gets a reference; the log gets the reason. Only
    /// durable steps count, so the workspace returns to the last recorded step.
    pub(super) async fn broken(
        &self,
        opened: &mut OpenedTurn,
        error: &anyhow::Error,
    ) -> anyhow::Result<TurnOutcome> {
        let edits = self.parts.store.edits(opened.conversation.id).await?;
        let base = Arc::clone(opened.overlay.base());
        opened.overlay = Arc::new(Overlay::new(base, edits));
        opened.workspace.tree = Arc::clone(&opened.overlay) as Arc<dyn Tree>;
        Ok(TurnOutcome {
            verdict: Verdict::Error,
            source: VerdictSource::Harness,
            answer: String::new(),
            notice: Some(self.parts.internal_error_text(error, "turn")),
            model: self.parts.config.model.default.clone(),
            fallback: None,
            steps: 0,
            tool_calls: 0,
            writes: WriteCounts::default(),
            usage: Usage::default(),
            took: opened.began.elapsed(),
            last_output: opened.conversation.last_output,
            context: opened.conversation.context.clone(),
            is_waiting: false,
        })
    }
}

/// Returns the name of a model among the parts that have problems.
fn model_part(model: &str) -> String {
    format!("model {model}")
}

/// True if a shutdown, not the person, interrupted the turn or its checks. The message is then claimed at the next
/// start. A failed check also counts, because the model could not fix it.
pub(super) fn was_interrupted(
    outcome: &TurnOutcome,
    handle: &TurnHandle,
    shutdown: &CancellationToken,
) -> bool {
    let is_cut = matches!(
        outcome.verdict,
        Verdict::Cancelled | Verdict::Incomplete | Verdict::Fail
    );
    is_cut && shutdown.is_cancelled() && !handle.stop.is_cancelled()
}

#[cfg(test)]
mod tests {
    use super::was_interrupted;
    use crate::base::model::{ContextState, ConversationId, OutputNumber, Usage, Verdict, VerdictSource};
    use crate::engine::agent::{TurnOutcome, WriteCounts};
    use crate::engine::gateway::active_turns::ActiveTurns;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    /// R23
    #[test]
    fn a_turn_that_shutdown_left_unchecked_or_failing_counts_as_interrupted() {
        let outcome = |verdict| TurnOutcome {
            verdict,
            source: VerdictSource::Harness,
            answer: "Done.".to_owned(),
            notice: None,
            model: "anthropic/demo".to_owned(),
            fallback: None,
            steps: 1,
            tool_calls: 0,
            writes: WriteCounts::default(),
            usage: Usage::default(),
            took: Duration::ZERO,
            last_output: OutputNumber(0),
            context: ContextState::default(),
            is_waiting: false,
        };
        let turns = ActiveTurns::default();
        let handle = turns.register(ConversationId(1));
        let (running, shutdown) = (CancellationToken::new(), CancellationToken::new());
        shutdown.cancel();
        for (verdict, is_cut) in [
            (Verdict::Cancelled, true),
            (Verdict::Incomplete, true),
            (Verdict::Fail, true),
            (Verdict::Pass, false),
            (Verdict::NoChange, false),
        ] {
            let outcome = outcome(verdict);
            assert_eq!(
                was_interrupted(&outcome, &handle, &shutdown),
                is_cut,
                "{verdict:?}"
            );
            assert!(!was_interrupted(&outcome, &handle, &running), "{verdict:?}");
        }
        // A stop by the person counts as one, even during a shutdown.
        handle.stop.cancel();
        assert!(!was_interrupted(&outcome(Verdict::Cancelled), &handle, &shutdown));
    }
}
