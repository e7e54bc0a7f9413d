//! The command line. Data is printed to standard output, messages to standard error. Exit codes: 0 success, 1
//! failure, 2 wrong usage, 3 no server runs, 16 differences found (for commands that report them), 70 a part of the server ended, 74
//! the store is broken, 78 wrong configuration.

mod admin;
mod admin_client;
mod ask;
mod audit;
mod auth;
mod tool_commands;
mod channel;
mod channel_choice;
mod chat;
mod check;
mod command_line;
mod completions;
mod hardening;
mod data;
mod demo;
mod descriptors;
mod doctor;
mod download;
mod error;
mod failure_format;
mod global;
mod init;
mod input;
mod jb;
mod jsonnet_files;
mod login;
mod models;
mod runs;
mod sandbox_layers;
mod outbox;
mod output;
mod private_file;
mod pipeline;
mod pipeline_times;
mod pull;
mod run;
mod schedule;
mod secret_input;
mod secrets;
mod serve;
mod server_request;
mod service;
mod slack;
mod tanka;
mod tanka_charts;
mod tanka_diff;
mod tanka_fmt;
mod tanka_lint;
mod telegram;
mod terminal;
mod token;
mod user_directory;

use crate::base::config::SandboxSettings;
use crate::base::redact::Redactor;
use crate::base::system;
use crate::rendering::compare::Comparer;
use crate::rendering::helm::{ChartRepositories, Helm};
use crate::rendering::jsonnet;
use crate::rendering::sandbox;
use crate::rendering::tanka::{Evaluate, LazyEvaluator};
use command_line::{CliCommand, CommandLine, parsed, whole_command};
use error::CliError;
use global::{Global, ignored};
use output::{Output, OutputFormat};
use std::process::ExitCode;
use std::sync::Arc;

/// Returns the evaluator; sandbox workers are started only for the first environment.
fn evaluator(settings: &SandboxSettings) -> Arc<dyn Evaluate> {
    Arc::new(LazyEvaluator::new(
        sandbox::ProgramPath::current(),
        settings.clone(),
    ))
}

/// Returns the operator's helm, if configured, with the repositories from which charts may be fetched.
fn helm(settings: &SandboxSettings, client: reqwest::Client) -> Option<Arc<Helm>> {
    let helm = Helm::configured(sandbox::ProgramPath::current(), &settings.programs)?;
    let runtime = tokio::runtime::Handle::current();
    let charts = ChartRepositories::new(&settings.programs.hosts_allowed, client, runtime, serve::now);
    Some(Arc::new(helm.with_repositories(charts)))
}

