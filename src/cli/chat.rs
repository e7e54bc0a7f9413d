//! `drydock chat`: a conversation about the files in the working directory, line by line.

mod commands;
mod help;
mod questions;
mod requests;

use super::output::{Output, OutputStyle};
use super::terminal::{EVENTS, SessionStart, Terminal, TerminalOptions, banner, screen_size};
use super::{CliError, Global};
use crate::base::model::{Money, RepoPath, pluralize, totals};
use crate::engine::agent::{Questions, TurnOutcome};
use crate::engine::command;
use crate::state::recording::SessionUsage;
use clap::Args;
use commands::{COMMAND_PREFIX, ChatInput, ChatVerb, VERBS, parse_line, question};
use help::help_rows;
pub(super) use questions::ChatQuestioner;
use requests::PromptResult;
pub(super) use requests::RequestSource;
use std::io::IsTerminal;
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  drydock chat
  drydock chat --model anthropic/claude-opus-4-6 --verbose
  drydock chat --record ~/drydock --resume
  printf 'which environments are there?\\n/usage\\n' | drydock chat
  printf 'set web to 4 replicas in dev\\n' | drydock chat --json

At a terminal, Tab completes, Up and Ctrl-R recall, Alt-Enter starts another line, Ctrl-C clears
the line or stops the turn, and Ctrl-D ends the session. A line that you enter while a turn runs
reaches the model at its next step; one that begins with queue: waits for the end of the turn.

Without --config, the configuration file is ~/.config/drydock/drydock.toml; a drydock.toml in the
working directory is not read.

Exit codes: 0 the session ended, 1 a failure or, at a terminal, a signal ended it, 2 wrong
usage, 78 wrong configuration.";

/// Returns the text after the help.
pub(super) fn after_help() -> String {
    format!("{EXAMPLES}\n\n{EVENTS}")
}

#[derive(Debug, Args)]
pub(super) struct ChatArguments {
    /// Continues a session that was recorded below --record: the one with this ID, or the newest
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", requires = "record")]
    resume: Option<String>,
    #[command(flatten)]
    options: TerminalOptions,
}

pub(super) async fn run(arguments: ChatArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let start = match arguments.resume {
        None => SessionStart::New,
        Some(name) => SessionStart::Resume(Some(name).filter(|name| !name.is_empty())),
    };
    let output = &match output.json() {
        true => output.with_events(),
        false => *output,
    };
    let mut terminal = Terminal::open(&arguments.options, &start, global, *output)?;
    let prompted = std::io::stdin().is_terminal() && !output.json();
    banner::print(output);
    if prompted {
        output.message("Say what should change, or /help. Nothing is ever committed.");
    }
    let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let mut input = RequestSource::open(&mut terminal, output);
    loop {
        let line = match input.next(&mut interrupts, &terminal, output).await? {
            PromptResult::Line(line) => line,
            PromptResult::Again => continue,
            PromptResult::End => {
                if prompted {
                    output.message("");
                }
                return Ok(());
            }
        };
        match parse_line(&line) {
            ChatInput::Nothing => {}
            ChatInput::Command(ChatVerb::Exit, _) => return Ok(()),
            ChatInput::Command(ChatVerb::Retry, _)
                if terminal.may_retry() && !terminal.may_begin().await? =>
            {
                output.reply("Not continued. Commit or stash your changes, or start with --yes.");
            }
            ChatInput::Command(ChatVerb::Retry, _) => {
                let questioner = ChatQuestioner::new(&mut input, output, &arguments.options);
                match terminal.retry(questioner.questions()).await? {
                    None => output
                        .reply("There is no stopped or failed request to continue. Say what should change."),
                    Some(outcome) => {
                        interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
                        show(&outcome, &mut terminal, output).await?;
                    }
                }
            }
            ChatInput::Command(ChatVerb::Context, _) => {
                let questioner = ChatQuestioner::new(&mut input, output, &arguments.options);
                if let Err(error) = context(&terminal, questioner.questions(), output) {
                    output.reply(&error.message);
                }
            }
            ChatInput::Command(ChatVerb::Model, name) => model(name, &mut terminal, output),
            ChatInput::Command(ChatVerb::Attach, path) => attach(path, &mut terminal, output),
            ChatInput::Command(verb, arguments) => match question(verb, arguments) {
                None => {
                    // The conversation goes on, whatever is wrong with a file or the recording.
                    if let Err(error) = carry_out(verb, &mut terminal, output) {
                        output.reply(&error.message);
                    }
                }
                Some(Err(missing)) => output.reply(&missing.hint(COMMAND_PREFIX)),
                Some(Ok(question)) => {
                    terminal.inspect(&question).await?;
                    // A Ctrl-C that stopped the question must not also count at the prompt.
                    interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
                }
            },
            ChatInput::Unknown(word) => {
                let words: Vec<&str> = VERBS.iter().map(|(_, word, ..)| *word).collect();
                output.reply(&command::unknown_reply_among(COMMAND_PREFIX, word, &words));
            }
            ChatInput::Request(request) if command::queued(request) == Some("") => {
                output.reply("Write your request after `queue:`.");
            }
            ChatInput::Request(request) if !terminal.may_begin().await? => {
                output.reply("Not sent. Commit or stash your changes, or start with --yes.");
                input.restore(request);
            }
            ChatInput::Request(request) => {
                // No turn runs, so the request need not wait.
                let request = command::queued(request).unwrap_or(request);
                let questioner = ChatQuestioner::new(&mut input, output, &arguments.options);
                let outcome = terminal.turn(request, questioner.questions()).await?;
                // A Ctrl-C that stopped the turn must not also count at the prompt; one after the first line of the
                // answer does.
                interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
                show(&outcome, &mut terminal, output).await?;
            }
        }
    }
}

