//! The definition of a run at a terminal: read once, checked, and refused before anything is asked or written if a part of
//! it is not available here.

use crate::base::config::{Config, PipelineSettings};
use crate::base::redact::Redactor;
use crate::cli::pipeline::{open_directory, unknown_pipeline};
use crate::cli::terminal::PipelineSession;
use crate::cli::{CliError, Global, tool_commands};
use crate::engine::pipeline::definition::{PipelineDefinition, TriggerSource};
use crate::engine::pipeline::run::{PlannedAgent, PlannedWork, RunDoor, RunInputs, RunPlan, trigger_admits};
use crate::engine::pipeline::{JSONNET_FILE, LoadedPipelines, OperatorLimits, YAML_FILE, effective};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// A run that can begin.
pub(super) struct PreparedRun {
    /// The plan.
    pub(super) plan: RunPlan,
    /// The inputs.
    pub(super) inputs: RunInputs,
    /// The place of each step in its file, such as `.drydock/pipelines.yaml:12:pipelines.review.steps[0]`.
    places: Vec<String>,
    /// The place of the budget.
    budget: String,
    /// The bounds of the person's own configuration, with the programs of tasks.
    pub(super) settings: PipelineSettings,
}

impl PreparedRun {
    /// Reads the definition of a pipeline, and checks that it can run here with these parameters.
    pub(super) async fn read(
        name: &str,
        params: &[(String, String)],
        global: &Global,
    ) -> Result<Self, CliError> {
        let loaded = load(global).await?;
        // The bounds are those of the person's own configuration.
        let operator = OperatorLimits {
            tools: tool_commands::tool_names(),
            server: Some(Config::for_pipelines(global.model_sources()?).map_err(CliError::config)?),
        };
        let Some(pipeline) = effective(&loaded.file, name, &operator) else {
            return Err(CliError::usage(unknown_pipeline(&loaded, name)));
        };
        let inputs = inputs(name, pipeline.definition, params)?;
        let place = |key: &str| match loaded.line(key) {
            Some(line) => format!("{}:{line}:{key}", loaded.path),
            None => format!("{}:{key}", loaded.path),
        };
        let plan = RunPlan::of(name, &pipeline, RunDoor::Local).map_err(|problems| {
            let lines = problems
                .iter()
                .map(|problem| format!("{}: {}", place(&problem.key), problem.why));
            CliError::config(lines.collect::<Vec<_>>().join("\n"))
        })?;
        let steps = pipeline.steps.iter();
        Ok(Self {
            plan,
            inputs,
            places: steps.map(|step| place(&format!("{}.agent", step.key))).collect(),
            budget: place(&format!("{}.budget", pipeline.key)),
            settings: operator.settings(),
        })
    }

    /// Returns true if a step runs a program.
    pub(super) fn has_tasks(&self) -> bool {
        let mut steps = self.plan.steps.iter();
        steps.any(|step| matches!(step.work, PlannedWork::Task(_)))
    }

    /// Returns the index of the first agent step, and its model.
    pub(super) fn first_agent(&self) -> Option<(usize, &str)> {
        let (index, agent) = self.agents().next()?;
        Some((index, agent.bounds.model.as_str()))
    }

    /// Returns an error with the place of an agent step, if it is about the configuration.
    pub(super) fn at_agent(&self, step: usize, error: CliError) -> CliError {
        match self.places.get(step) {
            Some(place) if error.is_configuration() => CliError {
                message: format!("{place}: {}", error.message),
                ..error
            },
            _ => error,
        }
    }

    /// Returns true if a step may edit files.
    pub(super) fn may_edit(&self) -> bool {
        self.agents().any(|(_, agent)| agent.bounds.may_edit)
    }

    /// Prepares the models of all steps. The error names the step.
    pub(super) fn prepare_models(&self, session: &mut PipelineSession) -> Result<(), CliError> {
        for (index, agent) in self.agents() {
            session
                .prepare(&agent.bounds)
                .map_err(|error| self.at_agent(index, error))?;
        }
        match session.unpriced_model() {
            Some(model) if self.plan.budget.max_cents > 0 => Err(CliError::config(format!(
                "{}: the prices of {model} are not known, so nothing would reach max_cents; add price_input and \
                 price_output to [models.\"{model}\"] in your configuration, or bound the tokens instead",
                self.budget
            ))),
            _ => Ok(()),
        }
    }

    fn agents(&self) -> impl Iterator<Item = (usize, &PlannedAgent)> {
        let steps = self.plan.steps.iter().enumerate();
        steps.filter_map(|(index, step)| match &step.work {
            PlannedWork::Agent(agent) => Some((index, agent)),
            _ => None,
        })
    }
}

/// Reads the file of the working directory.
async fn load(global: &Global) -> Result<LoadedPipelines, CliError> {
    let (tree, evaluate) = open_directory(Path::new("."), global)?;
    // Hooks and reply targets are those of a server, which this run does not have.
    let known = OperatorLimits {
        tools: tool_commands::tool_names(),
        server: None,
    };
    let cancel = CancellationToken::new();
    let loaded = LoadedPipelines::read(tree, evaluate.as_ref(), &known, &cancel).await;
    match loaded {
        Ok(Some(loaded)) => Ok(loaded),
        Ok(None) => Err(CliError::config(format!(
            "this repository has no pipelines; write {YAML_FILE} or {JSONNET_FILE}"
        ))),
        // The file can hold secrets by mistake, and output is often pasted elsewhere.
        Err(error) => Err(CliError::config(Redactor::new([]).redact(&error.to_string()))),
    }
}

/// Returns the inputs of a run from the command line. Without such a trigger there are none.
fn inputs(
    name: &str,
    definition: &PipelineDefinition,
    params: &[(String, String)],
) -> Result<RunInputs, CliError> {
    let triggers = definition.triggers.iter();
    let own: Vec<_> = triggers
        .filter(|trigger| matches!(trigger.source, TriggerSource::CommandLine(_)))
        .collect();
    if own.is_empty() {
        let others: Vec<String> = definition
            .triggers
            .iter()
            .map(|trigger| trigger.source.describe())
            .collect();
        return Err(CliError::usage(format!(
            "{name} is not started from the command line; its triggers are {}; add the trigger `command_line: {{}}`",
            Redactor::new([]).redact(&others.join("; "))
        )));
    }
    let inputs = RunInputs::from_words(definition, params).map_err(|problems| {
        let lines = problems.iter().map(|problem| format!("--param: {problem}"));
        CliError::usage(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let mut refusal = "its condition is false with these parameters".to_owned();
    for trigger in own {
        match trigger_admits(trigger, &inputs) {
            Ok(true) => return Ok(inputs),
            Ok(false) => {}
            Err(why) => refusal = format!("its condition has no result: {why}"),
        }
    }
    Err(CliError::usage(format!(
        "{name} does not start: the trigger command_line has `when`, and {refusal}"
    )))
}
