//! The checks of a file beyond its structure: names are unique and known, references lead to earlier steps, conditions
//! compile. A step refers only to steps before it, so no cycle can be written.

mod agents;
mod operator;
mod references;
mod triggers;

pub use operator::OperatorLimits;

use super::condition::CompiledCondition;
use super::definition::{
    AskStep, AskedParty, ConditionText, ParameterType, PipelineDefinition, PipelineFile, PipelineParameter,
    PipelinePermissions, PipelineValue, ReplyStep, ScalarValue, StepRef, StepWork, TaskStep, TimeLimit,
    TriggerSource, role_of_group,
};
use super::document::DocumentValue;
use super::problem::{FoundProblems, name_hint};
use super::{ALL_STEPS_MAX, ASK_DEADLINE_MAX, STEP_TIME_MAX};
use crate::base::webhook::HookScheme;
use references::KnownValues;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Checks every pipeline of a file.
pub(super) fn check(
    file: &PipelineFile,
    document: &DocumentValue,
    operator: &OperatorLimits,
    problems: &mut FoundProblems,
) {
    let mut checker = DefinitionChecker {
        file,
        document,
        operator,
        problems,
    };
    checker.agent_settings("defaults", &file.defaults);
    checker.literal_environment("defaults", &file.defaults);
    checker.own_tools("tools", file.tools.keys());
    checker.mcp_servers("mcp_servers", &file.mcp_servers);
    checker.environments("permissions", &file.permissions);
    for (name, pipeline) in &file.pipelines {
        if checker.problems.is_full() {
            break;
        }
        checker.pipeline(&format!("pipelines.{name}"), pipeline);
    }
}

/// Checks definitions and records every problem.
struct DefinitionChecker<'a> {
    file: &'a PipelineFile,
    document: &'a DocumentValue,
    operator: &'a OperatorLimits,
    problems: &'a mut FoundProblems,
}

