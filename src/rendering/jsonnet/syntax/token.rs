//! Tokens, and their names in error messages.

use super::fodder::Fodder;
use super::position::Span;
use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    BraceLeft,
    BraceRight,
    BracketLeft,
    BracketRight,
    Comma,
    Dollar,
    Dot,
    ParenLeft,
    ParenRight,
    Semicolon,
    Identifier,
    Number,
    Operator,
    TextBlock,
    TextDouble,
    TextSingle,
    VerbatimDouble,
    VerbatimSingle,
    Assert,
    Else,
    Error,
    False,
    For,
    Function,
    If,
    Import,
    ImportStr,
    ImportBin,
    In,
    Local,
    Null,
    Self_,
    Super,
    TailStrict,
    Then,
    True,
    EndOfFile,
}

impl TokenKind {
    /// Returns the name of the token in an error.
    fn name(self) -> &'static str {
        match self {
            Self::BraceLeft => "\"{\"",
            Self::BraceRight => "\"}\"",
            Self::BracketLeft => "\"[\"",
            Self::BracketRight => "\"]\"",
            Self::Comma => "\",\"",
            Self::Dollar => "\"$\"",
            Self::Dot => "\".\"",
            Self::ParenLeft => "\"(\"",
            Self::ParenRight => "\")\"",
            Self::Semicolon => "\";\"",
            Self::Identifier => "IDENTIFIER",
            Self::Number => "NUMBER",
            Self::Operator => "OPERATOR",
            Self::TextBlock => "STRING_BLOCK",
            Self::TextDouble => "STRING_DOUBLE",
            Self::TextSingle => "STRING_SINGLE",
            Self::VerbatimDouble => "VERBATIM_STRING_DOUBLE",
            Self::VerbatimSingle => "VERBATIM_STRING_SINGLE",
            Self::Assert => "assert",
            Self::Else => "else",
            Self::Error => "error",
            Self::False => "false",
            Self::For => "for",
            Self::Function => "function",
            Self::If => "if",
            Self::Import => "import",
            Self::ImportStr => "importstr",
            Self::ImportBin => "importbin",
            Self::In => "in",
            Self::Local => "local",
            Self::Null => "null",
            Self::Self_ => "self",
            Self::Super => "super",
            Self::TailStrict => "tailstrict",
            Self::Then => "then",
            Self::True => "true",
            Self::EndOfFile => "end of file",
        }
    }

    /// Returns true if the token is a string of any style.
    pub(super) fn is_text(self) -> bool {
        matches!(
            self,
            Self::TextBlock
                | Self::TextDouble
                | Self::TextSingle
                | Self::VerbatimDouble
                | Self::VerbatimSingle
        )
    }

    fn has_content(self) -> bool {
        self.is_text() || matches!(self, Self::Identifier | Self::Number | Self::Operator)
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the keyword of a word, if it is one.
pub(super) fn keyword(word: &str) -> Option<TokenKind> {
    Some(match word {
        "assert" => TokenKind::Assert,
        "else" => TokenKind::Else,
        "error" => TokenKind::Error,
        "false" => TokenKind::False,
        "for" => TokenKind::For,
        "function" => TokenKind::Function,
        "if" => TokenKind::If,
        "import" => TokenKind::Import,
        "importstr" => TokenKind::ImportStr,
        "importbin" => TokenKind::ImportBin,
        "in" => TokenKind::In,
        "local" => TokenKind::Local,
        "null" => TokenKind::Null,
        "self" => TokenKind::Self_,
        "super" => TokenKind::Super,
        "tailstrict" => TokenKind::TailStrict,
        "then" => TokenKind::Then,
        "true" => TokenKind::True,
        _ => return None,
    })
}

/// A token with the fodder before it.
#[derive(Clone, Debug)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind,
    pub(super) fodder: Fodder,
    pub(super) span: Span,
    /// The content: strings without quotes and, if the lexer resolves them, without escapes.
    pub(super) data: Cow<'s, str>,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.data.is_empty() {
            write!(f, "{}", self.kind)
        } else if self.kind.has_content() {
            write!(f, "({}, \"{}\")", self.kind, self.data)
        } else {
            write!(f, "\"{}\"", self.data)
        }
    }
}
