//! A text with parts that are written in another way, and how places in it are found again in the text as it was written.

use std::borrow::Cow;
use std::ops::Range;

/// The replacements in a source text, for one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceEdits(Vec<Edit>);

/// A part of a text, and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    range: Range<usize>,
    text: Vec<u8>,
    side: Side,
}

/// The part of an expression that an edit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// A parenthesis that stands after an expression.
    Closes,
    /// A parenthesis that stands before an expression, or a text in place of one.
    Opens,
}

impl SourceEdits {
    /// Puts blanks in place of a part; its lines stay.
    pub(super) fn blank(&mut self, source: &[u8], range: Range<usize>) {
        let body = source.get(range.clone()).unwrap_or_default();
        let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
        let text = body.iter().map(blank).collect();
        let side = Side::Opens;
        self.0.push(Edit { range, text, side });
    }

    /// Puts a text before a place.
    pub(super) fn insert(&mut self, at: u32, text: &str) {
        self.put(at as usize..at as usize, text, Side::Opens);
    }

    /// Puts a text that ends with a parenthesis before an expression, and one that begins with a parenthesis after it.
    pub(super) fn wrap(&mut self, range: Range<usize>, before: &str, after: &str) {
        self.put(range.start..range.start, before, Side::Opens);
        self.put(range.end..range.end, after, Side::Closes);
    }

    /// Writes a part in another way, also where it was to be written in another one before.
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

    /// Brings the edits into the order of the text. Where one place has several, what closes comes first, in the order
    /// in which it was put there, from the inner one to the outer one; and of what opens the last that was put there.
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

    /// The text with all of them.
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

    /// The byte of the text as it was written for one of the text with all of them.
    pub(super) fn original_offset(&self, at: usize) -> usize {
        // How far both have come: here, and in the other text.
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
