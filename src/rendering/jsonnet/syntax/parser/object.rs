//! Objects and their comprehensions.

use super::super::error::SyntaxError;
use super::super::fodder::Fodder;
use super::super::node::{NodeId, NodeKind};
use super::super::part::{Field, FieldKind, FieldName, TrailingComma, Visibility};
use super::super::position::Span;
use super::super::token::TokenKind;
use super::Parser;
use super::name_set::NameSet;
use std::borrow::Cow;

/// Names that must be unique within an object.
struct UniqueNames<'s> {
    fields: NameSet<Cow<'s, str>>,
    locals: NameSet<&'s str>,
}

impl<'s> Parser<'s, '_> {
    /// Parses an object from its opening brace.
    pub(super) fn object(&mut self) -> Result<NodeId, SyntaxError> {
        let (fodder, begin) = self.take();
        let mut fields = Vec::new();
        let mut seen = UniqueNames {
            fields: NameSet::new(),
            locals: NameSet::new(),
        };
        let mut comma_before = true;
        let mut trailing_comma = TrailingComma::Absent;
        loop {
            if let Some((close, end)) = self.take_if(TokenKind::BraceRight) {
                let kind = NodeKind::Object {
                    fields,
                    trailing_comma,
                    close,
                };
                return Ok(self.add(fodder, begin.to(end), kind));
            }
            if self.kind() == TokenKind::For {
                return self.object_comprehension(fodder, begin, fields, trailing_comma);
            }
            if !comma_before {
                return Err(self.error(self.token().span, "Expected a comma before next field"));
            }
            let mut field = self.entry(&mut seen)?;
            let comma = self.take_if(TokenKind::Comma).map(|(fodder, _)| fodder);
            comma_before = comma.is_some();
            trailing_comma = TrailingComma::after(&comma);
            field.comma = comma.unwrap_or_default();
            fields.push(field);
        }
    }

    fn object_comprehension(
        &mut self,
        fodder: Fodder,
        begin: Span,
        fields: Vec<Field<'s>>,
        trailing_comma: TrailingComma,
    ) -> Result<NodeId, SyntaxError> {
        if let Some(problem) = comprehension_problem(&fields) {
            return Err(self.error(self.token().span, problem));
        }
        let (specs, close, end) = self.specs(TokenKind::BraceRight)?;
        let kind = NodeKind::ObjectComprehension {
            fields,
            trailing_comma,
            specs,
            close,
        };
        Ok(self.add(fodder, begin.to(end), kind))
    }

    fn entry(&mut self, seen: &mut UniqueNames<'s>) -> Result<Field<'s>, SyntaxError> {
        match self.kind() {
            TokenKind::BracketLeft | TokenKind::Identifier => self.field(seen),
            kind if kind.is_text() => self.field(seen),
            TokenKind::Local => self.object_local(seen),
            TokenKind::Assert => self.object_assert(),
            _ => {
                let token = self.token();
                let message = format!("Unexpected: {token} while parsing field definition");
                Err(self.error(token.span, message))
            }
        }
    }

    fn field(&mut self, seen: &mut UniqueNames<'s>) -> Result<Field<'s>, SyntaxError> {
        let first = self.kind();
        let data = self.data();
        let begin = self.token().span;
        let mut fodder = Fodder::default();
        let name = match first {
            TokenKind::Identifier => {
                fodder = self.take().0;
                FieldName::Identifier(data.clone())
            }
            TokenKind::BracketLeft => {
                fodder = self.take().0;
                let name = self.expression()?;
                let (close, _) = self.expect(TokenKind::BracketRight)?;
                FieldName::Computed { name, close }
            }
            _ => FieldName::Text(self.text_node()?),
        };
        let parameters = self.optional_parameters("method parameter")?;
        let (operator, plus, visibility) = self.field_operator()?;
        if plus && parameters.is_some() {
            let message = format!("Cannot use +: syntax sugar in a method: {data}");
            return Err(self.error(begin, message));
        }
        if first != TokenKind::BracketLeft && !seen.fields.insert(data.clone()) {
            return Err(self.error(begin, format!("Duplicate field: {data}")));
        }
        let value = self.expression()?;
        let span = begin.to(self.span_of(value));
        let kind = FieldKind::Field {
            name,
            plus,
            visibility,
        };
        Ok(Field {
            kind,
            fodder,
            parameters,
            operator,
            value,
            comma: Fodder::default(),
            span,
        })
    }

    /// Parses `:`, `::` or `:::`, each optionally after a `+`.
    fn field_operator(&mut self) -> Result<(Fodder, bool, Visibility), SyntaxError> {
        let operator = self.data();
        let (fodder, span) = self.expect(TokenKind::Operator)?;
        let colons = operator.strip_prefix('+');
        let visibility = match colons.unwrap_or(&operator) {
            ":" => Visibility::Inherited,
            "::" => Visibility::Hidden,
            ":::" => Visibility::Forced,
            _ => {
                let message = format!("Expected one of :, ::, :::, +:, +::, +:::, got: {operator}");
                return Err(self.error(span, message));
            }
        };
        Ok((fodder, colons.is_some(), visibility))
    }

    fn object_local(&mut self, seen: &mut UniqueNames<'s>) -> Result<Field<'s>, SyntaxError> {
        let (fodder, _) = self.take();
        let (name, name_fodder, name_span) = self.expect_name()?;
        if seen.locals.contains(&name) {
            return Err(self.error(name_span, format!("Duplicate local var: {name}")));
        }
        let parameters = self.optional_parameters("function parameter")?;
        let operator = self.expect_operator("=")?;
        let value = self.expression()?;
        seen.locals.insert(name);
        let span = name_span.to(self.span_of(value));
        let kind = FieldKind::Local {
            name_fodder,
            name,
            name_span,
        };
        Ok(Field {
            kind,
            fodder,
            parameters,
            operator,
            value,
            comma: Fodder::default(),
            span,
        })
    }

    fn object_assert(&mut self) -> Result<Field<'s>, SyntaxError> {
        let (fodder, begin) = self.take();
        let value = self.expression()?;
        let message = self.assert_message()?;
        let last = message.map_or(value, |(_, message)| message);
        let operator = message.map(|(colon, _)| colon).unwrap_or_default();
        let span = begin.to(self.span_of(last));
        let kind = FieldKind::Assert {
            message: message.map(|(_, message)| message),
        };
        Ok(Field {
            kind,
            fodder,
            parameters: None,
            operator,
            value,
            comma: Fodder::default(),
            span,
        })
    }
}

/// Returns the reason why these entries are not a valid comprehension, if they are not.
fn comprehension_problem(fields: &[Field<'_>]) -> Option<&'static str> {
    if fields
        .iter()
        .any(|field| matches!(field.kind, FieldKind::Assert { .. }))
    {
        return Some("Object comprehension cannot have asserts");
    }
    let mut named = fields.iter().filter_map(|field| match &field.kind {
        FieldKind::Field { name, visibility, .. } => Some((name, visibility)),
        FieldKind::Assert { .. } | FieldKind::Local { .. } => None,
    });
    let (Some((name, visibility)), None) = (named.next(), named.next()) else {
        return Some("Object comprehension can only have one field");
    };
    if *visibility != Visibility::Inherited {
        return Some("Object comprehensions cannot have hidden fields");
    }
    if !matches!(name, FieldName::Computed { .. }) {
        return Some("Object comprehensions can only have [e] fields");
    }
    None
}
