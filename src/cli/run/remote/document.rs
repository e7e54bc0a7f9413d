//! A run as the HTTP API describes it: the document for scripts, and the facts of it that this program shows.

use super::super::summary::StepSummary;
use crate::base::model::{ChangeNumber, RunId, RunStatus, StepStatus, Verdict, VerdictSource, short_line};
use crate::cli::server_request::REASON_CHARS_MAX;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// A run of a server.
#[derive(Clone, Debug)]
pub(super) struct RemoteRun {
    /// The document as it was sent.
    pub(super) document: Value,
    /// The facts that are shown.
    pub(super) facts: RemoteRunFacts,
}

/// The facts about a run that are shown. A later server may send more.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoteRunFacts {
    pub(super) id: RunId,
    pub(super) pipeline: String,
    pub(super) repository: String,
    pub(super) status: RunStatus,
    why: Option<String>,
    pub(super) tokens_used: u64,
    pub(super) steps: Vec<RemoteStep>,
}

/// A step of a run of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoteStep {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) status: StepStatus,
    why: Option<String>,
    pub(super) text: String,
    verdict: Option<Verdict>,
    source: Option<VerdictSource>,
    pub(super) change: Option<ChangeNumber>,
    pub(super) model_calls: u32,
    tokens_used: u64,
    started_at: Option<String>,
    duration: Option<f64>,
}

impl RemoteRun {
    /// Reads a document; `None` if it is no run.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let facts = RemoteRunFacts::deserialize(&document).ok()?.in_lines();
        Some(Self { document, facts })
    }

    /// Returns true if nothing follows.
    pub(super) fn has_ended(&self) -> bool {
        self.facts.status.is_end()
    }
}

impl RemoteRunFacts {
    /// Makes each text that is shown within a line one of a bounded length, without terminal controls.
    fn in_lines(mut self) -> Self {
        let of_run = [&mut self.pipeline, &mut self.repository];
        let of_steps = self.steps.iter_mut().flat_map(|step| {
            let names = [&mut step.name, &mut step.kind];
            names.into_iter().chain(&mut step.why)
        });
        for text in of_run.into_iter().chain(&mut self.why).chain(of_steps) {
            *text = shown_line(text);
        }
        self
    }

    /// Returns the reason why the run did not succeed.
    pub(super) fn failure(&self) -> String {
        let mut steps = self.steps.iter();
        let failed = steps.find(|step| step.status == StepStatus::Failed && !step.is_group());
        let of_step = failed.map(|step| {
            let why = step.why.as_deref().unwrap_or("it failed");
            format!("step {}: {why}", step.name)
        });
        let why = match self.status {
            RunStatus::Failed => of_step.or_else(|| self.why.clone()),
            _ => self.why.clone(),
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        match self.status {
            RunStatus::Failed => format!("the run failed{why}"),
            status => format!("run {} {}{why}", self.id, status.phrase()),
        }
    }
}

impl RemoteStep {
    /// Returns true for a group of parallel steps.
    pub(super) fn is_group(&self) -> bool {
        self.kind == "parallel"
    }

    /// Returns true if its work has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.started_at.is_some()
    }

    /// Returns true if nothing follows.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.status, StepStatus::Waiting | StepStatus::Running)
    }

    /// Returns the facts about its end that people read.
    pub(super) fn summary(&self) -> StepSummary<'_> {
        let seconds = self.duration.unwrap_or_default();
        StepSummary {
            name: &self.name,
            status: self.status,
            verdict: self.verdict.zip(self.source),
            why: self.why.as_deref(),
            calls: self.model_calls,
            tokens: self.tokens_used,
            took: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        }
    }
}

/// Returns a text of a server as one line.
pub(super) fn shown_line(text: &str) -> String {
    short_line(&text.replace(['\r', '\n', '\t'], " "), REASON_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{REASON_CHARS_MAX, RemoteRun};
    use serde_json::{Value, json};

    fn step(name: &str, kind: &str, status: &str, why: Option<&str>) -> Value {
        json!({
            "name": name, "kind": kind, "status": status, "why": why, "text": "", "verdict": null, "source": null,
            "change": null, "modelCalls": 0, "tokensUsed": 0, "startedAt": null, "duration": null,
        })
    }

    fn failure(status: &str, why: Option<&str>, steps: &[Value]) -> String {
        let run = json!({
            "id": 7, "pipeline": "review", "repository": "infra", "status": status, "why": why, "tokensUsed": 0,
            "steps": steps, "later": true,
        });
        let run = RemoteRun::read(run.to_string().as_bytes()).unwrap();
        assert!(run.has_ended() && run.document["later"] == true);
        run.facts.failure()
    }

    #[test]
    fn the_reason_of_a_failed_run_is_that_of_its_first_failed_step() {
        let steps = [
            step("both", "parallel", "failed", Some("a step of it failed")),
            step("one", "agent", "failed", Some("its verdict is fail")),
            step("two", "task", "failed", Some("exit code 1")),
        ];
        let said = "the run failed: step one: its verdict is fail";
        assert_eq!(failure("failed", Some("a step failed"), &steps), said);
        let waiting = [step("one", "agent", "cancelled", None)];
        assert_eq!(
            failure("failed", Some("its time is over"), &waiting),
            "the run failed: its time is over"
        );
        assert_eq!(failure("failed", None, &[]), "the run failed");
        assert_eq!(
            failure("cancelled", Some("cancelled by alice"), &waiting),
            "run 7 is cancelled: cancelled by alice"
        );
    }

    #[test]
    fn a_text_of_a_server_controls_no_terminal_and_makes_no_line_of_its_own() {
        let long = "w".repeat(REASON_CHARS_MAX + 1);
        let run = json!({
            "id": 7, "pipeline": "re\u{1b}[2Jview", "repository": "infra\u{202e}", "status": "failed", "why": "a\nb",
            "tokensUsed": 0, "steps": [step("one\nRun 8 was started.", "agent\r", "failed", Some(&long))],
        });
        let run = RemoteRun::read(run.to_string().as_bytes()).unwrap();
        let facts = &run.facts;
        assert_eq!(
            (
                facts.pipeline.as_str(),
                facts.repository.as_str(),
                facts.why.as_deref()
            ),
            ("re<U+001B>[2Jview", "infra<U+202E>", Some("a b"))
        );
        let step = &facts.steps[0];
        assert_eq!(
            (step.name.as_str(), step.kind.as_str()),
            ("one Run 8 was started.", "agent ")
        );
        assert_eq!(step.why.as_ref().unwrap().chars().count(), REASON_CHARS_MAX);
        assert_eq!(run.document["why"], "a\nb");
    }

    #[test]
    fn an_answer_that_is_no_run_is_not_read_as_one() {
        for text in ["", "[]", "{\"id\":1}", "{\"id\":1", "<html>"] {
            assert!(RemoteRun::read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
