//! The kinds of work that a run cannot do yet. They are refused before anything begins.

use super::RunPlan;
use crate::engine::pipeline::definition::{
    PipelineDefinition, PipelineName, PipelineTrigger, ReplyStep, StepWork, TaskStep, TriggerSource,
};
use crate::engine::pipeline::problem::{FoundProblems, name_hint, shown_name};
use crate::engine::pipeline::{
    DefinitionError, EffectiveAgent, EffectivePipeline, EffectiveStep, LoadedPipelines, OperatorLimits,
    ValueSource, effective,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The place where a run happens, which decides on the work that is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDoor {
    /// A terminal, without a server.
    Local,
    /// A server.
    Server,
}

/// A part of a pipeline that is not available.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnsupportedStep {
    /// The path of the key, such as `pipelines.review.steps[0].task`.
    pub key: String,
    /// The reason, and what to do next.
    pub why: String,
}

impl fmt::Display for UnsupportedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

const NO_CONTAINERS: &str = "container tools do not run yet; use tools of Drydock, such as file_read";
const NO_IMAGES: &str = "images are not used yet; remove the key";
const NO_WORKSPACE: &str = "a workspace of container tools does not exist yet; remove the key";
const NO_VARIABLES: &str = "variables are only for container tools, which do not run yet; remove the key";
const NO_SERVERS: &str = "MCP servers are not used yet; remove the entry";
const NO_LOCAL_REPLY: &str =
    "reply steps run on a server only; remove the step: the terminal shows the output of each step";

/// Checks that no slash command is that of several pipelines of a file, and that a server with these limits can run each
/// pipeline, except those that only a terminal starts. Without a server, only the commands are checked.
pub fn check_available(loaded: &LoadedPipelines, operator: &OperatorLimits) -> Result<(), DefinitionError> {
    let mut problems = FoundProblems::default();
    for (key, why) in shared_commands(&loaded.file.pipelines) {
        problems.add(loaded.line(&key), &key, why);
    }
    if operator.server.is_none() {
        return problems.finish(loaded.path);
    }
    for (name, definition) in &loaded.file.pipelines {
        let mut sources = definition.triggers.iter().map(|trigger| &trigger.source);
        if sources.all(|source| matches!(source, TriggerSource::CommandLine(_))) {
            continue;
        }
        let Some(pipeline) = effective(&loaded.file, name.as_str(), operator) else {
            continue;
        };
        let planned = RunPlan::of(name.as_str(), &pipeline, RunDoor::Server);
        for UnsupportedStep { key, why } in planned.err().unwrap_or_default() {
            problems.add(loaded.line(&key), &key, why);
        }
        let unlisted = unlisted_commands(name.as_str(), &definition.triggers, operator);
        for (key, why) in late_questions(&pipeline).into_iter().chain(unlisted) {
            problems.add(loaded.line(&key), &key, why);
        }
    }
    problems.finish(loaded.path)
}

/// Returns the slash commands that an earlier pipeline of the file has as well. Such a command starts nothing.
fn shared_commands(pipelines: &BTreeMap<PipelineName, PipelineDefinition>) -> Vec<(String, String)> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut shared = Vec::new();
    for (name, definition) in pipelines {
        for (index, trigger) in definition.triggers.iter().enumerate() {
            let TriggerSource::SlashCommand(slash) = &trigger.source else {
                continue;
            };
            let command = slash.command.as_str();
            let other = *first.entry(command).or_insert(name.as_str());
            if other != name.as_str() {
                let key = format!("pipelines.{name}.triggers[{index}].slash_command.command");
                let why = format!(
                    "the pipeline {other} has {command} as well, so it starts neither of them; give each pipeline a command \
                     of its own"
                );
                shared.push((key, why));
            }
        }
    }
    shared
}

/// Returns the slash commands of a pipeline that no channel of the server lists.
fn unlisted_commands(
    name: &str,
    triggers: &[PipelineTrigger],
    operator: &OperatorLimits,
) -> Vec<(String, String)> {
    let Some(server) = &operator.server else {
        return Vec::new();
    };
    let listed = &server.slash_commands;
    let commands = triggers.iter().enumerate().filter_map(|(index, trigger)| {
        let TriggerSource::SlashCommand(slash) = &trigger.source else {
            return None;
        };
        let command = slash.command.as_str();
        let why = || {
            let hint = name_hint(command, listed.iter().map(String::as_str));
            format!(
                "no channel of the server lists {command} in slash_commands, so it starts nothing; its operator adds it \
                 to channels.NAME.slash_commands{hint}"
            )
        };
        let key = format!("pipelines.{name}.triggers[{index}].slash_command.command");
        (!listed.contains(command)).then(|| (key, why()))
    });
    commands.collect()
}

