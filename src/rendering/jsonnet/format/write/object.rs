//! Objects and comprehension clauses.

use super::SourceWriter;
use crate::rendering::jsonnet::format::spacing::{Crowded, SPACED, TIGHT};
use crate::rendering::jsonnet::syntax::{Field, FieldKind, FieldName, ForSpec, Visibility};

impl SourceWriter<'_, '_> {
    pub(super) fn fields(&mut self, fields: &[Field<'_>]) {
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.field(field);
            self.fill(field.comma, TIGHT);
        }
    }

    fn field(&mut self, field: &Field<'_>) {
        match &field.kind {
            FieldKind::Assert { message } => {
                self.fill(field.fodder, SPACED);
                self.push("assert");
                self.expression(field.value, Crowded(true));
                if let Some(message) = message {
                    self.fill(field.operator, SPACED);
                    self.push(":");
                    self.expression(*message, Crowded(true));
                }
            }
            FieldKind::Local {
                name_fodder, name, ..
            } => {
                self.fill(field.fodder, SPACED);
                self.push("local");
                self.fill(*name_fodder, SPACED);
                self.push(name);
                self.field_parameters(field);
                self.fill(field.operator, SPACED);
                self.push("=");
                self.expression(field.value, Crowded(true));
            }
            FieldKind::Field {
                name,
                plus,
                visibility,
            } => {
                self.field_name(name, field);
                self.field_parameters(field);
                self.fill(field.operator, TIGHT);
                if *plus {
                    self.push("+");
                }
                self.push(match visibility {
                    Visibility::Inherited => ":",
                    Visibility::Hidden => "::",
                    Visibility::Forced => ":::",
                });
                self.expression(field.value, Crowded(true));
            }
        }
    }

    fn field_name(&mut self, name: &FieldName<'_>, field: &Field<'_>) {
        match name {
            FieldName::Identifier(name) => {
                self.fill(field.fodder, SPACED);
                self.push(name);
            }
            FieldName::Text(text) => self.expression(*text, Crowded(true)),
            FieldName::Computed { name, close } => {
                self.fill(field.fodder, SPACED);
                self.push("[");
                self.expression(*name, Crowded(false));
                self.fill(*close, TIGHT);
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
            self.fill(spec.for_fodder, SPACED);
            self.push("for");
            self.fill(spec.variable_fodder, SPACED);
            self.push(spec.variable);
            self.fill(spec.in_fodder, SPACED);
            self.push("in");
            self.expression(spec.array, Crowded(true));
            for condition in &spec.conditions {
                self.fill(condition.if_fodder, SPACED);
                self.push("if");
                self.expression(condition.condition, Crowded(true));
            }
        }
    }
}
