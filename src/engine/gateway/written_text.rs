//! The words of an answer that the model is still writing, for the status card.

use crate::base::redact::Redactor;
use crate::engine::agent::TurnEvent;

/// The maximum length of a text whose words are shown, in bytes: it is redacted as a whole for each edit of a card.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of characters that are shown: the newest ones.
const SHOWN_CHARS_MAX: usize = 400;

/// The text of the newest answer. It is not redacted.
#[derive(Clone, Default)]
pub(super) struct WrittenText {
    text: String,
    is_complete: bool,
}

/// Shows no text, which may contain secrets.
impl std::fmt::Debug for WrittenText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("WrittenText");
        shown.field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

impl WrittenText {
    /// Applies a turn event.
    pub(super) fn observe(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(more) if self.text.len() + more.len() <= TEXT_BYTES_MAX => {
                self.text.push_str(more)
            }
            // The text belongs to a discarded answer, or the next answer begins.
            TurnEvent::StepStarted { .. }
            | TurnEvent::Waiting { .. }
            | TurnEvent::FallingBack { .. }
            | TurnEvent::SentBack { .. } => *self = Self::default(),
            TurnEvent::ToolStarted { .. } | TurnEvent::Checking(_) => self.is_complete = true,
            _ => {}
        }
    }

    /// Returns all words, redacted. No secret can begin in them and end in words that are not there yet.
    pub(super) fn words(&self, redactor: &Redactor) -> String {
        let stable = match self.is_complete {
            true => self.text.len(),
            false => redactor.stable_bytes(&self.text),
        };
        let stable = self.text.get(..stable).unwrap_or_default();
        redactor.redact(stable).trim().to_owned()
    }
}

/// Returns the last words of a text, with a sign if earlier ones are left out.
pub(super) fn end_of(text: &str) -> String {
    let earlier = text.char_indices().rev().nth(SHOWN_CHARS_MAX);
    let Some(rest) = earlier.and_then(|(at, _)| text.get(at..)) else {
        return text.to_owned();
    };
    let words = rest
        .split_once(char::is_whitespace)
        .map_or(rest, |(_, words)| words);
    format!("… {words}")
}

#[cfg(test)]
mod tests {
    use super::{TEXT_BYTES_MAX, WrittenText, end_of};
    use crate::base::model::Secret;
    use crate::base::redact::Redactor;
    use crate::engine::agent::TurnEvent;
    use crate::rendering::compare::CompareProgress;

    const SECRET: &str = "correct horse battery staple";

    fn redactor() -> Redactor {
        Redactor::new([Secret::new(SECRET.to_owned())])
    }

    fn text(words: &str) -> TurnEvent {
        TurnEvent::Text(words.to_owned())
    }

    #[test]
    fn no_part_of_a_secret_is_shown_while_it_is_written() {
        let (redactor, mut written) = (redactor(), WrittenText::default());
        let mut shown = Vec::new();
        for word in format!("The phrase is {SECRET} and no other.\n").split_inclusive(' ') {
            written.observe(&text(word));
            shown.push(written.words(&redactor));
        }
        assert!(shown.iter().all(|words| !words.contains("correct")), "{shown:?}");
        assert!(
            shown.last().is_some_and(|words| words.ends_with("and no other.")),
            "{shown:?}"
        );
    }

    #[test]
    fn a_complete_text_is_shown_whole_and_a_discarded_one_no_longer() {
        let (redactor, mut written) = (Redactor::new([]), WrittenText::default());
        written.observe(&text("I look at it"));
        assert_eq!(written.words(&redactor), "I look at");
        written.observe(&TurnEvent::Checking(CompareProgress { done: 0, total: 0 }));
        assert_eq!(written.words(&redactor), "I look at it");
        written.observe(&TurnEvent::StepStarted { step: 2 });
        assert_eq!(written.words(&redactor), "");
    }

    #[test]
    fn the_newest_words_of_a_long_text_are_shown_and_its_size_is_bounded() {
        let (redactor, mut written) = (redactor(), WrittenText::default());
        for _ in 0..TEXT_BYTES_MAX {
            written.observe(&text("word "));
        }
        let shown = end_of(&written.words(&redactor));
        assert!(
            shown.starts_with("… word word") && shown.ends_with("word word"),
            "{shown}"
        );
        assert!(written.text.len() <= TEXT_BYTES_MAX && shown.chars().count() < 410);
    }
}
