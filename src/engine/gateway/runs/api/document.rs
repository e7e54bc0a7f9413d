//! Runs as programs read them: the typed result of a run and of each of its steps.

use crate::base::model::{
    ChangeNumber, Money, RunId, RunStatus, StepEnd, StepSpending, StepStatus, Verdict, VerdictSource,
    truncated_result,
};
use crate::base::redact::Redactor;
use crate::state::store::{RunHead, RunPage, RunRow, StepRow};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// The most bytes of the texts of all steps of a run.
const TEXTS_BYTES_MAX: usize = 1 << 20;
/// The most bytes of the text of one step.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A run of a pipeline, with the results of its steps.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Run")]
pub struct RunDocument {
    /// The number of the run.
    #[schemars(with = "i64")]
    pub id: RunId,
    /// The name of the pipeline.
    pub pipeline: String,
    /// The configured name of the repository.
    pub repository: String,
    /// The commit of the definition in hex digits.
    pub commit: String,
    /// The state.
    pub status: RunStatus,
    /// The reason of its end, if it has one.
    pub why: Option<String>,
    /// The kind of the trigger and its name, such as `api` or `hook ci`.
    pub trigger: String,
    /// The name of the person or service that it belongs to.
    pub owner: Option<String>,
    /// The run that it repeats.
    #[schemars(with = "Option<i64>")]
    pub retry_of: Option<RunId>,
    /// The time at which it was requested.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// The time from which its steps may run; none if it has not begun.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub ended_at: Option<Timestamp>,
    /// The seconds from its begin to its end; none before its end.
    pub duration: Option<f64>,
    /// The tokens that its steps have used, input and output.
    pub tokens_used: u64,
    /// Their cost in US dollars; 0 for a model without known prices.
    pub cost_usd: f64,
    /// The steps in the order of the definition.
    pub steps: Vec<StepDocument>,
}

/// A step of a run, with its result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunStep")]
pub struct StepDocument {
    /// The name of the step.
    pub name: String,
    /// The kind of its work in one word, such as `agent`.
    pub kind: String,
    /// The state.
    pub status: StepStatus,
    /// The reason in one sentence, if it did not succeed, or if its reply was not delivered.
    pub why: Option<String>,
    /// The output. The middle of a long one is left out, and a line says so. Empty for a token without `runs:read`.
    pub text: String,
    /// The verdict of an agent step.
    pub verdict: Option<Verdict>,
    /// The source of the verdict.
    pub source: Option<VerdictSource>,
    /// The number of the change that it prepared, such as 42 for `CHG-42`.
    #[schemars(with = "Option<i64>")]
    pub change: Option<ChangeNumber>,
    /// The number of calls of a model.
    pub model_calls: u32,
    /// The tokens that it has used, input and output.
    pub tokens_used: u64,
    /// Their cost in US dollars; 0 for a model without known prices.
    pub cost_usd: f64,
    /// The time at which it began.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub ended_at: Option<Timestamp>,
    /// The seconds from its begin to its end; none before its end.
    pub duration: Option<f64>,
}

/// A run of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListedRun")]
pub struct ListedRunDocument {
    /// The number of the run.
    #[schemars(with = "i64")]
    pub id: RunId,
    /// The name of the pipeline.
    pub pipeline: String,
    /// The configured name of the repository.
    pub repository: String,
    /// The state.
    pub status: RunStatus,
    /// The reason of its end, if it has one.
    pub why: Option<String>,
    /// The kind of the trigger and its name, such as `api` or `hook ci`.
    pub trigger: String,
    /// The name of the person or service that it belongs to.
    pub owner: Option<String>,
    /// The time at which it was requested.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// The time from which its steps may run; none if it has not begun.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub ended_at: Option<Timestamp>,
}

/// A part of the list of runs, the newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunList")]
pub struct RunListDocument {
    /// The runs.
    pub runs: Vec<ListedRunDocument>,
    /// The value of `before` for the next part; none if no older run is left.
    #[schemars(with = "Option<i64>")]
    pub next: Option<RunId>,
}

