//! `drydock init`: asks for a repository, a model and a chat platform, writes the configuration, and checks it with
//! `drydock doctor`. Every answer can be an option. Nothing is overwritten.

mod answers;

use super::doctor;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::{ConfigEdit, ConfigSources, KNOWN_PROVIDERS, KnownProvider, NewKeys, NewValue};
use crate::interfaces::channel::{SlackConnection, SlackManifest};
use crate::state::workspace::Repository;
use answers::{Answers, OptionsOnly, SetupQuestion};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock init                              asks, one question at a time
  drydock init --non-interactive --yes --repository /srv/git/infra --chat telegram
  drydock init --non-interactive --yes --repository https://github.com/acme/infra --chat slack \\
    --public-url https://drydock.example.com --config /etc/drydock/drydock.toml

It writes drydock.toml, or the file that --config names, and never overwrites one. A secret is given
as env:NAME or file:PATH; one that you type is not shown, and goes to a file that only you can read.";

const FILE_COMMENT: &str = "# Written by `drydock init`. `drydock check` validates it, and `drydock doctor` tries all connections.\n";
/// The name of a repository whose location has no usable one.
const REPOSITORY: &str = "infra";

#[derive(Debug, Default, PartialEq, Args)]
pub(super) struct InitArguments {
    /// The repository: a path on this machine, or an https URL
    #[arg(long, value_name = "PATH|URL")]
    repository: Option<String>,
    /// The trusted branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The model: that of a provider whose key is in the environment, if it is not given
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// The key of the model's provider
    #[arg(long, value_name = "REFERENCE")]
    model_key: Option<String>,
    /// The chat platform
    #[arg(long, value_enum)]
    chat: Option<ChatChoice>,
    /// The connection of Slack: to the public address of Drydock, or from Drydock to Slack
    #[arg(long, value_enum)]
    slack: Option<SlackChoice>,
    /// The public https address of Drydock
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// The token of the bot
    #[arg(long, value_name = "REFERENCE")]
    bot_token: Option<String>,
    /// Slack: the signing secret, for requests to the public address
    #[arg(long, value_name = "REFERENCE")]
    signing_secret: Option<String>,
    /// Slack: the app-level token, for Socket Mode
    #[arg(long, value_name = "REFERENCE")]
    app_token: Option<String>,
    /// Asks nothing, and takes the defaults
    #[arg(long, requires = "yes")]
    non_interactive: bool,
    /// Writes the file without asking
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChatChoice {
    Slack,
    Telegram,
    Discord,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SlackChoice {
    Url,
    Socket,
}

impl InitArguments {
    /// Returns true if an option is given.
    pub(super) fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// A new configuration.
struct NewConfig {
    file: PathBuf,
    edit: ConfigEdit,
    /// The address at which Slack creates the app.
    create_link: Option<String>,
    /// The platform on which the first message is written.
    chat: ChatChoice,
}

pub(super) async fn run(arguments: InitArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let file = global
        .config
        .clone()
        .unwrap_or_else(|| PathBuf::from("drydock.toml"));
    if std::fs::symlink_metadata(&file).is_ok() {
        return Err(CliError::usage(format!(
            "{} is there already, and is not overwritten; `drydock channel add` adds a channel to it, and --config names \
             another file",
            file.display()
        )));
    }
    let sources = global.read(None)?;
    let options_only = match arguments.non_interactive {
        true => OptionsOnly::Yes,
        false => OptionsOnly::No,
    };
    let mut answers = Answers::new(options_only, *output)?;
    let new = compose(&arguments, file, &sources, &mut answers).await?;
    if !arguments.yes {
        output.message(&format!("\n{}", new.edit.text()));
        let question = format!("Write {}?", new.file.display());
        if !answers.confirm(&question).await? {
            return Err(CliError::failed("nothing was written"));
        }
    }
    new.edit.check(&sources)?;
    let secrets = answers.write_secrets(&new.file)?;
    if let Err(error) = new.edit.save_new(&sources) {
        secrets.remove();
        return Err(error.into());
    }
    finish(&new, &sources, output).await
}

/// Asks for everything. Nothing is written.
async fn compose(
    arguments: &InitArguments,
    file: PathBuf,
    sources: &ConfigSources,
    answers: &mut Answers,
) -> Result<NewConfig, CliError> {
    let mut edit = ConfigEdit::create(&file, FILE_COMMENT);
    let (name, repository) = repository(arguments, answers).await?;
    let (provider, model) = model(arguments, sources, answers).await?;
    let chat = chat(arguments, answers).await?;
    let mut create_link = None;
    let mut channel: NewKeys = Vec::new();
    let mut public_url = arguments.public_url.clone();
    match chat {
        ChatChoice::Slack => {
            let connection = slack_connection(arguments, &mut public_url, answers).await?;
            let manifest = SlackManifest::new("Drydock", &connection).map_err(CliError::usage)?;
            answers.say(&format!(
                "Create the Slack app, and install it: {}",
                manifest.create_link()
            ));
            if connection == SlackConnection::SocketMode {
                answers.say(
                    "Generate a token with the scope connections:write under Basic Information, App-Level Tokens.",
                );
            }
            create_link = Some(manifest.create_link());
            channel = slack_keys(arguments, &connection, sources, answers).await?;
        }
        ChatChoice::Telegram => {
            answers.say("Create a bot with @BotFather in Telegram: https://t.me/BotFather");
            let given = arguments.bot_token.as_deref();
            let token = answers.secret(
                "--bot-token",
                given,
                "TELEGRAM_BOT_TOKEN",
                "telegram-bot-token",
                sources,
            );
            channel = vec![("kind", text("telegram")), ("bot_token", token.await?)];
        }
        ChatChoice::Discord => {
            answers.say(
                "Create an application, and enable Message Content Intent under Bot: \
                 https://discord.com/developers/applications",
            );
            let given = arguments.bot_token.as_deref();
            let token = answers.secret(
                "--bot-token",
                given,
                "DISCORD_BOT_TOKEN",
                "discord-bot-token",
                sources,
            );
            channel = vec![("kind", text("discord")), ("bot_token", token.await?)];
        }
        ChatChoice::None => {}
    }
    if let Some(url) = &public_url {
        edit.add_table("server", &[("public_url", text(url))])?;
    }
    edit.add_table("model", &[("default", text(&model))])?;
    if let Some(provider) = provider {
        let given = arguments.model_key.as_deref();
        let variable = variable_of(provider, sources);
        let key_file = format!("{}-key", provider.name);
        let key = answers
            .secret("--model-key", given, variable, &key_file, sources)
            .await?;
        edit.add_section("providers", provider.name, &[("api_key", key)])?;
    }
    edit.add_section("repositories", &name, &repository)?;
    let kind = match chat {
        ChatChoice::Slack => Some("slack"),
        ChatChoice::Telegram => Some("telegram"),
        ChatChoice::Discord => Some("discord"),
        ChatChoice::None => None,
    };
    if let Some(kind) = kind {
        channel.push(("repository", text(&name)));
        edit.add_section("channels", kind, &channel)?;
    }
    Ok(NewConfig {
        file,
        edit,
        create_link,
        chat,
    })
}

fn text(text: &str) -> NewValue {
    NewValue::Text(text.to_owned())
}

/// Returns the name and the keys of the repository.
async fn repository(arguments: &InitArguments, answers: &mut Answers) -> Result<(String, NewKeys), CliError> {
    let here = Path::new(".git").exists().then_some(".");
    let question = SetupQuestion {
        text: "The configuration repository: a path on this machine, or an https URL",
        option: "--repository",
        default: here,
    };
    let location = answers.text(&question, arguments.repository.as_deref()).await?;
    let question = SetupQuestion {
        text: "The trusted branch of the repository",
        option: "--branch",
        default: Some("main"),
    };
    let branch = answers.text(&question, arguments.branch.as_deref()).await?;
    let mut keys: NewKeys = Vec::new();
    let path;
    let place = match location.contains("://") {
        true => {
            keys.push(("url", text(&location)));
            location.trim_end_matches('/').trim_end_matches(".git")
        }
        false => {
            path = local_repository(&location, &branch)?;
            keys.push(("path", text(&path)));
            path.as_str()
        }
    };
    keys.extend((branch != "main").then(|| ("branch", text(&branch))));
    Ok((repository_name(place), keys))
}

/// Opens a repository on this machine, and returns its whole path.
fn local_repository(location: &str, branch: &str) -> Result<String, CliError> {
    let refused = |why: String| CliError::usage(format!("--repository {location}: {why}"));
    let path = Path::new(location)
        .canonicalize()
        .map_err(|error| refused(error.to_string()))?;
    let bases = tempfile::tempdir().map_err(CliError::failed)?;
    let opened = Repository::open_local(REPOSITORY, &path, Some(branch), bases.path());
    let head = opened.and_then(|repository| repository.head());
    match head.map_err(|error| refused(error.to_string()))? {
        Some(_) => Ok(path.display().to_string()),
        None => Err(refused(format!("branch `{branch}` has no commit"))),
    }
}

/// Returns a name for grants and commands, from the last part of a location.
fn repository_name(location: &str) -> String {
    let last = location
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or_default();
    let last = last.trim_end_matches(".git").to_lowercase();
    let name: String = last
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .collect();
    match name.is_empty() {
        true => REPOSITORY.to_owned(),
        false => name,
    }
}

/// Returns the known provider, if it is one, and the model.
async fn model(
    arguments: &InitArguments,
    sources: &ConfigSources,
    answers: &mut Answers,
) -> Result<(Option<&'static KnownProvider>, String), CliError> {
    let mut known = KNOWN_PROVIDERS
        .iter()
        .filter(|known| known.usual_model.is_some() && known.base_url.is_some());
    let has_key = |known: &&KnownProvider| known.variables.iter().any(|name| is_set(name, sources));
    let first = known.clone().find(has_key).or_else(|| known.next());
    let usual = first.and_then(|known| Some(format!("{}/{}", known.name, known.usual_model?)));
    let question = SetupQuestion {
        text: "The model",
        option: "--model",
        default: usual.as_deref(),
    };
    let model = answers.text(&question, arguments.model.as_deref()).await?;
    let Some((provider, _)) = model.split_once('/') else {
        return Err(CliError::usage(
            "--model: write provider/model, such as anthropic/claude-opus-4-6",
        ));
    };
    let known = KNOWN_PROVIDERS
        .iter()
        .find(|known| known.name == provider && !known.variables.is_empty());
    Ok((known, model))
}

fn is_set(variable: &str, sources: &ConfigSources) -> bool {
    sources
        .environment
        .get(variable)
        .is_some_and(|value| !value.is_empty())
}

/// Returns the variable of a provider's key: one that is set, or the first.
fn variable_of(provider: &KnownProvider, sources: &ConfigSources) -> &'static str {
    let mut variables = provider.variables.iter();
    let first = variables.clone().next().copied().unwrap_or_default();
    variables
        .find(|name| is_set(name, sources))
        .copied()
        .unwrap_or(first)
}

async fn chat(arguments: &InitArguments, answers: &mut Answers) -> Result<ChatChoice, CliError> {
    let given = arguments.chat.and_then(|choice| choice.to_possible_value());
    let question = SetupQuestion {
        text: "The chat platform: slack, telegram, discord or none",
        option: "--chat",
        default: Some("none"),
    };
    let word = answers
        .text(&question, given.as_ref().map(|value| value.get_name()))
        .await?;
    ChatChoice::from_str(&word, true).map_err(|_| CliError::usage("--chat: slack, telegram, discord or none"))
}

/// Returns the connection of Slack. It proposes Socket Mode, unless there is a public address. For requests, it also asks
/// for that address.
async fn slack_connection(
    arguments: &InitArguments,
    public_url: &mut Option<String>,
    answers: &mut Answers,
) -> Result<SlackConnection, CliError> {
    let given = arguments.slack.and_then(|choice| choice.to_possible_value());
    let question = SetupQuestion {
        text: "The connection of Slack: socket, which needs no public address, or url",
        option: "--slack",
        default: Some(match public_url {
            Some(_) => "url",
            None => "socket",
        }),
    };
    let word = answers
        .text(&question, given.as_ref().map(|value| value.get_name()))
        .await?;
    match SlackChoice::from_str(&word, true) {
        Ok(SlackChoice::Socket) => Ok(SlackConnection::SocketMode),
        Ok(SlackChoice::Url) => {
            let question = SetupQuestion {
                text: "The public https address of Drydock, to which Slack sends",
                option: "--public-url",
                default: None,
            };
            let url = answers.text(&question, public_url.as_deref()).await?;
            let connection = SlackConnection::to_public_address(&url, "slack").map_err(CliError::usage)?;
            *public_url = Some(url);
            Ok(connection)
        }
        Err(_) => Err(CliError::usage("--slack: socket or url")),
    }
}

async fn slack_keys(
    arguments: &InitArguments,
    connection: &SlackConnection,
    sources: &ConfigSources,
    answers: &mut Answers,
) -> Result<NewKeys, CliError> {
    let given = arguments.bot_token.as_deref();
    let token = answers.secret(
        "--bot-token",
        given,
        "SLACK_BOT_TOKEN",
        "slack-bot-token",
        sources,
    );
    let mut keys = vec![("kind", text("slack")), ("bot_token", token.await?)];
    keys.push(match connection {
        SlackConnection::RequestUrl(_) => {
            let given = arguments.signing_secret.as_deref();
            let variable = "SLACK_SIGNING_SECRET";
            let secret = answers.secret(
                "--signing-secret",
                given,
                variable,
                "slack-signing-secret",
                sources,
            );
            ("signing_secret", secret.await?)
        }
        SlackConnection::SocketMode => {
            let given = arguments.app_token.as_deref();
            let token = answers.secret(
                "--app-token",
                given,
                "SLACK_APP_TOKEN",
                "slack-app-token",
                sources,
            );
            ("app_token", token.await?)
        }
    });
    Ok(keys)
}

/// Checks the new configuration, and says what to do next.
async fn finish(new: &NewConfig, before: &ConfigSources, output: &Output) -> Result<(), CliError> {
    let environment = before.environment.clone();
    let sources = ConfigSources::read(Some(&new.file), environment, before.flags.clone());
    let diagnoses = doctor::examine(sources.map_err(CliError::config)?).await?;
    let file = new.file.display();
    let place = match new.chat {
        ChatChoice::Slack => "then write to the bot in Slack",
        ChatChoice::Telegram => "then write to the bot in Telegram",
        ChatChoice::Discord => "then write to the bot in Discord",
        ChatChoice::None => {
            "then add a chat with `drydock channel add`, or use the terminal with `drydock chat`, and write"
        }
    };
    let start = match diagnoses.has_failed() {
        true => "Correct what failed. Then start it",
        false => "Start it",
    };
    let next = format!(
        "{start}: drydock up --config {file}, or drydock serve --config {file}. Invite yourself: drydock invite me --role admin --config {file}; {place}: \
         what environments are there?"
    );
    match output.json() {
        true => output.value(&json!({
            "file": file.to_string(), "create_link": new.create_link, "doctor": diagnoses.to_json(), "next": next,
        })),
        false => {
            output.message(&format!("Wrote {file}."));
            diagnoses.print(output);
            output.message(&next);
        }
    }
    diagnoses.into_result()
}
