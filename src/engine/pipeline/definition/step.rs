//! The steps of a pipeline.

use super::{
    AgentStep, ConditionText, Identifier, ImageName, LiteralText, PipelineValue, ReplyTarget, TimeLimit,
    VariableName,
};
use crate::base::model::Role;
use crate::engine::pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A step, or a group of steps that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineStep {
    /// The name, which is unique in the pipeline.
    pub name: Identifier,
    /// The condition of the step.
    #[serde(flatten)]
    pub condition: StepCondition,
    /// The work of the step.
    #[serde(flatten)]
    pub action: PipelineAction,
}

/// A step inside of a parallel group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParallelStep {
    /// The name, which is unique in the pipeline.
    pub name: Identifier,
    /// The condition of the step.
    #[serde(flatten)]
    pub condition: StepCondition,
    /// The work of the step.
    #[serde(flatten)]
    pub action: StepAction,
}

/// The condition of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepCondition {
    /// The expression that must be true; otherwise the step is skipped.
    #[serde(default)]
    pub when: Option<ConditionText>,
    /// The outcome of the steps before it, for which the step runs.
    #[serde(default)]
    pub on: StepOutcome,
}

/// The outcome of the earlier steps, for which a step runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepOutcome {
    /// No earlier step has failed.
    #[default]
    Success,
    /// An earlier step has failed.
    Failure,
    /// Any outcome.
    Always,
}

impl StepOutcome {
    /// Returns the word of the outcome in a definition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Always => "always",
        }
    }
}

/// The work of a step, or a parallel group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PipelineAction {
    /// A model works with tools.
    Agent(Box<AgentStep>),
    /// A program runs in the sandbox.
    Task(TaskStep),
    /// A person or a group is asked.
    Ask(AskStep),
    /// A text is sent.
    Reply(ReplyStep),
    /// Steps that run at the same time.
    Parallel(#[schemars(length(min = 1, max = pipeline::PARALLEL_MAX))] Vec<ParallelStep>),
}

/// The work of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    /// A model works with tools.
    Agent(Box<AgentStep>),
    /// A program runs in the sandbox.
    Task(TaskStep),
    /// A person or a group is asked.
    Ask(AskStep),
    /// A text is sent.
    Reply(ReplyStep),
}

/// A borrowed step, inside of a parallel group or not.
#[derive(Clone, Copy, Debug)]
pub struct StepRef<'a> {
    /// The name.
    pub name: &'a Identifier,
    /// The condition.
    pub condition: &'a StepCondition,
    /// The work; `None` for a parallel group itself.
    pub work: Option<StepWork<'a>>,
}

/// The borrowed work of a step.
#[derive(Clone, Copy, Debug)]
pub enum StepWork<'a> {
    /// A model works with tools.
    Agent(&'a AgentStep),
    /// A program runs in the sandbox.
    Task(&'a TaskStep),
    /// A person or a group is asked.
    Ask(&'a AskStep),
    /// A text is sent.
    Reply(&'a ReplyStep),
}

impl StepRef<'_> {
    /// Returns the word of the work in a definition.
    pub fn word(&self) -> &'static str {
        match self.work {
            Some(StepWork::Agent(_)) => "agent",
            Some(StepWork::Task(_)) => "task",
            Some(StepWork::Ask(_)) => "ask",
            Some(StepWork::Reply(_)) => "reply",
            None => "parallel",
        }
    }
}

impl PipelineStep {
    /// Returns the steps of a parallel group; none for another step.
    pub fn parallel(&self) -> &[ParallelStep] {
        match &self.action {
            PipelineAction::Parallel(steps) => steps,
            _ => &[],
        }
    }

    /// Borrows the step.
    pub fn borrowed(&self) -> StepRef<'_> {
        let work = match &self.action {
            PipelineAction::Agent(step) => Some(StepWork::Agent(step)),
            PipelineAction::Task(step) => Some(StepWork::Task(step)),
            PipelineAction::Ask(step) => Some(StepWork::Ask(step)),
            PipelineAction::Reply(step) => Some(StepWork::Reply(step)),
            PipelineAction::Parallel(_) => None,
        };
        StepRef {
            name: &self.name,
            condition: &self.condition,
            work,
        }
    }
}

impl ParallelStep {
    /// Borrows the step.
    pub fn borrowed(&self) -> StepRef<'_> {
        let work = match &self.action {
            StepAction::Agent(step) => StepWork::Agent(step),
            StepAction::Task(step) => StepWork::Task(step),
            StepAction::Ask(step) => StepWork::Ask(step),
            StepAction::Reply(step) => StepWork::Reply(step),
        };
        StepRef {
            name: &self.name,
            condition: &self.condition,
            work: Some(work),
        }
    }
}

/// A program in the sandbox. It reads its values from the file `$DRYDOCK_IN`, and writes its result to the file
/// `$DRYDOCK_OUT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStep {
    /// The program and its arguments. The program itself is literal, and is a name of the operator's list.
    #[schemars(length(min = 1, max = pipeline::ARGUMENTS_MAX))]
    pub command: Vec<PipelineValue>,
    /// Values in `$DRYDOCK_IN`, by name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub inputs: BTreeMap<Identifier, PipelineValue>,
    /// Variables of the program.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub env: BTreeMap<VariableName, PipelineValue>,
    /// The image; by default that of the step before.
    #[serde(default)]
    pub image: Option<ImageName>,
    /// The time that the program may take.
    #[serde(default)]
    pub timeout: Option<TimeLimit>,
}

/// A question to a person or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskStep {
    /// The person or group.
    pub to: AskedParty,
    /// The question.
    pub question: LiteralText,
    /// Values that are shown with the question, by name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub values: BTreeMap<Identifier, PipelineValue>,
    /// The answers to choose from.
    #[schemars(length(min = 2, max = pipeline::CHOICES_MAX), inner(length(min = 1, max = 75)))]
    pub choices: Vec<String>,
    /// The time until the default counts as the answer.
    pub deadline: TimeLimit,
    /// The answer if nobody chooses one; without it the step fails.
    #[serde(default)]
    #[schemars(length(min = 1, max = 75))]
    pub default: Option<String>,
}

/// A person or a group that is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskedParty {
    /// A person, by the name of their invite.
    Person(#[schemars(length(min = 1, max = 100))] String),
    /// Those with a role in the repository: `viewers`, `editors` or `administrators`.
    Group(#[schemars(length(min = 1, max = 100))] String),
}

/// Returns the least role of those in a group; `None` if there is no group with this name.
pub fn role_of_group(name: &str) -> Option<Role> {
    match name {
        "viewers" => Some(Role::Viewer),
        "editors" => Some(Role::Editor),
        "administrators" => Some(Role::Admin),
        _ => None,
    }
}

/// A text that is sent to a target of the operator's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplyStep {
    /// The target.
    pub to: ReplyTarget,
    /// The text.
    pub text: PipelineValue,
}
