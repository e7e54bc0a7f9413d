//! The question of a step at a terminal: a menu, whose default counts if nobody answers in time.

use super::summary::shown_time;
use crate::base::model::{StepEnd, choice_named, cut_to};
use crate::cli::output::Output;
use crate::cli::terminal::{INDICATOR, PromptedLine, read_answer};
use rustix::termios::{QueueSelector, tcflush};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The number of wrong answers after which nobody is asked again.
const WRONG_ANSWERS_MAX: usize = 20;
/// The maximum number of characters that are shown of a value.
const VALUE_CHARS_MAX: usize = 2_000;

/// A question of a pipeline.
pub(super) struct PipelineQuestion {
    /// The question.
    pub(super) text: String,
    /// Values that are shown with it, with their names.
    pub(super) values: Vec<(String, String)>,
    /// The answers to choose from.
    pub(super) choices: Vec<String>,
    /// The answer if nobody chooses one.
    pub(super) default: Option<String>,
    /// The time until the default counts.
    pub(super) time_max: Duration,
}

/// The presence of a person who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// A person at a terminal.
    Person,
    /// A person who takes every default.
    Defaults,
    /// Nobody.
    Nobody,
}

impl PipelineQuestion {
    /// Asks the person at the terminal, if there is one. Ctrl-C fires `stopped`, which cancels the step.
    pub(super) async fn ask(
        &self,
        answering: Answering,
        output: &Output,
        stopped: &CancellationToken,
    ) -> StepEnd {
        match (answering, &self.default) {
            (Answering::Person, _) | (Answering::Defaults, None) if output.is_interactive() => {
                self.ask_person(output, stopped).await
            }
            _ => {
                if self.default.is_some() {
                    let text = &self.text;
                    output.message(&format!("{text}\nNobody is asked, so the default counts."));
                }
                self.unanswered("nobody can be asked here")
            }
        }
    }

    async fn ask_person(&self, output: &Output, stopped: &CancellationToken) -> StepEnd {
        output.message(&self.menu());
        // What was typed before the question was shown is no answer to it.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        let end = Instant::now() + self.time_max;
        for _ in 0..WRONG_ANSWERS_MAX {
            let left = end.saturating_duration_since(Instant::now());
            let read = read_answer(INDICATOR.to_owned(), stopped.clone(), Some(left)).await;
            match read {
                Ok(PromptedLine::Text(words)) => match self.chosen(&words) {
                    Some(choice) => return StepEnd::succeeded(choice),
                    None => output.message(&format!("Type a number from 1 to {}.", self.choices.len())),
                },
                Ok(PromptedLine::Cleared | PromptedLine::End) => stopped.cancel(),
                Ok(PromptedLine::Stopped) | Err(_) if !stopped.is_cancelled() => {
                    return self.unanswered(&format!("nobody answered within {}", shown_time(self.time_max)));
                }
                Ok(PromptedLine::Stopped) | Err(_) => {}
            }
            if stopped.is_cancelled() {
                return StepEnd::cancelled("the run was cancelled");
            }
        }
        self.unanswered("no answer was one of the choices")
    }

    /// Returns the end of a step that nobody answered.
    fn unanswered(&self, why: &str) -> StepEnd {
        match &self.default {
            Some(choice) => StepEnd::succeeded(choice),
            None => StepEnd::failed(format!(
                "{why}, and the question has no default; run it at a terminal, or give it a default"
            )),
        }
    }

    /// Returns the choice that an answer names: its number, its words, or the default if the answer is empty.
    fn chosen(&self, words: &str) -> Option<&str> {
        let words = words.trim();
        if words.is_empty() {
            return self.default.as_deref();
        }
        let index = choice_named(&self.choices, words)?;
        self.choices.get(index).map(String::as_str)
    }

    /// Returns the question with its values and its numbered choices.
    fn menu(&self) -> String {
        let mut lines = vec![self.text.clone()];
        for (name, value) in &self.values {
            let value = cut_to(value, VALUE_CHARS_MAX);
            // A border marks the further lines of a value, which could look like choices.
            let shown: Vec<&str> = value.lines().collect();
            lines.push(format!("  {name}: {}", shown.join("\n  │ ")));
        }
        for (choice, number) in self.choices.iter().zip(1..) {
            let mark = match self.default.as_ref() == Some(choice) {
                true => " (default)",
                false => "",
            };
            lines.push(format!("  {number}. {choice}{mark}"));
        }
        let time = shown_time(self.time_max);
        lines.push(match self.default {
            Some(_) => format!(
                "Type a number; Enter, or no answer within {time}, takes the default. Ctrl-C cancels the run."
            ),
            None => format!("Type a number within {time}. Ctrl-C cancels the run."),
        });
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Answering, PipelineQuestion};
    use crate::base::model::StepStatus;
    use crate::cli::output::Output;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    fn question(default: Option<&str>) -> PipelineQuestion {
        PipelineQuestion {
            text: "Scale prod?".to_owned(),
            values: vec![("replicas".to_owned(), "4".to_owned())],
            choices: vec!["Yes".to_owned(), "No".to_owned()],
            default: default.map(str::to_owned),
            time_max: Duration::from_secs(600),
        }
    }

    #[test]
    fn the_menu_of_a_step_has_its_values_its_choices_and_its_time() {
        assert_eq!(
            question(Some("No")).menu(),
            "Scale prod?\n  replicas: 4\n  1. Yes\n  2. No (default)\nType a number; Enter, or no answer within 10m, \
             takes the default. Ctrl-C cancels the run."
        );
        let mut imitating = question(Some("No"));
        imitating.values = vec![(
            "result".to_owned(),
            "Fine.\n  1. No\r\n  2. Yes (default)\n".to_owned(),
        )];
        let menu = imitating.menu();
        assert!(
            menu.starts_with(
                "Scale prod?\n  result: Fine.\n  │   1. No\n  │   2. Yes (default)\n  1. Yes\n  2. No (default)\n"
            ),
            "{menu}"
        );
        let menu = question(None).menu();
        assert!(
            menu.ends_with("  2. No\nType a number within 10m. Ctrl-C cancels the run."),
            "{menu}"
        );
    }

    #[test]
    fn an_answer_is_a_number_or_the_words_of_a_choice_and_nothing_else() {
        let asked = question(Some("No"));
        for (words, chosen) in [
            ("1", Some("Yes")),
            (" yes ", Some("Yes")),
            ("", Some("No")),
            ("0", None),
            ("3", None),
            ("maybe", None),
        ] {
            assert_eq!(asked.chosen(words), chosen, "{words}");
        }
        assert_eq!(question(None).chosen(""), None);
    }

    #[tokio::test]
    async fn where_nobody_can_be_asked_the_default_counts_and_otherwise_the_step_fails() {
        let stopped = CancellationToken::new();
        for answering in [Answering::Nobody, Answering::Defaults, Answering::Person] {
            let end = question(Some("No"))
                .ask(answering, &Output::plain(), &stopped)
                .await;
            assert_eq!((end.status, end.output.as_str()), (StepStatus::Succeeded, "No"));
            let end = question(None).ask(answering, &Output::plain(), &stopped).await;
            assert_eq!(end.status, StepStatus::Failed);
            assert_eq!(
                end.why.unwrap(),
                "nobody can be asked here, and the question has no default; run it at a terminal, or give it a default"
            );
        }
    }
}
