//! Strings: quoted, verbatim, and text blocks.

use super::super::error::SyntaxError;
use super::super::token::TokenKind;
use super::Lexer;
use std::borrow::Cow;

impl Lexer<'_> {
    /// Reads `'...'` or `"..."`; escapes stay unresolved.
    pub(super) fn quoted(&mut self, quote: u8, kind: TokenKind) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(found) = memchr::memchr2(quote, b'\\', rest) else {
                return Err(self.error_at(start, "Unterminated String"));
            };
            self.at += found + 1;
            if rest.get(found) == Some(&quote) {
                break;
            }
            // The character after a backslash belongs to the escape; skipping its first byte is enough.
            self.at = (self.at + 1).min(self.bytes.len());
        }
        let data = Cow::Borrowed(self.slice(start + 1, self.at - 1));
        self.emit_with(kind, data);
        Ok(())
    }

    /// Reads `@'...'` or `@"..."`; a doubled quote means one quote.
    pub(super) fn verbatim(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let (quote, kind) = match self.bytes.get(start + 1) {
            Some(b'"') => (b'"', TokenKind::VerbatimDouble),
            Some(b'\'') => (b'\'', TokenKind::VerbatimSingle),
            _ => {
                let junk = self.text.get(start + 1..).and_then(|rest| rest.chars().next());
                let junk = junk.map_or(-1, |char| i64::from(u32::from(char)));
                let message = format!("Couldn't lex verbatim string, junk after '@': {junk}");
                return Err(self.error_at(start, message));
            }
        };
        self.at += 2;
        let mut doubled = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(found) = memchr::memchr(quote, rest) else {
                return Err(self.error_at(start, "Unterminated String"));
            };
            self.at += found + 1;
            if self.peek() != Some(quote) {
                break;
            }
            self.at += 1;
            doubled = true;
        }
        let written = self.slice(start + 2, self.at - 1);
        let data = match (doubled, quote) {
            (false, _) => Cow::Borrowed(written),
            (true, b'"') => Cow::Owned(written.replace("\"\"", "\"")),
            (true, _) => Cow::Owned(written.replace("''", "'")),
        };
        self.emit_with(kind, data);
        Ok(())
    }

    /// Reads `|||`, lines with a common indentation, `|||`. With `|||-` the last line end is removed.
    pub(super) fn text_block(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 3;
        let chomp = self.peek() == Some(b'-');
        self.at += usize::from(chomp);
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
        if self.peek() != Some(b'\n') {
            return Err(self.error_at(start, "Text block requires new line after |||."));
        }
        self.at += 1;
        let mut content = String::new();
        self.blank_lines(&mut content);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let indent = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        let indent = rest.get(..indent).unwrap_or_default();
        if indent.is_empty() {
            return Err(self.error_at(start, "Text block's first line must start with whitespace"));
        }
        while self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(indent))
        {
            let line = self.at + indent.len();
            let rest = self.bytes.get(line..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', rest) else {
                return Err(self.error_at(start, "Unexpected EOF"));
            };
            self.at = line + length + 1;
            content.push_str(self.slice(line, self.at));
            self.blank_lines(&mut content);
        }
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        if !self.rest_starts_with("|||") {
            return Err(self.error_at(start, "Text block not terminated with |||"));
        }
        self.at += 3;
        if chomp {
            content.pop();
        }
        self.emit_with(TokenKind::TextBlock, Cow::Owned(content));
        Ok(())
    }

    fn blank_lines(&mut self, content: &mut String) {
        while self.peek() == Some(b'\n') {
            self.at += 1;
            content.push('\n');
        }
    }
}
