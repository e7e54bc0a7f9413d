//! The inputs of a run: its parameters, the fields of the event that started it, and the event itself.

use super::values::evaluated;
use crate::base::model::{RunConflictRule, STEP_OUTPUT_BYTES_MAX};
use crate::base::webhook::GithubIssue;
use crate::engine::pipeline::definition::{
    HookTrigger, ParameterType, PayloadPointer, PipelineDefinition, PipelineParameter, PipelineTrigger,
    PipelineValue, RunConflict, ScalarValue, ScheduleTrigger, ValueReference,
};
use crate::engine::pipeline::problem::{name_hint, shown_name};
use crate::engine::pipeline::{ConditionEvent, ConditionNames, ConditionValues};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInputs {
    /// The parameters, by name: given ones and defaults.
    pub params: BTreeMap<String, ScalarValue>,
    /// The fields of the event, by name.
    pub trigger: BTreeMap<String, ScalarValue>,
    /// The event, if the condition of a step names it; otherwise null.
    pub event: Value,
    /// The issue or pull request of the event of GitHub that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<GithubIssue>,
    /// True if the message of the run is posted only once there is something to say. The store reads it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
}

/// A problem of a parameter of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterProblem {
    /// The name of the parameter.
    pub parameter: String,
    /// The problem, with the name.
    pub why: String,
}

/// The group of runs of which one runs at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGroup {
    /// The name, with the kind of its scope, so that no value of one pipeline names the group of another.
    pub name: String,
    /// The rule for a run whose group is busy.
    pub on_conflict: RunConflictRule,
}

impl RunInputs {
    /// Types the parameters of a run that a person starts. The error lists all problems.
    pub fn from_words(
        definition: &PipelineDefinition,
        given: &[(String, String)],
    ) -> Result<Self, Vec<String>> {
        let mut reader = InputReader::new(definition);
        for (name, text) in given {
            reader.word(name, text);
        }
        match reader.finish() {
            (inputs, problems) if problems.is_empty() => Ok(inputs),
            (_, problems) => Err(problems),
        }
    }

