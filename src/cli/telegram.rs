//! `drydock telegram`: the registration of a bot at Telegram.

use super::channel_choice::choose_channel;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::{ChannelSettings, Config};
use crate::base::http_client;
use crate::base::model::Platform;
use crate::interfaces::channel::{SetupStep, set_up_telegram};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock telegram setup --config drydock.toml
  drydock telegram setup --channel team --json

It registers the webhook, if mode is \"webhook\", or removes one, if mode is \"polling\"; the commands
that Telegram suggests; and the descriptions of the bot. It may be run again at any time, and says
what it changed.";

#[derive(Debug, Subcommand)]
pub(super) enum TelegramCommand {
    /// Registers the webhook, the commands and the descriptions of a bot at Telegram
    #[command(after_help = EXAMPLES)]
    Setup(SetupArguments),
}

#[derive(Debug, Args)]
pub(super) struct SetupArguments {
    /// The name of the channel in the configuration; the only Telegram channel if it is not given
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
}

pub(super) async fn run(command: TelegramCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    match command {
        TelegramCommand::Setup(arguments) => setup(arguments, global, output).await,
    }
}

async fn setup(arguments: SetupArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let sources = global.sources()?;
    let configured = Config::for_channel_list(sources.clone()).map_err(CliError::config)?;
    let name = choose_channel(arguments.channel, Platform::Telegram, &configured)?;
    let missing = || {
        CliError::config(
            "there is no channel with kind = \"telegram\"; `drydock channel add telegram` adds one",
        )
    };
    let name = name.ok_or_else(missing)?;
    let channel = Config::for_channel(sources, &name).map_err(CliError::config)?;
    let channel = channel.ok_or_else(missing)?;
    let ChannelSettings::Telegram(settings) = &channel.settings else {
        return Err(missing());
    };
    let client = http_client::api_client().map_err(CliError::failed)?;
    let mut steps = Vec::new();
    let done = set_up_telegram(&name, settings, &channel.server, &client, &mut steps).await;
    let failure = done.err().map(|error| format!("channel {name}: {error}"));
    match output.json() {
        true => output.value(&json!({
            "channel": name,
            "ok": failure.is_none(),
            "steps": steps.iter().map(step_json).collect::<Vec<_>>(),
            "error": failure,
        })),
        false => {
            let rows: Vec<Vec<String>> = steps.iter().map(row).collect();
            output.table(&["PART", "RESULT", "DETAIL"], &rows);
        }
    }
    match failure {
        None => Ok(()),
        Some(why) => Err(CliError::failed(format!(
            "{why}; correct it, and run the command again"
        ))),
    }
}

fn step_json(step: &SetupStep) -> Value {
    json!({"part": step.subject, "result": step.change.word(), "detail": step.detail})
}

fn row(step: &SetupStep) -> Vec<String> {
    vec![
        step.subject.to_owned(),
        step.change.word().to_owned(),
        step.detail.clone(),
    ]
}
