//! `drydock ask`: one request on the files around you.

use super::output::Output;
use super::terminal::{Options, Terminal, succeeded, totals};
use super::{Failure, Global};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// What should change, or what you want to know
    #[arg(required = true, value_name = "REQUEST")]
    request: Vec<String>,
    #[command(flatten)]
    options: Options,
}

pub(super) async fn run(arguments: Arguments, global: &Global, output: &Output) -> Result<(), Failure> {
    let mut terminal = Terminal::open(&arguments.options, global, *output)?;
    let outcome = terminal.turn(&arguments.request.join(" ")).await?;
    let patch = terminal.patch()?;
    if output.json() {
        output.value(&serde_json::json!({
            "answer": outcome.answer,
            "notice": outcome.notice,
            "verdict": outcome.verdict,
            "steps": outcome.steps,
            "tool_calls": outcome.tool_calls,
            "usage": outcome.usage,
            "files": patch.stats,
            "patch": String::from_utf8_lossy(&patch.text),
        }));
    } else {
        terminal.print(&outcome);
        if !patch.stats.is_empty() {
            output.message(&output.bold(&format!(
                "\n{}; nothing was committed. `git diff` shows it:",
                totals(&patch)
            )));
            output.line(&output.diff(&String::from_utf8_lossy(&patch.text)));
        }
    }
    if succeeded(&outcome) {
        Ok(())
    } else {
        Err(Failure::failed("the request was not finished"))
    }
}
