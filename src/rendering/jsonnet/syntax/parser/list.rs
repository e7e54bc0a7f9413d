//! Lists: arrays, parameters and comprehension clauses.

use super::super::error::SyntaxError;
use super::super::fodder::Fodder;
use super::super::node::{NodeId, NodeKind};
use super::super::part::{ForSpec, IfSpec, Item, Parameter, Parameters, TrailingComma};
use super::super::position::Span;
use super::super::token::TokenKind;
use super::Parser;

impl<'s> Parser<'s, '_> {
    pub(super) fn array(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let mut items: Vec<Item> = Vec::new();
        let mut comma_before = true;
        let mut trailing_comma = TrailingComma::Absent;
        while self.kind() != TokenKind::BracketRight {
            if !comma_before {
                let message = "Expected a comma before next array element";
                return Err(self.error(self.token().span, message));
            }
            let expression = self.expression()?;
            let comma = self.take_if(TokenKind::Comma).map(|(fodder, _)| fodder);
            comma_before = comma.is_some();
            trailing_comma = TrailingComma::after(&comma);
            if items.is_empty() && self.kind() == TokenKind::For {
                return self.array_comprehension(fodder, begin, expression, comma);
            }
            items.push(Item {
                expression,
                comma: comma.unwrap_or_default(),
            });
        }
        let (close, end) = self.take();
        Ok(self.add(
            fodder,
            begin.to(end),
            NodeKind::Array {
                items,
                trailing_comma,
                close,
            },
        ))
    }

    fn array_comprehension(
        &mut self,
        fodder: Fodder,
        begin: Span,
        body: NodeId,
        comma: Option<Fodder>,
    ) -> Result<NodeId, SyntaxError> {
        let (specs, close, end) = self.specs(TokenKind::BracketRight)?;
        let kind = NodeKind::ArrayComprehension {
            body,
            comma,
            specs,
            close,
        };
        Ok(self.add(fodder, begin.to(end), kind))
    }

    /// Parses `for x in xs if c for ...` and the closing bracket.
    pub(super) fn specs(&mut self, end: TokenKind) -> Result<(Vec<ForSpec<'s>>, Fodder, Span), SyntaxError> {
        let mut specs = Vec::with_capacity(1);
        loop {
            let (for_fodder, _) = self.take();
            let (variable, variable_fodder, variable_span) = self.expect_name()?;
            let (in_fodder, _) = self.expect(TokenKind::In)?;
            let array = self.expression()?;
            let mut conditions = Vec::new();
            while let Some((if_fodder, _)) = self.take_if(TokenKind::If) {
                conditions.push(IfSpec {
                    if_fodder,
                    condition: self.expression()?,
                });
            }
            specs.push(ForSpec {
                for_fodder,
                variable_fodder,
                variable,
                variable_span,
                in_fodder,
                array,
                conditions,
            });
            if let Some((close, span)) = self.take_if(end) {
                return Ok((specs, close, span));
            }
            if self.kind() != TokenKind::For {
                let token = self.token();
                let message = format!("Expected for, if or {end} after for clause, got: {token}");
                return Err(self.error(token.span, message));
            }
        }
    }

    /// Parses parameters, if a parenthesis comes next.
    pub(super) fn optional_parameters(
        &mut self,
        what: &str,
    ) -> Result<Option<Box<Parameters<'s>>>, SyntaxError> {
        let Some((open, _)) = self.take_if(TokenKind::ParenLeft) else {
            return Ok(None);
        };
        let mut list = Vec::new();
        let mut comma_before = true;
        let mut trailing_comma = TrailingComma::Absent;
        loop {
            if let Some((close, _)) = self.take_if(TokenKind::ParenRight) {
                return Ok(Some(Box::new(Parameters {
                    open,
                    list,
                    trailing_comma,
                    close,
                })));
            }
            if !comma_before {
                let token = self.token();
                let message = format!("Expected a comma before next {what}, got {token}");
                return Err(self.error(token.span, message));
            }
            let mut parameter = self.parameter()?;
            let comma = self.take_if(TokenKind::Comma).map(|(fodder, _)| fodder);
            comma_before = comma.is_some();
            trailing_comma = TrailingComma::after(&comma);
            parameter.comma = comma.unwrap_or_default();
            list.push(parameter);
        }
    }

    fn parameter(&mut self) -> Result<Parameter<'s>, SyntaxError> {
        let (name, name_fodder, name_span) = self.expect_name().map_err(|mut error| {
            error.message.push_str(" while parsing parameter");
            error
        })?;
        let mut default = None;
        if self.is_operator("=") {
            let (equals, _) = self.take();
            default = Some((equals, self.expression()?));
        }
        Ok(Parameter {
            name_fodder,
            name,
            name_span,
            default,
            comma: Fodder::default(),
        })
    }
}
