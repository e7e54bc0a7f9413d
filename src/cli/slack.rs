//! `drydock slack`: the manifest from which a Slack app is created.

use super::channel_choice::choose_channel;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::Config;
use crate::base::model::Platform;
use crate::interfaces::channel::{SlackConnection, SlackManifest};
use clap::{Args, Subcommand};
use serde_json::json;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock slack manifest --url https://drydock.example.com
  drydock slack manifest --socket --name \"Drydock staging\"
  drydock slack manifest --config drydock.toml > manifest.json

The manifest goes to standard output, and the link that creates an app from it to standard error.
Without --url and --socket, the address is `server.public_url` of the configuration.";

#[derive(Debug, Subcommand)]
pub(super) enum SlackCommand {
    /// Prints the manifest of a Slack app with the permissions that Drydock uses
    #[command(after_help = EXAMPLES)]
    Manifest(ManifestArguments),
}

#[derive(Debug, Args)]
pub(super) struct ManifestArguments {
    /// The public https address of Drydock, to which Slack sends events
    #[arg(long, value_name = "URL", conflicts_with = "socket")]
    url: Option<String>,
    /// Drydock connects to Slack, and needs no public address
    #[arg(long)]
    socket: bool,
    /// The name of the app
    #[arg(long, default_value = "Drydock")]
    name: String,
    /// The name of the channel in the configuration; the only Slack channel, or `slack`, if it is not given
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
}

pub(super) fn run(command: SlackCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    match command {
        SlackCommand::Manifest(arguments) => manifest(arguments, global, output),
    }
}

fn manifest(arguments: ManifestArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let configured = Config::for_channel_list(global.sources()?).map_err(CliError::config)?;
    let chosen = choose_channel(arguments.channel, Platform::Slack, &configured);
    let (connection, channel) = match (arguments.socket, arguments.url) {
        // No address names the channel.
        (true, _) => (SlackConnection::SocketMode, chosen.ok().flatten()),
        (false, url) => {
            let url = url.unwrap_or_else(|| configured.public_url.clone());
            if url.is_empty() {
                return Err(CliError::usage(
                    "give the public address of Drydock with --url, or --socket if it has none",
                ));
            }
            let channel = chosen?;
            let name = channel.as_deref().unwrap_or(Platform::Slack.as_str());
            let connection = SlackConnection::to_public_address(&url, name).map_err(CliError::usage)?;
            (connection, channel)
        }
    };
    let mut manifest = SlackManifest::new(&arguments.name, &connection).map_err(CliError::usage)?;
    let settings = channel.and_then(|name| configured.channels.get(&name));
    if settings.is_some_and(|channel| channel.code_channels) {
        manifest = manifest.with_code_channels();
    }
    if let Some(channel) = settings {
        manifest = manifest.with_commands(&channel.slash_commands);
    }
    let link = manifest.create_link();
    if output.json() {
        output.value(&json!({"manifest": manifest.json(), "create_link": link}));
        return Ok(());
    }
    output.line(&format!("{:#}", manifest.json()));
    output.message(&format!("Create the app: {link}"));
    Ok(())
}
