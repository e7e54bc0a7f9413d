//! The conversion of string tokens to nodes.

use super::super::error::SyntaxError;
use super::super::escape::unescape;
use super::super::node::{NodeId, NodeKind};
use super::super::part::{BlockIndent, TextStyle};
use super::super::token::TokenKind;
use super::Parser;

impl Parser<'_, '_> {
    /// Parses the next token, which must be a string.
    pub(super) fn text_node(&mut self) -> Result<NodeId, SyntaxError> {
        let style = match self.kind() {
            TokenKind::TextSingle => TextStyle::Single,
            TokenKind::TextBlock => TextStyle::Block,
            TokenKind::VerbatimDouble => TextStyle::VerbatimDouble,
            TokenKind::VerbatimSingle => TextStyle::VerbatimSingle,
            _ => TextStyle::Double,
        };
        let value = self.data();
        let (fodder, span) = self.take();
        if style.keeps_escapes()
            && let Err(problem) = unescape(&value)
        {
            return Err(self.error(span, problem));
        }
        let block = match style {
            TextStyle::Block => source_indent(self.source(span)),
            _ => BlockIndent::None,
        };
        Ok(self.add(fodder, span, NodeKind::Text { style, value, block }))
    }
}

/// Returns the indentation of the first nonempty line of a block, and that of its last line.
fn source_indent(source: &str) -> BlockIndent<'_> {
    let mut lines = source.split('\n').skip(1);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let last = source.rsplit('\n').next().unwrap_or_default();
    let whitespace = |line| {
        let rest = str::trim_start_matches(line, [' ', '\t']);
        line.strip_suffix(rest).unwrap_or_default()
    };
    BlockIndent::FromSource(whitespace(first), whitespace(last))
}
