//! Replacements in a source text, and the mapping of offsets back to the original text.

use std::borrow::Cow;
use std::ops::Range;

/// The replacements in a source text, for one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceEdits(Vec<Edit>);

/// A replaced part of a text, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    range: Range<usize>,
    text: Vec<u8>,
    side: Side,
}

/// The position of an edit relative to an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// A parenthesis after an expression.
    Closes,
    /// A parenthesis before an expression, or a replacement of one.
    Opens,
}

impl SourceEdits {
    /// Replaces a range with blanks; line ends stay.
    pub(super) fn blank(&mut self, source: &[u8], range: Range<usize>) {
        let body = source.get(range.clone()).unwrap_or_default();
        let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
        let text = body.iter().map(blank).collect();
        let side = Side::Opens;
        self.0.push(Edit { range, text, side });
    }

    /// Inserts a text at an offset.
    pub(super) fn insert(&mut self, at: u32, text: &str) {
        self.put(at as usize..at as usize, text, Side::Opens);
    }

    /// Inserts one text, which ends with a parenthesis, before an expression, and another, which begins with a
    /// parenthesis, after it.
    pub(super) fn wrap(&mut self, range: Range<usize>, before: &str, after: &str) {
        self.put(range.start..range.start, before, Side::Opens);
        self.put(range.end..range.end, after, Side::Closes);
    }

    /// Replaces a range, and overrides an earlier replacement of it.
    pub(super) fn replace(&mut self, range: Range<usize>, text: &str) {
        if self.0.last().is_some_and(|last| last.range == range) {
            self.0.pop();
        }
        self.put(range, text, Side::Opens);
    }

    fn put(&mut self, range: Range<usize>, text: &str, side: Side) {
        let text = text.as_bytes().to_vec();
        self.0.push(Edit { range, text, side });
    }

    /// Sorts the edits by position. At one position closing edits come first, in the order of insertion, from the inner
    /// to the outer one; opening edits follow, the last inserted first.
    pub(super) fn sort(&mut self) {
        let mut edits: Vec<(usize, Edit)> = std::mem::take(&mut self.0).into_iter().enumerate().collect();
        edits.sort_by_key(|(order, edit)| {
            let order = match edit.side {
                Side::Closes => *order,
                Side::Opens => usize::MAX - order,
            };
            (edit.range.start, edit.range.end, edit.side, order)
        });
        self.0 = edits.into_iter().map(|(_, edit)| edit).collect();
    }

    /// Returns the text with all edits.
    pub(super) fn apply<'s>(&self, source: &'s [u8]) -> Cow<'s, [u8]> {
        if self.0.is_empty() {
            return Cow::Borrowed(source);
        }
        let more: usize = self.0.iter().map(|edit| edit.text.len()).sum();
        let mut text = Vec::with_capacity(source.len() + more);
        let mut copied = 0;
        for edit in &self.0 {
            text.extend_from_slice(source.get(copied..edit.range.start).unwrap_or_default());
            text.extend_from_slice(&edit.text);
            copied = edit.range.end;
        }
        text.extend_from_slice(source.get(copied..).unwrap_or_default());
        Cow::Owned(text)
    }

    /// Returns the offset in the original text for an offset in the edited text.
    pub(super) fn original_offset(&self, at: usize) -> usize {
        // Offsets in the original text and in the edited text.
        let (mut here, mut there) = (0, 0);
        for edit in &self.0 {
            let plain = edit.range.start.saturating_sub(here);
            if at < there + plain {
                break;
            }
            there += plain;
            if at < there + edit.text.len() {
                return edit.range.start;
            }
            there += edit.text.len();
            here = edit.range.end;
        }
        here + at.saturating_sub(there)
    }
}
