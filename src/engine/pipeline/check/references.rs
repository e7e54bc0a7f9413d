//! The checks of references: parameters, fields of triggers, and steps that are finished before.

use super::DefinitionChecker;
use crate::engine::pipeline::definition::{
    AgentSettings, PipelineDefinition, PipelineStep, PipelineValue, TriggerSource, ValueReference,
};
use crate::engine::pipeline::problem::name_hint;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The values that a step can refer to.
pub(super) struct KnownValues<'a> {
    pipeline: &'a PipelineDefinition,
    /// The steps that are finished before, with their output or without.
    finished: BTreeMap<&'a str, StepOutputKind>,
}

/// The existence of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepOutputKind {
    Output,
    /// A parallel group has a status only.
    StatusOnly,
}

impl<'a> KnownValues<'a> {
    /// Creates the values before the first step.
    pub(super) fn new(pipeline: &'a PipelineDefinition) -> Self {
        Self {
            pipeline,
            finished: BTreeMap::new(),
        }
    }

    /// Adds a finished step, with the steps of a group.
    pub(super) fn finished(&mut self, step: &'a PipelineStep) {
        let kind = match step.borrowed().work {
            Some(_) => StepOutputKind::Output,
            None => StepOutputKind::StatusOnly,
        };
        self.finished.insert(step.name.as_str(), kind);
        let inner = step.parallel().iter();
        self.finished
            .extend(inner.map(|step| (step.name.as_str(), StepOutputKind::Output)));
    }

    /// Returns the reason if there is no such parameter.
    pub(super) fn parameter(&self, name: &str) -> Result<(), String> {
        let names = self.pipeline.params.keys();
        match names.clone().any(|known| known.as_str() == name) {
            true => Ok(()),
            false => {
                let hint = name_hint(name, names.map(|name| name.as_str()));
                Err(format!("there is no parameter {name}{hint}"))
            }
        }
    }

    /// Returns the reason if no earlier step has this name.
    pub(super) fn step(&self, name: &str) -> Result<(), String> {
        if self.finished.contains_key(name) {
            return Ok(());
        }
        if self.pipeline.all_steps().any(|step| step.name.as_str() == name) {
            return Err(format!(
                "step {name} is not finished before this one; only earlier steps have values"
            ));
        }
        let hint = name_hint(name, self.finished.keys().copied());
        Err(format!("there is no earlier step {name}{hint}"))
    }

    fn output(&self, name: &str) -> Result<(), String> {
        self.step(name)?;
        match self.finished.get(name) {
            Some(StepOutputKind::StatusOnly) => Err(format!(
                "{name} is a parallel group, which has a status and no output"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the reason if a run can start without this field.
    fn field(&self, name: &str) -> Result<(), String> {
        let mut all = BTreeSet::new();
        for trigger in &self.pipeline.triggers {
            if let TriggerSource::Hook(hook) = &trigger.source {
                all.extend(hook.fields.keys().map(|field| field.as_str()));
            }
        }
        for trigger in &self.pipeline.triggers {
            let has_field = match &trigger.source {
                TriggerSource::Hook(hook) => hook.fields.keys().any(|field| field.as_str() == name),
                _ => false,
            };
            if !has_field && all.contains(name) {
                let source = trigger.source.word();
                return Err(format!(
                    "a run by {source} has no field {name}; use a parameter, which the hook sets with `params`"
                ));
            }
        }
        match all.contains(name) {
            true => Ok(()),
            false => Err(format!(
                "no hook has a field {name}{}",
                name_hint(name, all.iter().copied())
            )),
        }
    }
}

impl DefinitionChecker<'_> {
    pub(super) fn value(&mut self, at: &str, value: &PipelineValue, known: &KnownValues<'_>) {
        let PipelineValue::Reference(reference) = value else {
            return;
        };
        let result = match reference {
            ValueReference::Parameter(name) => known.parameter(name),
            ValueReference::StepOutput(name) => known.output(name),
            ValueReference::StepStatus(name) => known.step(name),
            ValueReference::Trigger(name) => known.field(name),
        };
        if let Err(why) = result {
            self.problem(at, why);
        }
    }

    pub(super) fn values<K: Display>(
        &mut self,
        at: &str,
        values: &BTreeMap<K, PipelineValue>,
        known: &KnownValues<'_>,
    ) {
        for (name, value) in values {
            self.value(&format!("{at}.{name}"), value, known);
        }
    }

    /// Checks that the variables of a file have no references: each pipeline has other parameters.
    pub(super) fn literal_environment(&mut self, at: &str, settings: &AgentSettings) {
        for (name, value) in &settings.env {
            if let PipelineValue::Reference(reference) = value {
                let why =
                    format!("{reference} has no meaning for a whole file; set this variable in a pipeline");
                self.problem(&format!("{at}.env.{name}"), why);
            }
        }
    }

    /// Checks the variables of settings where nothing of a step is known.
    pub(super) fn environment_values(&mut self, at: &str, settings: &AgentSettings, known: &KnownValues<'_>) {
        self.values(&format!("{at}.env"), &settings.env, known);
    }
}
