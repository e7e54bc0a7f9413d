//! The checks of triggers.

use super::{DefinitionChecker, KnownValues, fits};
use crate::base::recurrence::{Recurrence, RecurrenceError};
use crate::base::webhook::HookScheme;
use crate::engine::pipeline::definition::{
    HookTrigger, ParameterType, PipelineDefinition, PipelineTrigger, ScheduleTrigger, TriggerSource,
};
use crate::engine::pipeline::problem::name_hint;
use std::collections::BTreeSet;

impl DefinitionChecker<'_> {
    pub(super) fn trigger(&mut self, at: &str, trigger: &PipelineTrigger, pipeline: &PipelineDefinition) {
        if let Some(when) = &trigger.when {
            // No step is finished when a trigger is examined.
            self.condition(&format!("{at}.when"), when, &KnownValues::new(pipeline));
        }
        match &trigger.source {
            TriggerSource::Hook(hook) => self.hook(&format!("{at}.hook"), hook, pipeline),
            TriggerSource::Schedule(schedule) => self.schedule(&format!("{at}.schedule"), schedule, pipeline),
            // A slash command, a chat, the command line and the API ask for parameters.
            TriggerSource::SlashCommand(_)
            | TriggerSource::Chat(_)
            | TriggerSource::CommandLine(_)
            | TriggerSource::Api(_) => {}
        }
    }

    fn hook(&mut self, at: &str, hook: &HookTrigger, pipeline: &PipelineDefinition) {
        let hooks = self.operator.server.as_ref().map(|server| &server.hooks);
        let known = hooks.and_then(|hooks| hooks.get(&hook.name));
        if let (Some(hooks), None) = (hooks, known) {
            let hint = name_hint(&hook.name, hooks.keys().map(String::as_str));
            self.problem(
                &format!("{at}.name"),
                format!("the server has no such hook{hint}"),
            );
        }
        // Without the configuration of the server, names of events are assumed to be those of GitHub.
        let scheme = known.copied().unwrap_or(HookScheme::Github);
        for (index, event) in hook.events.iter().enumerate() {
            let at = format!("{at}.events[{index}]");
            match scheme.definition().event_refusal {
                Some(refusal) => {
                    if let Some(why) = refusal(event) {
                        self.problem(&at, why);
                    }
                }
                None => self.problem(&at, "events of this hook have no names; use `when` instead"),
            }
        }
        for (name, field) in &hook.fields {
            if field.kind == ParameterType::Choice {
                self.problem(
                    &format!("{at}.fields.{name}.type"),
                    "expected text, integer, number or boolean",
                );
            }
        }
        for name in hook.params.keys() {
            if let Err(why) = KnownValues::new(pipeline).parameter(name.as_str()) {
                self.problem(&format!("{at}.params.{name}"), why);
            }
        }
        let given: BTreeSet<&str> = hook.params.keys().map(|name| name.as_str()).collect();
        self.required(at, &given, pipeline);
    }

    fn schedule(&mut self, at: &str, schedule: &ScheduleTrigger, pipeline: &PipelineDefinition) {
        if let Err(why) = Recurrence::parse(&schedule.cron, &schedule.time_zone) {
            let key = match why {
                RecurrenceError::Zone(_) => "time_zone",
                RecurrenceError::Form(_) | RecurrenceError::Never(_) => "cron",
            };
            self.problem(&format!("{at}.{key}"), why.to_string());
        }
        for (name, value) in &schedule.params {
            let at = format!("{at}.params.{name}");
            let parameter = pipeline.params.get(name);
            let result = match parameter {
                Some(parameter) => fits(value, parameter),
                None => KnownValues::new(pipeline).parameter(name.as_str()),
            };
            if let Err(why) = result {
                self.problem(&at, why);
            }
        }
        let given: BTreeSet<&str> = schedule.params.keys().map(|name| name.as_str()).collect();
        self.required(at, &given, pipeline);
    }

    /// Reports the parameters that neither the trigger nor a default gives: nobody can be asked for them.
    fn required(&mut self, at: &str, given: &BTreeSet<&str>, pipeline: &PipelineDefinition) {
        for (name, parameter) in &pipeline.params {
            if parameter.default.is_none() && !given.contains(name.as_str()) {
                let why = format!("does not give the parameter {name}; add it here, or give it a default");
                self.problem(&format!("{at}.params"), why);
            }
        }
    }
}
