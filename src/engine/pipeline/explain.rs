//! The effective values of a pipeline as rows of text: each with its source, and with the line of the source.

use super::definition::{McpServer, PipelineValue, StepRef, StepWork};
use super::effective::{
    EffectiveAgent, EffectivePermissions, EffectivePipeline, LimitedBy, Sourced, ValueSource,
};
use super::source::LoadedPipelines;
use std::fmt::Display;

/// A value for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedValue {
    /// The setting, such as `steps.fix.model`.
    pub setting: String,
    /// The value.
    pub value: String,
    /// The source, such as `file defaults, .drydock/pipelines.yaml:3`.
    pub source: String,
}

/// Returns every effective value of a pipeline.
pub fn explain(loaded: &LoadedPipelines, pipeline: &EffectivePipeline<'_>) -> Vec<ExplainedValue> {
    let mut rows = Explanation {
        loaded,
        rows: Vec::new(),
    };
    rows.pipeline(pipeline);
    rows.rows
}

struct Explanation<'a> {
    loaded: &'a LoadedPipelines,
    rows: Vec<ExplainedValue>,
}

impl Explanation<'_> {
    fn pipeline(&mut self, pipeline: &EffectivePipeline<'_>) {
        let at = pipeline.key.as_str();
        for (index, trigger) in pipeline.definition.triggers.iter().enumerate() {
            let source = ValueSource::Pipeline(format!("{at}.triggers[{index}]"));
            self.add(&format!("triggers[{index}]"), trigger.source.describe(), &source);
            if let Some(when) = &trigger.when {
                self.add(&format!("triggers[{index}].when"), when, &source);
            }
        }
        for (name, parameter) in &pipeline.definition.params {
            let source = ValueSource::Pipeline(format!("{at}.params.{name}"));
            let value = match &parameter.default {
                Some(default) => format!("{}, by default {default}", parameter.kind.word()),
                None => format!("{}, required", parameter.kind.word()),
            };
            self.add(&format!("params.{name}"), value, &source);
        }
        if let Some(rule) = &pipeline.definition.concurrency {
            let source = ValueSource::Pipeline(format!("{at}.concurrency"));
            self.add(
                "concurrency",
                format!("{} in group {}", rule.on_conflict.word(), rule.group),
                &source,
            );
        }
        let budget = &pipeline.budget;
        self.sourced("budget.max_steps", &budget.max_steps);
        self.bound("budget.max_tokens", &budget.max_tokens);
        self.bound("budget.max_cents", &budget.max_cents);
        self.sourced("budget.timeout", &budget.timeout);
        self.permissions("permissions", &pipeline.permissions);
        for step in &pipeline.steps {
            self.step(&step.key, step.step);
            if let Some(agent) = &step.agent {
                self.agent(&format!("steps.{}", step.step.name), agent);
            }
        }
    }

    fn step(&mut self, key: &str, step: StepRef<'_>) {
        let name = format!("steps.{}", step.name);
        let source = ValueSource::Step(key.to_owned());
        let about = match step.work {
            Some(StepWork::Task(task)) => {
                let command: Vec<String> = task.command.iter().map(PipelineValue::to_string).collect();
                format!("task: {}", command.join(" "))
            }
            Some(StepWork::Reply(reply)) => format!("reply to {}", reply.to),
            Some(StepWork::Ask(ask)) => format!("ask, {} choices, until {}", ask.choices.len(), ask.deadline),
            Some(StepWork::Agent(_)) | None => step.word().to_owned(),
        };
        self.add(&name, about, &source);
        self.add(&format!("{name}.on"), step.condition.on.word(), &source);
        if let Some(when) = &step.condition.when {
            self.add(&format!("{name}.when"), when, &source);
        }
    }

    fn agent(&mut self, name: &str, agent: &EffectiveAgent) {
        self.optional(&format!("{name}.model"), agent.model.as_ref());
        self.optional(&format!("{name}.image"), agent.image.as_ref());
        self.optional(&format!("{name}.base_url"), agent.base_url.as_ref());
        for (variable, value) in &agent.env {
            self.sourced(&format!("{name}.env.{variable}"), value);
        }
        self.sourced(&format!("{name}.workspace"), &agent.workspace);
        self.sourced(&format!("{name}.max_steps"), &agent.max_steps);
        self.bound(&format!("{name}.max_tokens"), &agent.max_tokens);
        self.sourced(&format!("{name}.truncate_head"), &agent.truncate_head);
        self.sourced(&format!("{name}.truncate_tail"), &agent.truncate_tail);
        self.sourced(&format!("{name}.timeout"), &agent.timeout);
        for (tool, definition) in &agent.tools {
            let value = match &definition.value {
                Some(tool) => format!("container {}", tool.image),
                None => "tool of Drydock".to_owned(),
            };
            self.add(&format!("{name}.tools.{tool}"), value, &definition.source);
        }
        for server in &agent.mcp_servers {
            self.add(
                &format!("{name}.mcp_servers"),
                address(&server.value),
                &server.source,
            );
        }
        self.permissions(&format!("{name}.permissions"), &agent.permissions);
    }

    fn permissions(&mut self, name: &str, permissions: &EffectivePermissions) {
        let list = |names: &std::collections::BTreeSet<String>| match names.is_empty() {
            true => "none".to_owned(),
            false => names.iter().cloned().collect::<Vec<_>>().join(", "),
        };
        self.limit(&format!("{name}.tools"), &permissions.tools, list);
        self.limit(&format!("{name}.replies"), &permissions.replies, list);
        self.limit(&format!("{name}.role"), &permissions.role, |role| {
            role.word().to_owned()
        });
        self.limit(
            &format!("{name}.environments"),
            &permissions.environments,
            |levels| {
                let levels: Vec<String> = levels.iter().map(|globs| globs.join(", ")).collect();
                levels.join(" and ")
            },
        );
    }

    fn limit<T>(&mut self, name: &str, limit: &LimitedBy<T>, text: impl Fn(&T) -> String) {
        let sources: Vec<String> = limit.sources.iter().map(|source| self.source(source)).collect();
        let (value, source) = match &limit.limit {
            Some(limit) => (text(limit), sources.join("; ")),
            None => ("not limited".to_owned(), self.source(&ValueSource::BuiltIn)),
        };
        self.push(name, value, source);
    }

    fn optional<T: Display>(&mut self, name: &str, value: Option<&Sourced<T>>) {
        if let Some(value) = value {
            self.sourced(name, value);
        }
    }

    fn sourced<T: Display>(&mut self, name: &str, value: &Sourced<T>) {
        self.add(name, &value.value, &value.source);
    }

    /// Adds a number, where 0 means no bound.
    fn bound(&mut self, name: &str, value: &Sourced<u64>) {
        match value.value {
            0 => self.add(name, "no bound", &value.source),
            _ => self.sourced(name, value),
        }
    }

    fn add(&mut self, name: &str, value: impl Display, source: &ValueSource) {
        let source = self.source(source);
        self.push(name, value.to_string(), source);
    }

    fn push(&mut self, name: &str, value: String, source: String) {
        self.rows.push(ExplainedValue {
            setting: name.to_owned(),
            value,
            source,
        });
    }

    fn source(&self, source: &ValueSource) -> String {
        let (level, key) = match source {
            ValueSource::Step(key) => ("step", key),
            ValueSource::Pipeline(key) => ("pipeline", key),
            ValueSource::File(key) => ("file", key),
            ValueSource::PreviousStep(step) => return format!("step {step} before it"),
            ValueSource::Server(key) => return format!("server, {key}"),
            ValueSource::BuiltIn => return "default".to_owned(),
        };
        let path = self.loaded.path;
        match self.loaded.line(key) {
            Some(line) => format!("{level}, {path}:{line}"),
            None => format!("{level}, {path}: {key}"),
        }
    }
}

/// Returns the address or the program of a server.
fn address(server: &McpServer) -> String {
    match (&server.url, &server.command) {
        (Some(url), _) => url.to_string(),
        (None, Some(command)) => command.clone(),
        (None, None) => String::new(),
    }
}
