//! The parser from tokens to a tree.

mod call;
mod expression;
mod list;
mod name_set;
mod object;
mod text;

use super::children::each_child;
use super::depth::{DEPTH_MAX, SMALL_STACK_DEPTH, with_stack_for};
use super::error::{SyntaxError, SyntaxErrorKind};
use super::fodder::{Fodder, Fodders};
use super::lexer::TokenStream;
use super::node::{Node, NodeId, NodeKind, SyntaxTree};
use super::position::Span;
use super::token::{Token, TokenKind};
use std::borrow::Cow;

/// Parses on this stack if the nesting is shallow, otherwise again on a thread with a larger stack.
pub(super) fn parse<'s>(text: &'s str, lexed: TokenStream<'s>) -> Result<SyntaxTree<'s>, SyntaxError> {
    let TokenStream { mut tokens, fodders } = lexed;
    let parsed = match Parser::new(text, &mut tokens, SMALL_STACK_DEPTH).parse_all() {
        Err(error) if error.kind == SyntaxErrorKind::TooDeep => with_stack_for(DEPTH_MAX, || {
            Parser::new(text, &mut tokens, DEPTH_MAX).parse_all()
        })
        .unwrap_or(Err(error)),
        parsed => parsed,
    };
    tree(text, fodders, parsed)
}

/// Parses on this stack, which must be enough for `depth` levels.
pub(super) fn parse_with_depth<'s>(
    text: &'s str,
    lexed: TokenStream<'s>,
    depth_max: usize,
) -> Result<SyntaxTree<'s>, SyntaxError> {
    let TokenStream { mut tokens, fodders } = lexed;
    let parsed = Parser::new(text, &mut tokens, depth_max).parse_all();
    tree(text, fodders, parsed)
}

fn tree<'s>(
    text: &'s str,
    fodders: Fodders<'s>,
    parsed: ParseResult<'s>,
) -> Result<SyntaxTree<'s>, SyntaxError> {
    let (nodes, root, last_fodder) = parsed?;
    let depth = depth(text, &nodes)?;
    Ok(SyntaxTree {
        text,
        nodes,
        fodders,
        root,
        last_fodder,
        depth,
    })
}

/// Returns the nesting depth of the nodes. A chain of operators nests to the left without any bracket.
fn depth(text: &str, nodes: &[Node<'_>]) -> Result<usize, SyntaxError> {
    let mut heights: Vec<u16> = Vec::with_capacity(nodes.len());
    let mut highest = 0;
    for node in nodes {
        let mut below = 0;
        each_child(&node.kind, &mut |child| {
            let height = heights.get(child.0 as usize).copied().unwrap_or(0);
            // The expression after a local or an assertion is visited in a loop.
            let follows = matches!(node.kind, NodeKind::Local { body, .. } if body == child)
                || matches!(node.kind, NodeKind::Assert { rest, .. } if rest == child);
            below = below.max(height.saturating_sub(u16::from(follows)));
        });
        let height = below + 1;
        if usize::from(height) > DEPTH_MAX {
            return Err(SyntaxError::too_deep(text, node.span));
        }
        highest = highest.max(height);
        heights.push(height);
    }
    Ok(usize::from(highest))
}

struct Parser<'s, 't> {
    text: &'s str,
    tokens: &'t mut [Token<'s>],
    at: usize,
    depth: usize,
    depth_max: usize,
    nodes: Vec<Node<'s>>,
}

type ParseResult<'s> = Result<(Vec<Node<'s>>, NodeId, Fodder), SyntaxError>;

impl<'s, 't> Parser<'s, 't> {
    fn new(text: &'s str, tokens: &'t mut [Token<'s>], depth_max: usize) -> Self {
        let nodes = Vec::with_capacity(tokens.len() / 2 + 1);
        Self {
            text,
            tokens,
            at: 0,
            depth: 0,
            depth_max,
            nodes,
        }
    }

    fn parse_all(mut self) -> ParseResult<'s> {
        let root = self.expression()?;
        let end = self.token();
        if end.kind != TokenKind::EndOfFile {
            return Err(self.error(end.span, format!("Did not expect: {end}")));
        }
        let last = end.fodder;
        Ok((self.nodes, root, last))
    }

    /// Returns the next token. The position never moves beyond the end of the file.
    #[allow(
        clippy::indexing_slicing,
        reason = "there is an end of file, and `at` stops there"
    )]
    fn token(&self) -> &Token<'s> {
        &self.tokens[self.at]
    }

    fn kind(&self) -> TokenKind {
        self.token().kind
    }

    fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Takes the next token. Returns its fodder and its location.
    fn take(&mut self) -> (Fodder, Span) {
        let token = self.token();
        let taken = (token.fodder, token.span);
        self.skip();
        taken
    }

    /// Takes the next token if it has this kind.
    fn take_if(&mut self, kind: TokenKind) -> Option<(Fodder, Span)> {
        (self.kind() == kind).then(|| self.take())
    }

    fn expect(&mut self, kind: TokenKind) -> Result<(Fodder, Span), SyntaxError> {
        self.take_if(kind).ok_or_else(|| {
            let token = self.token();
            self.error(token.span, format!("Expected token {kind} but got {token}"))
        })
    }

    /// Parses a name. Returns it with its fodder and its location.
    fn expect_name(&mut self) -> Result<(&'s str, Fodder, Span), SyntaxError> {
        let (fodder, span) = self.expect(TokenKind::Identifier)?;
        Ok((self.source(span), fodder, span))
    }

    fn is_operator(&self, symbol: &str) -> bool {
        let token = self.token();
        token.kind == TokenKind::Operator && token.data == symbol
    }

    fn expect_operator(&mut self, symbol: &str) -> Result<Fodder, SyntaxError> {
        if self.is_operator(symbol) {
            return Ok(self.take().0);
        }
        let token = self.token();
        Err(self.error(token.span, format!("Expected operator {symbol} but got {token}")))
    }

    fn source(&self, span: Span) -> &'s str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// Returns the content of the next token. It is copied if it is not part of the source, because a second attempt
    /// may need it again.
    fn data(&self) -> Cow<'s, str> {
        self.token().data.clone()
    }

    fn error(&self, span: Span, message: impl Into<String>) -> SyntaxError {
        SyntaxError::invalid(self.text, span, message.into())
    }

    fn add(&mut self, fodder: Fodder, span: Span, kind: NodeKind<'s>) -> NodeId {
        self.nodes.push(Node { fodder, span, kind });
        NodeId(self.nodes.len() as u32 - 1)
    }

    fn span_of(&self, id: NodeId) -> Span {
        self.nodes[id.0 as usize].span
    }

    /// Runs a part of the grammar one level deeper.
    fn with_nesting<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth == self.depth_max {
            return Err(SyntaxError::too_deep(self.text, self.token().span));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }
}