/// Returns the questions of a pipeline that its runs never wait for to their end.
fn late_questions(pipeline: &EffectivePipeline<'_>) -> Vec<(String, String)> {
    let run_time = pipeline.budget.timeout.value;
    let questions = pipeline.steps.iter().filter_map(|step| match step.step.work {
        Some(StepWork::Ask(ask)) if ask.deadline >= run_time => {
            let why = format!(
                "a run ends after {run_time}, so its deadline is never reached; give it a shorter time, or the run a longer \
                 budget.timeout, up to pipelines.run_seconds_max of the server"
            );
            Some((format!("{}.ask.deadline", step.key), why))
        }
        _ => None,
    });
    questions.collect()
}

/// Returns the parts of a pipeline that are not available, in the order of its steps.
pub(super) fn unsupported(effective: &EffectivePipeline<'_>, door: RunDoor) -> Vec<UnsupportedStep> {
    let mut found = Found::default();
    for step in &effective.steps {
        match step.step.work {
            Some(StepWork::Agent(_)) => {
                if let Some(agent) = &step.agent {
                    found.agent(step, agent);
                }
            }
            Some(StepWork::Task(task)) => found.task(&step.key, task, effective, door),
            Some(StepWork::Reply(reply)) => found.reply(&step.key, reply, effective, door),
            // A question is asked in either place.
            Some(StepWork::Ask(_)) | None => {}
        }
    }
    found.problems
}

/// The unavailable parts that were found. A key of several steps is listed once.
#[derive(Default)]
struct Found {
    problems: Vec<UnsupportedStep>,
    keys: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, key: String, why: impl Into<String>) {
        if self.keys.insert(key.clone()) {
            let why = why.into();
            self.problems.push(UnsupportedStep { key, why });
        }
    }

    fn agent(&mut self, step: &EffectiveStep<'_>, agent: &EffectiveAgent) {
        let own = |key: &str| format!("{}.agent.{key}", step.key);
        // The image of an earlier step is reported there.
        if let Some(image) = &agent.image
            && !matches!(image.source, ValueSource::PreviousStep(_))
        {
            self.add(key_of(&image.source, own("image")), NO_IMAGES);
        }
        if agent.workspace.value {
            self.add(key_of(&agent.workspace.source, own("workspace")), NO_WORKSPACE);
        }
        for variable in agent.env.values() {
            self.add(key_of(&variable.source, own("env")), NO_VARIABLES);
        }
        for tool in agent.tools.values().filter(|tool| tool.value.is_some()) {
            self.add(key_of(&tool.source, own("tools")), NO_CONTAINERS);
        }
        for server in &agent.mcp_servers {
            self.add(key_of(&server.source, own("mcp_servers")), NO_SERVERS);
        }
    }

    fn task(&mut self, key: &str, task: &TaskStep, effective: &EffectivePipeline<'_>, door: RunDoor) {
        let program = task.command.first().map(ToString::to_string).unwrap_or_default();
        if !effective.programs.contains(&program) {
            let whom = match door {
                RunDoor::Local => "add it to [pipelines.programs] of your own configuration",
                RunDoor::Server => "ask the operator to add it to [pipelines.programs]",
            };
            let why = format!(
                "the program {} is not permitted here; {whom}",
                shown_name(&program)
            );
            self.add(format!("{key}.task.command"), why);
        }
        if task.image.is_some() {
            self.add(format!("{key}.task.image"), NO_IMAGES);
        }
    }

    fn reply(&mut self, key: &str, reply: &ReplyStep, effective: &EffectivePipeline<'_>, door: RunDoor) {
        if door == RunDoor::Local {
            return self.add(format!("{key}.reply"), NO_LOCAL_REPLY);
        }
        let to = reply.to.as_str();
        let allowed = &effective.permissions.replies.limit;
        if allowed.as_ref().is_some_and(|allowed| !allowed.contains(to)) {
            let why = format!(
                "a reply to {to} is not permitted; list it in permissions.replies of each level that has the key, and \
                 ask the operator to list it in pipelines.reply_targets"
            );
            self.add(format!("{key}.reply.to"), why);
        }
    }
}

/// Returns the key that defines a value.
fn key_of(source: &ValueSource, otherwise: String) -> String {
    match source {
        ValueSource::Step(key) | ValueSource::Pipeline(key) | ValueSource::File(key) => key.clone(),
        ValueSource::PreviousStep(_) | ValueSource::Server(_) | ValueSource::BuiltIn => otherwise,
    }
}