impl DefinitionChecker<'_> {
    fn pipeline(&mut self, at: &str, pipeline: &PipelineDefinition) {
        for (name, parameter) in &pipeline.params {
            self.parameter(&format!("{at}.params.{name}"), parameter);
        }
        for (index, trigger) in pipeline.triggers.iter().enumerate() {
            self.trigger(&format!("{at}.triggers[{index}]"), trigger, pipeline);
        }
        self.agent_settings(&format!("{at}.defaults"), &pipeline.defaults);
        self.own_tools(&format!("{at}.tools"), pipeline.tools.keys());
        self.mcp_servers(&format!("{at}.mcp_servers"), &pipeline.mcp_servers);
        self.environments(&format!("{at}.permissions"), &pipeline.permissions);
        let timeout = pipeline.budget.timeout;
        self.time(&format!("{at}.budget.timeout"), timeout, ASK_DEADLINE_MAX);
        let mut known = KnownValues::new(pipeline);
        if let Some(rule) = &pipeline.concurrency {
            self.value(&format!("{at}.concurrency.group"), &rule.group, &known);
        }
        self.environment_values(&format!("{at}.defaults"), &pipeline.defaults, &known);
        self.steps(at, pipeline, &mut known);
    }

    fn steps<'p>(&mut self, at: &str, pipeline: &'p PipelineDefinition, known: &mut KnownValues<'p>) {
        let count = pipeline.all_steps().count();
        if count > ALL_STEPS_MAX {
            self.problem(
                &format!("{at}.steps"),
                format!("has {count} steps in all; the most are {ALL_STEPS_MAX}"),
            );
            return;
        }
        let mut names = BTreeSet::new();
        for (index, step) in pipeline.steps.iter().enumerate() {
            let at = format!("{at}.steps[{index}]");
            let outer = step.borrowed();
            self.step(&at, outer, pipeline, known, &mut names);
            for (index, inner) in step.parallel().iter().enumerate() {
                let at = format!("{at}.parallel[{index}]");
                self.step(&at, inner.borrowed(), pipeline, known, &mut names);
            }
            // The steps of a group see neither each other nor their group.
            known.finished(step);
        }
    }

    fn step<'p>(
        &mut self,
        at: &str,
        step: StepRef<'p>,
        pipeline: &PipelineDefinition,
        known: &KnownValues<'p>,
        names: &mut BTreeSet<&'p str>,
    ) {
        if !names.insert(step.name.as_str()) {
            let why = format!(
                "another step is named {} as well; give each its own name",
                step.name
            );
            self.problem(&format!("{at}.name"), why);
        }
        if let Some(when) = &step.condition.when {
            self.condition(&format!("{at}.when"), when, known);
        }
        match step.work {
            Some(StepWork::Agent(agent)) => self.agent(&format!("{at}.agent"), agent, pipeline, known),
            Some(StepWork::Task(task)) => self.task(&format!("{at}.task"), task, known),
            Some(StepWork::Ask(ask)) => self.ask(&format!("{at}.ask"), ask, known),
            Some(StepWork::Reply(reply)) => self.reply(&format!("{at}.reply"), reply, pipeline, known),
            None => {}
        }
    }

    fn condition(&mut self, at: &str, text: &ConditionText, known: &KnownValues<'_>) {
        let names = match CompiledCondition::compile(text) {
            Ok(condition) => condition.names().clone(),
            Err(why) => return self.problem(at, why),
        };
        for name in &names.params {
            if let Err(why) = known.parameter(name) {
                self.problem(at, why);
            }
        }
        for name in &names.steps {
            if let Err(why) = known.step(name) {
                self.problem(at, why);
            }
        }
    }

    fn parameter(&mut self, at: &str, parameter: &PipelineParameter) {
        let is_choice = parameter.kind == ParameterType::Choice;
        match (is_choice, parameter.choices.is_empty()) {
            (true, true) => self.problem(&format!("{at}.choices"), "is required for the type choice"),
            (false, false) => self.problem(&format!("{at}.choices"), "is only for the type choice"),
            _ => {}
        }
        self.unique(&format!("{at}.choices"), &parameter.choices);
        if let Some(default) = &parameter.default
            && let Err(why) = fits(default, parameter)
        {
            self.problem(&format!("{at}.default"), why);
        }
    }

    fn task(&mut self, at: &str, task: &TaskStep, known: &KnownValues<'_>) {
        for (index, argument) in task.command.iter().enumerate() {
            let at = format!("{at}.command[{index}]");
            self.value(&at, argument, known);
            if index == 0 && !matches!(argument, PipelineValue::Literal(text) if !text.is_empty()) {
                self.problem(
                    &at,
                    "the program itself must be written out; only its arguments can be values",
                );
            }
        }
        self.values(&format!("{at}.inputs"), &task.inputs, known);
        self.values(&format!("{at}.env"), &task.env, known);
        self.time(&format!("{at}.timeout"), task.timeout, STEP_TIME_MAX);
    }

    fn ask(&mut self, at: &str, ask: &AskStep, known: &KnownValues<'_>) {
        self.values(&format!("{at}.values"), &ask.values, known);
        self.unique(&format!("{at}.choices"), &ask.choices);
        self.time(&format!("{at}.deadline"), Some(ask.deadline), ASK_DEADLINE_MAX);
        if let Some(default) = &ask.default
            && !ask.choices.contains(default)
        {
            self.problem(
                &format!("{at}.default"),
                format!("expected one of the choices: {}", ask.choices.join(", ")),
            );
        }
        // At a terminal, the one who runs the pipeline is asked.
        if self.operator.server.is_some()
            && let AskedParty::Group(name) = &ask.to
            && role_of_group(name).is_none()
        {
            let why = format!("{name} is no group; a group is viewers, editors or administrators");
            self.problem(&format!("{at}.to.group"), why);
        }
    }

    fn reply(&mut self, at: &str, reply: &ReplyStep, pipeline: &PipelineDefinition, known: &KnownValues<'_>) {
        self.value(&format!("{at}.text"), &reply.text, known);
        let levels = [
            ("the file", &self.file.permissions.replies),
            ("the pipeline", &pipeline.permissions.replies),
        ];
        let to = format!("{at}.to");
        if let Some(why) = missing_trigger(reply, pipeline, self.operator) {
            self.problem(&to, why);
        }
        for (level, allowed) in levels {
            if allowed
                .as_ref()
                .is_some_and(|allowed| !allowed.contains(&reply.to))
            {
                self.problem(
                    &to,
                    format!("permissions.replies of {level} does not list {}", reply.to),
                );
            }
        }
        if let Some(server) = &self.operator.server
            && !server
                .pipelines
                .reply_targets
                .iter()
                .any(|target| target == reply.to.as_str())
        {
            let why = format!(
                "the server allows no reply to {}; its operator lists it in pipelines.reply_targets",
                reply.to
            );
            self.problem(&to, why);
        }
    }

    fn unique(&mut self, at: &str, texts: &[String]) {
        let mut seen = BTreeSet::new();
        for (index, text) in texts.iter().enumerate() {
            if !seen.insert(text) {
                self.problem(&format!("{at}[{index}]"), "is listed twice; keep one of them");
            }
        }
    }

    fn time(&mut self, at: &str, limit: Option<TimeLimit>, max: TimeLimit) {
        if limit.is_some_and(|limit| limit > max) {
            self.problem(at, format!("is longer than {max}"));
        }
    }

    fn environments(&mut self, at: &str, permissions: &PipelinePermissions) {
        for (index, glob) in permissions.environments.iter().flatten().enumerate() {
            if globset::Glob::new(glob).is_err() {
                let at = format!("{at}.environments[{index}]");
                self.problem(&at, "expected a glob, such as environments/dev*");
            }
        }
    }

    fn problem(&mut self, at: &str, message: impl Display) {
        self.problems
            .add(self.document.line_at(at), at, message.to_string());
    }
}

