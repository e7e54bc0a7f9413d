//! The definition of the command line: its commands with their examples, and the parsing of arguments.

use super::global::{Global, VARIABLE_OPTIONS};
use super::{
    admin, ask, audit, auth, channel, chat, completions, data, demo, doctor, init, jb, login, models, outbox,
    pipeline, pull, run, runs, schedule, secrets, serve, service, slack, tanka, telegram, token,
    tool_commands,
};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: CliCommand,
    #[command(flatten)]
    pub(super) global: Global,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
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

/// Parses the arguments. The demo's help contains a list that is built only if it may be printed.
pub(super) fn parsed() -> Result<CommandLine, clap::Error> {
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
pub(super) fn whole_command() -> clap::Command {
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
