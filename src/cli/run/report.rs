//! The report of a run: a line for each step as it ends, then a table, the checks and the diff, or one JSON object.

use super::definition::PreparedRun;
use super::driver::FinishedRun;
use super::summary::{STEP_HEADER, StepSummary};
use super::trace::known_formats;
use crate::base::model::{
    Check, CheckState, RunStatus, StepEnd, StepSpending, StepStatus, group_thousands, pluralize, totals,
};
use crate::cli::CliError;
use crate::cli::output::{Output, OutputStyle};
use crate::cli::terminal::{ChangeCheck, KeptCalls, PipelineSession};
use crate::engine::pipeline::run::{PlannedStep, PlannedWork};
use crate::state::recording::{Redact, redact_value};
use crate::state::workspace::patch::Patch;
use serde_json::{Value, json};
use std::time::Duration;

/// The record of a step, beside its end.
#[derive(Debug, Default)]
pub(super) struct DoneStep {
    /// The time of its work.
    pub(super) took: Duration,
    /// The model that answered last.
    pub(super) model: Option<String>,
    /// The request of an agent step.
    pub(super) request: Option<String>,
    /// The calls of the model.
    pub(super) trace: Vec<Value>,
    /// The calls of the model and of tools with their results, if they are recorded.
    pub(super) calls: Option<KeptCalls>,
}

/// The report of a run.
pub(super) struct LocalReport {
    /// The end of the run.
    pub(super) status: RunStatus,
    id: String,
    pipeline: String,
    steps: Vec<Value>,
    rows: Vec<Vec<String>>,
    why: Option<String>,
    spent: StepSpending,
    took: Duration,
    change: Option<RunFiles>,
}

/// The files that the steps changed, with their checks.
struct RunFiles {
    patch: Patch,
    checks: Vec<Check>,
    effects: String,
}

impl LocalReport {
    /// Collects the facts about a finished run. A cancelled one is not checked.
    pub(super) async fn new(
        id: String,
        prepared: &PreparedRun,
        finished: FinishedRun,
        mut session: Option<&mut PipelineSession>,
    ) -> Result<Self, CliError> {
        let FinishedRun {
            status,
            state,
            done,
            took,
        } = finished;
        let change = match session.as_deref_mut() {
            None => None,
            Some(session) => Some(changed(session, status).await?),
        };
        // A later step can have told that a text of an earlier one is a secret.
        let redact = session
            .as_deref()
            .map_or_else(known_formats, PipelineSession::redact);
        let ended = prepared.plan.steps.iter().zip(&state.steps).zip(&done);
        let ended = ended.filter_map(|((planned, state), done)| Some((planned, state.end()?, done)));
        let ended: Vec<(&PlannedStep, &StepEnd, &DoneStep)> = ended.collect();
        let failed = ended.iter().find(|(planned, end, _)| {
            end.status == StepStatus::Failed && !matches!(planned.work, PlannedWork::Parallel)
        });
        Ok(Self {
            status,
            id,
            pipeline: prepared.plan.pipeline.clone(),
            steps: ended
                .iter()
                .map(|(planned, end, done)| redacted_value(step_value(planned, end, done), &redact))
                .collect(),
            rows: ended
                .iter()
                .map(|(planned, end, done)| summary(planned, end, done).row())
                .collect(),
            why: failed.map(|(planned, end, _)| {
                let why = end.why.as_deref().unwrap_or("it failed");
                redact(&format!("step {}: {why}", planned.name))
            }),
            spent: ended.iter().map(|(_, end, _)| end.spent).sum(),
            took,
            change,
        })
    }

    /// Returns the reason why the run failed.
    pub(super) fn why(&self) -> String {
        format!(
            "the run failed: {}",
            self.why.as_deref().unwrap_or("a step failed")
        )
    }

    /// Prints the report.
    pub(super) fn print(&self, output: &Output) {
        if output.json() {
            return output.value(&self.value());
        }
        output.table(&STEP_HEADER, &self.rows);
        let Some(RunFiles {
            patch,
            checks,
            effects,
        }) = &self.change
        else {
            return;
        };
        for check in checks.iter().filter(|check| check.state == CheckState::Fail) {
            output.message(&format!("Check failed: {}: {}", check.name, check.detail));
        }
        if !effects.is_empty() {
            output.message(effects);
        }
        let facts = format!(
            "{}, {} tokens, run {}",
            pluralize(self.spent.calls as usize, "model call", "model calls"),
            group_thousands(self.spent.tokens),
            self.id
        );
        if patch.stats.is_empty() {
            return output.styled_message(OutputStyle::Dim, &format!("No file was changed. {facts}"));
        }
        let changed = format!("\n{}; nothing was committed.", totals(&patch.stats));
        output.styled_message(OutputStyle::Bold, &changed);
        output.styled_message(OutputStyle::Dim, &facts);
        output.line(&output.diff(&String::from_utf8_lossy(&patch.text)));
    }

