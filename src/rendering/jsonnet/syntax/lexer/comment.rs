//! Comments, which become fodder.

use super::super::error::SyntaxError;
use super::super::fodder::{Comment, FodderElement, FodderKind};
use super::Lexer;

fn is_horizontal(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

impl<'s> Lexer<'s> {
    /// Reads `#` or `//` to the end of the line, and the whitespace after it.
    pub(super) fn line_comment(&mut self) {
        let start = self.at;
        let kind = if self.begins_line(start) {
            FodderKind::Paragraph
        } else {
            FodderKind::LineEnd
        };
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.at = start + length;
        // The first character always stays.
        let comment = self.slice(start, self.at).trim_end_matches([' ', '\t', '\r']);
        let found = self.whitespace();
        self.add(FodderElement {
            kind,
            untouched: false,
            blank_lines: found.blank_lines(),
            indent: found.indent,
            comment: Comment::Line(comment),
        });
    }

    fn begins_line(&self, at: usize) -> bool {
        let before = self.bytes.get(..at).unwrap_or_default();
        let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        before
            .get(start..)
            .unwrap_or_default()
            .iter()
            .all(|byte| is_horizontal(*byte))
    }

    /// Reads `/* ... */`, on one line or over several.
    pub(super) fn block_comment(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let inside = self.bytes.get(start + 2..).unwrap_or_default();
        let Some(length) = memchr::memmem::find(inside, b"*/") else {
            return Err(self.error_at(start, "Multi-line comment has no terminating */"));
        };
        self.at = start + 2 + length + 2;
        let comment = self.slice(start, self.at);
        let found = self.whitespace();
        if comment.contains('\n') {
            self.paragraph(start, comment, found.line_ends, found.indent);
            return Ok(());
        }
        self.add(FodderElement {
            kind: FodderKind::Interstitial,
            untouched: false,
            blank_lines: 0,
            indent: 0,
            comment: Comment::Line(comment),
        });
        if found.line_ends > 0 {
            self.add(FodderElement::line_end(found.blank_lines(), found.indent));
        }
        Ok(())
    }

    /// Adds a comment of several lines. It ends its line even if code follows on that line.
    fn paragraph(&mut self, start: usize, comment: &'s str, line_ends: u32, indent: u32) {
        let before = self.bytes.get(..start).unwrap_or_default();
        let margin = start - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let lines = comment.split('\n').map(|line| strip(line, margin));
        let comment = self.output.fodders.add_lines(lines);
        let element = FodderElement {
            kind: FodderKind::Paragraph,
            untouched: false,
            blank_lines: line_ends.saturating_sub(1),
            indent: if line_ends == 0 { 0 } else { indent },
            comment,
        };
        let mut fodder = self.fodder;
        self.output.fodders.append(&mut fodder, element);
        self.fodder = fodder;
    }
}

/// Returns a line without trailing whitespace, and without leading whitespace up to the indentation of the comment.
fn strip(line: &str, margin: usize) -> &str {
    let indent = line
        .bytes()
        .take(margin)
        .take_while(|byte| is_horizontal(*byte))
        .count();
    line.get(indent..)
        .unwrap_or_default()
        .trim_end_matches([' ', '\t', '\r'])
}
