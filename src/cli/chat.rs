//! `drydock chat`: a conversation about the files around you, line by line.

use super::input::{Input, Line};
use super::output::{Output, Style};
use super::terminal::{Options, Terminal, totals};
use super::{Failure, Global};
use crate::agent::Outcome;
use crate::command;
use crate::inspect::Question;
use crate::model::RepoPath;
use clap::Args;
use std::io::IsTerminal;
use tokio::io::{BufReader, Stdin};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock chat
  drydock chat --model anthropic/claude-opus-4-6 --verbose
  printf 'which environments are there?\\n/usage\\n' | drydock chat";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Help,
    Status,
    Diff,
    /// Asks of environments, as in the chats of a server.
    Inspect(command::Verb),
    Undo,
    Clear,
    Context,
    Usage,
    Exit,
}

/// The commands, each with its word, its arguments, and what `/help` says.
const VERBS: [(Verb, &str, &str, &str); 12] = [
    (Verb::Help, "help", "", "this list"),
    (Verb::Status, "status", "", "the model, and what changed so far"),
    (
        Verb::Diff,
        "diff",
        "[ENV]",
        "what this session changed, or what that does to one environment",
    ),
    (
        Verb::Inspect(command::Verb::Risk),
        "risk",
        "",
        "what may go wrong with what this session changed",
    ),
    (
        Verb::Inspect(command::Verb::Envs),
        "envs",
        "",
        "the environments, and which of them change",
    ),
    (
        Verb::Inspect(command::Verb::Render),
        "render",
        "ENV",
        "the objects of an environment as YAML",
    ),
    (
        Verb::Inspect(command::Verb::WhoImports),
        "who-imports",
        "PATH",
        "the entry points a file belongs to",
    ),
    (
        Verb::Undo,
        "undo",
        "",
        "put files back to before the last turn that edited any",
    ),
    (
        Verb::Clear,
        "clear",
        "",
        "forget the conversation; the files stay",
    ),
    (Verb::Context, "context", "", "what the model sees"),
    (Verb::Usage, "usage", "", "the tokens you used"),
    (Verb::Exit, "exit", "", "leave (or Ctrl-D)"),
];

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
enum Meaning<'a> {
    Nothing,
    /// A command, with the rest of the line.
    Command(Verb, &'a str),
    Unknown(&'a str),
    Request(&'a str),
}

pub(super) async fn run(arguments: Arguments, global: &Global, output: &Output) -> Result<(), Failure> {
    if output.json() {
        return Err(Failure::usage(
            "chat has no --json; `drydock ask --json` answers one request",
        ));
    }
    let mut terminal = Terminal::open(&arguments.options, global, *output)?;
    let prompted = std::io::stdin().is_terminal();
    if prompted {
        output.message("Say what should change, or /help. Nothing is ever committed.");
    }
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    // A character has at most four bytes.
    let mut input = Input::standard(4 * terminal.request_chars_max());
    loop {
        if prompted {
            output.prompt("❯ ");
        }
        let line = match next_line(&mut input, &mut interrupts, &terminal, output).await? {
            Next::Line(line) => line,
            Next::Again => continue,
            Next::End => {
                if prompted {
                    output.message("");
                }
                return Ok(());
            }
        };
        match meaning(&line) {
            Meaning::Nothing => {}
            Meaning::Command(Verb::Exit, _) => return Ok(()),
            Meaning::Command(verb, arguments) => match question(verb, arguments) {
                None => carry_out(verb, &mut terminal, output)?,
                Some(Err(usage)) => output.message(usage),
                Some(Ok(question)) => {
                    terminal.inspect(&question).await?;
                    // A Ctrl-C that ended it is not one at the prompt, too.
                    interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
                }
            },
            Meaning::Unknown(word) => {
                let words: Vec<&str> = VERBS.iter().map(|(_, word, ..)| *word).collect();
                output.message(&command::unknown_among(word, &words));
            }
            Meaning::Request(request) => {
                let outcome = terminal.turn(request).await?;
                // A Ctrl-C that stopped the turn is not one at the prompt, too; one that comes after the
                // first line of the answer is.
                interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
                show(&outcome, &mut terminal, output).await?;
            }
        }
    }
}

enum Next {
    Line(String),
    Again,
    End,
}

/// The next line; Ctrl-C at the prompt gives a fresh one.
async fn next_line(
    input: &mut Input<BufReader<Stdin>>,
    interrupts: &mut Signal,
    terminal: &Terminal,
    output: &Output,
) -> Result<Next, Failure> {
    let line = tokio::select! {
        line = input.next() => line.map_err(Failure::failed)?,
        _ = interrupts.recv() => {
            output.message("");
            return Ok(Next::Again);
        }
    };
    let chars_max = terminal.request_chars_max();
    match line {
        Line::End => Ok(Next::End),
        Line::Text(text) if text.chars().count() <= chars_max => Ok(Next::Line(text)),
        Line::NotText => {
            output.message("That line is not UTF-8, so it was not sent. Set the terminal, or the file it comes from, to UTF-8.");
            Ok(Next::Again)
        }
        Line::Text(_) | Line::TooLong => {
            let why = format!(
                "A line may have {chars_max} characters; this one was not sent. Put long text into a file and name it."
            );
            output.message(&why);
            Ok(Next::Again)
        }
    }
}

/// `/word` is a command; a path such as `/etc/hosts` is part of a request.
fn meaning(line: &str) -> Meaning<'_> {
    let line = line.trim();
    let Some(rest) = line.strip_prefix('/') else {
        return match line {
            "" => Meaning::Nothing,
            request => Meaning::Request(request),
        };
    };
    let (word, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let plain = word.to_lowercase().replace('_', "-");
    let found = VERBS.iter().find(|(_, known, ..)| plain == *known);
    match found {
        Some((verb, ..)) => Meaning::Command(*verb, arguments.trim()),
        None if word == "quit" => Meaning::Command(Verb::Exit, ""),
        None if word.is_empty() || !word.chars().all(char::is_alphabetic) => Meaning::Request(line),
        None => Meaning::Unknown(word),
    }
}

/// Returns the question a command asks about the environments, or the text to show where it lacks an argument. `None`
/// for a command that asks nothing about them.
fn question(verb: Verb, arguments: &str) -> Option<Result<Question, &'static str>> {
    match verb {
        Verb::Inspect(verb) => verb.question(arguments),
        Verb::Diff => command::Verb::Diff.question(arguments),
        Verb::Help | Verb::Status | Verb::Undo | Verb::Clear | Verb::Context | Verb::Usage | Verb::Exit => {
            None
        }
    }
}

async fn show(outcome: &Outcome, terminal: &mut Terminal, output: &Output) -> Result<(), Failure> {
    terminal.print(outcome).await?;
    let patch = terminal.patch()?;
    if !patch.stats.is_empty() {
        output.aside(Style::Dim, &format!("{} so far; /diff shows it", totals(&patch)));
    }
    Ok(())
}

fn carry_out(verb: Verb, terminal: &mut Terminal, output: &Output) -> Result<(), Failure> {
    match verb {
        Verb::Help => {
            for (_, word, arguments, what) in VERBS {
                let usage = format!("{word} {arguments}");
                output.line(&format!("/{usage:<16}  {what}"));
            }
            output.line("Ctrl-C             stop what is running");
        }
        Verb::Status => {
            let patch = terminal.patch()?;
            let changed = match patch.stats.is_empty() {
                true => "nothing changed".to_owned(),
                false => totals(&patch),
            };
            let turns = terminal.history().turns().len();
            let plural = if turns == 1 { "turn" } else { "turns" };
            output.line(&format!("{}; {turns} {plural}; {changed}", terminal.model()));
            for stats in &patch.stats {
                output.line(&format!("  {} +{} −{}", stats.path, stats.added, stats.removed));
            }
        }
        Verb::Diff => {
            let patch = terminal.patch()?;
            let text = String::from_utf8_lossy(&patch.text);
            output.line(&if patch.stats.is_empty() {
                "nothing changed".to_owned()
            } else {
                output.diff(&text)
            });
        }
        Verb::Undo => undo(terminal, output)?,
        Verb::Clear => {
            terminal.clear();
            output.line("forgotten; the files stay");
        }
        Verb::Context => context(terminal, output),
        Verb::Usage => {
            let usage = terminal.usage();
            output.line(&format!(
                "{} tokens: {} in, {} out, {} read from and {} written to the cache",
                usage.total(),
                usage.input,
                usage.output,
                usage.cache_read,
                usage.cache_write
            ));
        }
        Verb::Inspect(_) | Verb::Exit => {}
    }
    Ok(())
}

fn undo(terminal: &mut Terminal, output: &Output) -> Result<(), Failure> {
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
        output.line(&format!("edited since, left as it is: {}", names(&undone.left)));
    }
    Ok(())
}

fn context(terminal: &Terminal, output: &Output) {
    if terminal.history().turns().is_empty() {
        output.line("the model sees its instructions, the tools and nothing else");
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Meaning, Verb, meaning};
    use crate::command;

    #[test]
    fn a_path_is_no_command_and_a_mistyped_command_is_no_request() {
        assert_eq!(meaning("  /diff "), Meaning::Command(Verb::Diff, ""));
        assert_eq!(meaning("/EXIT"), Meaning::Command(Verb::Exit, ""));
        assert_eq!(meaning("/quit"), Meaning::Command(Verb::Exit, ""));
        let importers = Verb::Inspect(command::Verb::WhoImports);
        for line in ["/who-imports lib/a", "/who_imports  lib/a "] {
            assert_eq!(meaning(line), Meaning::Command(importers, "lib/a"));
        }
        assert_eq!(meaning("/statsu now"), Meaning::Unknown("statsu"));
        for request in [
            "/etc/hosts",
            "/",
            "diff",
            "/ help",
            "/x.jsonnet is broken",
            "/who-knows why",
        ] {
            assert_eq!(meaning(request), Meaning::Request(request));
        }
        assert_eq!(meaning(" \t"), Meaning::Nothing);
    }
}
