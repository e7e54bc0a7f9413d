//! `drydock run`: a pipeline of the repository of the working directory, without a server, or one on a server.

mod definition;
mod driver;
mod question;
mod remote;
mod report;
mod summary;
mod task;
mod trace;

use super::output::Output;
use super::runs::RunsCommand;
use super::terminal::{CommonTerminalOptions, PipelineSession};
use super::{CliError, Global};
use crate::base::model::RunStatus;
use clap::{Args, Subcommand};
use definition::PreparedRun;
use driver::{LocalRun, RunTime};
use remote::RemoteOptions;
use report::LocalReport;
use task::LocalTasks;
use trace::RunTraces;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock run review
  drydock run scale --param environment=dev --param replicas=4
  drydock run review --json
  drydock run review --record ~/drydock
  drydock run review --server https://drydock.example.com --param number=7
  drydock run review --server https://drydock.example.com --key build-812 --detach

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

With --server, the pipeline has the trigger `api: {}` on the trusted branch of that server, and
runs there. The token is that of --token-file or DRYDOCK_TOKEN, with the scopes runs:read and
runs:write; `drydock token create` makes it. The login of this machine is used without one; it is
only for `drydock pull`. The steps are shown as they begin and end; a change that is prepared is
not written here. --json prints the run as `GET /api/runs/NUMBER` returns it. A lost answer is
asked for again with the same key, so nothing starts twice; the same --key shows the run again.
Ctrl-C and a lost connection leave the run going.

Exit codes: 0 the run succeeded, or was started with --detach, 1 it failed, was cancelled or was
refused by the server, or it is not known how it ended, 2 wrong arguments, 78 wrong configuration
or a definition that cannot run here.";

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The name of the pipeline
    #[arg(value_name = "NAME")]
    name: String,
    /// Sets a parameter. Can be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parameter)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    remote: RemoteOptions,
    #[command(flatten)]
    options: CommonTerminalOptions,
}

pub(super) async fn run(arguments: RunArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let RunArguments {
        name,
        params,
        remote,
        options,
    } = arguments;
    if let Some(server) = &remote.server {
        let ended = remote::run(server, (&name, &params), (&remote, &options), global, output);
        return Box::pin(ended).await.map_err(|error| match error.code {
            // The run has begun, or a server has refused it.
            1 => error,
            _ => led_to_runs(&name, error),
        });
    }
    let prepared = PreparedRun::read(&name, &params, global).await;
    let prepared = prepared.map_err(|error| led_to_runs(&name, error))?;
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

/// Returns the advice to a person who has typed `run` for `runs`, from the arguments of the program.
pub(super) fn advice_about_runs(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    arguments.find(|argument| argument == "run")?;
    advice_about(&arguments.next()?)
}

/// Returns the advice to a person whose name of a pipeline is a command of `drydock runs`.
fn advice_about(name: &str) -> Option<String> {
    RunsCommand::has_subcommand(name).then(|| {
        format!(
            "`drydock run` starts a pipeline by its name; for the runs of a server there is `drydock runs {name}`"
        )
    })
}

/// Adds that advice to an error about a pipeline.
fn led_to_runs(name: &str, error: CliError) -> CliError {
    match advice_about(name) {
        Some(advice) => CliError {
            message: format!("{}\n{advice}", error.message),
            ..error
        },
        None => error,
    }
}

/// Parses `NAME=VALUE`.
fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::advice_about_runs;

    #[test]
    fn a_command_of_runs_after_run_leads_to_runs() {
        let advice = |words: &str| advice_about_runs(words.split(' ').map(str::to_owned));
        for verb in ["list", "show", "cancel", "retry", "answer"] {
            let found = advice(&format!("drydock --json run {verb} 7"));
            let named = format!("`drydock runs {verb}`");
            assert!(found.is_some_and(|advice| advice.contains(&named)), "{verb}");
        }
        for other in [
            "drydock run",
            "drydock run review 7",
            "drydock runs show",
            "drydock user show 7",
        ] {
            assert_eq!(advice(other), None, "{other}");
        }
    }
}