    /// Types the parameters of a run that a program starts. A value is a text, a number or a boolean. The error lists all
    /// problems.
    pub fn from_values(
        definition: &PipelineDefinition,
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, Vec<ParameterProblem>> {
        let mut reader = InputReader::new(definition);
        let mut problems = Vec::new();
        let mut note = |parameter: &str, found: Vec<String>| {
            let found = found.into_iter().map(|why| ParameterProblem {
                parameter: shown_name(parameter),
                why,
            });
            problems.extend(found);
        };
        for (name, value) in given {
            reader.value(name, value);
            note(name, std::mem::take(&mut reader.problems));
        }
        for (name, why) in reader.add_defaults() {
            note(name, vec![why]);
        }
        match problems.is_empty() {
            true => Ok(reader.inputs),
            false => Err(problems),
        }
    }

    /// Reads the inputs of a run from an event; `None` if the condition of the trigger is false, also if values are missing
    /// then. They do not contain the event. The error lists all problems; it quotes no value.
    pub fn of_event(
        definition: &PipelineDefinition,
        (trigger, hook): (&PipelineTrigger, &HookTrigger),
        (payload, event): (&Value, &ConditionEvent),
    ) -> Result<Option<Self>, Vec<String>> {
        let mut reader = InputReader::new(definition);
        for (name, pointer) in &hook.params {
            reader.parameter_of_event(name.as_str(), pointer, payload);
        }
        for (name, field) in &hook.fields {
            reader.field(name.as_str(), &field.pointer, field.kind, payload);
        }
        let (inputs, problems) = reader.finish();
        match admits(trigger, &inputs, event) {
            Ok(false) => Ok(None),
            _ if !problems.is_empty() => Err(problems),
            Ok(true) => Ok(Some(inputs)),
            Err(why) => Err(vec![why]),
        }
    }

    /// Reads the inputs of a run at a time of a schedule; `None` if the condition of the trigger is false. The error lists all
    /// problems.
    pub fn of_schedule(
        definition: &PipelineDefinition,
        (trigger, schedule): (&PipelineTrigger, &ScheduleTrigger),
    ) -> Result<Option<Self>, Vec<String>> {
        let mut reader = InputReader::new(definition);
        for (name, value) in &schedule.params {
            if let Some((known, parameter)) = definition.params.get_key_value(name.as_str()) {
                // The types were checked with the definition.
                reader.parameter(known.as_str(), Ok(same_type(parameter.kind, value.clone())));
            }
        }
        match reader.finish() {
            (inputs, problems) if problems.is_empty() => {
                let is_admitted = trigger_admits(trigger, &inputs).map_err(|why| vec![why])?;
                Ok(is_admitted.then_some(inputs))
            }
            (_, problems) => Err(problems),
        }
    }

    /// Returns the parameters that a condition names.
    pub(super) fn params_of(&self, names: &ConditionNames) -> BTreeMap<String, ScalarValue> {
        let named = self
            .params
            .iter()
            .filter(|(name, _)| names.params.contains(*name));
        named.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Returns true if the condition of a trigger without an event, if it has one, is true. The error is the reason why it has no
/// result.
pub fn trigger_admits(trigger: &PipelineTrigger, inputs: &RunInputs) -> Result<bool, String> {
    admits(trigger, inputs, &ConditionEvent::default())
}

fn admits(trigger: &PipelineTrigger, inputs: &RunInputs, event: &ConditionEvent) -> Result<bool, String> {
    let Some(when) = &trigger.when else {
        return Ok(true);
    };
    evaluated(when, |names| ConditionValues {
        event: match names.uses_event {
            true => event.clone(),
            false => ConditionEvent::default(),
        },
        params: inputs.params_of(names),
        steps: BTreeMap::new(),
    })
}

/// Returns the group of a run. A literal name is one group of the repository; a value is one of the pipeline alone.
pub fn run_group(pipeline: &str, definition: &PipelineDefinition, inputs: &RunInputs) -> Option<RunGroup> {
    let rule = definition.concurrency.as_ref()?;
    let name = match &rule.group {
        PipelineValue::Literal(name) => format!("repository/{name}"),
        PipelineValue::Reference(reference) => {
            let value = match reference {
                ValueReference::Parameter(name) => inputs.params.get(name),
                ValueReference::Trigger(name) => inputs.trigger.get(name),
                ValueReference::StepOutput(_) | ValueReference::StepStatus(_) => None,
            };
            format!("pipeline/{pipeline}/{}", value?)
        }
    };
    let on_conflict = match rule.on_conflict {
        RunConflict::Serial => RunConflictRule::Serial,
        RunConflict::Cancel => RunConflictRule::Cancel,
        RunConflict::Skip => RunConflictRule::Skip,
    };
    Some(RunGroup { name, on_conflict })
}

/// The inputs that were read, with their problems.
struct InputReader<'a> {
    definition: &'a PipelineDefinition,
    inputs: RunInputs,
    problems: Vec<String>,
    /// The parameters whose given value has a problem.
    refused: BTreeSet<&'a str>,
}

impl<'a> InputReader<'a> {
    fn new(definition: &'a PipelineDefinition) -> Self {
        Self {
            definition,
            inputs: RunInputs::default(),
            problems: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    fn word(&mut self, name: &str, text: &str) {
        let Some((known, parameter)) = self.definition.params.get_key_value(name) else {
            return self.unknown(name);
        };
        if self.inputs.params.contains_key(name) {
            return self
                .problems
                .push(format!("{known} is given twice; keep one of them"));
        }
        let value = parameter_value(parameter, text).map_err(|why| format!("{known}: {why}"));
        self.parameter(known.as_str(), value);
    }

    /// Reads a parameter from a value of JSON.
    fn value(&mut self, name: &str, value: &Value) {
        let Some((known, parameter)) = self.definition.params.get_key_value(name) else {
            return self.unknown(name);
        };
        let value = scalar_text(Some(value)).and_then(|text| parameter_value(parameter, &text));
        let value = value.map_err(|why| format!("{known}: {why}"));
        self.parameter(known.as_str(), value);
    }

    fn unknown(&mut self, name: &str) {
        let names = self.definition.params.keys().map(|name| name.as_str());
        let hint = match self.definition.params.is_empty() {
            true => "; the pipeline has no parameters".to_owned(),
            false => name_hint(name, names),
        };
        let problem = format!("there is no parameter {}{hint}", shown_name(name));
        self.problems.push(problem);
    }

    /// Keeps a parameter, or its problem.
    fn parameter(&mut self, name: &'a str, value: Result<ScalarValue, String>) {
        match value {
            Ok(value) => {
                self.inputs.params.insert(name.to_owned(), value);
            }
            Err(problem) => {
                self.refused.insert(name);
                self.problems.push(problem);
            }
        }
    }

    /// Reads a parameter from the event. A missing value is none, so that its default counts.
    fn parameter_of_event(&mut self, name: &str, pointer: &PayloadPointer, payload: &Value) {
        let Some((known, parameter)) = self.definition.params.get_key_value(name) else {
            return;
        };
        let value = match payload.pointer(pointer.as_str()) {
            None | Some(Value::Null) if parameter.default.is_some() => return,
            value => scalar_text(value).and_then(|text| parameter_value(parameter, &text)),
        };
        let value = value.map_err(|why| of_event("params", name, pointer, &why));
        self.parameter(known.as_str(), value);
    }

    fn field(&mut self, name: &str, pointer: &PayloadPointer, kind: ParameterType, payload: &Value) {
        let text = scalar_text(payload.pointer(pointer.as_str()));
        match text.and_then(|text| typed(kind, &text)) {
            Ok(value) => {
                self.inputs.trigger.insert(name.to_owned(), value);
            }
            Err(why) => self.problems.push(of_event("fields", name, pointer, &why)),
        }
    }

    /// Adds the defaults. Returns the parameters without a value, each with its problem.
    fn add_defaults(&mut self) -> Vec<(&'a str, String)> {
        let mut missing = Vec::new();
        for (name, parameter) in &self.definition.params {
            if self.inputs.params.contains_key(name.as_str()) {
                continue;
            }
            match &parameter.default {
                Some(default) => {
                    let value = same_type(parameter.kind, default.clone());
                    self.inputs.params.insert(name.to_string(), value);
                }
                None if self.refused.contains(name.as_str()) => {}
                None => {
                    let kind = parameter.kind.word();
                    let problem = format!("{name} is required: give it a value of the type {kind}");
                    missing.push((name.as_str(), problem));
                }
            }
        }
        missing
    }

    /// Adds the defaults. Returns the inputs with all problems, also those of parameters without a value.
    fn finish(mut self) -> (RunInputs, Vec<String>) {
        let missing = self.add_defaults().into_iter().map(|(_, problem)| problem);
        self.problems.extend(missing);
        (self.inputs, self.problems)
    }
}

/// Returns the problem of a value of the event.
fn of_event(kind: &str, name: &str, pointer: &PayloadPointer, why: &str) -> String {
    let pointer = shown_name(pointer.as_str());
    format!("{kind}.{name}: {pointer} of the event {why}")
}

/// Returns the text of a value of an event.
fn scalar_text(value: Option<&Value>) -> Result<String, String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(value)) => Ok(value.to_string()),
        Some(Value::Array(_) | Value::Object(_)) => {
            Err("is a list or an object; expected a text, a number or a boolean".to_owned())
        }
        Some(Value::Null) | None => Err("has no value".to_owned()),
    }
}

fn parameter_value(parameter: &PipelineParameter, text: &str) -> Result<ScalarValue, String> {
    if parameter.kind == ParameterType::Choice && !parameter.choices.iter().any(|choice| choice == text) {
        let hint = name_hint(text, parameter.choices.iter().map(String::as_str));
        return Err(format!("is none of the choices{hint}"));
    }
    typed(parameter.kind, text)
}

/// Returns the value of a type that a text is.
fn typed(kind: ParameterType, text: &str) -> Result<ScalarValue, String> {
    if text.len() > STEP_OUTPUT_BYTES_MAX {
        return Err(format!("is longer than {STEP_OUTPUT_BYTES_MAX} bytes"));
    }
    let value = match kind {
        ParameterType::Text | ParameterType::Choice => Some(ScalarValue::Text(text.to_owned())),
        ParameterType::Integer => text.parse().ok().map(ScalarValue::Integer),
        ParameterType::Number => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(ScalarValue::Number)
        }
        ParameterType::Boolean => text.parse().ok().map(ScalarValue::Boolean),
    };
    value.ok_or_else(|| {
        let expected = match kind {
            ParameterType::Boolean => "expected true or false",
            ParameterType::Integer => "expected a whole number, such as 42",
            _ => "expected a number, such as 1.5",
        };
        format!("is no {}; {expected}", kind.word())
    })
}

/// Returns a value as a given one of the type would be: a whole number of the type `number` is a number.
fn same_type(kind: ParameterType, value: ScalarValue) -> ScalarValue {
    match (kind, value) {
        (ParameterType::Number, ScalarValue::Integer(value)) => ScalarValue::Number(value as f64),
        (_, value) => value,
    }
}
