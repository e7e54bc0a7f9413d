//! The lexer from source to tokens.

mod comment;
mod number;
mod text;

use super::error::SyntaxError;
use super::fodder::{Fodder, FodderElement, Fodders};
use super::position::Span;
use super::token::{Token, TokenKind, keyword};
use std::borrow::Cow;

/// The tokens of a source. The last one is the end of the file; its fodder is the text after the last real token.
#[derive(Debug)]
pub(super) struct TokenStream<'s> {
    pub(super) tokens: Vec<Token<'s>>,
    pub(super) fodders: Fodders<'s>,
}

pub(super) fn lex(text: &str) -> Result<TokenStream<'_>, SyntaxError> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        token_start: 0,
        run_end: 0,
        fodder: Fodder::default(),
        output: TokenStream {
            tokens: Vec::with_capacity(text.len() / 6 + 2),
            fodders: Fodders::default(),
        },
    };
    while lexer.skip_to_token() {
        lexer.token()?;
    }
    lexer.token_start = lexer.at;
    lexer.emit(TokenKind::EndOfFile);
    Ok(lexer.output)
}

/// Returns true if a name may begin with the byte.
pub(super) fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Returns true if the byte may continue a name.
pub(super) fn continues_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_symbol(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'$'
            | b':'
            | b'~'
            | b'+'
            | b'-'
            | b'&'
            | b'|'
            | b'^'
            | b'='
            | b'<'
            | b'>'
            | b'*'
            | b'/'
            | b'%'
    )
}

/// Counted line ends, and the columns after the last one.
struct Whitespace {
    line_ends: u32,
    indent: u32,
}

impl Whitespace {
    fn blank_lines(&self) -> u32 {
        self.line_ends.saturating_sub(1)
    }
}

struct Lexer<'s> {
    text: &'s str,
    bytes: &'s [u8],
    at: usize,
    token_start: usize,
    /// The offset at which the last run of symbols ended.
    run_end: usize,
    /// The elements since the last token.
    fodder: Fodder,
    output: TokenStream<'s>,
}

