//! Runs of pipelines: their states, the ends of their steps, and the work of an agent step.

use super::{Money, ReplyMessages, RunId, Verdict, VerdictSource, seconds, truncated_result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The maximum number of bytes of the output of a step.
pub const STEP_OUTPUT_BYTES_MAX: usize = 256 << 10;
/// The bytes that are kept of a longer one. The rest is for the line about the missing ones.
const OUTPUT_HEAD_BYTES: u32 = 16 << 10;
const OUTPUT_TAIL_BYTES: u32 = 239 << 10;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It waits until no other run of its group runs.
    Queued,
    /// Its steps run.
    Running,
    /// It ended, and no step failed.
    Succeeded,
    /// It ended, and a step failed, or its time was over.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It did not start, because its group was busy.
    Skipped,
}

impl RunStatus {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// Returns the state in one word, for people and for the store.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// Returns the state as the end of a sentence about a run.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Queued => "is queued",
            Self::Running => "is running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "is cancelled",
            Self::Skipped => "was skipped",
        }
    }

    /// Returns true if nothing follows.
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It has not begun.
    Waiting,
    /// Its work is under way.
    Running,
    /// Its work was done.
    Succeeded,
    /// Its work failed, or could not begin.
    Failed,
    /// Its condition was not met.
    Skipped,
    /// It was cancelled, before or after it began.
    Cancelled,
}

impl StepStatus {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// Returns the state in one word, for people and for the store.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns true if nothing follows.
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// Returns the word of `steps.NAME.status` in conditions and references: `success`, `failure` or `skipped`.
    pub const fn condition_word(self) -> &'static str {
        match self {
            Self::Succeeded => "success",
            Self::Skipped => "skipped",
            Self::Waiting | Self::Running | Self::Failed | Self::Cancelled => "failure",
        }
    }
}

/// The end of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// The state, which is an end.
    pub status: StepStatus,
    /// The output; at most [`STEP_OUTPUT_BYTES_MAX`].
    pub output: String,
    /// The reason in one sentence, if it did not succeed, or if its reply was not delivered.
    #[serde(default)]
    pub why: Option<String>,
    /// The verdict of an agent step.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// The source of the verdict.
    #[serde(default)]
    pub verdict_source: Option<VerdictSource>,
    /// The amounts that the step has used.
    #[serde(default)]
    pub spent: StepSpending,
    /// The messages of a reply of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplyMessages>,
}

impl StepEnd {
    /// Creates the end of a step that did its work. The middle of a very long output is left out.
    pub fn succeeded(output: &str) -> Self {
        Self::new(StepStatus::Succeeded, None).with_output(output)
    }

    /// Creates the end of a step that failed.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::new(StepStatus::Failed, Some(why.into()))
    }

    /// Creates the end of a step that does not run.
    pub fn skipped(why: impl Into<String>) -> Self {
        Self::new(StepStatus::Skipped, Some(why.into()))
    }

    /// Creates the end of a step of a cancelled run.
    pub fn cancelled(why: impl Into<String>) -> Self {
        Self::new(StepStatus::Cancelled, Some(why.into()))
    }

    /// Returns this end with an output. The middle of a very long one is left out.
    #[must_use]
    pub fn with_output(mut self, output: &str) -> Self {
        self.output = match output.len() > STEP_OUTPUT_BYTES_MAX {
            true => truncated_result(output, OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES).into_owned(),
            false => output.to_owned(),
        };
        self
    }

    fn new(status: StepStatus, why: Option<String>) -> Self {
        Self {
            status,
            output: String::new(),
            why,
            verdict: None,
            verdict_source: None,
            spent: StepSpending::default(),
            reply: None,
        }
    }
}

/// Returns the run, the step by its place in the plan, and the name of an operation of a step, such as `run-12-0/reply-1`;
/// `None` for another operation.
pub fn step_of_operation(id: &str) -> Option<(RunId, usize, &str)> {
    let (step_id, name) = id.split_once('/')?;
    let (run, step) = step_id.strip_prefix("run-")?.split_once('-')?;
    Some((RunId(run.parse().ok()?), step.parse().ok()?, name))
}

/// The amounts that a step has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSpending {
    /// The number of model calls.
    pub calls: u32,
    /// The number of tokens, input and output.
    pub tokens: u64,
    /// Their cost; none for a model without known prices.
    pub cost: Money,
}

impl std::ops::AddAssign for StepSpending {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost += other.cost;
    }
}

impl std::iter::Sum for StepSpending {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, spent| {
            sum += spent;
            sum
        })
    }
}

/// The limits of an agent step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentBounds {
    /// The model, as `provider/model`.
    pub model: String,
    /// The address of the API of the provider; by default that of the configuration.
    pub base_url: Option<String>,
    /// The number of model calls.
    pub max_steps: u32,
    /// The number of tokens; 0 means no bound.
    pub max_tokens: u64,
    /// US cents; 0 means no bound.
    pub max_cents: u64,
    /// The time of the step.
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// Bytes of the beginning of a long output.
    pub truncate_head: u32,
    /// Bytes of the end of a long output.
    pub truncate_tail: u32,
    /// The names of the tools of Drydock that the model may use.
    pub tools: BTreeSet<String>,
    /// True if the step may change files.
    pub may_edit: bool,
    /// Globs of environments, a list for each level; a changed environment must match one of each list. `None` means
    /// no bound.
    pub environments: Option<Vec<Vec<String>>>,
}

/// The work of an agent step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineWork {
    /// The run.
    pub run: RunId,
    /// The index of the step in the plan of the run.
    pub step: u32,
    /// The name of the step.
    pub step_name: String,
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// The commit of the run, whose files the step sees. Without one, as stored by earlier versions, it is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The request to the model.
    pub words: String,
    /// Values that the model reads as data, with their names.
    pub data: Vec<(String, String)>,
    /// The limits.
    pub bounds: AgentBounds,
    /// The outputs of earlier steps, by name of the step.
    pub results: BTreeMap<String, String>,
}

/// The rule for a run whose group is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunConflictRule {
    /// It waits.
    #[default]
    Serial,
    /// It cancels the running one.
    Cancel,
    /// It does not start.
    Skip,
}

impl RunConflictRule {
    /// Returns the word of the rule.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Cancel => "cancel",
            Self::Skip => "skip",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::step_of_operation;
    use crate::base::model::RunId;

    #[test]
    fn the_step_of_an_operation_is_read_from_its_name() {
        for (id, name) in [
            ("run-12-3/reply-1", "reply-1"),
            ("run-12-3/question/closed", "question/closed"),
        ] {
            assert_eq!(step_of_operation(id), Some((RunId(12), 3, name)));
        }
        for other in [
            "run-12/message/4",
            "run-12-3",
            "run-x-3/reply-1",
            "inbox-12-3/reply-1",
            "",
        ] {
            assert_eq!(step_of_operation(other), None, "{other}");
        }
    }
}
