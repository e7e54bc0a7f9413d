//! Jsonnet as it is written: tokens with the comments and blank lines before them, and a tree that
//! keeps all of it, so that a formatter can write the text again and a finding can name its place.
//!
//! Nothing here recurses deeper than [`DEPTH_MAX`]: what is nested deeper is refused with a typed
//! error. Places and words of errors are those of go-jsonnet.

mod children;
mod depth;
mod error;
mod escape;
mod fodder;
mod lexer;
mod node;
mod operator;
mod parser;
mod part;
mod position;
#[cfg(test)]
mod tests;
mod token;

pub use children::each_child;
pub use depth::{DEPTH_MAX, depth_for_stack, with_stack_for};
pub use error::{SyntaxError, SyntaxErrorKind};
pub(crate) use escape::needs_no_escape;
pub use escape::{escape, unescape};
pub use fodder::{Comment, Fodder, FodderElement, FodderKind, Fodders};
pub use node::{Node, NodeId, NodeKind, SyntaxTree};
pub use operator::{BinaryOperator, UnaryOperator};
pub use part::{
    Apply, Bind, BlockIndent, Conditional, Field, FieldKind, FieldName, ForSpec, IfSpec, ImportKind, Item,
    NamedArgument, Parameter, Parameters, Slice, TextStyle, Visibility,
};
pub use position::{LineColumn, LineIndex, SourceRange, Span};

/// Longest source that is read, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64 << 20;

/// Reads a source into its tree.
///
/// An `Err` says where the first mistake is, and nothing of what follows it.
pub fn parse(text: &str) -> Result<SyntaxTree<'_>, SyntaxError> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(SyntaxError::too_long());
    }
    parser::parse(text, lexer::lex(text)?)
}

/// Reads a source into its tree where no thread can be had, on a stack that is enough for so many levels.
///
/// An `Err` says where the first mistake is, or that it is nested deeper.
pub fn parse_with_depth(text: &str, depth_max: usize) -> Result<SyntaxTree<'_>, SyntaxError> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(SyntaxError::too_long());
    }
    parser::parse_with_depth(text, lexer::lex(text)?, depth_max)
}

/// Returns true if a text can stand as a name: letters, digits and `_`, no digit first, no keyword.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(lexer::starts_identifier)
        && bytes.all(lexer::continues_identifier)
        && token::keyword(text).is_none()
}
