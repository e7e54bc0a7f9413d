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
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use error::CliError;
use global::{Global, VARIABLE_OPTIONS, ignored};
use output::{Output, OutputFormat};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  drydock demo                                   run the whole workflow, without account and key
  drydock check --config drydock.toml            check the configuration
  drydock serve --config drydock.toml            run the gateway
  drydock up                                     run it as a service
  drydock invite alice --role editor             invite Alice
  drydock ask \"set web to 4 replicas in dev\"     one request about the files of the working directory

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server runs (`status`), 16 differences found (for commands that report them),
70 a part of the server ended, 74 the store is broken, 78 wrong configuration.";

const DEMO_EXAMPLES: &str = "\
Examples:
  drydock demo                      run the script, then type requests yourself
  drydock demo --headless           run the script and check every line of it
  drydock demo --headless --json    the same, one JSON object a line

Exit code 78: this system lacks a layer of the sandbox. The message names the layer and the solutions.";

const SERVE_EXAMPLES: &str = "\
Examples:
  drydock serve --config drydock.toml
  drydock serve --config drydock.toml --set server.listen=127.0.0.1:8080
  DRYDOCK_MODEL__DEFAULT=openai/gpt-4o drydock serve --config drydock.toml

SIGTERM or Ctrl-C stops it; accepted messages are answered after the next start. A second signal stops at once.

Exit codes: 70 a part of the server ended, and 74 nothing can be stored safely any more: start the server again.
78: correct the configuration or the data directory, or provide the missing layer of the sandbox first.";

const CHECK_EXAMPLES: &str = "\
Examples:
  drydock check --config drydock.toml
  drydock check --config drydock.toml --json

It opens no connection and writes nothing: tokens are not tried and remotes are not fetched.";

const INVITE_EXAMPLES: &str = "\
Examples:
  drydock invite alice --role editor
  drydock invite alice --role editor --repo infra --env dev --env staging
  drydock invite bob --role viewer --hours 2 --json";

const USER_EXAMPLES: &str = "\
Examples:
  drydock user list
  drydock user show alice --json
  drydock user grant alice --role editor --env dev
  drydock user auditor alice
  drydock user revoke slack:T0ACME:U0ALICE";

const SESSION_EXAMPLES: &str = "\
Examples:
  drydock session show CHG-42
  drydock session show CHG-42 --json";

