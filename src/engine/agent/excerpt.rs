//! A tool's answer: its whole text where that is short enough to be kept, otherwise its beginning and its end. Secrets
//! that become known later are still redacted.

use crate::base::model::{KeptText, OutputNumber, plain_output};
use crate::base::redact::Redactor;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are kept in addition to the shown ones. A secret at the point of truncation lies within them and is not
/// shown.
const MARGIN_BYTES: usize = 64 << 10;

/// Bytes of the whole texts that the results of one step may keep, so that the model can read on.
const WHOLE_BYTES_MAX: usize = 8 << 20;

/// The bytes of whole texts that the results of a step may still keep.
#[derive(Debug)]
pub(super) struct WholeTextBudget(AtomicUsize);

impl WholeTextBudget {
    /// Creates the budget of one step.
    pub(super) fn of_step() -> Self {
        Self(AtomicUsize::new(WHOLE_BYTES_MAX))
    }

    /// Takes bytes for a text; fewer if the rest of the budget is smaller.
    fn take(&self, bytes: usize) -> usize {
        let take = |left: usize| Some(left - bytes.min(left));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |left| bytes.min(left))
    }
}

/// The text of an answer or its beginning and end, redacted with the secrets that were known when it was kept.
#[derive(Debug)]
pub(super) struct Excerpt {
    head: String,
    /// The number of bytes left out between head and tail.
    left_out: usize,
    tail: String,
}

impl Excerpt {
    /// Keeps a text, or as much of it as is needed to show `shown_max` bytes if `whole` has no room for more. Escape
    /// sequences and overwritten progress are removed, then known secrets, before anything is left out.
    pub(super) fn new(text: &str, shown_max: usize, redactor: &Redactor, whole: &WholeTextBudget) -> Self {
        let text = plain_output(text);
        let text = redactor.redact(&text);
        let (mut head, tail) = (
            head_bytes(shown_max) + MARGIN_BYTES,
            tail_bytes(shown_max) + MARGIN_BYTES,
        );
        if text.len() > shown_max {
            head = head.max(whole.take(text.len()));
        }
        if text.len() <= head + tail {
            return Self {
                head: text.into_owned(),
                left_out: 0,
                tail: String::new(),
            };
        }
        let (head, rest) = text.split_at(text.floor_char_boundary(head));
        let (middle, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - tail));
        Self {
            head: head.to_owned(),
            left_out: middle.len(),
            tail: tail.to_owned(),
        }
    }

    /// Returns true if only a part of the text can be shown in `bytes_max` bytes.
    pub(super) fn is_longer_than(&self, bytes_max: usize) -> bool {
        self.left_out > 0 || self.head.len() > bytes_max
    }

    /// Returns head and tail in `bytes_max` bytes, redacted with the secrets that are known by now, and a note about
    /// the missing bytes. If the text is stored, the note says how to read on.
    pub(super) fn shown(
        &self,
        bytes_max: usize,
        stored: Option<OutputNumber>,
        redactor: &Redactor,
    ) -> String {
        let (head, tail) = (redactor.redact(&self.head), redactor.redact(&self.tail));
        if self.left_out == 0 && head.len() <= bytes_max {
            return head.into_owned();
        }
        let (shown, more) = head.split_at(head.floor_char_boundary(head_bytes(bytes_max)));
        let rest = if self.left_out == 0 { more } else { &tail };
        let cut = rest.ceil_char_boundary(rest.len().saturating_sub(tail_bytes(bytes_max)));
        let (middle, end) = rest.split_at(cut);
        let missing = match self.left_out {
            0 => middle.len(),
            left_out => more.len() + left_out + middle.len(),
        };
        let kept = match self.left_out {
            0 => KeptText::Whole,
            _ => KeptText::Part,
        };
        let advice = stored.map_or_else(String::new, |number| format!(" {}", number.note(kept)));
        format!("{shown}\n[...truncated {missing} bytes...]{advice}\n{end}")
    }

    /// Returns the text to store, redacted with the secrets that are known by now. A line says what is missing in it.
    pub(super) fn whole(&self, redactor: &Redactor) -> String {
        let head = redactor.redact(&self.head);
        match self.left_out {
            0 => head.into_owned(),
            left_out => {
                // A secret that only a later rule knows may begin within the margins at the cut.
                let tail = redactor.redact(&self.tail);
                let (head, after) =
                    head.split_at(head.floor_char_boundary(head.len().saturating_sub(MARGIN_BYTES)));
                let (before, tail) = tail.split_at(tail.ceil_char_boundary(MARGIN_BYTES.min(tail.len())));
                let bytes = after.len() + left_out + before.len();
                format!("{head}\n[...{bytes} bytes were too many to keep...]\n{tail}")
            }
        }
    }
}

/// Returns the bytes of the beginning that are shown: 4,096 of 65,536.
fn head_bytes(bytes_max: usize) -> usize {
    bytes_max / 16
}

