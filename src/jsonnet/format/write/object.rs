//! Objects and comprehension clauses.

use super::SourceWriter;
use crate::jsonnet::syntax::{Field, FieldKind, FieldName, ForSpec, Visibility};

impl SourceWriter<'_, '_> {
    pub(super) fn fields(&mut self, fields: &[Field<'_>]) {
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.field(field);
            self.fill(field.comma, false, false);
        }
    }

    fn field(&mut self, field: &Field<'_>) {
        match &field.kind {
            FieldKind::Assert { message } => {
                self.fill(field.fodder, true, true);
                self.push("assert");
                self.expression(field.value, true);
                if let Some(message) = message {
                    self.fill(field.operator, true, true);
                    self.push(":");
                    self.expression(*message, true);
                }
            }
            FieldKind::Local {
                name_fodder, name, ..
            } => {
                self.fill(field.fodder, true, true);
                self.push("local");
                self.fill(*name_fodder, true, true);
                self.push(name);
                self.field_parameters(field);
                self.fill(field.operator, true, true);
                self.push("=");
                self.expression(field.value, true);
            }
            FieldKind::Field {
                name,
                plus,
                visibility,
            } => {
                self.field_name(name, field);
                self.field_parameters(field);
                self.fill(field.operator, false, false);
                if *plus {
                    self.push("+");
                }
                self.push(match visibility {
                    Visibility::Inherited => ":",
                    Visibility::Hidden => "::",
                    Visibility::Forced => ":::",
                });
                self.expression(field.value, true);
            }
        }
    }

    fn field_name(&mut self, name: &FieldName<'_>, field: &Field<'_>) {
        match name {
            FieldName::Identifier(name) => {
                self.fill(field.fodder, true, true);
                self.push(name);
            }
            FieldName::Text(text) => self.expression(*text, true),
            FieldName::Computed { name, close } => {
                self.fill(field.fodder, true, true);
                self.push("[");
                self.expression(*name, false);
                self.fill(*close, false, false);
                self.push("]");
            }
        }
    }

    fn field_parameters(&mut self, field: &Field<'_>) {
        if let Some(parameters) = &field.parameters {
            self.parameters(parameters);
        }
    }

    pub(super) fn specs(&mut self, specs: &[ForSpec<'_>]) {
        for spec in specs {
            self.fill(spec.for_fodder, true, true);
            self.push("for");
            self.fill(spec.variable_fodder, true, true);
            self.push(spec.variable);
            self.fill(spec.in_fodder, true, true);
            self.push("in");
            self.expression(spec.array, true);
            for condition in &spec.conditions {
                self.fill(condition.if_fodder, true, true);
                self.push("if");
                self.expression(condition.condition, true);
            }
        }
    }
}
