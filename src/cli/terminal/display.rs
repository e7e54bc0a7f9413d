//! The display of a running turn on a pipe or a terminal that can only print: the model's text before its calls, the
//! calls, and failures. All of it goes to standard error; the answer is data and is printed at the end.

use super::question::question_menu;
use crate::base::model::{ASK_USER, cut_to};
use crate::base::redact::Redactor;
use crate::cli::output::{Output, OutputStyle};
use crate::engine::agent::TurnEvent;
use std::sync::Arc;

/// The maximum number of characters of text before a call that are kept for the display.
const WORDS_CHARS_MAX: usize = 20_000;
/// The maximum number of characters of the progress of a call.
const PROGRESS_CHARS_MAX: usize = 120;
/// The number of renderings below which no progress is shown.
const PROGRESS_MIN: usize = 20;

/// The amount of detail that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Calls and failures, and for a person one line of each answer.
    Usual,
    /// The answers of tools with a border, also on a pipe.
    Verbose,
}

/// The format of calls and their answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallFormat {
    /// The amount of detail.
    pub(super) detail: Detail,
    /// The maximum number of characters of arguments or an answer.
    pub(super) chars_max: usize,
}

impl CallFormat {
    /// Returns the line of a call with its style.
    pub(super) fn started(self, name: &str, arguments: &str) -> (OutputStyle, String) {
        let arguments = self.one_line(arguments);
        match self.detail {
            Detail::Usual => (OutputStyle::Dim, format!("[tool: {name}] {arguments}")),
            Detail::Verbose => (OutputStyle::Call, format!("▶ {name}({arguments})")),
        }
    }

    /// Returns a line such as `[file_read failed] there is no file`.
    pub(super) fn failed(self, name: &str, content: &str) -> String {
        format!("[{name} failed] {}", self.one_line(content))
    }

    /// Returns a line such as `[file_read answered] 1 replicas: 2`.
    pub(super) fn answered(self, name: &str, content: &str) -> String {
        format!("[{name} answered] {}", self.one_line(content))
    }

    /// Prints the answer of a tool on one line. A script gets it only with `--verbose`.
    pub(super) fn show_answer(self, output: &Output, name: &str, content: &str) {
        let line = self.answered(name, content);
        match self.detail {
            Detail::Verbose => output.bordered(&line),
            // A line of its own says what the person answered.
            Detail::Usual if name == ASK_USER => {}
            Detail::Usual if output.is_read_by_a_person() => output.styled_message(OutputStyle::Dim, &line),
            Detail::Usual => {}
        }
    }

    /// Returns a text on one line, truncated to the space next to a tool's name.
    pub(super) fn one_line(self, text: &str) -> String {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        cut_to(&line, self.chars_max).into_owned()
    }
}

/// The display of the events of one turn.
pub(super) struct TurnDisplay {
    output: Output,
    calls: CallFormat,
    redactor: Arc<Redactor>,
    // The model's text since its last call; if no call follows, it is the answer.
    words: String,
}

impl TurnDisplay {
    pub(super) fn new(output: Output, calls: CallFormat, redactor: Arc<Redactor>) -> Self {
        Self {
            output,
            calls,
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
                self.output
                    .styled_message(OutputStyle::Dim, &self.calls.failed(name, content));
            }
            TurnEvent::ToolFinished { name, content, .. } => {
                self.calls.show_answer(&self.output, name, content)
            }
            TurnEvent::FallingBack { from, to, why } => {
                self.words.clear();
                self.output
                    .styled_message(OutputStyle::Dim, &format_fallback(from, to, why));
            }
            TurnEvent::Waiting { why, wait } => {
                self.words.clear();
                let text = format!("{why}, retrying in {} s", wait.as_secs().max(1));
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            TurnEvent::Summarising => self
                .output
                .styled_message(OutputStyle::Dim, "Summarising the earlier conversation"),
            TurnEvent::Checking(progress) if progress.total > PROGRESS_MIN => {
                let text = format!("[checks] {} of {} renderings", progress.done, progress.total);
                self.output.styled_message(OutputStyle::Dim, &text);
            }
            TurnEvent::Checking(_) => {}
            TurnEvent::MessageTaken { .. } => {}
            TurnEvent::Asked(question) => {
                self.words.clear();
                self.output.message(&question_menu(question));
            }
            TurnEvent::Answered(answer) => self.output.styled_message(OutputStyle::Dim, &answer.line()),
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
        let (style, call) = self.calls.started(name, arguments);
        self.output.styled_message(style, &call);
    }
}

/// Returns a line about a model that does not answer and the one that is asked instead.
pub(super) fn format_fallback(from: &str, to: &str, why: &str) -> String {
    format!("{from} does not answer: {why}; {to} goes on")
}

/// Returns a line such as `[jb_install] archive 12 of 40 MiB`.
pub(super) fn format_progress(name: &str, text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("[{name}] {}", cut_to(&line, PROGRESS_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::{CallFormat, Detail, format_progress};

    const CALLS: CallFormat = CallFormat {
        detail: Detail::Usual,
        chars_max: 120,
    };

    /// TK-68, TK-71
    #[test]
    fn arguments_are_shown_on_one_line_of_at_most_120_characters() {
        let (_, call) = CALLS.started("file_read", "{\n  \"path\": \"a\"\n}");
        assert_eq!(call, "[tool: file_read] { \"path\": \"a\" }");
        assert_eq!(CALLS.one_line(&"ä ".repeat(200)).chars().count(), 120);
        let longer = CallFormat {
            chars_max: 300,
            ..CALLS
        };
        assert_eq!(longer.one_line(&"ä ".repeat(200)).chars().count(), 300);
    }

    /// TK-69
    #[test]
    fn an_answer_is_shown_on_one_line_of_at_most_120_characters() {
        assert_eq!(
            CALLS.answered("file_read", "1 one\n2 two\n"),
            "[file_read answered] 1 one 2 two"
        );
        let long = CALLS.answered("file_read", &"ä\n".repeat(10_000));
        assert_eq!(long.chars().count(), "[file_read answered] ".len() + 120);
    }

    #[test]
    fn the_progress_of_a_call_is_shown_on_one_line_with_its_name() {
        let line = format_progress("jb_install", "archive 12\nof 40 MiB");
        assert_eq!(line, "[jb_install] archive 12 of 40 MiB");
        assert!(format_progress("jb_install", &"x".repeat(1_000)).chars().count() < 140);
    }
}