/// Prepares changes to configuration repositories and checks them. Never applies, commits or pushes.
#[derive(Debug, Parser)]
#[command(name = "drydock", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
    #[command(flatten)]
    global: Global,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Runs the whole demo script on loopback, without account, key and network
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(demo::DemoArguments),
    /// Runs the gateway
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(serve::ServeArguments),
    /// Installs and starts the server as a service, and waits until it is ready
    #[command(after_help = service::UP_EXAMPLES)]
    Up(service::UpArguments),
    /// Stops the service
    #[command(after_help = service::DOWN_EXAMPLES)]
    Down(service::DownArguments),
    /// Shows the state of the running server
    #[command(after_help = service::STATUS_EXAMPLES)]
    Status,
    /// Shows the log of the service
    #[command(after_help = service::LOGS_EXAMPLES)]
    Logs(service::LogsArguments),
    /// Runs a server, and starts it again after a failure
    #[command(hide = true)]
    Supervise(service::SuperviseArguments),
    /// Answers one request about the repository of the working directory, then exits
    #[command(after_help = ask::after_help())]
    Ask(ask::AskArguments),
    /// Starts a conversation about the repository of the working directory, line by line
    #[command(after_help = chat::after_help())]
    Chat(chat::ChatArguments),
    /// Asks for a repository, a model and a chat, and writes the configuration
    #[command(after_help = init::EXAMPLES)]
    Init(init::InitArguments),
    /// Checks the configuration without connecting anywhere
    #[command(after_help = CHECK_EXAMPLES)]
    Check,
    /// Checks the configuration, the machine and every service that a server connects to
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Lists the models of the configured providers, and asks each provider once if wanted
    #[command(after_help = models::EXAMPLES)]
    Models(models::ModelsArguments),
    /// Lists, renders, compares, formats and lints environments of the working directory
    #[command(subcommand, after_help = tanka::EXAMPLES)]
    Tanka(tanka::TankaCommand),
    /// Prints the manifest of a Slack app
    #[command(subcommand, after_help = slack::EXAMPLES)]
    Slack(slack::SlackCommand),
    /// Registers a bot at Telegram
    #[command(subcommand, after_help = telegram::EXAMPLES)]
    Telegram(telegram::TelegramCommand),
    /// Lists, adds, removes and tests the channels of the configuration
    #[command(subcommand, after_help = channel::EXAMPLES)]
    Channel(channel::ChannelCommand),
    /// Lists, adds, removes, turns on and off and starts schedules, and lists what they did
    #[command(subcommand, after_help = schedule::EXAMPLES)]
    Schedule(schedule::ScheduleCommand),
    /// Lists and shows the runs of pipelines of a server, cancels and repeats them
    #[command(subcommand, after_help = runs::EXAMPLES)]
    Runs(runs::RunsCommand),
    /// Makes a single-use invite and prints how to use it
    #[command(after_help = INVITE_EXAMPLES)]
    Invite(admin::InviteArguments),
    /// Lists, shows or revokes the people who were admitted, and changes what they may do
    #[command(subcommand, after_help = USER_EXAMPLES)]
    User(admin::UserCommand),
    /// Makes, lists and revokes tokens of people and services, for requests of scripts
    #[command(subcommand, after_help = token::EXAMPLES)]
    Token(token::TokenCommand),
    /// Shows the recording of a conversation
    #[command(subcommand, after_help = SESSION_EXAMPLES)]
    Session(admin::SessionCommand),
    /// Logs this machine in to a server, with the code that `login` in a chat gives
    #[command(after_help = login::EXAMPLES)]
    Login(login::LoginArguments),
    /// Ends the login of this machine
    #[command(after_help = login::EXAMPLES)]
    Logout(login::LogoutArguments),
    /// Stores, lists and removes the keys of model providers, for sessions in a terminal
    #[command(subcommand, after_help = auth::EXAMPLES)]
    Auth(auth::AuthCommand),
    /// Writes a prepared change into the files of the working directory
    #[command(after_help = pull::EXAMPLES)]
    Pull(pull::PullArguments),
    /// Manages packages of Jsonnet, as jsonnet-bundler does
    #[command(subcommand, after_help = jb::EXAMPLES)]
    Jb(jb::JbCommand),
    /// Lists the lines of the audit log, and checks that the log is intact
    #[command(subcommand, after_help = audit::EXAMPLES)]
    Audit(audit::AuditCommand),
    /// Lists the two secrets of a section, and refuses the replaced one
    #[command(subcommand, after_help = secrets::EXAMPLES)]
    Secrets(secrets::SecretsCommand),
    /// Lists undelivered operations, and sends them again or drops them
    #[command(subcommand, after_help = outbox::EXAMPLES)]
    Outbox(outbox::OutboxCommand),
    /// Checks, lists and explains the pipelines that a repository defines
    #[command(subcommand, after_help = pipeline::EXAMPLES)]
    Pipeline(pipeline::PipelineCommand),
    /// Runs a pipeline in the working directory, or one on a server, then exits
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArguments),
    /// Prints completions for a shell
    #[command(after_help = completions::COMPLETIONS_EXAMPLES)]
    Completions(completions::CompletionsArguments),
    /// Prints the manual page, or writes the pages of all commands
    #[command(after_help = completions::MAN_EXAMPLES)]
    Man(completions::ManArguments),
    /// Shows the stored data, and removes data older than its retention
    #[command(subcommand, after_help = data::EXAMPLES)]
    Data(data::DataCommand),
}

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

/// Parses the arguments. The demo's help contains a list that is built only if it may be printed.
fn parsed() -> Result<CommandLine, clap::Error> {
    let mut command = match std::env::args_os().any(|argument| argument == "demo") {
        true => whole_command(),
        false => CommandLine::command(),
    };
    for (option, variable) in VARIABLE_OPTIONS {
        // An empty variable counts as not set; an empty value on the command line is refused.
        if is_set_to_nothing(variable) {
            command = command.mut_arg(option, |argument| argument.env(None::<&'static str>));
        }
    }
    let matches = command.try_get_matches()?;
    let mut arguments = CommandLine::from_arg_matches(&matches)?;
    let options = VARIABLE_OPTIONS.into_iter().map(|(option, _)| option);
    arguments.global.typed = options
        .filter(|option| matches.value_source(option) == Some(ValueSource::CommandLine))
        .collect();
    Ok(arguments)
}

/// Returns the definition of the command line with the list of tools in the help of the demo.
fn whole_command() -> clap::Command {
    CommandLine::command().mut_subcommand("demo", |demo| {
        // The list has columns, so its lines must not be wrapped.
        demo.after_help(format!("{DEMO_EXAMPLES}\n\n{}", tool_commands::command_list()))
            .term_width(0)
    })
}

#[allow(
    clippy::disallowed_methods,
    reason = "the shell is where the environment is read"
)]
fn is_set_to_nothing(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.is_empty())
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
