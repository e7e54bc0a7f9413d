//! Agent steps, their settings, and the tools and servers that they use.

use super::{
    Identifier, ImageName, LiteralText, ModelReference, PipelinePermissions, PipelineValue, ServerUrl,
    TimeLimit, ToolName, VariableName,
};
use crate::engine::pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A step in which a model works with tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStep {
    /// The request. `debug`, `review` and `analyze` are standard requests; any other text is the request itself.
    pub prompt: LiteralText,
    /// Values that the model reads as data, by name.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub params: BTreeMap<Identifier, PipelineValue>,
    /// The tools: names, or definitions of container tools.
    #[serde(default)]
    #[schemars(length(max = pipeline::TOOLS_MAX))]
    pub tools: Vec<StepTool>,
    /// The MCP servers: names, or definitions.
    #[serde(default)]
    #[schemars(length(max = pipeline::TOOLS_MAX))]
    pub mcp_servers: Vec<ServerChoice>,
    /// Limits of what this step may do, in addition to those of the file and the pipeline.
    #[serde(default)]
    pub permissions: PipelinePermissions,
    /// The settings that this step has of its own.
    #[serde(flatten)]
    pub settings: AgentSettings,
}

/// The settings of agent steps. The innermost definition of each wins: step, then pipeline, then file, then server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSettings {
    /// The image of tools; by default that of the step before.
    #[serde(default)]
    pub image: Option<ImageName>,
    /// The model, as `provider/model`. There is no default.
    #[serde(default)]
    pub model: Option<ModelReference>,
    /// The address of the API of the provider.
    #[serde(default)]
    pub base_url: Option<ServerUrl>,
    /// Variables of container tools. Those of all levels are joined.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub env: BTreeMap<VariableName, PipelineValue>,
    /// True if all calls of tools share a directory `/workspace`. Without this, false.
    #[serde(default)]
    pub workspace: Option<bool>,
    /// Model calls. Without this, 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    pub max_steps: Option<u32>,
    /// Tokens; 0 means no bound. Without this, 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_tokens: Option<u64>,
    /// Bytes of the beginning of a long output. Without this, 4,096.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub truncate_head: Option<u32>,
    /// Bytes of the end of a long output. Without this, 61,440.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub truncate_tail: Option<u32>,
    /// The time of the step. Without this, 10 minutes.
    #[serde(default)]
    pub timeout: Option<TimeLimit>,
}

/// A container tool. The model calls it by its name with a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerTool {
    /// The image.
    pub image: ImageName,
    /// The description for the model.
    #[schemars(length(min = 1, max = 1_000))]
    pub description: String,
}

/// A tool of an agent step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StepTool {
    /// A tool of Drydock, or of the pipeline or the file, by name.
    Named(ToolName),
    /// A container tool of this step alone.
    Inline(InlineTool),
}

/// A container tool with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineTool {
    /// The name.
    pub name: Identifier,
    /// The tool.
    #[serde(flatten)]
    pub tool: ContainerTool,
}

/// An MCP server of an agent step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ServerChoice {
    /// A server of the pipeline or the file, by name.
    Named(Identifier),
    /// A server of this step alone.
    Inline(McpServer),
}

/// An MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServer {
    /// The transport.
    #[serde(rename = "type")]
    pub transport: McpTransport,
    /// The address of the type `http`.
    #[serde(default)]
    pub url: Option<ServerUrl>,
    /// The program of the type `stdio`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1_000))]
    pub command: Option<String>,
    /// The arguments of the program.
    #[serde(default)]
    #[schemars(length(max = pipeline::ARGUMENTS_MAX), inner(length(max = 4_096)))]
    pub args: Vec<String>,
    /// The name of a secret of the server, with which requests are authorised.
    #[serde(default)]
    pub auth: Option<Identifier>,
    /// Variables of the program.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub env: BTreeMap<VariableName, LiteralText>,
}

/// The transport of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpTransport {
    /// Streamable HTTP.
    Http,
    /// A program with standard input and output.
    Stdio,
}
