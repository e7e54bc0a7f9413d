//! Schedules: what is started at which times, and how that ended.

use super::ChatPlace;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The content of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleDefinition {
    /// The times, such as `weekdays 09:00` or a cron expression.
    pub when: String,
    /// The IANA name of the time zone of the times.
    pub zone: String,
    /// The request to the model; empty if a pipeline is started.
    pub words: String,
    /// The repository of the request.
    pub repository: String,
    /// The configured name of the channel of the results.
    pub channel: String,
    /// The place of the results. The account of a configured schedule is known only once its channel is connected.
    pub place: ChatPlace,
    /// The rule for a time at which no server ran.
    pub missed: MissedRule,
    /// True if nothing is posted about a turn that changed nothing and did not fail, or about a run without anything to say.
    pub quiet: bool,
    /// The trigger of a pipeline to which the times belong, if one is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineSchedule>,
}

/// The trigger of a pipeline that starts it at set times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineSchedule {
    /// The name of the pipeline.
    pub name: String,
    /// The place among the triggers of the pipeline with set times, from 1.
    pub trigger: u32,
    /// The rule for a time at which earlier work has not ended.
    pub overlap: OverlapRule,
}

/// The rule for a time of a pipeline at which the run of an earlier time has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlapRule {
    /// The time is left out.
    LeaveOut,
    /// The rule of the pipeline for runs at the same time decides.
    Concurrency,
}

/// The rule for times at which no server ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRule {
    /// All times that were missed are made up for once.
    Once,
    /// They are left out.
    Skip,
}

/// The work that a schedule starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledWork {
    /// The name of the schedule.
    pub schedule: String,
    /// The time for which it was due.
    pub due: Timestamp,
    /// The request to the model; empty if a pipeline is started.
    pub words: String,
    /// The repository of the request.
    pub repository: String,
    /// The place of the result.
    pub place: ChatPlace,
    /// True if nothing is posted about a turn that changed nothing and did not fail, or about a run without anything to say.
    pub quiet: bool,
    /// The pipeline that is started in place of a turn, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<ScheduledPipeline>,
}

/// The pipeline that a schedule starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledPipeline {
    /// The name of the pipeline.
    pub name: String,
    /// The place of the trigger among those of the pipeline with set times, from 1.
    pub trigger: u32,
    /// The times of the trigger when the schedule fired.
    pub when: String,
    /// The IANA name of their time zone.
    pub zone: String,
}

/// The end of a fire of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FireOutcome {
    /// The turn ended with an answer, also one about a change whose checks fail, or the run succeeded.
    Done,
    /// The turn ended without an answer, such as after an error or at a limit, or was refused, or the run failed.
    Failed,
    /// A person stopped the turn, or the run was cancelled.
    Stopped,
    /// It was left out, because no server ran at that time.
    Missed,
    /// It was left out, because the work of an earlier fire had not ended.
    Overlapped,
    /// Nothing was started: the condition of the trigger was false, the group of the pipeline was busy, or the trigger did not
    /// have these times any more.
    Skipped,
}

impl FireOutcome {
    /// Returns the outcome in one word, for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Missed => "missed",
            Self::Overlapped => "overlapped",
            Self::Skipped => "skipped",
        }
    }
}
