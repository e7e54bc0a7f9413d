//! The prompt of a conversation at a terminal: editing, history, search and completion. Input that is not a terminal
//! is read line by line instead.

use super::completion::ChatCompleter;
use super::continued_lines::{BackslashContinues, KeysAndPastes, as_it_is, request_of, typed_so_far};
use super::request_history;
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::output::Output;
use reedline::{
    ColumnarMenu, EditCommand, Emacs, HistoryItem, KeyCode, KeyModifiers, MenuBuilder, Prompt,
    PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, SimpleMatchHighlighter, default_emacs_keybindings,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The text before every request.
pub(in crate::cli) const INDICATOR: &str = "❯ ";
/// The text before the second and every later line of a request.
const NEXT_LINE_INDICATOR: &str = "  ";
/// The name of the menu of completions.
const MENU: &str = "completion";
/// The time until a waiting prompt notices that it has to end.
const STOP_POLL: Duration = Duration::from_millis(500);

/// The result of reading at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum PromptedLine {
    /// A text, possibly of several lines.
    Text(String),
    /// The line was cleared with Ctrl-C.
    Cleared,
    /// The user ended the input with Ctrl-D.
    End,
    /// The prompt was stopped by [`PromptStopper::stop`].
    Stopped,
}

/// An editor of lines.
pub(in crate::cli) struct LineEditor {
    // It is moved to a thread while it waits for input.
    editor: Option<Box<Reedline>>,
    stopper: PromptStopper,
}

/// A handle that ends a waiting prompt and restores the terminal.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct PromptStopper(Arc<AtomicBool>);

impl PromptStopper {
    /// Ends the prompt.
    pub(in crate::cli) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LineEditor {
    /// Creates an editor. If the history file cannot be used, the reason is printed and lines are kept for this
    /// session only.
    pub(in crate::cli) fn new(completer: ChatCompleter, redactor: Arc<Redactor>, output: &Output) -> Self {
        let stopper = PromptStopper::default();
        let menu = ColumnarMenu::default().with_name(MENU).with_columns(2);
        let mut keys = default_emacs_keybindings();
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(vec![
                ReedlineEvent::Menu(MENU.to_owned()),
                ReedlineEvent::MenuNext,
            ]),
        );
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        let history = request_history::open(redactor).unwrap_or_else(|why| {
            output.message(&format!("earlier requests cannot be recalled: {why}"));
            request_history::in_memory()
        });
        let editor = Reedline::create()
            .with_ansi_colors(output.has_colour())
            .use_bracketed_paste(true)
            .with_highlighter(Box::new(SimpleMatchHighlighter::default()))
            .with_validator(Box::new(BackslashContinues))
            .with_completer(Box::new(completer))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_edit_mode(Box::new(KeysAndPastes(Emacs::new(keys))))
            .with_history(history)
            .with_break_signal(Arc::clone(&stopper.0))
            .with_poll_interval(STOP_POLL);
        Self {
            editor: Some(Box::new(editor)),
            stopper,
        }
    }

    /// Returns a handle that ends a waiting prompt.
    pub(in crate::cli) fn stopper(&self) -> PromptStopper {
        self.stopper.clone()
    }

    /// Puts a text at the next prompt. None of its backslashes continues a line.
    pub(in crate::cli) fn insert(&mut self, text: String) {
        self.insert_marked(as_it_is(&text));
    }

    /// Puts a text at the next prompt that was typed without Enter at its end. A backslash at its end continues the line.
    pub(in crate::cli) fn insert_typed(&mut self, text: &str) {
        self.insert_marked(typed_so_far(text));
    }

    fn insert_marked(&mut self, text: String) {
        if let Some(editor) = self.editor.as_mut().filter(|_| !text.is_empty()) {
            editor.run_edit_commands(&[EditCommand::InsertString(text)]);
        }
    }

    /// Keeps a request that was not entered at the prompt, so that it can be recalled.
    pub(in crate::cli) fn remember(&mut self, request: &str) {
        if let Some(editor) = &mut self.editor {
            // A request that cannot be recalled later still runs.
            let _ = editor
                .history_mut()
                .save(HistoryItem::from_command_line(as_it_is(request)));
        }
    }

    /// Reads the next text. Must be awaited to its end.
    pub(in crate::cli) async fn next(&mut self) -> std::io::Result<PromptedLine> {
        let Some(mut editor) = self.editor.take() else {
            return Ok(PromptedLine::Stopped);
        };
        let reading = tokio::task::spawn_blocking(move || {
            let read = editor.read_line(&ChatPrompt);
            (editor, read)
        });
        let (editor, read) = reading.await.map_err(std::io::Error::other)?;
        self.editor = Some(editor);
        Ok(match read.map_err(std::io::Error::other)? {
            Signal::Success(text) => PromptedLine::Text(request_of(&text)),
            Signal::CtrlD => PromptedLine::End,
            Signal::ExternalBreak(_) => PromptedLine::Stopped,
            _ => PromptedLine::Cleared,
        })
    }
}

/// Asks a question that is answered with `y` or `n`. Any other answer, Ctrl-C and Ctrl-D mean no.
pub(super) async fn confirm(question: String, ended: CancellationToken) -> Result<bool, CliError> {
    let answer = read_answer(question, ended, None)
        .await
        .map_err(CliError::failed)?;
    Ok(match answer {
        PromptedLine::Text(text) => matches!(text.trim().to_lowercase().as_str(), "y" | "yes"),
        PromptedLine::Cleared | PromptedLine::End | PromptedLine::Stopped => false,
    })
}

/// Reads a line after a prompt of its own. The wait ends when `ended` fires or when the time has passed.
pub(in crate::cli) async fn read_answer(
    prompt: String,
    ended: CancellationToken,
    time_max: Option<Duration>,
) -> std::io::Result<PromptedLine> {
    let stopper = PromptStopper::default();
    let mut editor = Reedline::create()
        .with_ansi_colors(false)
        .with_break_signal(Arc::clone(&stopper.0))
        .with_poll_interval(STOP_POLL);
    let asking = tokio::task::spawn_blocking(move || editor.read_line(&QuestionPrompt(prompt)));
    let watcher = tokio::spawn(async move {
        let late = async {
            match time_max {
                Some(time_max) => tokio::time::sleep(time_max).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended.cancelled() => {}
            () = late => {}
        }
        stopper.stop();
    });
    let answer = asking.await.map_err(std::io::Error::other);
    watcher.abort();
    Ok(match answer?.map_err(std::io::Error::other)? {
        Signal::Success(text) => PromptedLine::Text(text),
        Signal::CtrlD => PromptedLine::End,
        Signal::ExternalBreak(_) => PromptedLine::Stopped,
        _ => PromptedLine::Cleared,
    })
}

/// A prompt that is a question.
struct QuestionPrompt(String);

impl Prompt for QuestionPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_history_search_indicator(&self, _: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

struct ChatPrompt;

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(INDICATOR)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(NEXT_LINE_INDICATOR)
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "search",
            PromptHistorySearchStatus::Failing => "not found",
        };
        Cow::Owned(format!("({found}: {}) {INDICATOR}", search.term))
    }
}
