//! Lists, calls and brackets.

use super::SourceWriter;
use crate::jsonnet::syntax::{Apply, Bind, Fodder, Item, NodeId, Parameters, Slice};

impl SourceWriter<'_, '_> {
    pub(super) fn array(&mut self, items: &[Item], trailing_comma: bool, close: Fodder) {
        self.push("[");
        self.items(items);
        if trailing_comma {
            self.push(",");
        }
        self.fill(close, !items.is_empty(), false);
        self.push("]");
    }

    fn items(&mut self, items: &[Item]) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.expression(item.expression, index > 0);
            self.fill(item.comma, false, false);
        }
    }

    pub(super) fn apply(&mut self, apply: &Apply<'_>, crowded: bool) {
        self.expression(apply.target, crowded);
        self.fill(apply.open, false, false);
        self.push("(");
        self.items(&apply.positional);
        for (index, named) in apply.named.iter().enumerate() {
            let first = index == 0 && apply.positional.is_empty();
            if !first {
                self.push(",");
            }
            self.fill(named.name_fodder, !first, true);
            self.push(named.name);
            self.note_dropped_line_end(named.equals);
            self.push("=");
            self.expression(named.value, false);
            self.fill(named.comma, false, false);
        }
        if apply.trailing_comma {
            self.push(",");
        }
        self.fill(apply.close, false, false);
        self.push(")");
        if let Some(fodder) = apply.tail_strict {
            self.fill(fodder, true, true);
            self.push("tailstrict");
        }
    }

    pub(super) fn parameters(&mut self, parameters: &Parameters<'_>) {
        self.fill(parameters.open, false, false);
        self.push("(");
        for (index, parameter) in parameters.list.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.fill(parameter.name_fodder, index > 0, true);
            self.push(parameter.name);
            if let Some((equals, default)) = parameter.default {
                self.fill(equals, false, false);
                self.push("=");
                self.expression(default, false);
            }
            self.fill(parameter.comma, false, false);
        }
        if parameters.trailing_comma {
            self.push(",");
        }
        self.fill(parameters.close, false, false);
        self.push(")");
    }

    pub(super) fn binds(&mut self, binds: &[Bind<'_>]) {
        self.push("local");
        for (index, bind) in binds.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.fill(bind.name_fodder, true, true);
            self.push(bind.name);
            if let Some(parameters) = &bind.parameters {
                self.parameters(parameters);
            }
            self.fill(bind.equals, true, true);
            self.push("=");
            self.expression(bind.body, true);
            self.fill(bind.close, false, false);
        }
        self.push(";");
    }

    pub(super) fn member(&mut self, dot: Fodder, name_fodder: Fodder, name: &str) {
        self.fill(dot, false, false);
        self.push(".");
        self.fill(name_fodder, false, false);
        self.push(name);
    }

    pub(super) fn element(&mut self, open: Fodder, index: NodeId, close: Fodder) {
        self.fill(open, false, false);
        self.push("[");
        self.expression(index, false);
        self.fill(close, false, false);
        self.push("]");
    }

    pub(super) fn slice(&mut self, slice: &Slice) {
        self.fill(slice.open, false, false);
        self.push("[");
        if let Some(begin) = slice.begin {
            self.expression(begin, false);
        }
        self.fill(slice.end_colon, false, false);
        self.push(":");
        if let Some(end) = slice.end {
            self.expression(end, false);
        }
        if let Some(step) = slice.step {
            self.fill(slice.step_colon, false, false);
            self.push(":");
            self.expression(step, false);
        }
        self.fill(slice.close, false, false);
        self.push("]");
    }
}
