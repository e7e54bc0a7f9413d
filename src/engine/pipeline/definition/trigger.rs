//! The triggers of a pipeline.

use super::{ChatCommand, ConditionText, Identifier, ParameterType, PayloadPointer, ScalarValue};
use crate::engine::pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An event that starts a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineTrigger {
    /// The expression that must be true; otherwise nothing starts.
    #[serde(default)]
    pub when: Option<ConditionText>,
    /// The source of the event.
    #[serde(flatten)]
    pub source: TriggerSource,
}

/// The source of an event that starts a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerSource {
    /// A signed event of a configured hook.
    Hook(HookTrigger),
    /// A schedule.
    Schedule(ScheduleTrigger),
    /// A slash command in a chat.
    SlashCommand(SlashTrigger),
    /// The words `run NAME` in a chat.
    Chat(ChatTrigger),
    /// The command line.
    CommandLine(CommandLineTrigger),
    /// The HTTP API.
    Api(ApiTrigger),
}

impl TriggerSource {
    /// Returns the word of the source in a definition.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hook(_) => "hook",
            Self::Schedule(_) => "schedule",
            Self::SlashCommand(_) => "slash_command",
            Self::Chat(_) => "chat",
            Self::CommandLine(_) => "command_line",
            Self::Api(_) => "api",
        }
    }
}

impl TriggerSource {
    /// Describes the source in a few words.
    pub fn describe(&self) -> String {
        let word = self.word();
        match self {
            Self::Hook(hook) if hook.events.is_empty() => format!("{word} {}", hook.name),
            Self::Hook(hook) => format!("{word} {}: {}", hook.name, hook.events.join(", ")),
            Self::Schedule(schedule) => format!("{word} {} in {}", schedule.cron, schedule.time_zone),
            Self::SlashCommand(slash) => format!("{word} {}", slash.command),
            Self::Chat(_) | Self::CommandLine(_) | Self::Api(_) => word.to_owned(),
        }
    }
}

/// A signed event of a configured hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookTrigger {
    /// The name of the hook in the configuration of the server.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// The accepted GitHub events, each with one action or with all, such as `pull_request.opened`. Without this, all.
    #[serde(default)]
    #[schemars(length(max = pipeline::ENTRIES_MAX), inner(length(min = 1, max = 100)))]
    pub events: Vec<String>,
    /// Typed values of the payload, which are `${trigger.NAME}`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub fields: BTreeMap<Identifier, TriggerField>,
    /// Values of the payload that are parameters.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub params: BTreeMap<Identifier, PayloadPointer>,
}

/// A typed value of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriggerField {
    /// The place of the value in the payload.
    pub pointer: PayloadPointer,
    /// The type.
    #[serde(rename = "type", default = "text")]
    pub kind: ParameterType,
}

fn text() -> ParameterType {
    ParameterType::Text
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleTrigger {
    /// The times: a cron expression of five fields, or words such as `weekdays 09:00` or `every 2h`.
    #[schemars(length(min = 1, max = 200))]
    pub cron: String,
    /// The name of the time zone, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// Values of parameters.
    #[serde(default)]
    #[schemars(extend("maxProperties" = pipeline::ENTRIES_MAX))]
    pub params: BTreeMap<Identifier, ScalarValue>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A slash command in a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlashTrigger {
    /// The command.
    pub command: ChatCommand,
}

/// The words `run NAME` in a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatTrigger {}

/// The command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandLineTrigger {}

/// The HTTP API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiTrigger {}
