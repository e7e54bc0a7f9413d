//! The display of a running turn: the model's text before its calls, the calls, and failures. All of it goes to
//! standard error; the answer is data and is printed at the end.

use crate::base::model::cut_to;
use crate::base::redact::Redactor;
use crate::cli::output::{Output, OutputStyle};
use crate::engine::agent::TurnEvent;
use std::sync::Arc;

/// The maximum number of characters of a tool's arguments or answer that are shown.
const SUMMARY_CHARS_MAX: usize = 120;
/// The maximum number of characters of text before a call that are kept for the display.
const WORDS_CHARS_MAX: usize = 20_000;

/// The number of renderings below which no progress is shown.
const PROGRESS_MIN: usize = 20;

/// The amount of detail that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Calls and failures.
    Usual,
    /// The answers of tools as well.
    Verbose,
}

/// The display of the events of one turn.
pub(super) struct TurnDisplay {
    output: Output,
    detail: Detail,
    redactor: Arc<Redactor>,
    // The model's text since its last call; if no call follows, it is the answer.
    words: String,
}

impl TurnDisplay {
    pub(super) fn new(output: Output, detail: Detail, redactor: Arc<Redactor>) -> Self {
        Self {
            output,
            detail,
            redactor,
            words: String::new(),
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepStarted { .. } => self.words.clear(),
            TurnEvent::Text(text) => {
                if self.words.len() < WORDS_CHARS_MAX {
                    self.words.push_str(text);
                }
            }
            TurnEvent::ToolStarted { name, arguments, .. } => self.started(name, arguments.text()),
            TurnEvent::ToolProgress { name, text, .. } => self
                .output
                .styled_message(OutputStyle::Dim, &format_progress(name, text)),
            TurnEvent::ToolFinished {
                name,
                content,
                is_error: true,
                ..
            } => {
                let text = format!("[{name} failed] {}", one_line(content));
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            TurnEvent::ToolFinished { name, content, .. } => {
                if self.detail == Detail::Verbose {
                    self.output.bordered(&answered(name, content));
                }
            }
            TurnEvent::Waiting { why, wait } => {
                self.words.clear();
                let text = format!("{why}, retrying in {} s", wait.as_secs().max(1));
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            TurnEvent::Checking(progress) if progress.total > PROGRESS_MIN => {
                let text = format!("[checks] {} of {} renderings", progress.done, progress.total);
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            TurnEvent::Checking(_) => {}
            TurnEvent::SentBack { failing } => {
                let words = std::mem::take(&mut self.words);
                self.output
                    .styled_message(OutputStyle::Aside, self.redactor.redact(words.trim()).as_ref());
                for line in failing {
                    self.output
                        .styled_message(OutputStyle::Dim, &format!("[checks] {line}"));
                }
                self.output
                    .styled_message(OutputStyle::Dim, "[checks] the model fixes what fails");
            }
        }
    }

    fn started(&mut self, name: &str, arguments: &str) {
        let words = std::mem::take(&mut self.words);
        if !words.trim().is_empty() {
            let words = self.redactor.redact(words.trim()).into_owned();
            self.output.styled_message(OutputStyle::Aside, &words);
        }
        let arguments = one_line(arguments);
        match self.detail {
            Detail::Usual => {
                let text = format!("[tool: {name}] {arguments}");
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            Detail::Verbose => self
                .output
                .styled_message(OutputStyle::Call, &format!("▶ {name}({arguments})")),
        }
    }
}

/// Returns a line such as `[file_read answered] 1 replicas: 2`.
fn answered(name: &str, content: &str) -> String {
    format!("[{name} answered] {}", one_line(content))
}

/// Returns a line such as `[jb_install] archive 12 of 40 MiB`.
fn format_progress(name: &str, text: &str) -> String {
    format!("[{name}] {}", one_line(text))
}

/// Returns a text on one line, truncated to the space next to a tool's name.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut_to(&line, SUMMARY_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{answered, format_progress, one_line};

    /// TK-68, TK-71
    #[test]
    fn arguments_are_shown_on_one_line_of_at_most_120_characters() {
        assert_eq!(one_line("{\n  \"path\": \"a\"\n}"), "{ \"path\": \"a\" }");
        assert_eq!(one_line(&"ä ".repeat(200)).chars().count(), 120);
    }

    /// TK-69
    #[test]
    fn an_answer_is_shown_on_one_line_of_at_most_120_characters() {
        assert_eq!(
            answered("file_read", "1 one\n2 two\n"),
            "[file_read answered] 1 one 2 two"
        );
        let long = answered("file_read", &"ä\n".repeat(10_000));
        assert_eq!(long.chars().count(), "[file_read answered] ".len() + 120);
    }

    #[test]
    fn the_progress_of_a_call_is_shown_on_one_line_with_its_name() {
        let line = format_progress("jb_install", "archive 12\nof 40 MiB");
        assert_eq!(line, "[jb_install] archive 12 of 40 MiB");
        assert!(format_progress("jb_install", &"x".repeat(1_000)).chars().count() < 140);
    }
}
