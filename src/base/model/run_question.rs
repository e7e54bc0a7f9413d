//! The question of a run of a pipeline to a person or to those with a role, and the ways in which it is closed.

use super::{
    Button, ButtonStyle, Reply, ReplyPart, Role, RunId, Sender, StepEnd, UserId, cut_to, one_line, quoted,
};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// The most characters of a value that is shown in one line.
const LINE_CHARS_MAX: usize = 200;
/// The most characters of the reason why no answer is needed any more.
const WHY_CHARS_MAX: usize = 200;

/// Those who may answer a question of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedPeople {
    /// One person.
    Person {
        /// The user whose name the definition has.
        user: UserId,
        /// The name.
        name: String,
    },
    /// Whoever has at least this role in the repository of the run when they answer.
    Role(Role),
}

impl AskedPeople {
    /// True if a person may answer. `role` is their role in the repository of the run at this moment.
    pub fn include(&self, user: UserId, role: Option<Role>) -> bool {
        match self {
            Self::Person { user: asked, .. } => *asked == user && role.is_some(),
            Self::Role(least) => role >= Some(*least),
        }
    }

    /// Returns the words for those who may answer, such as `an editor of infra`.
    pub fn words(&self, repository: &str) -> String {
        match self {
            Self::Person { name, .. } => quoted(name),
            Self::Role(Role::Viewer) => format!("whoever may read {}", quoted(repository)),
            Self::Role(Role::Editor) => format!("an editor of {}", quoted(repository)),
            Self::Role(Role::Admin) => format!("an administrator of {}", quoted(repository)),
        }
    }
}

/// A question of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunQuestion {
    /// The run.
    pub run: RunId,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// Those who may answer.
    pub asked: AskedPeople,
    /// The question.
    pub text: String,
    /// Values that are shown with it, with their names.
    pub values: Vec<(String, String)>,
    /// The answers to choose from.
    pub choices: Vec<String>,
    /// The answer if nobody chooses one.
    pub default: Option<String>,
    /// The seconds until it is closed without an answer.
    pub seconds: u64,
}

/// The way in which a question of a run was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum RunAnswer {
    /// Somebody chose one of the choices.
    Choice {
        /// The choice.
        choice: String,
        /// The name of the person, or the operator.
        by: String,
    },
    /// Nobody answered in time, and the default counts.
    Default {
        /// The default.
        choice: String,
    },
    /// Nobody answered in time, and there is no default.
    Missing,
    /// The step or its run has ended otherwise.
    Withdrawn {
        /// The reason.
        why: String,
    },
}

/// Returns the place of the choice that an answer names, by its words or by its number.
pub fn choice_named(choices: &[String], words: &str) -> Option<usize> {
    let words = words.trim();
    let is_named = |choice: &String| choice.to_lowercase() == words.to_lowercase();
    let by_number = || {
        let index = words.parse::<usize>().ok()?.checked_sub(1)?;
        (index < choices.len()).then_some(index)
    };
    choices.iter().position(is_named).or_else(by_number)
}

impl RunQuestion {
    /// Returns the question with at most so many characters of each value.
    #[must_use]
    pub fn with_values_cut(&self, chars_max: usize) -> Self {
        let values = self.values.iter();
        Self {
            values: values
                .map(|(name, value)| (name.clone(), cut_to(value, chars_max).into_owned()))
                .collect(),
            ..self.clone()
        }
    }

    /// Returns the answer when the time is over.
    pub fn late_answer(&self) -> RunAnswer {
        match &self.default {
            Some(choice) => RunAnswer::Default {
                choice: choice.clone(),
            },
            None => RunAnswer::Missing,
        }
    }

    /// Returns the end of the step that asked, if an answer ends it.
    pub fn end(&self, answer: &RunAnswer) -> StepEnd {
        match answer {
            RunAnswer::Choice { choice, .. } | RunAnswer::Default { choice } => StepEnd::succeeded(choice),
            RunAnswer::Missing => StepEnd::failed(format!(
                "nobody answered within {}, and the question has no default",
                self.time()
            )),
            RunAnswer::Withdrawn { why } => StepEnd::cancelled(why.clone()),
        }
    }

