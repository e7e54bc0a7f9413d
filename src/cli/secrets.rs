//! `drydock secrets`: shows which of the two secrets of a section its sender uses, and refuses the replaced one.

use super::admin_client::answer_to_show;
use super::output::Output;
use super::{CliError, Global};
use crate::base::webhook::{SecretState, SecretUse};
use crate::engine::admin::{AdminReply, AdminRequest};
use clap::Subcommand;
use jiff::Timestamp;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock secrets list                                   which of two secrets is used
  drydock secrets list --json
  drydock secrets retire hooks.release.previous_secret   refuse the replaced secret at once

A section has two secrets while one replaces the other: a hook has `previous_secret`, and a channel
`previous_signing_secret`, `previous_secret_token` or `previous_public_key`. Requests are counted
from the start of the server. `retire` needs no restart, and holds for each later start. It cannot
be taken back. Each retirement is a line of the audit log. No command shows a secret.";

#[derive(Debug, Subcommand)]
pub(super) enum SecretsCommand {
    /// Lists the secrets of sections with two, and the requests signed with each
    List,
    /// Refuses a replaced secret at once, also after a restart
    Retire {
        /// The key of the secret, as `list` shows it
        #[arg(value_name = "KEY")]
        key: String,
    },
}

pub(super) async fn run(command: SecretsCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let request = match command {
        SecretsCommand::List => AdminRequest::Secrets,
        SecretsCommand::Retire { key } => AdminRequest::RetireSecret { key },
    };
    let Some(answer) = answer_to_show(request, global, output).await? else {
        return Ok(());
    };
    match answer {
        AdminReply::Secrets { secrets, .. } if secrets.is_empty() => {
            output.message("No section of the configuration has a previous secret.");
        }
        AdminReply::Secrets {
            secrets,
            counted_since,
        } => {
            let rows: Vec<Vec<String>> = secrets.iter().map(|secret| row(secret, counted_since)).collect();
            let header = ["KEY", "SECTION", "STATE", "REQUESTS", "FIRST SEEN", "LAST USED"];
            output.table(&header, &rows);
            output.message(&match counted_since {
                Some(since) => format!("Requests since {since:.0}, when the server started."),
                None => "No server runs, so no requests are counted.".to_owned(),
            });
        }
        AdminReply::SecretRetired { key, since } => {
            output.line(&format!("`{key}` is refused since {since:.0}"));
            output.message(&format!(
                "Remove `{key}` from the configuration, and the secret from where it is stored."
            ));
        }
        _ => {}
    }
    Ok(())
}

fn row(secret: &SecretUse, counted_since: Option<Timestamp>) -> Vec<String> {
    let state = match secret.state {
        SecretState::Current => "current".to_owned(),
        SecretState::Previous => "previous, accepted".to_owned(),
        SecretState::Retired { retired_at } => format!("retired at {retired_at:.0}"),
    };
    let at = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
    vec![
        secret.key.clone(),
        secret.section.clone(),
        state,
        counted_since.map_or_else(|| "-".to_owned(), |_| secret.requests.count.to_string()),
        at(secret.requests.first_seen),
        at(secret.requests.last_used),
    ]
}
