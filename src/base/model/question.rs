//! A question of the model to the person of its turn, and the answers to it. Its words come from the model: they are
//! shortened to one line each, without markup and without invisible characters.

use super::{Button, ButtonStyle, Reply, ReplyPart, Sender, cut_to, is_invisible, pluralize};
use serde::{Deserialize, Serialize};

/// The name of the tool that asks.
pub const ASK_USER: &str = "ask_user";

/// Maximum number of characters of a question.
const QUESTION_CHARS_MAX: usize = 500;
/// Maximum number of characters of a choice.
const CHOICE_CHARS_MAX: usize = 40;
/// The number of choices, if there are any.
const CHOICES: std::ops::RangeInclusive<usize> = 2..=5;
/// Maximum number of characters that are shown of an answer in the person's own words.
const WORDS_CHARS_MAX: usize = 200;

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedQuestion {
    text: String,
    choices: Vec<String>,
    default: Option<usize>,
    minutes: u32,
}

/// The way in which a question was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// The person chose one of the choices.
    Choice {
        /// The choice.
        choice: String,
    },
    /// The person answered in their own words.
    Words {
        /// The words.
        text: String,
    },
    /// Nobody answered in time, and the model had named a default.
    Default {
        /// The default choice.
        choice: String,
    },
    /// Nobody answered in time.
    Missing,
    /// The turn was stopped instead.
    Stopped,
    /// The person sent another message before the question was shown.
    Overtaken,
}

impl AskedQuestion {
    /// The result of the call that asked, until the question is closed.
    pub const WAITING: &'static str = "(waits for the answer of the person)";

    /// Creates a question. An `Err` says what would work.
    pub fn new(text: &str, choices: &[String], default: Option<&str>, minutes: u32) -> Result<Self, String> {
        let text = clean(text);
        if text.is_empty() || text.chars().count() > QUESTION_CHARS_MAX {
            return Err(format!(
                "not asked: the question has 1 to {QUESTION_CHARS_MAX} characters"
            ));
        }
        let choices: Vec<String> = choices.iter().map(|choice| clean(choice)).collect();
        let is_short = |choice: &String| (1..=CHOICE_CHARS_MAX).contains(&choice.chars().count());
        let is_repeated = |(index, choice): (usize, &String)| {
            choices.iter().take(index).any(|earlier| is_same(earlier, choice))
        };
        if !choices.is_empty()
            && (!CHOICES.contains(&choices.len())
                || !choices.iter().all(is_short)
                || choices.iter().enumerate().any(is_repeated))
        {
            return Err(format!(
                "not asked: give {} to {} different choices of at most {CHOICE_CHARS_MAX} characters, or none",
                CHOICES.start(),
                CHOICES.end()
            ));
        }
        let default = match default.map(clean).filter(|default| !default.is_empty()) {
            None => None,
            Some(default) => match choices.iter().position(|choice| is_same(choice, &default)) {
                Some(index) => Some(index),
                None => return Err("not asked: `default` is one of `choices`".to_owned()),
            },
        };
        Ok(Self {
            text,
            choices,
            default,
            minutes,
        })
    }

    /// Returns the question with a shorter time, if it has more.
    #[must_use]
    pub fn within(self, minutes_max: u32) -> Self {
        Self {
            minutes: self.minutes.clamp(1, minutes_max.max(1)),
            ..self
        }
    }

    /// Returns the words of the question.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the choices; empty if the person answers in their own words.
    pub fn choices(&self) -> &[String] {
        &self.choices
    }

    /// Returns the choice that applies if nobody answers in time.
    pub fn default_choice(&self) -> Option<&str> {
        self.choices.get(self.default?).map(String::as_str)
    }

    /// Returns the number of minutes after which nobody answers any more.
    pub fn minutes(&self) -> u32 {
        self.minutes
    }

    /// Reads an answer: a choice, the number of one, or other words.
    pub fn read(&self, words: &str) -> QuestionAnswer {
        let words = words.trim();
        let by_number = words.trim_end_matches('.').parse::<usize>().ok();
        let by_number = by_number.and_then(|number| self.choices.get(number.checked_sub(1)?));
        let named = self.choices.iter().find(|choice| is_same(choice, &clean(words)));
        match named.or(by_number) {
            Some(choice) => QuestionAnswer::Choice {
                choice: choice.clone(),
            },
            None => QuestionAnswer::Words {
                text: words.to_owned(),
            },
        }
    }