/// Returns the reason if no trigger of a pipeline has the address that a reply needs. A run without it leaves the reply out. A
/// hook that is not known may be one of GitHub.
fn missing_trigger(
    reply: &ReplyStep,
    pipeline: &PipelineDefinition,
    operator: &OperatorLimits,
) -> Option<&'static str> {
    let hooks = operator.server.as_ref().map(|server| &server.hooks);
    let is_of_github = |name: &str| {
        let scheme = hooks.and_then(|hooks| hooks.get(name));
        scheme.is_none_or(|scheme| *scheme == HookScheme::Github)
    };
    let mut sources = pipeline.triggers.iter().map(|trigger| &trigger.source);
    match reply.to.as_str() {
        "github-comment" => {
            let has_address = |source: &TriggerSource| matches!(source, TriggerSource::Hook(hook) if is_of_github(&hook.name));
            (!sources.any(has_address))
                .then_some("needs a trigger `hook` of GitHub: its event is about an issue or a pull request")
        }
        "slack-response" => {
            let has_address = |source: &TriggerSource| matches!(source, TriggerSource::SlashCommand(_));
            (!sources.any(has_address))
                .then_some("needs a trigger `slash_command`: its answer goes to the command")
        }
        _ => None,
    }
}

/// Returns the reason if a value does not have the type of a parameter.
pub(super) fn fits(value: &ScalarValue, parameter: &PipelineParameter) -> Result<(), String> {
    let is_of_type = match (parameter.kind, value) {
        (ParameterType::Text, ScalarValue::Text(_))
        | (ParameterType::Integer, ScalarValue::Integer(_))
        | (ParameterType::Number, ScalarValue::Integer(_) | ScalarValue::Number(_))
        | (ParameterType::Boolean, ScalarValue::Boolean(_)) => true,
        (ParameterType::Choice, ScalarValue::Text(text)) => {
            return match parameter.choices.contains(text) {
                true => Ok(()),
                false => {
                    let hint = name_hint(text, parameter.choices.iter().map(String::as_str));
                    Err(format!("is none of the choices{hint}"))
                }
            };
        }
        _ => false,
    };
    match is_of_type {
        true => Ok(()),
        false => Err(format!(
            "expected a value of the type {}; put a text in quotes",
            parameter.kind.word()
        )),
    }
}
