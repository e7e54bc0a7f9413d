//! `drydock pipeline`: checks, lists and explains the pipelines of a repository, and prints the schema of their file.
//! It works in a checkout, without a server.

use super::output::Output;
use super::pipeline_times::next_times;
use super::serve::now;
use super::{CliError, Global, evaluator, tool_commands};
use crate::base::config::Config;
use crate::base::model::pluralize;
use crate::base::redact::Redactor;
use crate::engine::pipeline::definition::{PipelineDefinition, PipelineName};
use crate::engine::pipeline::run::check_available;
use crate::engine::pipeline::{
    DefinitionError, ExplainedValue, JSONNET_FILE, LoadedPipelines, OperatorLimits, YAML_FILE, effective,
    explain, json_schema, similar_pipeline,
};
use crate::rendering::tanka::Evaluate;
use crate::state::workspace::{Directory, Tree};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock pipeline check                              the definitions of the repository of this directory
  drydock pipeline check --config drydock.toml        also what the server has and allows
  drydock pipeline explain review-pr                  each effective value with its source
  drydock pipeline schema > pipelines.schema.json     for completion in an editor

The definitions are .drydock/pipelines.yaml, or the value of .drydock/pipelines.jsonnet.

Exit codes: 0 no problems, 1 problems or no definitions, 78 wrong configuration.";

#[derive(Debug, Subcommand)]
pub(super) enum PipelineCommand {
    /// Checks the definitions, and names file, line and key of each problem
    Check(PipelineDirectory),
    /// Lists the pipelines with their triggers
    List(PipelineDirectory),
    /// Prints each effective value of a pipeline with its source
    Explain(PipelineExplainArguments),
    /// Prints the JSON Schema of the definitions
    Schema,
}

