//! `drydock data`: shows the stored data and its retention, and removes expired data.

use super::admin_client::{AdminClient, answer_to_show};
use super::output::Output;
use super::{CliError, Global};
use crate::base::model::pluralize;
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::engine::gateway::{PrunedAmount, RetentionPeriod, RoundStart};
use crate::state::store::Prune;
use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock data show                 the amount, the age and the retention of each kind of data
  drydock data show --json
  drydock data prune --dry-run      count the data older than its retention
  drydock data prune --yes          remove it now

A running server removes this data once an hour. The section [retention] sets the retention of each kind;
if a server is running, its configuration applies.";

/// The maximum number of rounds of removal; each takes some seconds.
const ROUNDS_MAX: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// Shows the amount and the retention of each kind of data
    Show,
    /// Removes data older than its retention
    Prune(PruneArguments),
}

#[derive(Debug, Args)]
pub(super) struct PruneArguments {
    /// Counts what would be removed, and removes nothing. Data that can be removed only after other data is not counted
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Removes the data for good
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(command: DataCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    match command {
        DataCommand::Show => show(global, output).await,
        DataCommand::Prune(arguments) if arguments.yes => prune(Prune::Remove, global, output).await,
        DataCommand::Prune(arguments) if arguments.dry_run => prune(Prune::DryRun, global, output).await,
        DataCommand::Prune(_) => Err(CliError::usage(
            "give --dry-run to count the data that would go, or --yes to remove it",
        )),
    }
}

async fn show(global: &Global, output: &Output) -> Result<(), CliError> {
    let Some(answer) = answer_to_show(AdminRequest::Data, global, output).await? else {
        return Ok(());
    };
    let AdminReply::Data { kinds, database } = answer else {
        return Ok(());
    };
    let rows: Vec<Vec<String>> = kinds
        .into_iter()
        .map(|holding| {
            let oldest = holding
                .oldest
                .map_or_else(|| "-".to_owned(), |oldest| format!("{oldest:.0}"));
            vec![
                holding.kind,
                holding.rows.to_string(),
                holding.bytes.to_string(),
                oldest,
                retention_text(holding.kept),
                holding.key.unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    output.table(&["KIND", "COUNT", "BYTES", "OLDEST", "KEPT", "KEY"], &rows);
    output.message(&format!(
        "The database has {} bytes; {} of them are free and used again before it grows.",
        database.all, database.free
    ));
    Ok(())
}

fn retention_text(kept: RetentionPeriod) -> String {
    match kept {
        RetentionPeriod::Hours(hours) => format!("{hours} hours"),
        RetentionPeriod::Days(days) => pluralize(days as usize, "day", "days"),
        RetentionPeriod::ForEver => "for ever".to_owned(),
        RetentionPeriod::WhileNamed => "while used".to_owned(),
    }
}

async fn prune(prune: Prune, global: &Global, output: &Output) -> Result<(), CliError> {
    let mut operator = AdminClient::new(global)?;
    let mut all: Vec<PrunedAmount> = Vec::new();
    let mut why = Vec::new();
    let mut begin = RoundStart::Anew;
    let mut is_over = false;
    for _ in 0..ROUNDS_MAX {
        let answer = operator.send(AdminRequest::Prune { prune, begin }).await?;
        let AdminReply::Pruned {
            pruned,
            failed,
            is_done,
        } = answer
        else {
            return Err(CliError::failed("the server sent an unexpected answer"));
        };
        for more in pruned {
            match all.iter_mut().find(|known| known.kind == more.kind) {
                Some(known) => known.rows += more.rows,
                None => all.push(more),
            }
        }
        why.extend(failed);
        begin = RoundStart::GoOn;
        is_over = is_done;
        if is_over {
            break;
        }
    }
    if !is_over {
        why.push("more data remains; run the command again".to_owned());
    }
    report_pruned(prune, &all, &why, output)
}

fn report_pruned(
    prune: Prune,
    all: &[PrunedAmount],
    failed: &[String],
    output: &Output,
) -> Result<(), CliError> {
    let done = match prune {
        Prune::DryRun => "would go",
        Prune::Remove => "removed",
    };
    if output.json() {
        output.value(&serde_json::json!({ "prune": prune, "pruned": all, "failed": failed }));
    } else if all.is_empty() {
        output.message("No data is older than its retention.");
    } else {
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|pruned| vec![pruned.kind.clone(), pruned.rows.to_string()])
            .collect();
        output.table(&["KIND", &done.to_uppercase()], &rows);
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "some data could not be removed: {}",
        failed.join("; ")
    )))
}
