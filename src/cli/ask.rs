//! `drydock ask`: one request about the files in the working directory.

use super::output::{Output, OutputStyle};
use super::terminal::{ChangeCheck, Terminal, TerminalOptions, succeeded};
use super::{CliError, Global};
use crate::base::model::{pluralize, totals};
use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock ask \"set web to 4 replicas in dev\"
  drydock ask --json \"which environments are there?\"
  drydock ask --model ollama/qwen3 \"what changed last week?\"

The repository's files are edited in place; nothing is committed. The model is the one of --model,
DRYDOCK_MODEL__DEFAULT or the configuration file, or else the default model of the provider whose key is set:
ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY. Ctrl-C stops and keeps what was edited.";

#[derive(Debug, Args)]
pub(super) struct AskArguments {
    /// The request: a change to make, or a question to answer
    #[arg(required = true, value_name = "REQUEST")]
    request: Vec<String>,
    #[command(flatten)]
    options: TerminalOptions,
}

pub(super) async fn run(arguments: AskArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let request = arguments.request.join(" ");
    if request.trim().is_empty() {
        return Err(CliError::usage(
            "say what should change, or what you want to know",
        ));
    }
    let mut terminal = Terminal::open(&arguments.options, global, *output)?;
    let outcome = terminal.turn(&request).await?;
    let patch = terminal.patch()?;
    if output.json() {
        let ChangeCheck { checks, effects, .. } = terminal.check_changes().await?;
        output.value(&serde_json::json!({
            "answer": outcome.answer,
            "notice": outcome.notice,
            "verdict": outcome.verdict,
            "model": terminal.model(),
            "steps": outcome.steps,
            "tool_calls": outcome.tool_calls,
            "usage": outcome.usage,
            "files": patch.stats,
            "checks": checks,
            "environments": effects,
            "patch": String::from_utf8_lossy(&patch.text),
        }));
    } else {
        terminal.print(&outcome).await?;
        let tokens = outcome.usage.total();
        let steps = pluralize(outcome.steps as usize, "step", "steps");
        let facts = format!("{steps}, {tokens} tokens, {}", terminal.model());
        if patch.stats.is_empty() {
            output.styled_message(OutputStyle::Dim, &format!("No file was changed. {facts}"));
        } else {
            output.styled_message(
                OutputStyle::Bold,
                &format!("\n{}; nothing was committed.", totals(&patch.stats)),
            );
            output.styled_message(OutputStyle::Dim, &facts);
            output.line(&output.diff(&String::from_utf8_lossy(&patch.text)));
        }
    }
    if succeeded(&outcome) {
        Ok(())
    } else {
        Err(CliError::failed("the request was not finished"))
    }
}
