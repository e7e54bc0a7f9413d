//! The values that the steps of a run refer to. A value is never a part of a text.

use super::{PlannedWork, RunInputs, RunPlan, RunState};
use crate::base::model::{StepEnd, StepStatus};
use crate::engine::pipeline::definition::{ConditionText, PipelineValue, ValueReference};
use crate::engine::pipeline::{
    CompiledCondition, ConditionEvent, ConditionNames, ConditionValues, StepResult,
};
use std::collections::BTreeMap;

/// The values that one step can refer to: the inputs of the run, and the steps before it or before its group.
pub(super) struct VisibleValues<'a> {
    plan: &'a RunPlan,
    inputs: &'a RunInputs,
    state: &'a RunState,
    /// The number of steps that are visible.
    before: usize,
}

impl<'a> VisibleValues<'a> {
    pub(super) fn of(plan: &'a RunPlan, inputs: &'a RunInputs, state: &'a RunState, step: usize) -> Self {
        let group = plan.steps.get(step).and_then(|step| step.group);
        Self {
            plan,
            inputs,
            state,
            before: group.unwrap_or(step),
        }
    }

    /// Returns the ends of the visible steps.
    fn ends(&self) -> impl Iterator<Item = (&'a str, &'a PlannedWork, &'a StepEnd)> {
        let steps = self.plan.steps.iter().zip(&self.state.steps).take(self.before);
        steps.filter_map(|(step, state)| Some((step.name.as_str(), &step.work, state.end()?)))
    }

    /// Returns true if a visible step failed.
    pub(super) fn has_failure(&self) -> bool {
        self.ends()
            .any(|(_, _, end)| matches!(end.status, StepStatus::Failed | StepStatus::Cancelled))
    }

    /// Returns the variables that a condition names.
    pub(super) fn of_condition(&self, names: &ConditionNames) -> ConditionValues {
        let steps = self.ends().filter(|(name, ..)| names.steps.contains(*name));
        let steps = steps.map(|(name, _, end)| {
            let result = StepResult {
                status: end.status.condition_word().to_owned(),
                output: end.output.clone(),
            };
            (name.to_owned(), result)
        });
        ConditionValues {
            event: match names.uses_event {
                true => ConditionEvent::of(&self.inputs.event),
                false => ConditionEvent::default(),
            },
            params: self.inputs.params_of(names),
            steps: steps.collect(),
        }
    }

    /// Returns the outputs of the visible steps that ran.
    pub(super) fn outputs(&self) -> BTreeMap<String, String> {
        let ran = self.ends().filter(|(_, work, end)| {
            !matches!(work, PlannedWork::Parallel) && end.status != StepStatus::Skipped
        });
        ran.map(|(name, _, end)| (name.to_owned(), end.output.clone()))
            .collect()
    }

    /// Returns a value. The error names what does not exist.
    pub(super) fn value(&self, value: &PipelineValue) -> Result<String, String> {
        let reference = match value {
            PipelineValue::Literal(text) => return Ok(text.clone()),
            PipelineValue::Reference(reference) => reference,
        };
        let scalar = match reference {
            ValueReference::Parameter(name) => self.inputs.params.get(name),
            ValueReference::Trigger(name) => self.inputs.trigger.get(name),
            ValueReference::StepOutput(name) => return Ok(self.end(name, reference)?.output.clone()),
            ValueReference::StepStatus(name) => {
                return Ok(self.end(name, reference)?.status.condition_word().to_owned());
            }
        };
        let missing = || format!("{reference} has no value in this run");
        scalar.map(ToString::to_string).ok_or_else(missing)
    }

    fn end(&self, name: &str, reference: &ValueReference) -> Result<&'a StepEnd, String> {
        let mut ends = self.ends();
        let found = ends.find_map(|(step, _, end)| (step == name).then_some(end));
        found
            .ok_or_else(|| format!("{reference} has no value: the step {name} has not ended before this one"))
    }
}

/// Evaluates a condition with the values that it names. The error is a sentence without any value.
pub(super) fn evaluated(
    condition: &ConditionText,
    values: impl FnOnce(&ConditionNames) -> ConditionValues,
) -> Result<bool, String> {
    let condition = CompiledCondition::compile(condition).map_err(|why| format!("its condition {why}"))?;
    let values = values(condition.names());
    condition.evaluate(&values).map_err(|error| error.to_string())
}