    fn value(&self) -> Value {
        let change = self.change.as_ref();
        json!({
            "run": self.id,
            "pipeline": self.pipeline,
            "status": self.status,
            "why": self.why,
            "steps": self.steps,
            "tokensUsed": self.spent.tokens,
            "duration": self.took.as_secs_f64(),
            "files": change.map_or_else(|| json!([]), |change| json!(change.patch.stats)),
            "checks": change.map_or_else(|| json!([]), |change| json!(change.checks)),
            "environments": change.map_or("", |change| change.effects.as_str()),
            "patch": change.map(|change| String::from_utf8_lossy(&change.patch.text)).unwrap_or_default(),
        })
    }
}

async fn changed(session: &mut PipelineSession, status: RunStatus) -> Result<RunFiles, CliError> {
    let patch = session.patch()?;
    let (checks, effects) = match status {
        RunStatus::Cancelled => (Vec::new(), String::new()),
        _ => {
            let ChangeCheck { checks, effects, .. } = session.check().await?;
            (checks, effects)
        }
    };
    Ok(RunFiles {
        patch,
        checks,
        effects,
    })
}

fn redacted_value(mut value: Value, redact: &Redact) -> Value {
    redact_value(&mut value, redact);
    value
}

/// Returns a step as an object for scripts.
pub(super) fn step_value(planned: &PlannedStep, end: &StepEnd, done: &DoneStep) -> Value {
    json!({
        "name": planned.name,
        "kind": planned.work.word(),
        "status": end.status,
        "why": end.why,
        "text": end.output,
        "verdict": end.verdict,
        "source": end.verdict_source,
        "model": done.model,
        "tokensUsed": end.spent.tokens,
        "steps": done.trace,
        "duration": done.took.as_secs_f64(),
    })
}

/// Returns the facts about the end of a step that people read.
pub(super) fn summary<'a>(planned: &'a PlannedStep, end: &'a StepEnd, done: &DoneStep) -> StepSummary<'a> {
    StepSummary {
        name: &planned.name,
        status: end.status,
        verdict: end.verdict.zip(end.verdict_source),
        why: end.why.as_deref(),
        calls: end.spent.calls,
        tokens: end.spent.tokens,
        took: done.took,
    }
}

#[cfg(test)]
mod tests {
    use super::{DoneStep, step_value, summary};
    use crate::base::model::{Money, StepEnd, StepSpending, StepStatus, Verdict, VerdictSource};
    use crate::engine::pipeline::definition::StepCondition;
    use crate::engine::pipeline::run::{PlannedStep, PlannedWork};
    use std::time::Duration;

    fn planned(name: &str) -> PlannedStep {
        PlannedStep {
            name: name.to_owned(),
            group: None,
            condition: StepCondition::default(),
            work: PlannedWork::Parallel,
        }
    }

    fn inferred() -> StepEnd {
        StepEnd {
            status: StepStatus::Failed,
            output: "It breaks.".to_owned(),
            why: Some("its verdict is fail".to_owned()),
            verdict: Some(Verdict::Fail),
            verdict_source: Some(VerdictSource::Inferred),
            spent: StepSpending {
                calls: 2,
                tokens: 1_234,
                cost: Money::ZERO,
            },
            reply: None,
        }
    }

    /// CI-7, CI-14
    #[test]
    fn the_end_of_a_step_has_its_verdict_with_its_source_its_tokens_and_its_time() {
        let done = DoneStep {
            took: Duration::from_millis(3_500),
            model: Some("house/m".to_owned()),
            ..DoneStep::default()
        };
        let (scan, end) = (planned("scan"), inferred());
        assert_eq!(
            summary(&scan, &end, &done).line(),
            "scan: failed, verdict fail (inferred), its verdict is fail, 1,234 tokens, 3.5s"
        );
        assert_eq!(
            summary(&scan, &end, &done).row(),
            ["scan", "failed", "fail (inferred)", "1,234", "3.5s"]
        );
        let value = step_value(&scan, &end, &done);
        assert_eq!(
            (
                &value["text"],
                &value["status"],
                &value["tokensUsed"],
                &value["duration"]
            ),
            (&"It breaks.".into(), &"failed".into(), &1_234.into(), &3.5.into())
        );
        assert_eq!(
            (&value["verdict"], &value["source"]),
            (&"fail".into(), &"inferred".into())
        );
        let skipped = StepEnd::skipped("an earlier step failed");
        assert_eq!(
            summary(&planned("report"), &skipped, &DoneStep::default()).line(),
            "report: skipped, an earlier step failed"
        );
    }
}
