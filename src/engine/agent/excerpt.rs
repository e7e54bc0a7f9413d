//! The beginning and the end of a tool's answer, kept with a margin so that secrets that become known later can still
//! be redacted.

use crate::base::redact::Redactor;

/// Bytes that are kept in addition to the shown ones. A secret at the point of truncation lies within them and is not
/// shown.
const MARGIN_BYTES: usize = 64 << 10;

/// The beginning and the end of a text, redacted with the secrets that were known when it was truncated.
#[derive(Debug)]
pub(super) struct Excerpt {
    head: String,
    /// The number of bytes left out between head and tail.
    left_out: usize,
    tail: String,
}

impl Excerpt {
    /// Keeps as much of a text as is needed to show `shown_max` bytes of it. Known secrets are redacted before
    /// truncation.
    pub(super) fn new(text: &str, shown_max: usize, redactor: &Redactor) -> Self {
        let text = redactor.redact(text);
        let (head, tail) = (
            head_bytes(shown_max) + MARGIN_BYTES,
            tail_bytes(shown_max) + MARGIN_BYTES,
        );
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

    /// Returns head and tail in `bytes_max` bytes, redacted with the secrets that are known by now, and a note about
    /// the missing bytes.
    pub(super) fn shown(&self, bytes_max: usize, redactor: &Redactor) -> String {
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
        format!("{shown}\n[...truncated {missing} bytes...]\n{end}")
    }
}

fn head_bytes(bytes_max: usize) -> usize {
    bytes_max / 4 * 3
}

fn tail_bytes(bytes_max: usize) -> usize {
    bytes_max / 4
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, MARGIN_BYTES};
    use crate::base::redact::Redactor;

    fn shown(text: &str, bytes_max: usize) -> String {
        let none = Redactor::new([]);
        Excerpt::new(text, bytes_max, &none).shown(bytes_max, &none)
    }

    /// CI-5
    #[test]
    fn a_long_result_keeps_head_and_tail_and_never_splits_a_character() {
        for chars in [1_000, 1_000_000] {
            let text = "ä".repeat(chars);
            let short = shown(&text, 101);
            let missing = 2 * chars - 74 - 24;
            let expected = format!("\n[...truncated {missing} bytes...]\n");
            assert!(short.contains(&expected), "{short}");
            assert!(short.starts_with('ä') && short.ends_with('ä') && short.len() < 160);
        }
        assert_eq!(shown("short", 101), "short");
        let fits = "x".repeat(101);
        assert_eq!(shown(&fits, 101), fits);
    }

    /// T87
    #[test]
    fn a_secret_learned_later_is_hidden_in_an_already_truncated_result() {
        let redactor = Redactor::new([]);
        let secret = "kept-to-ourselves-4711";
        let text = format!("{secret} {} {secret}", "x".repeat(8 << 20));
        let ends = Excerpt::new(&text, 400, &redactor);
        assert!(ends.head.len() + ends.tail.len() <= 400 + 2 * MARGIN_BYTES);
        assert!(ends.shown(400, &redactor).contains(secret));
        redactor.learn(&redactor.secrets_in_entry("opens", secret));
        let shown = ends.shown(400, &redactor);
        assert!(
            shown.starts_with("⟦secret:1⟧") && shown.ends_with("⟦secret:1⟧"),
            "{shown}"
        );
        assert!(!shown.contains("kept-to"), "{shown}");
    }
}
