//! `drydock channel`: lists, adds, removes and tests the channels of the configuration.

use super::output::Output;
use super::serve::now;
use super::{CliError, Global};
use crate::base::config::{
    ChannelOutline, Config, ConfigEdit, ConfigSources, EditError, NewKeys, NewValue, SecretReference,
    secrets_of_kind,
};
use crate::base::http_client;
use crate::base::model::Platform;
use crate::interfaces::channel::{self, ChannelFault, ChannelFinding, FaultSeverity};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock channel list
  drydock channel add slack --repository infra
  drydock channel add telegram --name ops --bot-token file:ops-token
  drydock channel test
  drydock channel remove ops

A secret is given as env:NAME or file:PATH, never itself. add and remove change the configuration
file, and keep its order and comments, except those above a removed section; test connects to the platforms, and changes nothing there.";

#[derive(Debug, Subcommand)]
pub(super) enum ChannelCommand {
    /// Lists the channels, and the secrets that are not there yet
    List,
    /// Adds a channel to the configuration file
    Add(ChannelAddition),
    /// Removes a channel from the configuration file
    Remove {
        /// The name of the channel
        name: String,
    },
    /// Asks the platforms of the channels for token, permissions and webhook
    Test {
        /// The channels; all if none is given
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct ChannelAddition {
    /// The platform
    #[arg(value_parser = PossibleValuesParser::new(kinds().map(|(platform, _)| platform.as_str())))]
    kind: String,
    /// The name of the channel; that of its platform if it is not given
    #[arg(long)]
    name: Option<String>,
    /// The bot's token [default: env:SLACK_BOT_TOKEN, and so on for each platform]
    #[arg(long, value_name = "REFERENCE")]
    bot_token: Option<String>,
    /// Slack: the signing secret [default: env:SLACK_SIGNING_SECRET]
    #[arg(long, value_name = "REFERENCE")]
    signing_secret: Option<String>,
    /// Slack: the app-level token of Socket Mode, in place of the signing secret
    #[arg(long, value_name = "REFERENCE", conflicts_with = "signing_secret")]
    app_token: Option<String>,
    /// Telegram: the secret of the webhook, of your choice; with it, mode is "webhook"
    #[arg(long, value_name = "REFERENCE")]
    secret_token: Option<String>,
    /// The repository of people in this channel, unless they name another
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,
}

pub(super) async fn run(command: ChannelCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let sources = global.sources()?;
    match command {
        ChannelCommand::List => list(sources, output),
        ChannelCommand::Add(addition) => add(addition, &sources, output),
        ChannelCommand::Remove { name } => remove(&name, &sources, output),
        ChannelCommand::Test { names } => test(names, sources, output).await,
    }
}

fn list(sources: ConfigSources, output: &Output) -> Result<(), CliError> {
    let configured = Config::for_channel_list(sources).map_err(CliError::config)?;
    let channels = configured.channels.iter();
    if output.json() {
        let channels: Vec<Value> = channels
            .map(|(name, channel)| outline_json(name, channel))
            .collect();
        output.value(&json!({ "channels": channels }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = channels
        .map(|(name, channel)| {
            let dash = || "-".to_owned();
            vec![
                name.clone(),
                channel.platform.as_str().to_owned(),
                channel.mode.clone().unwrap_or_else(dash),
                channel.repository.clone().unwrap_or_else(dash),
                secrets(channel),
            ]
        })
        .collect();
    output.table(&["CHANNEL", "KIND", "MODE", "REPOSITORY", "SECRETS"], &rows);
    Ok(())
}

fn secrets(channel: &ChannelOutline) -> String {
    let secrets = channel.secrets.iter().map(|secret| match &secret.problem {
        None => format!("{}: {}", secret.key, secret.source),
        Some(problem) if secret.source.is_empty() => format!("{} {problem}", secret.key),
        Some(problem) => format!("{}: {}: {problem}", secret.key, secret.source),
    });
    secrets.collect::<Vec<_>>().join("; ")
}

fn outline_json(name: &str, channel: &ChannelOutline) -> Value {
    let secrets = channel
        .secrets
        .iter()
        .map(|secret| json!({"key": secret.key, "source": secret.source, "problem": secret.problem}));
    json!({
        "channel": name,
        "kind": channel.platform.as_str(),
        "mode": channel.mode,
        "repository": channel.repository,
        "secrets": secrets.collect::<Vec<_>>(),
    })
}

fn add(addition: ChannelAddition, sources: &ConfigSources, output: &Output) -> Result<(), CliError> {
    let (kind, keys) = keys_of(&addition)?;
    let name = addition.name.unwrap_or_else(|| kind.to_owned());
    check_name(&name)?;
    let file = edit(sources, |edit| edit.add_section("channels", &name, &keys))?;
    let configured = Config::for_channel_list(read_again(sources, &file)?).map_err(CliError::config)?;
    if let Some(channel) = configured.channels.get(&name) {
        match output.json() {
            true => output.value(&json!({"file": file, "added": outline_json(&name, channel)})),
            false => {
                output.message(&format!("Added [channels.{name}] to {file}."));
                for secret in channel.secrets.iter().filter(|secret| secret.problem.is_some()) {
                    output.message(&format!("Next, provide the {} ({}).", secret.key, secret.source));
                }
                output.message(&format!("Then: drydock channel test {name}"));
            }
        }
    }
    Ok(())
}

/// Returns the platforms with channels, and the secrets that their channels can have.
fn kinds() -> impl Iterator<Item = (Platform, Vec<&'static str>)> {
    let platforms = Platform::ALL.iter();
    platforms.filter_map(|platform| Some((*platform, secrets_of_kind(*platform)?)))
}

/// Returns the kind of a new channel, and its keys.
fn keys_of(addition: &ChannelAddition) -> Result<(&'static str, NewKeys), CliError> {
    let text = |text: &str| NewValue::Text(text.to_owned());
    let ChannelAddition {
        bot_token,
        signing_secret,
        app_token,
        secret_token,
        ..
    } = addition;
    let of_kind = kinds().find(|(platform, _)| platform.as_str() == addition.kind);
    let Some((platform, secrets)) = of_kind else {
        return Err(CliError::usage("no platform has this name"));
    };
    let kind = platform.as_str();
    let options = [
        ("signing_secret", "--signing-secret", signing_secret),
        ("app_token", "--app-token", app_token),
        ("secret_token", "--secret-token", secret_token),
    ];
    for (key, option, given) in options {
        if given.is_some() && !secrets.contains(&key) {
            let others = kinds().filter(|(_, secrets)| secrets.contains(&key));
            let others: Vec<&str> = others.map(|(platform, _)| platform.as_str()).collect();
            let why = format!("{option} is only for {}", others.join(" or "));
            return Err(CliError::usage(why));
        }
    }
    let variable = |name: &str| format!("env:{}_{name}", kind.to_ascii_uppercase());
    let given_or = |given: &Option<String>, name: &str| given.clone().unwrap_or_else(|| variable(name));
    let token = reference("--bot-token", &given_or(bot_token, "BOT_TOKEN"))?;
    let mut keys = vec![("bot_token", token)];
    if let Some(app_token) = app_token {
        keys.push(("app_token", reference("--app-token", app_token)?));
    } else if secrets.contains(&"signing_secret") {
        let signing = given_or(signing_secret, "SIGNING_SECRET");
        keys.push(("signing_secret", reference("--signing-secret", &signing)?));
    }
    keys.insert(0, ("kind", text(kind)));
    if let Some(secret) = secret_token {
        keys.push(("mode", text("webhook")));
        keys.push(("secret_token", reference("--secret-token", secret)?));
    }
    keys.extend(
        addition
            .repository
            .as_deref()
            .map(|name| ("repository", text(name))),
    );
    Ok((kind, keys))
}

/// Parses the value of an option. clap would repeat a refused value, which may be a secret.
fn reference(option: &str, text: &str) -> Result<NewValue, CliError> {
    let reference = SecretReference::parse(text);
    reference
        .map(NewValue::Secret)
        .map_err(|why| CliError::usage(format!("{option}: {why}")))
}

/// Checks a name, which is a part of addresses and of variables.
fn check_name(name: &str) -> Result<(), CliError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    match (1..=32).contains(&name.len()) && name.chars().all(fits) {
        true => Ok(()),
        false => Err(CliError::usage(
            "the name of a channel has 1 to 32 of a-z, 0-9, - and _",
        )),
    }
}

fn remove(name: &str, sources: &ConfigSources, output: &Output) -> Result<(), CliError> {
    let file = edit(sources, |edit| edit.remove_section("channels", name))?;
    match output.json() {
        true => output.value(&json!({"file": file, "removed": name})),
        false => output.message(&format!(
            "Removed [channels.{name}] from {file}. Restart the server (`drydock down` and `drydock up`, or `drydock serve`); the app or bot itself is still at its platform."
        )),
    }
    Ok(())
}

/// Changes the configuration file. Returns its path as the user wrote it.
pub(super) fn edit(
    sources: &ConfigSources,
    change: impl FnOnce(&mut ConfigEdit) -> Result<(), EditError>,
) -> Result<String, CliError> {
    let Some(source) = &sources.file else {
        return Err(CliError::usage(
            "there is no configuration file here; `drydock init` writes one, and --config names another",
        ));
    };
    let mut edit = ConfigEdit::new(source)?;
    change(&mut edit)?;
    let file = source.path.display().to_string();
    edit.save(sources).map_err(|error| match error {
        EditError::Invalid(problems) => CliError::config(format!(
            "{problems}\n{file} is not changed; these would be its lines"
        )),
        other => other.into(),
    })?;
    Ok(file)
}

fn read_again(sources: &ConfigSources, file: &str) -> Result<ConfigSources, CliError> {
    let environment = sources.environment.clone();
    ConfigSources::read(Some(file.as_ref()), environment, sources.flags.clone()).map_err(CliError::config)
}

async fn test(names: Vec<String>, sources: ConfigSources, output: &Output) -> Result<(), CliError> {
    let configured = Config::for_channel_list(sources.clone()).map_err(CliError::config)?;
    let names = match names.is_empty() {
        true => configured.channels.keys().cloned().collect(),
        false => names,
    };
    if let Some(unknown) = names.iter().find(|name| !configured.channels.contains_key(*name)) {
        return Err(CliError::usage(format!("there is no channel `{unknown}`")));
    }
    let mut findings = Vec::new();
    for name in names {
        let found = inspect(&name, sources.clone()).await?;
        findings.extend(found.into_iter().map(|finding| (name.clone(), finding)));
    }
    report(&findings, output)
}

/// Returns the findings of a channel. A secret that is not there is a finding.
pub(super) async fn inspect(name: &str, sources: ConfigSources) -> Result<Vec<ChannelFinding>, CliError> {
    let channel = match Config::for_channel(sources, name) {
        Ok(Some(channel)) => channel,
        Ok(None) => return Ok(Vec::new()),
        Err(error) => {
            let problems = error.to_string();
            let findings = problems.lines().map(|problem| ChannelFinding {
                subject: "configuration",
                outcome: Err(ChannelFault {
                    why: problem.to_owned(),
                    fix: "correct the configuration, or provide the secret".to_owned(),
                    severity: FaultSeverity::Failure,
                }),
            });
            return Ok(findings.collect());
        }
    };
    let client = http_client::api_client().map_err(CliError::failed)?;
    Ok(channel::inspect(name, &channel.settings, &channel.server, &client, now()).await)
}

fn report(findings: &[(String, ChannelFinding)], output: &Output) -> Result<(), CliError> {
    let failed = findings.iter().filter(|(_, finding)| is_failure(finding)).count();
    match output.json() {
        true => {
            let findings: Vec<Value> = findings
                .iter()
                .map(|(name, finding)| {
                    let fault = finding.outcome.as_ref().err();
                    json!({
                        "channel": name, "check": finding.subject, "result": word(finding),
                        "detail": fault.map_or_else(|| finding.outcome.clone().unwrap_or_default(), |fault| fault.why.clone()),
                        "fix": fault.map(|fault| &fault.fix),
                    })
                })
                .collect();
            output.value(&json!({"ok": failed == 0, "findings": findings}));
        }
        false => {
            let rows: Vec<Vec<String>> = findings
                .iter()
                .map(|(name, finding)| {
                    let detail = match &finding.outcome {
                        Ok(state) => state.clone(),
                        Err(fault) => format!("{}. Fix: {}", fault.why, fault.fix),
                    };
                    vec![
                        name.clone(),
                        finding.subject.to_owned(),
                        word(finding).to_owned(),
                        detail,
                    ]
                })
                .collect();
            output.table(&["CHANNEL", "CHECK", "RESULT", "DETAIL"], &rows);
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(CliError::failed(format!(
            "{} failed",
            crate::base::model::pluralize(failed, "check", "checks")
        ))),
    }
}

fn is_failure(finding: &ChannelFinding) -> bool {
    let fault = finding.outcome.as_ref().err();
    fault.is_some_and(|fault| fault.severity == FaultSeverity::Failure)
}

fn word(finding: &ChannelFinding) -> &'static str {
    match &finding.outcome {
        Ok(_) => "ok",
        Err(fault) if fault.severity == FaultSeverity::Warning => "warning",
        Err(_) => "FAILED",
    }
}
