//! Numbers: the numbers of JSON without a sign, with `_` between digits.

use super::super::error::SyntaxError;
use super::super::token::TokenKind;
use super::{Lexer, quoted_character};
use std::borrow::Cow;

impl Lexer<'_> {
    pub(super) fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'0') {
            self.at += 1;
            if self.peek() == Some(b'_') {
                return Err(self.error_at(self.at, "Couldn't lex number, _ not allowed after leading 0"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit_after("decimal point")?;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
                self.digit_after("exponent sign")?;
            } else {
                self.digit_after("'E'")?;
            }
            self.digits()?;
        }
        let written = self.slice(self.token_start, self.at);
        let digits = match written.contains('_') {
            true => Cow::Owned(written.replace('_', "")),
            false => Cow::Borrowed(written),
        };
        self.emit_with(TokenKind::Number, digits);
        Ok(())
    }

    /// Reads digits with single `_` between them. The caller has checked the first digit.
    fn digits(&mut self) -> Result<(), SyntaxError> {
        loop {
            while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
            if self.peek() != Some(b'_') {
                return Ok(());
            }
            self.at += 1;
            self.digit_after("'_'")?;
        }
    }

    fn digit_after(&self, what: &str) -> Result<(), SyntaxError> {
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let found = quoted_character(found);
        Err(self.error_at(
            self.at,
            format!("Couldn't lex number, junk after {what}: {found}"),
        ))
    }
}
