//! The source of the requests of `drydock chat`: the prompt of a terminal, or the lines of a script.

use super::commands::{ChatInput, completed_commands, parse_line};
use crate::cli::CliError;
use crate::cli::input::{InputLine, InputReader};
use crate::cli::output::Output;
use crate::cli::terminal::{INDICATOR, LineEditor, PromptedLine, Terminal};
use std::io::IsTerminal;
use tokio::io::{BufReader, Stdin};
use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;

/// The result of reading a request.
pub(super) enum PromptResult {
    Line(String),
    Again,
    End,
}

/// The source of requests.
pub(in crate::cli) enum RequestSource {
    /// A terminal with an editor.
    Editor(LineEditor),
    /// A terminal that has sent its only request: lines are for its turn, and questions are answered.
    Sent,
    /// A pipe, or a terminal that can only print.
    Lines(InputReader<BufReader<Stdin>>),
}

impl RequestSource {
    /// Opens the source. At a terminal, lines that are entered while a turn runs are read as well.
    pub(in crate::cli) fn open(terminal: &mut Terminal, output: &Output) -> Self {
        match output.is_interactive() {
            true => {
                terminal.listen(is_command);
                Self::Editor(terminal.line_editor(completed_commands()))
            }
            // A character has at most four bytes.
            false => Self::Lines(InputReader::standard(4 * terminal.request_chars_max())),
        }
    }

    /// Returns the source of a terminal without another request. What is entered while the turn runs is read.
    pub(in crate::cli) fn sent(terminal: &mut Terminal) -> Self {
        terminal.listen(is_command);
        Self::Sent
    }

    /// Puts a request that was not sent at the next prompt, so that it can be changed and sent.
    pub(super) fn restore(&mut self, request: &str) {
        if let Self::Editor(editor) = self {
            editor.insert(request.to_owned());
        }
    }

    /// Reads the next request. A line that was entered while a turn ran comes first. Ctrl-C at the prompt clears it.
    pub(super) async fn next(
        &mut self,
        interrupts: &mut Signal,
        terminal: &Terminal,
        output: &Output,
    ) -> Result<PromptResult, CliError> {
        let line = match self {
            Self::Editor(editor) => match terminal.take_entered_line() {
                Some(line) => {
                    editor.remember(&line);
                    output.message(&format!("{INDICATOR}{line}"));
                    InputLine::Text(line)
                }
                None => {
                    editor.insert_typed(&terminal.take_typed());
                    edited_line(editor, terminal.ended()).await?
                }
            },
            Self::Sent => InputLine::End,
            Self::Lines(input) => {
                if std::io::stdin().is_terminal() && !output.json() {
                    output.prompt(INDICATOR);
                }
                tokio::select! {
                    line = input.next() => line.map_err(CliError::failed)?,
                    _ = interrupts.recv() => {
                        output.message("");
                        return Ok(PromptResult::Again);
                    }
                }
            }
        };
        if let InputLine::Text(text) = &line
            && text.chars().count() > terminal.request_chars_max()
        {
            self.restore(text);
        }
        Ok(checked_line(line, terminal, output))
    }
}

/// Returns true for a line that no turn reads.
fn is_command(line: &str) -> bool {
    !matches!(parse_line(line), ChatInput::Request(_))
}

/// Reads a text with the editor. A signal that ends the session restores the terminal first.
async fn edited_line(editor: &mut LineEditor, ended: &CancellationToken) -> Result<InputLine, CliError> {
    let stopper = editor.stopper();
    let watcher = tokio::spawn({
        let ended = ended.clone();
        async move {
            ended.cancelled().await;
            stopper.stop();
        }
    });
    let read = editor.next().await;
    watcher.abort();
    match read.map_err(CliError::failed)? {
        PromptedLine::Text(text) => Ok(InputLine::Text(text)),
        PromptedLine::Cleared => Ok(InputLine::Text(String::new())),
        PromptedLine::End => Ok(InputLine::End),
        PromptedLine::Stopped => Err(CliError::failed("the session was ended by a signal")),
    }
}

fn checked_line(line: InputLine, terminal: &Terminal, output: &Output) -> PromptResult {
    let chars_max = terminal.request_chars_max();
    match line {
        InputLine::End => PromptResult::End,
        InputLine::Text(text) if text.chars().count() <= chars_max => PromptResult::Line(text),
        InputLine::NotText => {
            output.reply("That line is not UTF-8, so it was not sent. Set the terminal, or the file it comes from, to UTF-8.");
            PromptResult::Again
        }
        InputLine::Text(_) | InputLine::TooLong => {
            let why = format!(
                "A line may have {chars_max} characters; this one was not sent. Put long text into a file and name it."
            );
            output.reply(&why);
            PromptResult::Again
        }
    }
}
