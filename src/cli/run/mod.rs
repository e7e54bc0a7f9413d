//! `drydock run`: a pipeline of the repository of the working directory, without a server.

mod definition;
mod driver;
mod question;
mod report;
mod task;
mod trace;

use super::output::Output;
use super::terminal::{CommonTerminalOptions, PipelineSession};
use super::{CliError, Global};
use crate::base::model::RunStatus;
use clap::Args;
use definition::PreparedRun;
use driver::{LocalRun, RunTime};
use report::LocalReport;
use task::LocalTasks;
use trace::RunTraces;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock run review
  drydock run scale --param environment=dev --param replicas=4
  drydock run review --json
  drydock run review --record ~/drydock

The definitions are .drydock/pipelines.yaml, or the value of .drydock/pipelines.jsonnet, as they
are when the run begins. The pipeline has the trigger `command_line: {}`. Its steps edit the files
of the working directory in place; nothing is committed. `drydock pipeline explain NAME` shows the
effective values of each step.

The models and their keys are those of your own configuration, as of `drydock ask`; [pipelines]
there bounds each run. A step does not send your key to an address that your configuration does
not have. Steps of a parallel group run one after another. A question is a menu; without a
terminal its default counts. A task runs a program of [pipelines.programs] of your configuration
in the sandbox, on copies of the files. Ctrl-C cancels the run and keeps what was edited.

The last lines are a table of the steps and the diff. With --json the only line is an object: run,
pipeline, status, why, steps, tokensUsed, duration in seconds, files, checks, environments and
patch. Each of its steps has name, kind, status, why, text, verdict, source of the verdict, model,
tokensUsed, steps (the calls of the model) and duration.

--record writes trace.json, result.txt and status of each step, without secrets, to
runs/<run>/<step> below that directory, and the result of each call of a tool to a file in calls,
such as calls/3.stdout, or calls/3.stderr if the call failed. Runs older than 30 days, and the
oldest beyond 100 runs or 256 MiB, are removed; those of the last day stay.

Exit codes: 0 the run succeeded, 1 it failed or was cancelled, 2 wrong arguments, 78 wrong
configuration or a definition that cannot run here.";

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The name of the pipeline
    #[arg(value_name = "NAME")]
    name: String,
    /// Sets a parameter. Can be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parameter)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    options: CommonTerminalOptions,
}

pub(super) async fn run(arguments: RunArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let RunArguments {
        name,
        params,
        options,
    } = arguments;
    let prepared = PreparedRun::read(&name, &params, global).await?;
    let mut session = match prepared.first_agent() {
        Some((step, model)) => {
            let session = PipelineSession::open(model, &options, global, *output);
            Some(session.map_err(|error| prepared.at_agent(step, error))?)
        }
        None => None,
    };
    if let Some(session) = &mut session {
        prepared.prepare_models(session)?;
        if prepared.may_edit() && !session.may_begin().await? {
            return Err(CliError::failed("nothing was done"));
        }
    }
    let id = trace::new_id();
    let traces = RunTraces::open(options.record.as_deref(), &id, output)?;
    let tasks = LocalTasks::open(&prepared, global)?;
    let time = RunTime::begin(prepared.plan.budget.timeout, output)?;
    let run = LocalRun::new(
        &prepared,
        (session.as_mut(), tasks),
        traces,
        time,
        &options,
        output,
    );
    let finished = Box::pin(run.run()).await?;
    let report = LocalReport::new(id, &prepared, finished, session.as_mut()).await?;
    report.print(output);
    match report.status {
        RunStatus::Succeeded => Ok(()),
        RunStatus::Cancelled => Err(CliError::failed("the run was cancelled; what was edited stays")),
        _ => Err(CliError::failed(report.why())),
    }
}

/// Parses `NAME=VALUE`.
fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write NAME=VALUE".to_owned()),
    }
}