/// Shows the model of the session, or switches to another one. A name that cannot be used changes nothing.
fn model(name: &str, terminal: &mut Terminal, output: &Output) {
    if !name.is_empty()
        && let Err(error) = terminal.switch_model(name)
    {
        return output.reply(&error.message);
    }
    output.line(terminal.model());
}

/// Attaches a file to the next request, or lists what is attached. A file that cannot be sent changes nothing.
fn attach(path: &str, terminal: &mut Terminal, output: &Output) {
    if path.is_empty() {
        let attached = terminal.attached();
        return output.line(&match attached.is_empty() {
            true => "nothing is attached; /attach FILE attaches a file".to_owned(),
            false => format!("attached: {}", attached.join(", ")),
        });
    }
    match terminal.attach(path) {
        Ok(file) => output.line(&format!("attached: {file}; it goes with your next request")),
        Err(refused) => output.reply(&refused.message),
    }
}

async fn show(outcome: &TurnOutcome, terminal: &mut Terminal, output: &Output) -> Result<(), CliError> {
    if output.prints_events() {
        return terminal.print_turn_ended(outcome).await;
    }
    terminal.print(outcome).await?;
    let patch = terminal.patch()?;
    if !patch.stats.is_empty() {
        output.styled_message(
            OutputStyle::Dim,
            &format!("{} so far; /diff shows it", totals(&patch.stats)),
        );
    }
    Ok(())
}

fn carry_out(verb: ChatVerb, terminal: &mut Terminal, output: &Output) -> Result<(), CliError> {
    match verb {
        ChatVerb::Help => {
            let columns = output.renders_data().then(|| screen_size().0);
            for row in help_rows(columns) {
                output.line(&row);
            }
        }
        ChatVerb::Status => {
            let patch = terminal.patch()?;
            let changed = match patch.stats.is_empty() {
                true => "nothing changed".to_owned(),
                false => totals(&patch.stats),
            };
            let turns = pluralize(terminal.history().turns().len(), "turn", "turns");
            output.line(&format!("{}; {turns}; {changed}", terminal.model()));
            for stats in &patch.stats {
                output.line(&format!("  {} +{} −{}", stats.path, stats.added, stats.removed));
            }
        }
        ChatVerb::Diff => {
            let patch = terminal.patch()?;
            let text = String::from_utf8_lossy(&patch.text);
            output.line(&if patch.stats.is_empty() {
                "nothing changed".to_owned()
            } else {
                output.diff(&text)
            });
        }
        ChatVerb::Undo => undo(terminal, output)?,
        ChatVerb::Clear => {
            terminal.clear()?;
            output.line("cleared; the files stay");
        }
        ChatVerb::Usage => {
            let used = terminal.used();
            let usage = used.usage;
            let by = match terminal.answered_by() {
                by if by == terminal.model() => String::new(),
                by => format!("; {by} answered last"),
            };
            output.line(&format!(
                "{} tokens: {} in, {} out, {} read from and {} written to the cache; {}{by}",
                usage.total(),
                usage.input,
                usage.output,
                usage.cache_read,
                usage.cache_write,
                cost(used)
            ));
        }
        ChatVerb::Inspect(_)
        | ChatVerb::Retry
        | ChatVerb::Attach
        | ChatVerb::Model
        | ChatVerb::Context
        | ChatVerb::Exit => {}
    }
    Ok(())
}

/// Returns the cost of all calls, as far as it is known.
fn cost(used: SessionUsage) -> String {
    let unpriced = usize::try_from(used.unpriced_calls).unwrap_or(usize::MAX);
    let unpriced = pluralize(unpriced, "call", "calls");
    match (used.cost, used.unpriced_calls) {
        (cost, 0) => cost.to_string(),
        (Money::ZERO, _) => format!("{unpriced} of unknown price"),
        (cost, _) => format!("{cost} and {unpriced} of unknown price"),
    }
}

fn undo(terminal: &mut Terminal, output: &Output) -> Result<(), CliError> {
    let names = |paths: &[RepoPath]| {
        let names: Vec<&str> = paths.iter().map(RepoPath::as_str).collect();
        names.join(", ")
    };
    let Some(undone) = terminal.undo()? else {
        output.line("there is nothing to undo");
        return Ok(());
    };
    if !undone.restored.is_empty() {
        output.line(&format!("restored: {}", names(&undone.restored)));
    }
    if !undone.left.is_empty() {
        output.line(&format!(
            "not undone, because it was edited since then: {}",
            names(&undone.left)
        ));
    }
    for why in &undone.failed {
        output.line(&format!("not undone: {why}; /undo tries it again"));
    }
    Ok(())
}

fn context(terminal: &Terminal, questions: Questions<'_>, output: &Output) -> Result<(), CliError> {
    if terminal.history().turns().is_empty() {
        output.line("the model sees its instructions, the tools and nothing else");
        return Ok(());
    }
    for turn in terminal.history().turns() {
        output.line(&format!("you: {}", turn.user()));
        for step in turn.steps() {
            let assistant = step.assistant();
            let tokens = assistant.usage.total();
            output.line(&format!("model ({tokens} tokens): {}", assistant.text()));
            for (call, result) in assistant.calls().zip(step.results()) {
                let sign = if result.is_error { "failed" } else { "answered" };
                output.line(&format!("  {} {}", call.name, call.arguments));
                output.line(&format!("  {sign}: {}", result.content));
            }
            if let Some(remark) = step.remark() {
                output.line(&format!("  sent back: {remark}"));
            }
            for message in step.messages() {
                output.line(&format!("you, during the turn: {message}"));
            }
        }
    }
    for (part, size) in terminal.context_parts(questions)?.rows() {
        output.line(&format!("{part:<18}{size}"));
    }
    Ok(())
}
