//! The parser of postfix constructs: calls, members, indices, slices and added objects.

use super::super::error::SyntaxError;
use super::super::fodder::Fodder;
use super::super::node::{NodeId, NodeKind};
use super::super::part::{Apply, Item, NamedArgument, Slice, TrailingComma};
use super::super::position::Span;
use super::super::token::TokenKind;
use super::Parser;
use std::borrow::Cow;

impl<'s> Parser<'s, '_> {
    /// Parses a terminal with all its postfix constructs.
    pub(super) fn postfix(&mut self) -> Result<NodeId, SyntaxError> {
        let begin = self.token().span;
        let mut target = self.terminal()?;
        loop {
            let (end, kind) = match self.kind() {
                TokenKind::Dot => self.member(target)?,
                TokenKind::BracketLeft => self.bracket(target)?,
                TokenKind::ParenLeft => self.call(target)?,
                TokenKind::BraceLeft => {
                    let right = self.object()?;
                    (self.span_of(right), NodeKind::ApplyBrace { left: target, right })
                }
                _ => return Ok(target),
            };
            target = self.add(Fodder::default(), begin.to(end), kind);
        }
    }

    fn terminal(&mut self) -> Result<NodeId, SyntaxError> {
        let token = self.token();
        let kind = match token.kind {
            TokenKind::BraceLeft => return self.object(),
            TokenKind::BracketLeft => return self.array(),
            TokenKind::ParenLeft => return self.parens(),
            TokenKind::Super => return self.super_index(),
            kind if kind.is_text() => return self.text_node(),
            TokenKind::Number => NodeKind::Number(self.data()),
            TokenKind::False => NodeKind::Boolean(false),
            TokenKind::True => NodeKind::Boolean(true),
            TokenKind::Null => NodeKind::Null,
            TokenKind::Dollar => NodeKind::Dollar,
            TokenKind::Identifier => NodeKind::Variable(self.source(token.span)),
            TokenKind::Self_ => NodeKind::SelfObject,
            TokenKind::EndOfFile => return Err(self.error(token.span, "Unexpected end of file")),
            _ => {
                let message = format!("Unexpected: {token} while parsing terminal");
                return Err(self.error(token.span, message));
            }
        };
        let (fodder, span) = self.take();
        Ok(self.add(fodder, span, kind))
    }

    fn parens(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let inner = self.expression()?;
        let (close, end) = self.expect(TokenKind::ParenRight)?;
        Ok(self.add(fodder, begin.to(end), NodeKind::Parens { inner, close }))
    }

    fn super_index(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, span) = self.take();
        if let Some((dot, _)) = self.take_if(TokenKind::Dot) {
            let (name, name_fodder, _) = self.expect_name()?;
            let name = Cow::Borrowed(name);
            return Ok(self.add(
                fodder,
                span,
                NodeKind::SuperMember {
                    dot,
                    name_fodder,
                    name,
                },
            ));
        }
        let Some((open, _)) = self.take_if(TokenKind::BracketLeft) else {
            return Err(self.error(span, "Expected . or [ after super"));
        };
        let index = self.expression()?;
        let (close, _) = self.expect(TokenKind::BracketRight)?;
        Ok(self.add(fodder, span, NodeKind::SuperIndex { open, index, close }))
    }

    fn member(&mut self, target: NodeId) -> Result<(Span, NodeKind<'s>), SyntaxError> {
        let (dot, _) = self.take();
        let (name, name_fodder, end) = self.expect_name()?;
        let name = Cow::Borrowed(name);
        Ok((
            end,
            NodeKind::Member {
                target,
                dot,
                name_fodder,
                name,
            },
        ))
    }

    fn call(&mut self, target: NodeId) -> Result<(Span, NodeKind<'s>), SyntaxError> {
        let (open, _) = self.take();
        let mut positional = Vec::new();
        let mut named: Vec<NamedArgument<'s>> = Vec::new();
        let mut comma_before = true;
        let mut trailing_comma = TrailingComma::Absent;
        while self.kind() != TokenKind::ParenRight {
            let next = self.token();
            let begin = next.span;
            if !comma_before {
                let message = format!("Expected a comma before next function argument, got {next}");
                return Err(self.error(begin, message));
            }
            let name = self.argument_name();
            let expression = self.expression()?;
            let comma = self.take_if(TokenKind::Comma).map(|(fodder, _)| fodder);
            comma_before = comma.is_some();
            trailing_comma = TrailingComma::after(&comma);
            let comma = comma.unwrap_or_default();
            match name {
                Some((name_fodder, name_span, equals)) => {
                    let name = self.source(name_span);
                    named.push(NamedArgument {
                        name_fodder,
                        name,
                        name_span,
                        equals,
                        value: expression,
                        comma,
                    });
                }
                None if !named.is_empty() => {
                    return Err(
                        self.error(begin, "Positional argument after a named argument is not allowed")
                    );
                }
                None => positional.push(Item { expression, comma }),
            }
        }
        let (close, end) = self.take();
        let tail_strict = self.take_if(TokenKind::TailStrict).map(|(fodder, _)| fodder);
        let apply = Apply {
            target,
            open,
            positional,
            named,
            trailing_comma,
            close,
            tail_strict,
        };
        Ok((end, NodeKind::Apply(Box::new(apply))))
    }

    /// Parses `x =`, if it comes next. Returns both fodders and the location of the name.
    fn argument_name(&mut self) -> Option<(Fodder, Span, Fodder)> {
        let equals = self
            .tokens
            .get(self.at + 1)
            .is_some_and(|token| token.kind == TokenKind::Operator && token.data == "=");
        if self.kind() != TokenKind::Identifier || !equals {
            return None;
        }
        let (fodder, span) = self.take();
        let (equals, _) = self.take();
        Some((fodder, span, equals))
    }

    /// Parses `[i]` or `[a:b:c]`.
    fn bracket(&mut self, target: NodeId) -> Result<(Span, NodeKind<'s>), SyntaxError> {
        let (open, _) = self.take();
        let mut indices = [None; 3];
        let mut fodders = [Fodder::default(); 3];
        let mut colons = 0;
        let mut ready = true;
        let mut close = Fodder::default();
        let mut end = Span::default();
        while colons < 3 {
            if let Some(taken) = self.take_if(TokenKind::BracketRight) {
                (close, end) = taken;
                break;
            }
            // As in go-jsonnet, a string that contains only a colon counts as a colon here.
            let step = match self.token().data.as_ref() {
                ":" => 1,
                "::" => 2,
                _ => 0,
            };
            if step > 0 {
                let fodder;
                (fodder, end) = self.take();
                if let Some(place) = fodders.get_mut(colons) {
                    *place = fodder;
                }
                colons += step;
                ready = true;
            } else if ready {
                let index = self.expression()?;
                if let Some(place) = indices.get_mut(colons) {
                    *place = Some(index);
                }
                ready = false;
            } else {
                let token = self.token();
                let expected = TokenKind::BracketRight;
                return Err(self.error(token.span, format!("Expected token {expected} but got {token}")));
            }
        }
        let [begin, last, step] = indices;
        let [end_colon, step_colon, _] = fodders;
        match (colons, begin) {
            (3.., _) => Err(self.error(end, "Invalid slice: too many colons")),
            (0, None) => Err(self.error(end, "ast.Index requires an expression")),
            (0, Some(index)) => Ok((
                end,
                NodeKind::Index {
                    target,
                    open,
                    index,
                    close,
                },
            )),
            _ => {
                let slice = Slice {
                    target,
                    open,
                    begin,
                    end_colon,
                    end: last,
                    step_colon,
                    step,
                    close,
                };
                Ok((end, NodeKind::Slice(Box::new(slice))))
            }
        }
    }
}
