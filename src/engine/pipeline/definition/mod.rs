//! The types of `.drydock/pipelines.yaml` and `.drydock/pipelines.jsonnet`. The JSON Schema of the file is made from
//! them, and every file is checked with this schema before it becomes a value of these types.

mod agent;
mod scalar;
mod step;
mod trigger;

pub use agent::{
    AgentSettings, AgentStep, ContainerTool, InlineTool, McpServer, McpTransport, ServerChoice, StepTool,
};
pub(super) use scalar::EXPECTED_TEXTS;
pub use scalar::{
    ChatCommand, ConditionText, Identifier, ImageName, LiteralText, ModelReference, PayloadPointer,
    PipelineName, PipelineValue, ReplyTarget, ScalarValue, ServerUrl, TimeLimit, ToolName, ValueReference,
    VariableName,
};
pub use step::{
    AskStep, AskedParty, ParallelStep, PipelineAction, PipelineStep, ReplyStep, StepAction, StepCondition,
    StepOutcome, StepRef, StepWork, TaskStep, role_of_group,
};
pub use trigger::{
    ApiTrigger, ChatTrigger, CommandLineTrigger, HookTrigger, PipelineTrigger, ScheduleTrigger, SlashTrigger,
    TriggerField, TriggerSource,
};

use crate::base::model::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The pipelines of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineFile {
    /// Settings of all agent steps. Those of a pipeline override them, and those of a step override both.
    #[serde(default)]
    pub defaults: AgentSettings,
    /// Container tools that every agent step may name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = super::TOOLS_MAX))]
    pub tools: BTreeMap<Identifier, ContainerTool>,
    /// MCP servers that every agent step may name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = super::TOOLS_MAX))]
    pub mcp_servers: BTreeMap<Identifier, McpServer>,
    /// Limits of what every pipeline may do.
    #[serde(default)]
    pub permissions: PipelinePermissions,
    /// The pipelines, by name.
    #[schemars(extend("maxProperties" = super::PIPELINES_MAX))]
    pub pipelines: BTreeMap<PipelineName, PipelineDefinition>,
}

impl PipelineFile {
    /// Converts a value that was checked with the schema. The error is a fault of Drydock.
    pub(super) fn from_json(value: Value) -> Result<Self, String> {
        serde_json::from_value(value)
            .map_err(|error| format!("fits its schema and is not understood: {error}"))
    }
}

/// One pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineDefinition {
    /// A description in one line.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub description: String,
    /// The events that start the pipeline.
    #[schemars(length(min = 1, max = super::TRIGGERS_MAX))]
    pub triggers: Vec<PipelineTrigger>,
    /// Typed inputs, by name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = super::ENTRIES_MAX))]
    pub params: BTreeMap<Identifier, PipelineParameter>,
    /// The rule for runs at the same time.
    #[serde(default)]
    pub concurrency: Option<ConcurrencyRule>,
    /// Bounds of one run.
    #[serde(default)]
    pub budget: PipelineBudget,
    /// Limits of what this pipeline may do, in addition to those of the file.
    #[serde(default)]
    pub permissions: PipelinePermissions,
    /// Settings of the agent steps of this pipeline.
    #[serde(default)]
    pub defaults: AgentSettings,
    /// Container tools that agent steps of this pipeline may name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = super::TOOLS_MAX))]
    pub tools: BTreeMap<Identifier, ContainerTool>,
    /// MCP servers that agent steps of this pipeline may name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = super::TOOLS_MAX))]
    pub mcp_servers: BTreeMap<Identifier, McpServer>,
    /// The steps, in order.
    #[schemars(length(min = 1, max = super::STEPS_MAX))]
    pub steps: Vec<PipelineStep>,
}

impl PipelineDefinition {
    /// Returns every step, with those inside of parallel groups directly after their group.
    pub fn all_steps(&self) -> impl Iterator<Item = StepRef<'_>> {
        self.steps.iter().flat_map(|step| {
            std::iter::once(step.borrowed()).chain(step.parallel().iter().map(ParallelStep::borrowed))
        })
    }
}

/// Limits of what a pipeline or a step may do. What is left out is not limited here. The effective permissions are the
/// intersection of those of the server, the file, the pipeline and the step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelinePermissions {
    /// The tools that agents may use.
    #[serde(default)]
    #[schemars(length(max = super::TOOLS_MAX))]
    pub tools: Option<Vec<ToolName>>,
    /// The targets of replies.
    #[serde(default)]
    #[schemars(length(max = super::ENTRIES_MAX))]
    pub replies: Option<Vec<ReplyTarget>>,
    /// The role.
    #[serde(default)]
    pub role: Option<PipelineRole>,
    /// Globs of the environments that changes may affect.
    #[serde(default)]
    #[schemars(length(max = super::ENTRIES_MAX), inner(length(min = 1, max = 200)))]
    pub environments: Option<Vec<String>>,
}

/// The role of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PipelineRole {
    /// It reads.
    Viewer,
    /// It reads, and prepares changes.
    Editor,
}

impl PipelineRole {
    /// Returns the word of the role in a definition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
        }
    }
}

impl From<PipelineRole> for Role {
    fn from(role: PipelineRole) -> Self {
        match role {
            PipelineRole::Viewer => Self::Viewer,
            PipelineRole::Editor => Self::Editor,
        }
    }
}

/// A typed input of a pipeline. Without a default it is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineParameter {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// The allowed texts of the type `choice`.
    #[serde(default)]
    #[schemars(length(max = super::ENTRIES_MAX), inner(length(min = 1, max = 200)))]
    pub choices: Vec<String>,
    /// The value of a run that gives none.
    #[serde(default)]
    pub default: Option<ScalarValue>,
    /// A description in one line.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub description: String,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// One of some texts.
    Choice,
}

impl ParameterType {
    /// Returns the word of the type in a definition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Choice => "choice",
        }
    }
}

/// The rule for runs of one group at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrencyRule {
    /// The name of the group in this repository. If it is a reference, the groups belong to this pipeline alone.
    pub group: PipelineValue,
    /// The treatment of a run whose group is busy.
    #[serde(default)]
    pub on_conflict: RunConflict,
}

/// The treatment of a run whose group is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunConflict {
    /// It waits.
    #[default]
    Serial,
    /// It cancels the running one.
    Cancel,
    /// It does not start.
    Skip,
}

impl RunConflict {
    /// Returns the word of the rule in a definition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Cancel => "cancel",
            Self::Skip => "skip",
        }
    }
}

/// Bounds of one run, all steps together. What is left out is bounded by the server alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineBudget {
    /// Model calls.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_steps: Option<u32>,
    /// Tokens, input and output.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_tokens: Option<u64>,
    /// US cents.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_cents: Option<u64>,
    /// The time from the start to the end.
    #[serde(default)]
    pub timeout: Option<TimeLimit>,
}