/// Returns the bytes of the end that are shown: 61,440 of 65,536. Programs report their failure at the end.
fn tail_bytes(bytes_max: usize) -> usize {
    bytes_max - head_bytes(bytes_max)
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, MARGIN_BYTES, WHOLE_BYTES_MAX, WholeTextBudget};
    use crate::base::model::OutputNumber;
    use crate::base::redact::Redactor;

    fn excerpt(text: &str, bytes_max: usize) -> Excerpt {
        Excerpt::new(text, bytes_max, &Redactor::new([]), &WholeTextBudget::of_step())
    }

    fn shown(text: &str, bytes_max: usize) -> String {
        excerpt(text, bytes_max).shown(bytes_max, None, &Redactor::new([]))
    }

    /// CI-5
    #[test]
    fn a_long_result_keeps_head_and_tail_and_never_splits_a_character() {
        for chars in [1_000, 1_000_000, 10_000_000] {
            let text = "ä".repeat(chars);
            let short = shown(&text, 101);
            let missing = 2 * chars - 6 - 94;
            let expected = format!("\n[...truncated {missing} bytes...]\n");
            assert!(short.contains(&expected), "{short}");
            assert!(short.starts_with("äää\n") && short.ends_with('ä') && short.len() < 160);
        }
        assert_eq!(shown("short", 101), "short");
        let fits = "x".repeat(101);
        assert_eq!(shown(&fits, 101), fits);
    }

    /// CI-5, CI-8, CI-28
    #[test]
    fn the_head_has_4096_bytes_and_the_tail_61440_and_the_rest_has_a_name() {
        let text = format!(
            "{}{}{}",
            "h".repeat(4_096),
            "m".repeat(100_000),
            "t".repeat(61_440)
        );
        let short = excerpt(&text, 65_536).shown(65_536, Some(OutputNumber(7)), &Redactor::new([]));
        let line = "[...truncated 100000 bytes...] (`read_output` with ref=out-7 reads all of it)";
        let expected = format!("{}\n{line}\n{}", "h".repeat(4_096), "t".repeat(61_440));
        assert!(short == expected, "{} bytes", short.len());
    }

    #[test]
    fn what_a_step_keeps_is_bounded_and_says_what_is_missing() {
        let (budget, none) = (WholeTextBudget::of_step(), Redactor::new([]));
        let text = "x".repeat(WHOLE_BYTES_MAX - 1_000);
        let first = Excerpt::new(&text, 1_024, &none, &budget);
        assert!(first.is_longer_than(1_024) && first.whole(&none) == text);
        let second = Excerpt::new(&text, 1_024, &none, &budget);
        let whole = second.whole(&none);
        assert!(whole.len() < 2_048, "{}", whole.len());
        let missing = text.len() - 1_024;
        assert!(whole.contains(&format!("\n[...{missing} bytes were too many to keep...]\n")));
        // The note about each says how much of it can be read.
        let stored = Some(OutputNumber(7));
        for (excerpt, note) in [
            (&first, "ref=out-7 reads all of it)"),
            (&second, "ref=out-7 reads what is kept of it)"),
        ] {
            assert!(excerpt.shown(1_024, stored, &none).contains(note), "{note}");
        }
        // A result that is shown whole takes nothing.
        let budget = WholeTextBudget::of_step();
        let short = Excerpt::new("y", 1_024, &none, &budget);
        assert!(!short.is_longer_than(1_024));
        assert_eq!(budget.take(usize::MAX), WHOLE_BYTES_MAX);
    }

    #[test]
    fn a_secret_that_an_escape_sequence_splits_is_found() {
        let secret = crate::base::model::Secret::new("kept-to-ourselves-4711".to_owned());
        let redactor = Redactor::new([secret]);
        let text = "10%\r20%\rkept-to-\u{1b}[1mourselves-4711";
        let kept = Excerpt::new(text, 1_024, &redactor, &WholeTextBudget::of_step());
        assert_eq!(kept.shown(1_024, None, &redactor), "⟦secret:1⟧");
    }

    /// T87
    #[test]
    fn a_secret_learned_later_is_hidden_in_an_already_truncated_result() {
        let redactor = Redactor::new([]);
        let secret = "kept-to-ourselves-4711";
        let text = format!("{secret} {} {secret}", "x".repeat(2 * WHOLE_BYTES_MAX));
        let ends = Excerpt::new(&text, 400, &redactor, &WholeTextBudget::of_step());
        assert!(ends.head.len() + ends.tail.len() <= WHOLE_BYTES_MAX + 400 + 2 * MARGIN_BYTES);
        assert!(ends.shown(400, None, &redactor).contains(secret));
        redactor.learn(&redactor.secrets_in_entry("opens", secret));
        let shown = ends.shown(400, None, &redactor);
        assert!(
            shown.starts_with("⟦secret:1⟧") && shown.ends_with("⟦secret:1⟧"),
            "{shown}"
        );
        for text in [shown, ends.whole(&redactor)] {
            assert!(!text.contains("kept-to"));
        }
    }
}