#[derive(Debug, Args)]
pub(super) struct PipelineDirectory {
    /// A directory of the repository
    #[arg(default_value = ".", value_name = "DIRECTORY")]
    directory: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct PipelineExplainArguments {
    /// The name of the pipeline
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    place: PipelineDirectory,
}

pub(super) async fn run(command: PipelineCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    match command {
        PipelineCommand::Check(place) => check(&place.directory, global, output).await,
        PipelineCommand::List(place) => list(&place.directory, global, output).await,
        PipelineCommand::Explain(arguments) => explain_one(&arguments, global, output).await,
        PipelineCommand::Schema => {
            output.line(&format!("{:#}", json_schema()));
            Ok(())
        }
    }
}

/// The number of next times that `explain` shows for each trigger.
const TIMES_EXPLAINED: usize = 3;

/// The reason why there are no definitions to work with.
enum NoPipelines {
    /// The repository has no file of them.
    NoFile,
    /// The file has problems.
    Problems(DefinitionError),
    /// The command cannot read it.
    Failed(CliError),
}

impl From<NoPipelines> for CliError {
    fn from(reason: NoPipelines) -> Self {
        match reason {
            NoPipelines::NoFile => Self::failed(format!(
                "this repository has no pipelines; write {YAML_FILE} or {JSONNET_FILE}"
            )),
            // The file can hold secrets by mistake, and output is often pasted elsewhere.
            NoPipelines::Problems(error) => Self::failed(Redactor::new([]).redact(&error.to_string())),
            NoPipelines::Failed(error) => error,
        }
    }
}

async fn load(directory: &Path, global: &Global) -> Result<(LoadedPipelines, OperatorLimits), NoPipelines> {
    let operator = operator(global).map_err(NoPipelines::Failed)?;
    let (tree, evaluate) = open_directory(directory, global).map_err(NoPipelines::Failed)?;
    let cancel = CancellationToken::new();
    let loaded = LoadedPipelines::read(tree, evaluate.as_ref(), &operator, &cancel).await;
    match loaded.map_err(NoPipelines::Problems)? {
        Some(loaded) => Ok((loaded, operator)),
        None => Err(NoPipelines::NoFile),
    }
}

/// The files of a directory, and the evaluator of its programs.
pub(super) type OpenedDirectory = (Arc<dyn Tree>, Arc<dyn Evaluate>);

pub(super) fn open_directory(directory: &Path, global: &Global) -> Result<OpenedDirectory, CliError> {
    let settings = Config::for_rendering(global.personal_sources()?).map_err(CliError::config)?;
    let tree = Directory::open(directory).map_err(CliError::failed)?;
    let tree: Arc<dyn Tree> = Arc::new(tree.bounded(settings.file_bytes_max));
    Ok((tree, evaluator(&settings)))
}

/// Returns what the server allows. It is known only if its configuration is named.
fn operator(global: &Global) -> Result<OperatorLimits, CliError> {
    let server = match &global.config {
        Some(_) => Some(Config::for_pipelines(global.sources()?).map_err(CliError::config)?),
        None => None,
    };
    Ok(OperatorLimits {
        tools: tool_commands::tool_names(),
        server,
    })
}

async fn check(directory: &Path, global: &Global, output: &Output) -> Result<(), CliError> {
    match load(directory, global).await {
        Ok((loaded, operator)) => {
            if let Err(error) = check_available(&loaded, &operator) {
                return report(error, output);
            }
            let count = loaded.file.pipelines.len();
            if output.json() {
                output.value(&json!({ "ok": true, "file": loaded.path, "pipelines": count, "problems": [] }));
                return Ok(());
            }
            output.line(&format!(
                "{}: {}, no problems",
                loaded.path,
                pluralize(count, "pipeline", "pipelines")
            ));
            if operator.server.is_none() {
                output.message(
                    "Without --config, hooks, slash commands, tools, programs and reply targets of a server are not compared.",
                );
            }
            Ok(())
        }
        Err(NoPipelines::Problems(error)) => report(error, output),
        Err(reason) => Err(reason.into()),
    }
}

/// Prints the problems. They are the data of the command.
fn report(error: DefinitionError, output: &Output) -> Result<(), CliError> {
    let redactor = Redactor::new([]);
    let count = pluralize(error.problems.len(), "problem", "problems");
    match output.json() {
        true => {
            let problems: Vec<Value> = error
                .problems
                .iter()
                .map(|problem| {
                    let (key, message) = (redactor.redact(&problem.key), redactor.redact(&problem.message));
                    json!({ "line": problem.line, "key": key, "message": message })
                })
                .collect();
            output.value(&json!({ "ok": false, "file": error.file, "problems": problems }));
        }
        false => output.line(&redactor.redact(&error.to_string())),
    }
    Err(CliError::failed(format!("{} has {count}", error.file)))
}

async fn list(directory: &Path, global: &Global, output: &Output) -> Result<(), CliError> {
    let (loaded, _) = load(directory, global).await?;
    let pipelines = &loaded.file.pipelines;
    let redactor = Redactor::new([]);
    if output.json() {
        let rows = pipelines
            .iter()
            .map(|(name, pipeline)| as_json(name, pipeline, &redactor));
        output.value(&json!({ "file": loaded.path, "pipelines": rows.collect::<Vec<Value>>() }));
        return Ok(());
    }
    let rows = pipelines.iter().map(|(name, pipeline)| {
        vec![
            name.to_string(),
            triggers_with_times(pipeline, &redactor),
            pipeline.all_steps().count().to_string(),
            redactor.redact(&pipeline.description).into_owned(),
        ]
    });
    output.table(
        &["NAME", "TRIGGERS", "STEPS", "DESCRIPTION"],
        &rows.collect::<Vec<_>>(),
    );
    Ok(())
}

fn triggers(pipeline: &PipelineDefinition, redactor: &Redactor) -> Vec<String> {
    let triggers = pipeline.triggers.iter().map(|trigger| trigger.source.describe());
    triggers.map(|text| redactor.redact(&text).into_owned()).collect()
}

/// Returns the triggers of a pipeline for a table, with the next time of those that have set times.
fn triggers_with_times(pipeline: &PipelineDefinition, redactor: &Redactor) -> String {
    let mut texts = triggers(pipeline, redactor);
    for (index, next) in next_times(pipeline, 1, now()) {
        if let Some(text) = texts.get_mut(index) {
            text.push_str(&format!(", next {next}"));
        }
    }
    texts.join("; ")
}

fn as_json(name: &PipelineName, pipeline: &PipelineDefinition, redactor: &Redactor) -> Value {
    let steps: Vec<Value> = pipeline
        .all_steps()
        .map(|step| json!({ "name": step.name, "kind": step.word() }))
        .collect();
    let mut value = json!({
        "name": name,
        "description": redactor.redact(&pipeline.description),
        "triggers": triggers(pipeline, redactor),
        "params": pipeline.params.keys().collect::<Vec<_>>(),
        "steps": steps,
    });
    let next: Vec<String> = next_times(pipeline, 1, now())
        .into_iter()
        .map(|(_, next)| next)
        .collect();
    if !next.is_empty() {
        value["next_times"] = json!(next);
    }
    value
}

async fn explain_one(
    arguments: &PipelineExplainArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let (loaded, operator) = load(&arguments.place.directory, global).await?;
    let name = &arguments.name;
    let Some(pipeline) = effective(&loaded.file, name, &operator) else {
        return Err(CliError::failed(unknown_pipeline(&loaded, name)));
    };
    let redactor = Redactor::new([]);
    let times = next_times(pipeline.definition, TIMES_EXPLAINED, now()).into_iter();
    let times = times.map(|(index, value)| ExplainedValue {
        setting: format!("triggers[{index}].next_times"),
        value,
        source: "clock of this machine".to_owned(),
    });
    let rows = explain(&loaded, &pipeline).into_iter().map(|row| ExplainedValue {
        value: redactor.redact(&row.value).into_owned(),
        ..row
    });
    let rows = rows.chain(times);
    if output.json() {
        let rows: Vec<Value> = rows
            .map(|row| json!({ "setting": row.setting, "value": row.value, "source": row.source }))
            .collect();
        output.value(&json!({ "name": name, "file": loaded.path, "values": rows }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = rows.map(|row| vec![row.setting, row.value, row.source]).collect();
    output.table(&["SETTING", "VALUE", "SOURCE"], &rows);
    Ok(())
}

/// Returns the text about a name that no pipeline has.
pub(super) fn unknown_pipeline(loaded: &LoadedPipelines, name: &str) -> String {
    let hint = similar_pipeline(&loaded.file, name).map(|near| format!("; did you mean {near}?"));
    let hint = hint.unwrap_or_else(|| "; `drydock pipeline list` shows them".to_owned());
    format!("{} has no pipeline {name}{hint}", loaded.path)
}
