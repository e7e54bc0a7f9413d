//! `drydock ask`: one request about the files in the working directory.

use super::chat::{ChatQuestioner, RequestSource};
use super::output::{Output, OutputStyle};
use super::terminal::{EVENTS, SessionStart, Terminal, TerminalOptions, succeeded};
use super::{CliError, Global};
use crate::base::model::{Verdict, VerdictSource, pluralize, totals};
use crate::engine::agent::shorthand::Shorthand;
use crate::engine::agent::{Questions, TurnOutcome};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  drydock ask \"set web to 4 replicas in dev\"
  drydock ask --json \"which environments are there?\"
  drydock ask --model ollama/qwen3 \"what changed last week?\"
  drydock ask --review
  drydock ask --review main..HEAD \"is it safe for prod?\"
  drydock ask --shorthand debug \"staging does not render\"
  drydock ask --attach alert.png --attach runbook.pdf \"why is web down?\"

The repository's files are edited in place; nothing is committed. The model is the one of --model,
DRYDOCK_MODEL__DEFAULT or the configuration file, or else the default model of the provider whose key is set:
ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY. `drydock auth login` stores a key, and writes the
profile `readonly`, which edits nothing. Ctrl-C stops and keeps what was edited.

Without --config, the configuration file is ~/.config/drydock/drydock.toml; a drydock.toml in the
working directory is not read.

--attach sends an image (PNG, JPEG, GIF, WebP), a PDF or a text file along: at most 5 files,
3.75 MiB for an image, 5 MiB for a PDF and 128 KiB for a text. Secrets in a text are replaced; what
an image or a PDF shows is sent as it is.

At a terminal, a question of the model is a menu, and a line that you enter while it works reaches
its next step.

--review and --shorthand end with a verdict of the model. A verdict that was only inferred from its
words is labelled so; with --json the fields are verdict and source. The reviewed change is checked,
except for a patch file. What it breaks makes the verdict fail. An environment that also fails
without it leaves the review incomplete, unless the model concludes with fail. Exit codes: 0 for
pass or a finished request, 1 for fail or an unfinished one, 2 for wrong arguments, 78 for a wrong
configuration.

A review reads the change as it was when it began, and what you edit meanwhile is not part of it,
except in files that git ignores. The tools of a patch file read the working directory. A range is rendered with the packages that it has. If git ignores vendor/, those of the working
directory are used, and the result says so.";

/// Returns the text after the help.
pub(super) fn after_help() -> String {
    format!("{EXAMPLES}\n\n{EVENTS}")
}

#[derive(Debug, Args)]
pub(super) struct AskArguments {
    /// The request: a change to make, or a question to answer
    #[arg(required_unless_present_any = ["review", "shorthand"], value_name = "REQUEST")]
    request: Vec<String>,
    /// Reviews a change and ends with a verdict: a range such as main..HEAD, or main...HEAD for what changed since the
    /// two parted, a patch file, or without a value what is not committed. Files are not changed
    #[arg(long, value_name = "RANGE|FILE", num_args = 0..=1, default_missing_value = "", conflicts_with = "shorthand")]
    review: Option<String>,
    /// Runs a standard request that ends with a verdict: debug, review or analyze. Files are not changed
    #[arg(long, value_name = "WORD", value_parser = shorthand)]
    shorthand: Option<Shorthand>,
    /// Attaches a file: an image, a PDF or a text. Can be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<String>,
    /// With --json, prints each event of the turn as well; the last one has the result
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    options: TerminalOptions,
}

pub(super) async fn run(arguments: AskArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let words = arguments.request.join(" ");
    let shorthand = match arguments.review {
        Some(_) => Some(Shorthand::Review),
        None => arguments.shorthand,
    };
    if words.trim().is_empty() && shorthand.is_none() {
        return Err(CliError::usage(
            "say what should change, or what you want to know",
        ));
    }
    if arguments.events && !output.json() {
        return Err(CliError::usage("--events needs --json"));
    }
    let output = &match arguments.events {
        true => output.with_events(),
        false => *output,
    };
    let mut terminal = Terminal::open(&arguments.options, &SessionStart::New, global, *output)?;
    for path in &arguments.attach {
        terminal.attach(path)?;
    }
    if shorthand.is_none() && !terminal.may_begin().await? {
        return Err(CliError::failed("nothing was done"));
    }
    let request = match shorthand {
        None => words,
        Some(shorthand) => {
            // The prompt then describes the files of the reviewed change.
            let change = match (shorthand, &arguments.review) {
                (Shorthand::Review, what) => {
                    Some(terminal.begin_review(what.as_deref().unwrap_or_default())?)
                }
                (Shorthand::Debug | Shorthand::Analyze, _) => None,
            };
            terminal.ask_for_verdicts()?;
            let parts = [Some(shorthand.text().to_owned()), Some(words), change];
            let parts: Vec<String> = parts
                .into_iter()
                .flatten()
                .filter(|part| !part.trim().is_empty())
                .collect();
            parts.join("\n\n")
        }
    };
    let mut source = output
        .is_interactive()
        .then(|| RequestSource::sent(&mut terminal));
    let questioner = source
        .as_mut()
        .map(|source| ChatQuestioner::new(source, output, &arguments.options));
    let questions = questioner
        .as_ref()
        .map_or(Questions::Nobody, ChatQuestioner::questions);
    let outcome = terminal.turn(&request, questions).await;
    let entered = terminal.take_entered_lines();
    let typed = Some(terminal.take_typed()).filter(|typed| !typed.trim().is_empty());
    for line in entered.into_iter().chain(typed) {
        output.message(&format!("Not sent, because the request has ended: {line}"));
    }
    let outcome = outcome?;
    let patch = terminal.patch()?;
    if output.prints_events() {
        terminal.print_turn_ended(&outcome).await?;
    } else if output.json() {
        output.value(&terminal.result_value(&outcome).await?);
    } else {
        terminal.print(&outcome).await?;
        if shorthand.is_some() {
            if let Some(verdict) = verdict_line(&outcome) {
                output.line(&verdict);
            }
            terminal.print_checks().await?;
        }
        let tokens = outcome.usage.total();
        let steps = pluralize(outcome.steps as usize, "step", "steps");
        let facts = format!("{steps}, {tokens} tokens, {}", outcome.model);
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
    match (
        succeeded(&outcome),
        verdict_line(&outcome).filter(|_| shorthand.is_some()),
    ) {
        (true, _) => Ok(()),
        (false, Some(_)) => Err(CliError::failed("the verdict is fail")),
        (false, None) => Err(CliError::failed("the request was not finished")),
    }
}

/// Returns the line with the verdict that was asked for, and its source; `None` if the work was not finished.
fn verdict_line(outcome: &TurnOutcome) -> Option<String> {
    let verdict = if outcome.verdict == Verdict::Pass {
        "pass"
    } else {
        "fail"
    };
    match outcome.source {
        VerdictSource::Concluded => Some(format!("Verdict: {verdict}, concluded by the model")),
        VerdictSource::Inferred => Some(format!(
            "Verdict: {verdict}, inferred from the words of the model, which did not conclude"
        )),
        VerdictSource::Verified if outcome.verdict == Verdict::Fail => {
            Some("Verdict: fail, because a check of Drydock fails".to_owned())
        }
        VerdictSource::Verified | VerdictSource::Harness => None,
    }
}

/// Parses the word of a shorthand.
fn shorthand(word: &str) -> Result<Shorthand, String> {
    Shorthand::of_prompt(word).ok_or_else(|| {
        let words = Shorthand::ALL.map(Shorthand::word);
        format!("the shorthands are {}", words.join(", "))
    })
}