    /// Returns the message that asks, with one button for each token.
    pub fn reply(&self, mention: Option<&Sender>, tokens: Vec<String>) -> Reply {
        let mut parts: Vec<ReplyPart> = mention
            .map(|to| ReplyPart::Mention { to: to.clone() })
            .into_iter()
            .collect();
        parts.extend(self.first_parts("needs a decision"));
        let choices = self.choices.iter().zip(1..);
        let choices: Vec<String> = choices
            .map(|(choice, number)| format!("{number}. {}", shown(choice)))
            .collect();
        parts.push(ReplyPart::Text {
            text: choices.join("\n"),
        });
        parts.push(ReplyPart::Text {
            text: self.invitation(),
        });
        let button = |(choice, token): (&String, String)| {
            let style = match self.default.as_ref() == Some(choice) {
                true => ButtonStyle::Primary,
                false => ButtonStyle::Plain,
            };
            Button::new(one_line(choice), token, style)
        };
        let buttons = self.choices.iter().zip(tokens).map(button).collect();
        parts.push(ReplyPart::Buttons { buttons });
        Reply { parts }
    }

    /// Returns the same message once the question is closed: without buttons, and with the answer.
    pub fn closed_reply(&self, answer: &RunAnswer) -> Reply {
        let mut parts = self.first_parts("asked for a decision");
        parts.push(ReplyPart::Text {
            text: format!("{}.", answer.line()),
        });
        Reply { parts }
    }

    /// Returns a line for a platform that shows the question only with the next edit.
    pub fn headline(&self) -> String {
        self.title("needs a decision")
    }

    fn title(&self, what: &str) -> String {
        format!("Run {} of {} {what}.", self.run, self.pipeline)
    }

    /// Returns the heading, the question and its values. A value with several lines is a block of its own, so that none of
    /// them can look like a choice.
    fn first_parts(&self, what: &str) -> Vec<ReplyPart> {
        let mut parts = vec![
            ReplyPart::Heading {
                text: self.title(what),
            },
            ReplyPart::Text {
                text: self.text.clone(),
            },
        ];
        let is_line =
            |(_, value): &&(String, String)| !value.contains('\n') && value.chars().count() <= LINE_CHARS_MAX;
        let lines: Vec<(String, String)> = self.values.iter().filter(is_line).cloned().collect();
        if !lines.is_empty() {
            parts.push(ReplyPart::Facts { rows: lines });
        }
        for (name, value) in self.values.iter().filter(|value| !is_line(value)) {
            parts.push(ReplyPart::Text {
                text: format!("{name}:"),
            });
            parts.push(ReplyPart::Code {
                language: String::new(),
                text: value.clone(),
            });
        }
        parts
    }

    fn invitation(&self) -> String {
        let late = match &self.default {
            Some(choice) => format!("the default counts: {}", shown(choice)),
            None => "the step fails".to_owned(),
        };
        format!(
            "Asked is {}: press a button, or write `!runs answer {} CHOICE`. After {} without an answer {late}.",
            self.asked.words(&self.repository),
            self.run,
            self.time()
        )
    }

    /// Returns the time for an answer, such as `1h 30m`.
    fn time(&self) -> String {
        let seconds = i64::try_from(self.seconds).unwrap_or(i64::MAX);
        format!("{:#}", SignedDuration::from_secs(seconds))
    }
}

impl RunAnswer {
    /// Returns the sentence about the answer, without a full stop.
    pub fn line(&self) -> String {
        match self {
            Self::Choice { choice, by } => format!("{} answered: {}", quoted(by), shown(choice)),
            Self::Default { choice } => {
                format!("Nobody answered in time; the default counts: {}", shown(choice))
            }
            Self::Missing => "Nobody answered in time, and there is no default".to_owned(),
            Self::Withdrawn { why } => {
                let why = one_line(why);
                let why = cut_to(why.trim_end_matches('.'), WHY_CHARS_MAX);
                format!("No answer is needed any more: {why}")
            }
        }
    }

    /// Returns the word for the audit log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Choice { .. } => "choice",
            Self::Default { .. } => "default",
            Self::Missing => "missing",
            Self::Withdrawn { .. } => "withdrawn",
        }
    }
}

