//! The result of a turn: as text for people, and as an object for scripts.

use super::{ChangeCheck, Terminal, live_area, markdown};
use crate::base::model::{CheckState, Step, Turn, Verdict, VerdictSource};
use crate::cli::CliError;
use crate::engine::agent::TurnOutcome;
use crate::interfaces::tool::CONCLUDE;

impl Terminal {
    /// Returns the result of a turn as an object for scripts.
    pub(in crate::cli) async fn result_value(
        &self,
        outcome: &TurnOutcome,
    ) -> Result<serde_json::Value, CliError> {
        let patch = self.patch()?;
        let ChangeCheck { checks, effects, .. } = self.check_changes().await?;
        Ok(serde_json::json!({
            "answer": outcome.answer,
            "notice": outcome.notice,
            "verdict": outcome.verdict,
            "source": outcome.source,
            "model": outcome.model,
            "fallback": outcome.fallback,
            "steps": outcome.steps,
            "tool_calls": outcome.tool_calls,
            "usage": outcome.usage,
            "seconds": outcome.took.as_secs_f64(),
            "trace": self.history.turns().last().map(|turn| trace(turn, outcome)),
            "files": patch.stats,
            "checks": checks,
            "environments": effects,
            "patch": String::from_utf8_lossy(&patch.text),
        }))
    }

    /// Prints the last event of a turn.
    pub(in crate::cli) async fn print_turn_ended(&self, outcome: &TurnOutcome) -> Result<(), CliError> {
        let result = self.result_value(outcome).await?;
        self.output
            .value(&serde_json::json!({ "event": "turn_ended", "result": result }));
        Ok(())
    }

    /// Prints an answer: as Markdown on a terminal, else as the model wrote it.
    fn print_answer(&self, answer: &str) {
        if !self.output.renders_data() {
            return self.output.line(&self.output.answer(answer));
        }
        let (columns, _) = live_area::screen_size();
        for row in markdown::render(answer, columns, &self.output) {
            self.output.line(&row.text);
        }
    }

    /// Prints the checks that passed, and those that were not run.
    pub(in crate::cli) async fn print_checks(&self) -> Result<(), CliError> {
        let checks = self.check_changes().await?.checks;
        let passed = checks.iter().filter(|check| check.state == CheckState::Pass);
        let passed: Vec<&str> = passed.map(|check| check.name.as_str()).collect();
        if !passed.is_empty() {
            self.output
                .message(&format!("Checks passed: {}", passed.join(", ")));
        }
        for check in checks.iter().filter(|check| check.state == CheckState::NotRun) {
            self.output
                .message(&format!("Not checked: {}: {}", check.name, check.detail));
        }
        Ok(())
    }

    /// Prints the result of a turn: its answer, or the reason why there is none, and failed checks.
    pub(in crate::cli) async fn print(&mut self, outcome: &TurnOutcome) -> Result<(), CliError> {
        if !outcome.answer.is_empty() && !self.is_printed {
            self.print_answer(&outcome.answer);
        }
        for line in outcome.notice.iter().chain(&outcome.fallback) {
            self.output.message(line);
        }
        let ChangeCheck {
            checks,
            effects,
            broken,
            ..
        } = self.check_changes().await?;
        if !effects.is_empty() && effects != self.effects_shown {
            self.output.message(&effects);
        }
        self.effects_shown = effects;
        for check in checks.iter().filter(|check| check.state == CheckState::Fail) {
            let text = format!("Check failed: {}: {}", check.name, check.detail);
            self.output.message(&text);
        }
        self.show_failures(&broken);
        Ok(())
    }
}

/// Returns the answers of the model in a turn. The words of Drydock that end a turn without an answer are none. A turn that ended
/// with an error has no outcome.
pub(super) fn answers<'t>(turn: &'t Turn, outcome: Option<&TurnOutcome>) -> &'t [Step] {
    let is_unanswered = outcome.is_some_and(|outcome| outcome.answer.is_empty());
    match turn.steps().split_last() {
        Some((last, earlier)) if is_unanswered && last.is_final() => earlier,
        Some(_) | None => turn.steps(),
    }
}

/// Returns the steps of a turn: the words of the model, its calls, each of which worked or failed, and the tokens. A conclusion
/// is the last call.
pub(super) fn trace(turn: &Turn, outcome: &TurnOutcome) -> Vec<serde_json::Value> {
    let steps = answers(turn, Some(outcome));
    let mut trace: Vec<serde_json::Value> = steps.iter().map(traced_step).collect();
    if outcome.source == VerdictSource::Concluded
        && let Some(calls) = trace.last_mut().and_then(|last| last["calls"].as_array_mut())
    {
        calls.push(serde_json::json!({ "name": CONCLUDE, "is_error": false }));
    }
    trace
}

fn traced_step(step: &Step) -> serde_json::Value {
    let assistant = step.assistant();
    let calls = assistant.calls().map(|call| {
        let result = step.results().iter().find(|result| result.call == call.id);
        let is_error = result.is_some_and(|result| result.is_error);
        serde_json::json!({ "name": call.name, "is_error": is_error })
    });
    serde_json::json!({
        "text": assistant.text(),
        "calls": calls.collect::<Vec<_>>(),
        "usage": assistant.usage,
    })
}

/// Returns true if the turn's result means exit code 0.
pub(in crate::cli) fn succeeded(outcome: &TurnOutcome) -> bool {
    matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange)
}
