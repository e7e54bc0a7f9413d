//! The parser of expressions: keywords, operators and terminals.

use super::super::error::SyntaxError;
use super::super::fodder::Fodder;
use super::super::node::{NodeId, NodeKind};
use super::super::operator::{BinaryOperator, UnaryOperator};
use super::super::part::{Bind, Conditional, ImportKind, TextStyle};
use super::super::position::Span;
use super::super::token::TokenKind;
use super::Parser;
use super::name_set::NameSet;

/// The precedence of the loosest binding.
const LOOSEST: u8 = 16;
/// The precedence of a unary operator.
const UNARY: u8 = 4;

/// A statement whose rest has not been parsed yet.
enum Statement<'s> {
    Local {
        fodder: Fodder,
        span: Span,
        binds: Vec<Bind<'s>>,
    },
    Assert {
        fodder: Fodder,
        span: Span,
        condition: NodeId,
        message: Option<(Fodder, NodeId)>,
        semicolon: Fodder,
    },
}

impl<'s> Parser<'s, '_> {
    /// Parses any expression.
    pub(super) fn expression(&mut self) -> Result<NodeId, SyntaxError> {
        self.with_nesting(|parser| parser.operators(LOOSEST))
    }

    /// Parses an expression whose operators bind at least as tightly as `loosest`.
    fn operators(&mut self, loosest: u8) -> Result<NodeId, SyntaxError> {
        let begin = self.token().span;
        if let Some(whole) = self.keyword_expression()? {
            return Ok(whole);
        }
        let mut left = match self.kind() {
            TokenKind::Operator => self.unary()?,
            _ => self.postfix()?,
        };
        let mut tightest = 0;
        while let Some(operator) = self.binary_operator()? {
            let precedence = operator.precedence();
            // An operand takes all operators that bind more tightly, except `super` after `in`: `a in super + b` is an
            // error.
            if precedence > loosest || precedence < tightest {
                break;
            }
            tightest = precedence;
            let (operator_fodder, _) = self.take();
            if operator == BinaryOperator::In
                && let Some((super_fodder, end)) = self.take_if(TokenKind::Super)
            {
                let kind = NodeKind::InSuper {
                    element: left,
                    in_fodder: operator_fodder,
                    super_fodder,
                };
                left = self.add(Fodder::default(), begin.to(end), kind);
                continue;
            }
            let right = self.with_nesting(|parser| parser.operators(precedence - 1))?;
            let span = begin.to(self.span_of(right));
            let kind = NodeKind::Binary {
                left,
                operator_fodder,
                operator,
                right,
            };
            left = self.add(Fodder::default(), span, kind);
        }
        Ok(left)
    }

    /// Returns the next binary operator, if there is one.
    fn binary_operator(&self) -> Result<Option<BinaryOperator>, SyntaxError> {
        let token = self.token();
        match token.kind {
            TokenKind::In => Ok(Some(BinaryOperator::In)),
            // These tokens end an expression in an assertion or a slice.
            TokenKind::Operator if token.data == ":" || token.data == "::" => Ok(None),
            TokenKind::Operator => match BinaryOperator::from_symbol(&token.data) {
                Some(operator) => Ok(Some(operator)),
                None => Err(self.error(token.span, format!("Not a binary operator: {}", token.data))),
            },
            _ => Ok(None),
        }
    }

    fn unary(&mut self) -> Result<NodeId, SyntaxError> {
        let token = self.token();
        let Some(operator) = UnaryOperator::from_symbol(&token.data) else {
            return Err(self.error(token.span, format!("Not a unary operator: {}", token.data)));
        };
        let (fodder, begin) = self.take();
        let operand = self.with_nesting(|parser| parser.operators(UNARY))?;
        let span = begin.to(self.span_of(operand));
        Ok(self.add(fodder, span, NodeKind::Unary { operator, operand }))
    }

    /// Parses an expression that begins with a keyword and extends as far as possible.
    fn keyword_expression(&mut self) -> Result<Option<NodeId>, SyntaxError> {
        match self.kind() {
            TokenKind::Assert | TokenKind::Local => self.statements().map(Some),
            TokenKind::Error => {
                let (fodder, begin) = self.take();
                let operand = self.expression()?;
                let span = begin.to(self.span_of(operand));
                Ok(Some(self.add(fodder, span, NodeKind::Error(operand))))
            }
            TokenKind::If => self.conditional().map(Some),
            TokenKind::Function => self.function().map(Some),
            TokenKind::Import => self.import(ImportKind::Code).map(Some),
            TokenKind::ImportStr => self.import(ImportKind::Text).map(Some),
            TokenKind::ImportBin => self.import(ImportKind::Bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Parses a sequence of locals and assertions and the expression after them. A long sequence does not nest deeply.
    fn statements(&mut self) -> Result<NodeId, SyntaxError> {
        let mut statements = Vec::new();
        loop {
            match self.kind() {
                TokenKind::Local => statements.push(self.local()?),
                TokenKind::Assert => statements.push(self.assert()?),
                _ => break,
            }
        }
        let mut rest = self.expression()?;
        let end = self.span_of(rest);
        while let Some(statement) = statements.pop() {
            rest = match statement {
                Statement::Local { fodder, span, binds } => {
                    self.add(fodder, span.to(end), NodeKind::Local { binds, body: rest })
                }
                Statement::Assert {
                    fodder,
                    span,
                    condition,
                    message,
                    semicolon,
                } => {
                    let kind = NodeKind::Assert {
                        condition,
                        message,
                        semicolon,
                        rest,
                    };
                    self.add(fodder, span.to(end), kind)
                }
            };
        }
        Ok(rest)
    }

    fn local(&mut self) -> Result<Statement<'s>, SyntaxError> {
        let (fodder, span) = self.take();
        let mut binds = Vec::with_capacity(1);
        let mut names = NameSet::new();
        while self.bind(&mut binds, &mut names)? {}
        Ok(Statement::Local { fodder, span, binds })
    }

    /// Parses one bind. Returns true if another one follows.
    fn bind(&mut self, binds: &mut Vec<Bind<'s>>, names: &mut NameSet<&'s str>) -> Result<bool, SyntaxError> {
        let (name, name_fodder, name_span) = self.expect_name()?;
        if !names.insert(name) {
            return Err(self.error(name_span, format!("Duplicate local var: {name}")));
        }
        let parameters = self.optional_parameters("function parameter")?;
        let equals = self.expect_operator("=")?;
        let body = self.expression()?;
        let token = self.token();
        let more = token.kind == TokenKind::Comma;
        if !more && token.kind != TokenKind::Semicolon {
            return Err(self.error(token.span, format!("Expected , or ; but got {token}")));
        }
        let (close, _) = self.take();
        binds.push(Bind {
            name_fodder,
            name,
            name_span,
            parameters,
            equals,
            body,
            close,
        });
        Ok(more)
    }

    fn assert(&mut self) -> Result<Statement<'s>, SyntaxError> {
        let (fodder, span) = self.take();
        let condition = self.expression()?;
        let message = self.assert_message()?;
        let (semicolon, _) = self.expect(TokenKind::Semicolon)?;
        Ok(Statement::Assert {
            fodder,
            span,
            condition,
            message,
            semicolon,
        })
    }

    /// Parses `: e` after the condition of an assertion.
    pub(super) fn assert_message(&mut self) -> Result<Option<(Fodder, NodeId)>, SyntaxError> {
        if !self.is_operator(":") {
            return Ok(None);
        }
        let (colon, _) = self.take();
        Ok(Some((colon, self.expression()?)))
    }

    fn conditional(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let condition = self.expression()?;
        let (then, _) = self.expect(TokenKind::Then)?;
        let if_true = self.expression()?;
        let mut last = if_true;
        let mut if_false = None;
        if let Some((otherwise, _)) = self.take_if(TokenKind::Else) {
            last = self.expression()?;
            if_false = Some((otherwise, last));
        }
        let span = begin.to(self.span_of(last));
        let kind = NodeKind::Conditional(Conditional {
            condition,
            then,
            if_true,
            if_false,
        });
        Ok(self.add(fodder, span, kind))
    }

    fn function(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let Some(parameters) = self.optional_parameters("function parameter")? else {
            let token = self.token();
            return Err(self.error(token.span, format!("Expected ( but got {token}")));
        };
        let body = self.expression()?;
        let span = begin.to(self.span_of(body));
        Ok(self.add(fodder, span, NodeKind::Function { parameters, body }))
    }

    fn import(&mut self, kind: ImportKind) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let file = self.expression()?;
        let span = self.span_of(file);
        match self.nodes.get(file.0 as usize).map(|node| &node.kind) {
            Some(NodeKind::Text {
                style: TextStyle::Block,
                ..
            }) => Err(self.error(span, "Block string literals not allowed in imports")),
            Some(NodeKind::Text { .. }) => {
                Ok(self.add(fodder, begin.to(span), NodeKind::Import { kind, file }))
            }
            _ => Err(self.error(span, "Computed imports are not allowed")),
        }
    }
}
