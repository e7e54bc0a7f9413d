//! Texts with invisible characters. A secret with such a character inside can still be read as the secret.

use crate::base::model::is_invisible;
use std::ops::Range;

/// A text without its invisible characters, and the original offset of each byte.
pub(super) struct VisibleText {
    pub(super) text: String,
    offsets: Vec<usize>,
    end: usize,
}

impl VisibleText {
    /// Returns the visible part of a text, or `None` if it has no invisible characters.
    pub(super) fn new(text: &str) -> Option<Self> {
        if text.is_ascii() || !text.chars().any(is_invisible) {
            return None;
        }
        let mut seen = Self {
            text: String::with_capacity(text.len()),
            offsets: Vec::with_capacity(text.len()),
            end: text.len(),
        };
        for (place, char) in text.char_indices().filter(|(_, char)| !is_invisible(*char)) {
            seen.text.push(char);
            seen.offsets.extend(place..place + char.len_utf8());
        }
        Some(seen)
    }

    /// Returns the original range of a visible range, including the invisible characters inside it.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.offsets.get(range.start).copied().unwrap_or(self.end);
        let last = range.end.checked_sub(1).and_then(|last| self.offsets.get(last));
        start..last.map_or(start, |last| last + 1)
    }
}
