//! Questions of the model during `drydock chat`, and during `drydock ask` at a terminal: the person at the terminal, or
//! the next line of a script, answers.

use super::RequestSource;
use crate::base::model::{AskedQuestion, QuestionAnswer};
use crate::cli::input::InputLine;
use crate::cli::output::Output;
use crate::cli::terminal::{INDICATOR, PromptedLine, TerminalOptions, read_answer};
use crate::engine::agent::{Questioner, Questions};
use async_trait::async_trait;
use rustix::termios::{QueueSelector, tcflush};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Reads answers from the source of requests.
pub(in crate::cli) struct ChatQuestioner<'a> {
    // The lock is held while a question is open; nothing else reads then.
    source: Mutex<&'a mut RequestSource>,
    output: Output,
    takes_defaults: bool,
}

/// The number of empty answers to a question without a default after which nobody is asked again.
const EMPTY_ANSWERS_MAX: usize = 20;

/// The result of reading an answer.
enum ReadAnswer {
    /// The words; empty if the person only pressed Enter.
    Words(String),
    /// The input has ended or cannot be read, or the time has passed.
    Nothing,
    /// The person stops the turn.
    Stop,
}

impl<'a> ChatQuestioner<'a> {
    pub(in crate::cli) fn new(
        source: &'a mut RequestSource,
        output: &Output,
        options: &TerminalOptions,
    ) -> Self {
        Self {
            source: Mutex::new(source),
            output: *output,
            takes_defaults: options.takes_defaults(),
        }
    }

    /// Returns who can be asked: nobody if the requests come from a pipe that does not read events.
    pub(in crate::cli) fn questions(&self) -> Questions<'_> {
        match self.output.prints_events() || std::io::stdin().is_terminal() {
            true => Questions::Inline(self),
            false => Questions::Nobody,
        }
    }

    async fn read(&self, time_max: Duration, cancel: &CancellationToken) -> ReadAnswer {
        let mut source = self.source.lock().await;
        match &mut **source {
            RequestSource::Editor(_) | RequestSource::Sent => {
                let read = read_answer(INDICATOR.to_owned(), cancel.clone(), Some(time_max)).await;
                match read {
                    Ok(PromptedLine::Text(text)) => ReadAnswer::Words(text),
                    Ok(PromptedLine::Cleared | PromptedLine::End) => ReadAnswer::Stop,
                    Ok(PromptedLine::Stopped) | Err(_) => ReadAnswer::Nothing,
                }
            }
            RequestSource::Lines(input) => {
                if !self.output.prints_events() {
                    self.output.prompt(INDICATOR);
                }
                let line = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return ReadAnswer::Stop,
                    () = tokio::time::sleep(time_max) => return ReadAnswer::Nothing,
                    line = input.next() => line,
                };
                match line {
                    Ok(InputLine::Text(text)) => ReadAnswer::Words(text),
                    Ok(InputLine::NotText | InputLine::TooLong | InputLine::End) | Err(_) => {
                        ReadAnswer::Nothing
                    }
                }
            }
        }
    }
}

#[async_trait]
impl Questioner for ChatQuestioner<'_> {
    async fn ask(&self, question: &AskedQuestion, cancel: &CancellationToken) -> QuestionAnswer {
        if let Some(choice) = question.default_choice()
            && self.takes_defaults
        {
            return question.read(choice);
        }
        if !self.output.prints_events() {
            // What was typed before the question was shown is no answer to it.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        }
        let time_max = Duration::from_secs(u64::from(question.minutes()) * 60);
        let end = Instant::now() + time_max;
        for _ in 0..EMPTY_ANSWERS_MAX {
            let left = end.saturating_duration_since(Instant::now());
            match (self.read(left, cancel).await, question.default_choice()) {
                (ReadAnswer::Words(words), _) if !words.trim().is_empty() => return question.read(&words),
                (ReadAnswer::Words(_), Some(choice)) => return question.read(choice),
                // Without a default, Enter alone is no answer.
                (ReadAnswer::Words(_), None) => {}
                (ReadAnswer::Nothing, _) if !cancel.is_cancelled() => break,
                (ReadAnswer::Nothing | ReadAnswer::Stop, _) => {
                    cancel.cancel();
                    return QuestionAnswer::Stopped;
                }
            }
        }
        question.late_answer()
    }
}