/// Returns a choice as it is shown within a sentence.
fn shown(choice: &str) -> String {
    one_line(choice).replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::{AskedPeople, RunAnswer, RunQuestion, choice_named};
    use crate::base::model::{ReplyPart, Role, RunId, StepStatus, UserId};

    fn question(default: Option<&str>) -> RunQuestion {
        RunQuestion {
            run: RunId(12),
            pipeline: "release".to_owned(),
            repository: "infra".to_owned(),
            asked: AskedPeople::Role(Role::Editor),
            text: "Tell the team?".to_owned(),
            values: vec![
                ("tag".to_owned(), "v1.9.0".to_owned()),
                ("notes".to_owned(), "Fine.\n1. no\n2. yes".to_owned()),
            ],
            choices: vec!["yes".to_owned(), "no".to_owned()],
            default: default.map(str::to_owned),
            seconds: 5_400,
        }
    }

    #[test]
    fn a_question_of_a_run_shows_its_values_its_choices_who_answers_and_until_when() {
        let asked = question(Some("no")).reply(None, vec!["t1".to_owned(), "t2".to_owned()]);
        assert_eq!(
            asked.plain(),
            "Run 12 of release needs a decision.\nTell the team?\ntag: v1.9.0\nnotes:\nFine.\n1. no\n2. yes\n1. yes\n2. \
             no\nAsked is an editor of `infra`: press a button, or write `!runs answer 12 CHOICE`. After 1h 30m without \
             an answer the default counts: no.\n"
        );
        // A value with several lines is a block of its own.
        let block = ReplyPart::Code {
            language: String::new(),
            text: "Fine.\n1. no\n2. yes".to_owned(),
        };
        assert!(asked.parts.contains(&block), "{asked:?}");
        let Some(ReplyPart::Buttons { buttons }) = asked.parts.last() else {
            unreachable!("{asked:?}")
        };
        let buttons: Vec<(&str, &str)> = buttons
            .iter()
            .map(|button| (button.label.as_str(), button.token.as_str()))
            .collect();
        assert_eq!(buttons, [("yes", "t1"), ("no", "t2")]);
        let fails = question(None).reply(None, Vec::new()).plain();
        assert!(
            fails.ends_with("After 1h 30m without an answer the step fails.\n"),
            "{fails}"
        );
        let cut = question(None).with_values_cut(4);
        assert_eq!(cut.values[1].1, "Fin…");
    }

    #[test]
    fn each_answer_ends_the_step_and_is_shown_in_the_place_of_the_buttons() {
        let choice = RunAnswer::Choice {
            choice: "yes".to_owned(),
            by: "alice".to_owned(),
        };
        let withdrawn = RunAnswer::Withdrawn {
            why: "cancelled by bob.".to_owned(),
        };
        for (answer, status, output, line) in [
            (choice, StepStatus::Succeeded, "yes", "`alice` answered: yes."),
            (
                question(Some("no")).late_answer(),
                StepStatus::Succeeded,
                "no",
                "Nobody answered in time; the default counts: no.",
            ),
            (
                question(None).late_answer(),
                StepStatus::Failed,
                "",
                "Nobody answered in time, and there is no default.",
            ),
            (
                withdrawn,
                StepStatus::Cancelled,
                "",
                "No answer is needed any more: cancelled by bob.",
            ),
        ] {
            let asked = question(None);
            let end = asked.end(&answer);
            assert_eq!((end.status, end.output.as_str()), (status, output), "{answer:?}");
            let closed = asked.closed_reply(&answer);
            assert!(
                closed.plain().ends_with(&format!("\n{line}\n")),
                "{}",
                closed.plain()
            );
            let has_buttons = |part: &ReplyPart| matches!(part, ReplyPart::Buttons { .. });
            assert!(!closed.parts.iter().any(has_buttons), "{closed:?}");
        }
    }

    #[test]
    fn an_answer_names_a_choice_by_its_words_or_its_number() {
        let choices = ["Yes".to_owned(), "2".to_owned(), "no".to_owned()];
        for (words, expected) in [
            (" yes ", Some(0)),
            ("1", Some(0)),
            ("2", Some(1)),
            ("3", Some(2)),
            ("0", None),
            ("4", None),
            ("", None),
            ("maybe", None),
        ] {
            assert_eq!(choice_named(&choices, words), expected, "{words}");
        }
    }

    #[test]
    fn only_those_who_are_asked_and_may_read_the_repository_answer() {
        let person = AskedPeople::Person {
            user: UserId(7),
            name: "alice".to_owned(),
        };
        let editors = AskedPeople::Role(Role::Editor);
        for (asked, user, role, may_answer) in [
            (&person, 7, Some(Role::Viewer), true),
            (&person, 7, None, false),
            (&person, 8, Some(Role::Admin), false),
            (&editors, 7, Some(Role::Viewer), false),
            (&editors, 7, Some(Role::Editor), true),
            (&editors, 8, Some(Role::Admin), true),
            (&editors, 8, None, false),
        ] {
            assert_eq!(
                asked.include(UserId(user), role),
                may_answer,
                "{asked:?} {user} {role:?}"
            );
        }
        assert_eq!(person.words("infra"), "`alice`");
    }
}
