//! The errors of a source that cannot be parsed.

use super::depth::DEPTH_MAX;
use super::position::{LineColumn, LineIndex, SourceRange, Span};

/// The reason why a source was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// The source is not Jsonnet.
    Invalid,
    /// The source is nested more deeply than the limit.
    TooDeep,
    /// The source is longer than the limit.
    TooLong,
}

/// The first error of a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{range} {message}")]
pub struct SyntaxError {
    /// The reason for the refusal.
    pub kind: SyntaxErrorKind,
    /// The range of the source that contains the error.
    pub range: SourceRange,
    /// The message: the text found there, and the expected text.
    pub message: String,
}

impl SyntaxError {
    /// Creates an error for a span of a source.
    pub(in crate::rendering::jsonnet) fn invalid(text: &str, span: Span, message: String) -> Self {
        Self {
            kind: SyntaxErrorKind::Invalid,
            range: LineIndex::new(text).range(span),
            message,
        }
    }

    pub(super) fn too_deep(text: &str, span: Span) -> Self {
        Self {
            kind: SyntaxErrorKind::TooDeep,
            range: LineIndex::new(text).range(span),
            message: format!("expressions are nested more than {DEPTH_MAX} levels deep"),
        }
    }

    pub(super) fn too_long() -> Self {
        let start = LineColumn { line: 1, column: 1 };
        Self {
            kind: SyntaxErrorKind::TooLong,
            range: SourceRange {
                begin: start,
                end: start,
            },
            message: format!("the source is longer than {} bytes", super::SOURCE_BYTES_MAX),
        }
    }
}