    /// Returns the answer of a button.
    pub fn choose(&self, index: usize) -> Option<QuestionAnswer> {
        let choice = self.choices.get(index)?.clone();
        Some(QuestionAnswer::Choice { choice })
    }

    /// Returns the answer when the time has passed.
    pub fn late_answer(&self) -> QuestionAnswer {
        match self.default_choice() {
            Some(choice) => QuestionAnswer::Default {
                choice: choice.to_owned(),
            },
            None => QuestionAnswer::Missing,
        }
    }

    /// Returns the message that asks the person, with one button for each token.
    pub fn reply(&self, mention: Option<&Sender>, tokens: Vec<String>) -> Reply {
        let mut parts = self.first_parts(mention, "I need your decision.");
        let rows = self.choices.iter().zip(1..);
        let rows: Vec<String> = rows
            .map(|(choice, number)| format!("{number}. {choice}"))
            .collect();
        if !rows.is_empty() {
            parts.push(ReplyPart::Text {
                text: rows.join("\n"),
            });
        }
        parts.push(ReplyPart::Text {
            text: self.invitation(),
        });
        let button = |(choice, token): (&String, String)| {
            let style = match self.default_choice() == Some(choice) {
                true => ButtonStyle::Primary,
                false => ButtonStyle::Plain,
            };
            Button::new(choice, token, style)
        };
        let buttons: Vec<Button> = self.choices.iter().zip(tokens).map(button).collect();
        if !buttons.is_empty() {
            parts.push(ReplyPart::Buttons { buttons });
        }
        Reply { parts }
    }

    /// Returns the same message once the question is closed: without buttons, and with the answer.
    pub fn closed_reply(&self, answer: &QuestionAnswer) -> Reply {
        let mut parts = self.first_parts(None, "I asked for your decision.");
        parts.push(ReplyPart::Text { text: answer.line() });
        Reply { parts }
    }

    fn first_parts(&self, mention: Option<&Sender>, heading: &str) -> Vec<ReplyPart> {
        let mention = mention.map(|to| ReplyPart::Mention { to: to.clone() });
        let heading = ReplyPart::Heading {
            text: heading.to_owned(),
        };
        let text = ReplyPart::Text {
            text: self.text.clone(),
        };
        mention.into_iter().chain([heading, text]).collect()
    }

    fn invitation(&self) -> String {
        let how = match self.choices.is_empty() {
            true => "Write your answer here",
            false => "Press a button, or write your answer here",
        };
        let time = pluralize(self.minutes as usize, "minute", "minutes");
        match self.default_choice() {
            Some(choice) => format!("{how}. After {time} I go on with: {choice}"),
            None => format!("{how}. After {time} I go on without it."),
        }
    }
}

impl QuestionAnswer {
    /// Returns the result of the call that asked, as the model reads it.
    pub fn result(&self) -> String {
        match self {
            Self::Choice { choice } => format!("The person chose: {choice}"),
            Self::Words { text } => format!("The person answered: {text}"),
            Self::Default { choice } => {
                format!("Nobody answered in time; the default applies: {choice}")
            }
            Self::Missing => {
                "Nobody answered in time. Go on without an answer if that is safe, or end your work and \
                              say what is to be decided."
                    .to_owned()
            }
            Self::Stopped => "The person stopped the work instead of answering.".to_owned(),
            Self::Overtaken => {
                "Not asked: the person has just sent another message, which comes next. Ask again if that does not \
                 answer it."
                    .to_owned()
            }
        }
    }

    /// Returns the line that the person reads.
    pub fn line(&self) -> String {
        match self {
            Self::Choice { choice } => format!("Your answer: {choice}"),
            Self::Words { text } => format!("Your answer: {}", cut_to(&clean(text), WORDS_CHARS_MAX)),
            Self::Default { choice } => format!("Nobody answered in time; I go on with: {choice}"),
            Self::Missing => "Nobody answered in time; I go on without an answer.".to_owned(),
            Self::Stopped => "Stopped; no answer is needed any more.".to_owned(),
            Self::Overtaken => "You sent another message in the meantime; I read that first.".to_owned(),
        }
    }

    /// Returns the word for the audit log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Choice { .. } => "choice",
            Self::Words { .. } => "words",
            Self::Default { .. } => "default",
            Self::Missing => "missing",
            Self::Stopped => "stopped",
            Self::Overtaken => "overtaken",
        }
    }
}

