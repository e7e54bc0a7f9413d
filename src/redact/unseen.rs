//! Texts with characters that nobody sees: a secret with one of them inside is still read as the secret.

use crate::model::is_invisible;
use std::ops::Range;

/// A text without its invisible characters, and where each of its bytes was.
pub(super) struct Seen {
    pub(super) text: String,
    places: Vec<usize>,
    end: usize,
}

impl Seen {
    /// The visible part of a text; nothing if that is all of it.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.is_ascii() || !text.chars().any(is_invisible) {
            return None;
        }
        let mut seen = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
            end: text.len(),
        };
        for (place, char) in text.char_indices().filter(|(_, char)| !is_invisible(*char)) {
            seen.text.push(char);
            seen.places.extend(place..place + char.len_utf8());
        }
        Some(seen)
    }

    /// The place of a part of what is seen, with the invisible characters inside it.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.places.get(range.start).copied().unwrap_or(self.end);
        let last = range.end.checked_sub(1).and_then(|last| self.places.get(last));
        start..last.map_or(start, |last| last + 1)
    }
}
