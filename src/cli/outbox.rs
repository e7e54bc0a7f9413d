//! `drydock outbox`: lists messages that could not be delivered, with the reason, and retries or removes them.

use super::admin_client::answer_to_show;
use super::output::Output;
use super::{CliError, Global};
use crate::base::model::pluralize;
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::state::store::{DeadLetter, DeadLetterFilter};
use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock outbox list                           the operations that were given up, and the state of each channel
  drydock outbox list --channel team --json
  drydock outbox retry inbox-7/result           send one again
  drydock outbox retry --all --channel team     send all of a channel again
  drydock outbox drop inbox-7/result            drop one: it is never sent

A `failed` operation was not sent. An `ambiguous` one may have been sent: `retry` searches the
chat for it first, if the platform allows that. If not, it sends the operation again, so check the
chat before. A message of a person whom its recipient has blocked is withdrawn instead, and so is
a message in the private chat of a person whose access was revoked. Each retry and drop is a line
of the audit log. The delivery starts at once if a server is running, otherwise at the next start.";

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// Lists the operations that were given up, the oldest first
    List {
        /// Only of this channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
    },
    /// Sends operations that were given up again
    Retry(DeadLetterArguments),
    /// Drops operations that were given up: they are never sent
    Drop(DeadLetterArguments),
}

#[derive(Debug, Args)]
pub(super) struct DeadLetterArguments {
    /// The operation, as `list` shows it
    #[arg(value_name = "OP", conflicts_with_all = ["all", "channel"])]
    op: Option<String>,
    /// All operations of a channel that were given up
    #[arg(long, requires = "channel")]
    all: bool,
    /// The channel
    #[arg(long, value_name = "NAME", requires = "all")]
    channel: Option<String>,
}

impl DeadLetterArguments {
    fn letters(self) -> Result<DeadLetterFilter, CliError> {
        match (self.op, self.channel) {
            (Some(op), _) => Ok(DeadLetterFilter::Op(op)),
            (None, Some(channel)) => Ok(DeadLetterFilter::Channel(channel)),
            (None, None) => Err(CliError::usage(
                "name an operation, or all of a channel: --all --channel NAME",
            )),
        }
    }
}

pub(super) async fn run(command: OutboxCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let (request, done) = match command {
        OutboxCommand::List { channel } => return list(channel, global, output).await,
        OutboxCommand::Retry(chosen) => (
            AdminRequest::OutboxRetry {
                which: chosen.letters()?,
            },
            "due again",
        ),
        OutboxCommand::Drop(chosen) => (
            AdminRequest::OutboxDrop {
                which: chosen.letters()?,
            },
            "dropped",
        ),
    };
    let Some(answer) = answer_to_show(request, global, output).await? else {
        return Ok(());
    };
    if let AdminReply::Letters { count, withdrawn } = answer {
        if count > 0 {
            let operations = pluralize(count as usize, "operation is", "operations are");
            output.line(&format!("{operations} {done}"));
        } else if withdrawn.is_empty() {
            output.message("Nothing was given up there.");
        }
        for op in withdrawn {
            output.line(&format!(
                "{op} is withdrawn: its sender was blocked, or its sender or its recipient was revoked"
            ));
        }
    }
    Ok(())
}

async fn list(channel: Option<String>, global: &Global, output: &Output) -> Result<(), CliError> {
    let Some(answer) = answer_to_show(AdminRequest::Outbox { channel }, global, output).await? else {
        return Ok(());
    };
    let AdminReply::Outbox {
        channels,
        letters,
        total,
    } = answer
    else {
        return Ok(());
    };
    for health in channels {
        output.message(&format!(
            "Channel {} is {}; {} to send.",
            health.channel, health.state, health.waiting
        ));
    }
    if letters.is_empty() {
        output.message("Nothing was given up.");
        return Ok(());
    }
    let shown = letters.len() as u64;
    let rows: Vec<Vec<String>> = letters.into_iter().map(row).collect();
    let header = [
        "OP", "STATE", "WHAT", "CHANNEL", "CHAT", "TRIES", "GIVEN UP", "WHY",
    ];
    output.table(&header, &rows);
    if shown < total {
        output.message(&format!(
            "These are the oldest {shown} of {total}; send them again or drop them to see the rest."
        ));
    }
    Ok(())
}

fn row(letter: DeadLetter) -> Vec<String> {
    let place = match letter.thread {
        Some(thread) => format!("{}/{thread}", letter.chat),
        None => letter.chat,
    };
    vec![
        letter.op,
        letter.state,
        letter.what,
        letter.channel,
        place,
        letter.attempts.to_string(),
        format!("{:.0}", letter.given_up),
        letter.why,
    ]
}