/// Returns a text on one line, without invisible characters and without backticks, which would mark code.
fn clean(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| {
            word.chars()
                .filter(|character| !is_invisible(*character))
                .collect()
        })
        .filter(|word: &String| !word.is_empty())
        .collect();
    words.join(" ").replace('`', "'")
}

fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{AskedQuestion, QuestionAnswer};
    use crate::base::model::ReplyPart;

    fn question(choices: &[&str], default: Option<&str>) -> Result<AskedQuestion, String> {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        AskedQuestion::new("How many?", &choices, default, 60)
    }

    #[test]
    fn an_answer_is_a_choice_its_number_or_other_words() {
        let asked = question(&["Two", "4 replicas", "none"], None).unwrap();
        let choice = |choice: &str| QuestionAnswer::Choice {
            choice: choice.to_owned(),
        };
        for (words, expected) in [
            ("two", "Two"),
            (" 2 ", "4 replicas"),
            ("2.", "4 replicas"),
            ("4  REPLICAS", "4 replicas"),
            ("3", "none"),
        ] {
            assert_eq!(asked.read(words), choice(expected), "{words}");
        }
        for words in ["0", "4", "-1", "five", "2 or 3"] {
            let text = words.to_owned();
            assert_eq!(asked.read(words), QuestionAnswer::Words { text }, "{words}");
        }
        assert_eq!(asked.choose(0), Some(choice("Two")));
        assert_eq!(asked.choose(3), None);
        assert_eq!(asked.late_answer(), QuestionAnswer::Missing);
        let with_default = question(&["Two", "Four"], Some("four")).unwrap();
        let expected = QuestionAnswer::Default {
            choice: "Four".to_owned(),
        };
        assert_eq!(with_default.late_answer(), expected);
    }

    #[test]
    fn a_question_has_bounds() {
        for choices in [
            &["only one"][..],
            &["a", "b", "c", "d", "e", "f"],
            &["same", "SAME"],
            &["", "b"],
            &["b", "\u{202e}"],
            &["a", &"x".repeat(41)],
        ] {
            let refused = question(choices, None).unwrap_err();
            assert!(
                refused.starts_with("not asked: give 2 to 5"),
                "{choices:?}: {refused}"
            );
        }
        assert!(question(&["a", &"x".repeat(40)], Some("a")).is_ok());
        assert!(question(&["a", "b"], Some("c")).is_err());
        assert!(question(&[], Some("c")).is_err());
        assert!(question(&[], None).is_ok());
        for text in ["", " \u{200b}", &"x".repeat(501)] {
            assert!(AskedQuestion::new(text, &[], None, 60).is_err(), "{text}");
        }
        let asked = question(&[], None).unwrap();
        let minutes = [0, 5, 60].map(|max| asked.clone().within(max).minutes());
        assert_eq!(minutes, [1, 5, 60]);
    }

    #[test]
    fn the_words_of_a_model_stay_on_one_line_without_markup() {
        let choices = ["yes\n`!stop`".to_owned(), "no\u{202e}".to_owned()];
        let asked = AskedQuestion::new("Is it\n\n`ok`?\u{200b}", &choices, None, 5).unwrap();
        assert_eq!(asked.text(), "Is it 'ok'?");
        assert_eq!(asked.choices(), ["yes '!stop'", "no"]);
        let reply = asked.reply(None, vec!["t1".to_owned(), "t2".to_owned()]);
        assert_eq!(
            reply.plain(),
            "I need your decision.\nIs it 'ok'?\n1. yes '!stop'\n2. no\n\
             Press a button, or write your answer here. After 5 minutes I go on without it.\n"
        );
        let Some(ReplyPart::Buttons { buttons }) = reply.parts.last() else {
            unreachable!("{reply:?}")
        };
        let buttons: Vec<(&str, &str)> = buttons
            .iter()
            .map(|button| (button.label.as_str(), button.token.as_str()))
            .collect();
        assert_eq!(buttons, [("yes '!stop'", "t1"), ("no", "t2")]);
        let words = QuestionAnswer::Words {
            text: format!("`x`\n{}", "y".repeat(300)),
        };
        let closed = asked.closed_reply(&words).plain();
        assert!(
            closed.starts_with("I asked for your decision.\nIs it 'ok'?\nYour answer: 'x' yy"),
            "{closed}"
        );
        assert!(closed.ends_with("y…\n"), "{closed}");
    }
}