/// Returns a comparer of the working directory with its base.
fn comparer(evaluator: Arc<dyn Evaluate>, redactor: Arc<Redactor>) -> Arc<Comparer> {
    Arc::new(Comparer::new(evaluator, redactor, serve::random().to_vec()))
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Sandbox workers run the same program. A worker must have no thread, runtime or open file when it confines
    // itself, so this check comes before everything else.
    if let Some(confinement) = sandbox::task_of(std::env::args_os()) {
        return jsonnet::serve_as_worker(confinement);
    }
    if let Some(launch) = sandbox::launch_of(std::env::args_os()) {
        return launch.enter();
    }
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(error) => return print_usage(&error),
    };
    let output = Output::new(match arguments.global.json {
        true => OutputFormat::Json,
        false => OutputFormat::Text,
    });
    if let Err(error) = hardening::harden_process() {
        output.message(&format!(
            "this process could not be protected from other processes: {error}"
        ));
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.message(&format!("the async runtime did not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(arguments, &output));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    let code = match result {
        Ok(()) => 0,
        Err(failure) => {
            output.message(&failure.message);
            failure.code
        }
    };
    match output::data_lost() {
        None => ExitCode::from(code),
        Some(why) => {
            output.message(&format!("standard output could not be written completely: {why}"));
            // The code of found differences would say that they were printed.
            ExitCode::from(if matches!(code, 0 | 16) { 1 } else { code })
        }
    }
}

/// Prints the help that was asked for, or the error of wrong arguments.
fn print_usage(error: &clap::Error) -> ExitCode {
    // clap itself prints help to standard output and errors to standard error.
    let code = if error.use_stderr() { 2 } else { 0 };
    let printed = error.print();
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    if code == 2
        && let Some(advice) = run::advice_about_runs(arguments)
    {
        Output::new(OutputFormat::Text).message(&advice);
    }
    match printed {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run(arguments: CommandLine, output: &Output) -> Result<(), CliError> {
    let global = &arguments.global;
    global.check_log_filter()?;
    // A server does it after its start.
    if !matches!(arguments.command, CliCommand::Serve(_)) {
        system::release_freed_memory();
    }
    // The server logs them, and the demo reads no variables.
    if !matches!(
        arguments.command,
        CliCommand::Serve(_) | CliCommand::Supervise(_) | CliCommand::Demo(_)
    ) {
        ignored().iter().for_each(|line| output.message(line));
    }
    if matches!(
        arguments.command,
        CliCommand::Login(_) | CliCommand::Logout(_) | CliCommand::Pull(_)
    ) {
        global.refuse_configuration("this command reads no configuration of a server")?;
    }
    match arguments.command {
        CliCommand::Demo(arguments) => {
            global.refuse_configuration("the demo has its own configuration and reads no other")?;
            demo::run(arguments, output).await
        }
        CliCommand::Serve(arguments) => serve::run(arguments, global).await,
        CliCommand::Up(arguments) => Box::pin(service::up(arguments, global, output)).await,
        CliCommand::Down(arguments) => service::down(arguments, global, output).await,
        CliCommand::Status => service::status(global, output).await,
        CliCommand::Logs(arguments) => service::logs(arguments, global, output).await,
        CliCommand::Supervise(arguments) => service::supervise(arguments, global, output).await,
        CliCommand::Ask(arguments) => ask::run(arguments, global, output).await,
        CliCommand::Chat(arguments) => chat::run(arguments, global, output).await,
        CliCommand::Check => check::run(global, output),
        CliCommand::Init(arguments) => Box::pin(init::run(arguments, global, output)).await,
        CliCommand::Doctor(arguments) => Box::pin(doctor::run(arguments, global, output)).await,
        CliCommand::Models(arguments) => models::run(arguments, global, output).await,
        CliCommand::Tanka(command) => tanka::run(command, global, output).await,
        CliCommand::Slack(command) => slack::run(command, global, output),
        CliCommand::Telegram(command) => telegram::run(command, global, output).await,
        CliCommand::Channel(command) => channel::run(command, global, output).await,
        CliCommand::Schedule(command) => schedule::run(command, global, output).await,
        CliCommand::Runs(command) => runs::run(command, global, output).await,
        CliCommand::Invite(arguments) => admin::invite(arguments, global, output).await,
        CliCommand::User(command) => admin::user(command, global, output).await,
        CliCommand::Token(command) => token::run(command, global, output).await,
        CliCommand::Session(command) => admin::session(command, global, output).await,
        CliCommand::Login(arguments) => Box::pin(login::log_in(arguments, output)).await,
        CliCommand::Logout(arguments) => login::log_out(arguments, output).await,
        CliCommand::Auth(command) => Box::pin(auth::run(command, global, output)).await,
        CliCommand::Pull(arguments) => Box::pin(pull::run(arguments, output)).await,
        CliCommand::Jb(command) => jb::run(command, global, output).await,
        CliCommand::Audit(command) => audit::run(command, global, output).await,
        CliCommand::Secrets(command) => secrets::run(command, global, output).await,
        CliCommand::Pipeline(command) => Box::pin(pipeline::run(command, global, output)).await,
        CliCommand::Run(arguments) => Box::pin(run::run(arguments, global, output)).await,
        CliCommand::Outbox(command) => outbox::run(command, global, output).await,
        CliCommand::Data(command) => data::run(command, global, output).await,
        CliCommand::Completions(arguments) => {
            completions::print_completions(arguments, whole_command(), output)
        }
        CliCommand::Man(arguments) => completions::print_manual(arguments, whole_command(), output),
    }
}
