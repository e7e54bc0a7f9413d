//! Objects and comprehension clauses.

use super::{Indent, Indenter};
use crate::rendering::jsonnet::format::spacing::{Crowded, SPACED, Separate, TIGHT};
use crate::rendering::jsonnet::syntax::{Field, FieldKind, FieldName, Fodder, ForSpec, Visibility};

impl Indenter<'_, '_> {
    pub(super) fn object_indent(&self, fields: &[Field<'_>], close: Fodder, indent: Indent) -> Indent {
        let first = fields.first().map_or(close, |field| match &field.kind {
            FieldKind::Field {
                name: FieldName::Text(text),
                ..
            } => self.open_fodder(*text),
            _ => field.fodder,
        });
        // Objects have a space after the opening brace.
        self.new_indent(first, indent, self.column + 1)
    }

    pub(super) fn fields(&mut self, fields: &[Field<'_>], indent: Indent) {
        for (index, field) in fields.iter().enumerate() {
            self.column += usize::from(index > 0);
            let before = (Crowded(true), Separate(true));
            match &field.kind {
                FieldKind::Assert { message } => {
                    self.fill(field.fodder, before, indent.line_up);
                    self.column += "assert".len();
                    let inner = self.new_indent(self.open_fodder(field.value), indent, self.column + 1);
                    self.visit(field.value, indent, Crowded(true));
                    if let Some(message) = message {
                        self.fill(field.operator, SPACED, inner.line_up);
                        self.column += 1;
                        self.visit(*message, inner, Crowded(true));
                    }
                }
                FieldKind::Local {
                    name_fodder, name, ..
                } => {
                    self.fill(field.fodder, before, indent.line_up);
                    self.column += "local".len();
                    self.fill(*name_fodder, SPACED, indent.line_up);
                    self.column += name.len();
                    self.field_parameters(field, indent);
                    self.fill(field.operator, SPACED, indent.line_up);
                    self.column += 1;
                    self.operand(field.value, indent, self.column);
                }
                FieldKind::Field {
                    name,
                    plus,
                    visibility,
                } => {
                    self.field_name(name, field.fodder, indent);
                    self.field_parameters(field, indent);
                    self.fill(field.operator, TIGHT, indent.line_up);
                    self.column += usize::from(*plus)
                        + match visibility {
                            Visibility::Inherited => 1,
                            Visibility::Hidden => 2,
                            Visibility::Forced => 3,
                        };
                    self.operand(field.value, indent, self.column);
                }
            }
            self.fill(field.comma, TIGHT, indent.line_up);
        }
    }

    fn field_name(&mut self, name: &FieldName<'_>, fodder: Fodder, indent: Indent) {
        match name {
            FieldName::Identifier(name) => {
                self.fill(fodder, SPACED, indent.line_up);
                self.column += name.len();
            }
            FieldName::Text(text) => self.visit(*text, indent, Crowded(true)),
            FieldName::Computed { name, close } => {
                self.fill(fodder, SPACED, indent.line_up);
                self.column += 1;
                self.visit(*name, indent, Crowded(false));
                self.fill(*close, TIGHT, indent.line_up);
                self.column += 1;
            }
        }
    }

    fn field_parameters(&mut self, field: &Field<'_>, indent: Indent) {
        if let Some(parameters) = &field.parameters {
            self.parameters(parameters, indent);
        }
    }

    pub(super) fn specs(&mut self, specs: &[ForSpec<'_>], indent: Indent) {
        for spec in specs {
            self.fill(spec.for_fodder, SPACED, indent.line_up);
            self.column += "for".len();
            self.fill(spec.variable_fodder, SPACED, indent.line_up);
            self.column += spec.variable.len();
            self.fill(spec.in_fodder, SPACED, indent.line_up);
            self.column += "in".len();
            self.operand(spec.array, indent, self.column);
            for condition in &spec.conditions {
                self.fill(condition.if_fodder, SPACED, indent.line_up);
                self.column += "if".len();
                // go-jsonnet indents the array again instead of the condition. To write the same bytes, this code does
                // the same, within the limit of visits.
                if self.visits_left > 0 {
                    self.operand(spec.array, indent, self.column);
                }
            }
        }
    }
}