impl<'s> Lexer<'s> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest_starts_with(&self, start: &str) -> bool {
        self.bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(start.as_bytes()))
    }

    fn slice(&self, start: usize, end: usize) -> &'s str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn error_at(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        let at = at as u32;
        SyntaxError::invalid(self.text, Span { start: at, end: at }, message.into())
    }

    fn emit(&mut self, kind: TokenKind) {
        let data = Cow::Borrowed(self.slice(self.token_start, self.at));
        self.emit_with(kind, data);
    }

    fn emit_with(&mut self, kind: TokenKind, data: Cow<'s, str>) {
        let span = Span {
            start: self.token_start as u32,
            end: self.at as u32,
        };
        let fodder = std::mem::take(&mut self.fodder);
        self.output.tokens.push(Token {
            kind,
            fodder,
            span,
            data,
        });
        self.token_start = self.at;
    }

    fn add(&mut self, element: FodderElement<'s>) {
        self.output.fodders.push(&mut self.fodder, element);
    }

    /// Reads whitespace. A tab counts as eight columns, which matters only at the beginning of a line.
    fn whitespace(&mut self) -> Whitespace {
        let mut found = Whitespace {
            line_ends: 0,
            indent: 0,
        };
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        for byte in rest {
            match byte {
                b' ' => found.indent += 1,
                b'\t' => found.indent += 8,
                b'\n' => {
                    found.indent = 0;
                    found.line_ends += 1;
                }
                b'\r' => {}
                _ => break,
            }
            self.at += 1;
        }
        found
    }

    /// Stores the whitespace before a token as fodder. Returns true if a token follows.
    fn skip_to_token(&mut self) -> bool {
        let found = self.whitespace();
        self.token_start = self.at;
        if self.peek().is_none() {
            return false;
        }
        if found.line_ends > 0 {
            self.add(FodderElement::line_end(found.blank_lines(), found.indent));
        }
        true
    }

    /// Reads one token or one comment.
    fn token(&mut self) -> Result<(), SyntaxError> {
        let Some(byte) = self.peek() else { return Ok(()) };
        let single = match byte {
            b'{' => TokenKind::BraceLeft,
            b'}' => TokenKind::BraceRight,
            b'[' => TokenKind::BracketLeft,
            b']' => TokenKind::BracketRight,
            b',' => TokenKind::Comma,
            b'.' => TokenKind::Dot,
            b'(' => TokenKind::ParenLeft,
            b')' => TokenKind::ParenRight,
            b';' => TokenKind::Semicolon,
            b'0'..=b'9' => return self.number(),
            b'"' => return self.quoted(b'"', TokenKind::TextDouble),
            b'\'' => return self.quoted(b'\'', TokenKind::TextSingle),
            b'@' => return self.verbatim(),
            b'#' => {
                self.line_comment();
                return Ok(());
            }
            _ if starts_identifier(byte) => {
                self.word();
                return Ok(());
            }
            _ if is_symbol(byte) => return self.symbol(),
            _ => {
                let char = self.text.get(self.at..).and_then(|rest| rest.chars().next());
                let message = format!("Could not lex the character {}", quoted_character(char));
                return Err(self.error_at(self.at, message));
            }
        };
        self.at += 1;
        self.emit(single);
        Ok(())
    }

    fn word(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest
            .iter()
            .position(|byte| !continues_identifier(*byte))
            .unwrap_or(rest.len());
        let word = self.slice(self.token_start, self.at);
        self.emit_with(
            keyword(word).unwrap_or(TokenKind::Identifier),
            Cow::Borrowed(word),
        );
    }

    fn symbol(&mut self) -> Result<(), SyntaxError> {
        if self.rest_starts_with("//") {
            self.line_comment();
            return Ok(());
        }
        if self.rest_starts_with("/*") {
            return self.block_comment();
        }
        if self.rest_starts_with("|||") {
            return self.text_block();
        }
        self.operator();
        Ok(())
    }

    /// Reads an operator: a run of symbols up to the possible start of a comment or a text block.
    fn operator(&mut self) {
        // Within a run that was split, the end is known, so `-----` is scanned once instead of five times.
        self.at = (self.at + 1).max(self.run_end);
        while let Some(byte) = self.peek()
            && is_symbol(byte)
            && byte != b'/'
            && !self.rest_starts_with("||")
        {
            self.at += 1;
        }
        self.run_end = self.at;
        // If a run ends with a unary operator, the token is only its first symbol. go-jsonnet does the same: `1==-1` is
        // an error there, and must be one here.
        if matches!(
            self.bytes.get(self.at - 1),
            Some(b'+' | b'-' | b'~' | b'!' | b'$')
        ) {
            self.at = self.token_start + 1;
        }
        let dollar = self.slice(self.token_start, self.at) == "$";
        self.emit(if dollar {
            TokenKind::Dollar
        } else {
            TokenKind::Operator
        });
    }
}

/// Returns a character in Go's ASCII quotation.
fn quoted_character(char: Option<char>) -> String {
    let Some(char) = char else {
        return "'\\ufffd'".to_owned();
    };
    match char {
        '\u{7}' => "'\\a'".to_owned(),
        '\u{8}' => "'\\b'".to_owned(),
        '\u{c}' => "'\\f'".to_owned(),
        '\u{b}' => "'\\v'".to_owned(),
        '\n' => "'\\n'".to_owned(),
        '\r' => "'\\r'".to_owned(),
        '\t' => "'\\t'".to_owned(),
        '\'' | '\\' => format!("'\\{char}'"),
        ' '..='~' => format!("'{char}'"),
        '\0'..'\u{80}' => format!("'\\x{:02x}'", u32::from(char)),
        '\u{80}'..='\u{ffff}' => format!("'\\u{:04x}'", u32::from(char)),
        _ => format!("'\\U{:08x}'", u32::from(char)),
    }
}