impl RunDocument {
    pub(super) fn of(row: &RunRow, redactor: &Redactor) -> Self {
        let head = &row.head;
        let text_bytes_max = TEXT_BYTES_MAX.min(TEXTS_BYTES_MAX / row.steps.len().max(1));
        let steps = row.steps.iter();
        let steps: Vec<StepDocument> = steps
            .map(|step| StepDocument::of(step, text_bytes_max, redactor))
            .collect();
        let ends = row.steps.iter().filter_map(|step| step.end.as_ref());
        let spent: StepSpending = ends.map(|end| end.spent).sum();
        Self {
            id: head.id,
            pipeline: head.pipeline.clone(),
            repository: head.repository.clone(),
            commit: row.commit.clone(),
            status: head.status,
            why: redacted(head.why.as_deref(), redactor),
            trigger: head.trigger.clone(),
            owner: head.owner_name.clone(),
            retry_of: head.retry_of,
            created_at: head.created_at,
            started_at: head.started_at,
            ended_at: head.ended_at,
            duration: seconds(head.started_at, head.ended_at),
            tokens_used: spent.tokens,
            cost_usd: dollars(spent.cost),
            steps,
        }
    }
}

impl StepDocument {
    fn of(row: &StepRow, text_bytes_max: usize, redactor: &Redactor) -> Self {
        let end = row.end.as_ref();
        let spent = end.map(|end| end.spent).unwrap_or_default();
        let text = redactor.redact(end.map_or("", |end| end.output.as_str()));
        Self {
            name: row.name.clone(),
            kind: row.kind.clone(),
            status: row.status,
            why: redacted(end.and_then(|end| end.why.as_deref()), redactor),
            text: shortened(&text, text_bytes_max),
            verdict: end.and_then(|end: &StepEnd| end.verdict),
            source: end.and_then(|end| end.verdict_source),
            change: row.change,
            model_calls: spent.calls,
            tokens_used: spent.tokens,
            cost_usd: dollars(spent.cost),
            started_at: row.started_at,
            ended_at: row.ended_at,
            duration: seconds(row.started_at, row.ended_at),
        }
    }
}

impl RunListDocument {
    pub(super) fn of(page: &RunPage, redactor: &Redactor) -> Self {
        let runs = page.runs.iter();
        Self {
            runs: runs.map(|head| ListedRunDocument::of(head, redactor)).collect(),
            next: page.next,
        }
    }
}

impl ListedRunDocument {
    fn of(head: &RunHead, redactor: &Redactor) -> Self {
        Self {
            id: head.id,
            pipeline: head.pipeline.clone(),
            repository: head.repository.clone(),
            status: head.status,
            why: redacted(head.why.as_deref(), redactor),
            trigger: head.trigger.clone(),
            owner: head.owner_name.clone(),
            created_at: head.created_at,
            started_at: head.started_at,
            ended_at: head.ended_at,
        }
    }
}

fn redacted(text: Option<&str>, redactor: &Redactor) -> Option<String> {
    text.map(|text| redactor.redact(text).into_owned())
}

/// Returns a text without its middle if it is longer: a quarter is its beginning, and the rest its end.
fn shortened(text: &str, bytes_max: usize) -> String {
    let bytes = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let head = bytes_max / 4;
    truncated_result(text, bytes(head), bytes(bytes_max - head)).into_owned()
}

fn seconds(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<f64> {
    let passed = to?.duration_since(from?);
    // A clock that was set back gives no negative time.
    Some(passed.as_secs_f64().max(0.0))
}

fn dollars(cost: Money) -> f64 {
    cost.nano_dollars() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::{seconds, shortened};
    use jiff::Timestamp;

    #[test]
    fn a_long_text_loses_its_middle_and_a_time_is_never_negative() {
        assert_eq!(shortened("short", 64), "short");
        let long = shortened(&"ä".repeat(1_000), 64);
        assert!(long.starts_with("ääää") && long.ends_with("ääää"), "{long}");
        assert!(long.len() < 200 && long.contains("bytes"), "{long}");
        let at = |second| Timestamp::from_second(second).ok();
        assert_eq!(seconds(at(1), at(3)), Some(2.0));
        assert_eq!(seconds(at(3), at(1)), Some(0.0));
        assert_eq!((seconds(None, at(1)), seconds(at(1), None)), (None, None));
    }
}
