//! The syntax of Jsonnet: tokens with the comments and blank lines before them, and a tree that keeps all of it. A
//! formatter can write the text again, and a finding can report its location.
//!
//! Nothing here recurses deeper than [`DEPTH_MAX`]; deeper nesting is refused with a typed error. Locations and wording
//! of errors equal those of go-jsonnet.

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
    NamedArgument, Parameter, Parameters, Slice, TextStyle, TrailingComma, Visibility,
};
pub use position::{LineColumn, LineIndex, SourceRange, Span};

/// Bytes of the longest source that is parsed.
pub const SOURCE_BYTES_MAX: usize = 64 << 20;

/// Parses a source into its tree.
///
/// An `Err` contains the location of the first error, and nothing after it.
pub fn parse(text: &str) -> Result<SyntaxTree<'_>, SyntaxError> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(SyntaxError::too_long());
    }
    parser::parse(text, lexer::lex(text)?)
}

/// Parses a source without starting a thread, on a stack that is enough for `depth_max` levels.
///
/// An `Err` contains the location of the first error, or reports deeper nesting.
pub fn parse_with_depth(text: &str, depth_max: usize) -> Result<SyntaxTree<'_>, SyntaxError> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(SyntaxError::too_long());
    }
    parser::parse_with_depth(text, lexer::lex(text)?, depth_max)
}

/// Returns true if a text is a valid name: letters, digits and `_`, not starting with a digit, and not a keyword.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(lexer::starts_identifier)
        && bytes.all(lexer::continues_identifier)
        && token::keyword(text).is_none()
}
