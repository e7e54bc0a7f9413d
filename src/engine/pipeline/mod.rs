//! Pipelines of a repository: their definitions, the checks of these, and the effective values with their sources. The
//! definitions are text that anybody with access to the repository can write, so every size is bounded.
//!
//! [`LoadedPipelines`] reads and checks a file, [`effective()`] resolves one pipeline of it, and [`CompiledCondition`]
//! evaluates a condition. A run is planned and driven with [`run`], [`TaskPrograms`] runs the programs of its tasks, and
//! [`traced_calls()`] returns the calls of its agent steps for people.

mod check;
mod condition;
pub mod definition;
mod document;
mod effective;
mod explain;
mod problem;
pub mod run;
mod schema;
mod shape;
mod source;
mod structure;
mod task;
#[cfg(test)]
mod tests;
mod traced_calls;

pub use check::OperatorLimits;
pub use condition::{
    CompiledCondition, ConditionError, ConditionEvent, ConditionNames, ConditionValues, StepResult,
};
pub use effective::{
    EffectiveAgent, EffectiveBudget, EffectivePermissions, EffectivePipeline, EffectiveStep, LimitedBy,
    Sourced, ValueSource, effective, similar_pipeline,
};
pub use explain::{ExplainedValue, explain};
pub use problem::{DefinitionError, DefinitionProblem};
pub use schema::json_schema;
pub use source::{JSONNET_FILE, LoadedPipelines, YAML_FILE};
pub use task::TaskPrograms;
pub use traced_calls::{CallFile, TracedCalls, traced_calls};

use definition::TimeLimit;

/// The maximum number of bytes of a file, and of the value of a program.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of levels of lists and maps of a file.
const NESTING_MAX: usize = 16;
/// The maximum number of values of a file.
const VALUES_MAX: usize = 100_000;
/// The maximum number of pipelines of a file.
const PIPELINES_MAX: usize = 1_000;
/// The maximum number of triggers of a pipeline.
const TRIGGERS_MAX: usize = 20;
/// The maximum number of steps of a pipeline, not counting those inside of parallel groups.
const STEPS_MAX: usize = 50;
/// The maximum number of steps of a parallel group.
const PARALLEL_MAX: usize = 16;
/// The maximum number of steps of a pipeline with those inside of parallel groups.
const ALL_STEPS_MAX: usize = 100;
/// The maximum number of tools or servers of a step, a pipeline or a file.
const TOOLS_MAX: usize = 50;
/// The maximum number of entries of other maps and lists.
const ENTRIES_MAX: usize = 50;
/// The maximum number of arguments of a program.
const ARGUMENTS_MAX: usize = 64;
/// The maximum number of answers of a question.
const CHOICES_MAX: usize = 5;
/// The maximum time of one step.
const STEP_TIME_MAX: TimeLimit = TimeLimit::from_seconds(24 * 3_600);
/// The maximum time of a question and of a whole run.
const ASK_DEADLINE_MAX: TimeLimit = TimeLimit::from_seconds(7 * 24 * 3_600);
