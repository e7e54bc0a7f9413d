//! The types of effective values, and the intersection of permissions.

use crate::engine::pipeline::definition::{
    ContainerTool, ImageName, McpServer, ModelReference, PipelineDefinition, PipelinePermissions,
    PipelineRole, PipelineValue, ServerUrl, StepRef, TimeLimit, VariableName,
};
use std::collections::{BTreeMap, BTreeSet};

/// The place in which a value is defined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSource {
    /// A key of the step.
    Step(String),
    /// The step before, by name.
    PreviousStep(String),
    /// A key of the pipeline.
    Pipeline(String),
    /// A key of the file.
    File(String),
    /// A key of the configuration of the server.
    Server(&'static str),
    /// The default of Drydock.
    BuiltIn,
}

/// A value with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// The source.
    pub source: ValueSource,
}

/// A limit, and the levels that define it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedBy<T> {
    /// The limit; `None` means none.
    pub limit: Option<T>,
    /// The levels that define it.
    pub sources: Vec<ValueSource>,
}

impl<T> Default for LimitedBy<T> {
    fn default() -> Self {
        Self {
            limit: None,
            sources: Vec::new(),
        }
    }
}

/// The effective values of a pipeline.
#[derive(Clone, Debug)]
pub struct EffectivePipeline<'a> {
    /// The key of the pipeline, such as `pipelines.review`.
    pub key: String,
    /// The definition.
    pub definition: &'a PipelineDefinition,
    /// The bounds of one run.
    pub budget: EffectiveBudget,
    /// The permissions of the pipeline. Those of a step may be fewer.
    pub permissions: EffectivePermissions,
    /// The names of the programs that its tasks may run.
    pub programs: BTreeSet<String>,
    /// The steps, with those of a group directly after it.
    pub steps: Vec<EffectiveStep<'a>>,
}

/// The bounds of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveBudget {
    /// Model calls.
    pub max_steps: Sourced<u32>,
    /// Tokens; 0 means no bound.
    pub max_tokens: Sourced<u64>,
    /// US cents; 0 means no bound.
    pub max_cents: Sourced<u64>,
    /// The time from the start to the end.
    pub timeout: Sourced<TimeLimit>,
}

/// The intersection of the permissions of several levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectivePermissions {
    /// The tools that agents may use.
    pub tools: LimitedBy<BTreeSet<String>>,
    /// The targets of replies.
    pub replies: LimitedBy<BTreeSet<String>>,
    /// The role.
    pub role: LimitedBy<PipelineRole>,
    /// Globs of environments, a list for each level. An environment must match one of each list.
    pub environments: LimitedBy<Vec<Vec<String>>>,
}

/// A step with its effective values.
#[derive(Clone, Debug)]
pub struct EffectiveStep<'a> {
    /// The key of the step, such as `pipelines.review.steps[0]`.
    pub key: String,
    /// The definition.
    pub step: StepRef<'a>,
    /// The effective values of an agent step.
    pub agent: Option<EffectiveAgent>,
}

/// The effective values of an agent step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveAgent {
    /// The model; `None` only in a definition with problems.
    pub model: Option<Sourced<ModelReference>>,
    /// The image of tools.
    pub image: Option<Sourced<ImageName>>,
    /// The address of the API of the provider; by default that of the server's configuration.
    pub base_url: Option<Sourced<ServerUrl>>,
    /// Variables of container tools.
    pub env: BTreeMap<VariableName, Sourced<PipelineValue>>,
    /// True if all calls of tools share a directory `/workspace`.
    pub workspace: Sourced<bool>,
    /// Model calls.
    pub max_steps: Sourced<u32>,
    /// Tokens; 0 means no bound.
    pub max_tokens: Sourced<u64>,
    /// Bytes of the beginning of a long output.
    pub truncate_head: Sourced<u32>,
    /// Bytes of the end of a long output.
    pub truncate_tail: Sourced<u32>,
    /// The time of the step.
    pub timeout: Sourced<TimeLimit>,
    /// The tools, by name. A tool without a definition is one of Drydock.
    pub tools: BTreeMap<String, Sourced<Option<ContainerTool>>>,
    /// The MCP servers that the step names or defines.
    pub mcp_servers: Vec<Sourced<McpServer>>,
    /// The permissions.
    pub permissions: EffectivePermissions,
}

impl LimitedBy<BTreeSet<String>> {
    pub(super) fn intersect(&mut self, more: Option<BTreeSet<String>>, source: ValueSource) {
        let Some(more) = more else {
            return;
        };
        self.sources.push(source);
        self.limit = Some(match self.limit.take() {
            Some(limit) => limit.intersection(&more).cloned().collect(),
            None => more,
        });
    }
}

impl EffectivePermissions {
    pub(super) fn intersect(&mut self, more: &PipelinePermissions, source: impl Fn(&str) -> ValueSource) {
        let tools = more
            .tools
            .as_ref()
            .map(|tools| tools.iter().map(ToString::to_string).collect());
        self.tools.intersect(tools, source("tools"));
        let replies = more
            .replies
            .as_ref()
            .map(|replies| replies.iter().map(ToString::to_string).collect());
        self.replies.intersect(replies, source("replies"));
        if let Some(role) = more.role {
            self.role.limit = Some(self.role.limit.map_or(role, |limit| limit.min(role)));
            self.role.sources.push(source("role"));
        }
        if let Some(globs) = &more.environments {
            self.environments
                .limit
                .get_or_insert_default()
                .push(globs.clone());
            self.environments.sources.push(source("environments"));
        }
    }
}
