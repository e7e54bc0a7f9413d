//! `drydock chat`: a conversation about the files around you, line by line.

use super::output::Output;
use super::terminal::{Options, Terminal, totals};
use super::{Failure, Global};
use clap::Args;
use std::io::IsTerminal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    options: Options,
}

const HELP: &str = "\
/help     this list
/status   tokens used and files changed so far
/diff     what this session changed
/undo     put files back to before the last turn
/clear    forget the conversation; the files stay
/context  what the model sees
/exit     leave (or Ctrl-D)
Ctrl-C    stop the running turn";

pub(super) async fn run(arguments: Arguments, global: &Global, output: &Output) -> Result<(), Failure> {
    let mut terminal = Terminal::open(&arguments.options, global, *output)?;
    let prompted = std::io::stdin().is_terminal();
    if prompted {
        output.message("Say what should change, or /help. Nothing is ever committed.");
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let Some(line) = next_line(&mut lines, prompted, output).await? else {
            return Ok(());
        };
        match line.trim() {
            "" => {}
            "/exit" | "/quit" => return Ok(()),
            command if command.starts_with('/') => carry_out(command, &mut terminal, output)?,
            request => {
                let outcome = terminal.turn(request).await?;
                terminal.print(&outcome);
                let patch = terminal.patch()?;
                if !patch.stats.is_empty() {
                    output.message(&output.dim(&format!("{} so far; /diff shows it", totals(&patch))));
                }
            }
        }
    }
}

/// The next line; Ctrl-C at the prompt gives a fresh one.
async fn next_line(
    lines: &mut Lines<BufReader<Stdin>>,
    prompted: bool,
    output: &Output,
) -> Result<Option<String>, Failure> {
    loop {
        if prompted {
            output.prompt("❯ ");
        }
        tokio::select! {
            line = lines.next_line() => return line.map_err(Failure::failed),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(Failure::failed)?;
                output.message("");
            }
        }
    }
}

fn carry_out(command: &str, terminal: &mut Terminal, output: &Output) -> Result<(), Failure> {
    match command {
        "/help" => output.line(HELP),
        "/status" => output.line(&format!(
            "{} tokens; {}",
            terminal.tokens,
            totals(&terminal.patch()?)
        )),
        "/diff" => {
            let patch = terminal.patch()?;
            let text = String::from_utf8_lossy(&patch.text);
            output.line(&if patch.stats.is_empty() {
                "nothing changed".to_owned()
            } else {
                output.diff(&text)
            });
        }
        "/undo" => output.line(&match terminal.undo()? {
            None => "there is nothing to undo".to_owned(),
            Some(1) => "1 file restored".to_owned(),
            Some(files) => format!("{files} files restored"),
        }),
        "/clear" => {
            terminal.clear();
            output.line("forgotten; the files stay");
        }
        "/context" => {
            for turn in terminal.history().turns() {
                output.line(&format!("you: {}", turn.user()));
                for step in turn.steps() {
                    let calls: Vec<&str> = step.assistant().calls().map(|call| call.name.as_str()).collect();
                    let tokens = step.assistant().usage.total();
                    output.line(&format!(
                        "model ({tokens} tokens): {} {}",
                        step.assistant().text(),
                        calls.join(" ")
                    ));
                }
            }
        }
        unknown => output.line(&format!("no command `{unknown}`; /help lists them")),
    }
    Ok(())
}
