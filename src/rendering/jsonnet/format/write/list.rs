//! Lists, calls and brackets.

use super::SourceWriter;
use crate::rendering::jsonnet::format::spacing::{Crowded, SPACED, Separate, TIGHT};
use crate::rendering::jsonnet::syntax::{
    Apply, Bind, Fodder, Item, NodeId, Parameters, Slice, TrailingComma,
};

impl SourceWriter<'_, '_> {
    pub(super) fn array(&mut self, items: &[Item], trailing_comma: TrailingComma, close: Fodder) {
        self.push("[");
        self.items(items);
        self.push(trailing_comma.text());
        self.fill(close, (Crowded(!items.is_empty()), Separate(false)));
        self.push("]");
    }

    fn items(&mut self, items: &[Item]) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.expression(item.expression, Crowded(index > 0));
            self.fill(item.comma, TIGHT);
        }
    }

    pub(super) fn apply(&mut self, apply: &Apply<'_>, crowded: Crowded) {
        self.expression(apply.target, crowded);
        self.fill(apply.open, TIGHT);
        self.push("(");
        self.items(&apply.positional);
        for (index, named) in apply.named.iter().enumerate() {
            let first = index == 0 && apply.positional.is_empty();
            if !first {
                self.push(",");
            }
            self.fill(named.name_fodder, (Crowded(!first), Separate(true)));
            self.push(named.name);
            self.note_dropped_line_end(named.equals);
            self.push("=");
            self.expression(named.value, Crowded(false));
            self.fill(named.comma, TIGHT);
        }
        self.push(apply.trailing_comma.text());
        self.fill(apply.close, TIGHT);
        self.push(")");
        if let Some(fodder) = apply.tail_strict {
            self.fill(fodder, SPACED);
            self.push("tailstrict");
        }
    }

    pub(super) fn parameters(&mut self, parameters: &Parameters<'_>) {
        self.fill(parameters.open, TIGHT);
        self.push("(");
        for (index, parameter) in parameters.list.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.fill(parameter.name_fodder, (Crowded(index > 0), Separate(true)));
            self.push(parameter.name);
            if let Some((equals, default)) = parameter.default {
                self.fill(equals, TIGHT);
                self.push("=");
                self.expression(default, Crowded(false));
            }
            self.fill(parameter.comma, TIGHT);
        }
        self.push(parameters.trailing_comma.text());
        self.fill(parameters.close, TIGHT);
        self.push(")");
    }

    pub(super) fn binds(&mut self, binds: &[Bind<'_>]) {
        self.push("local");
        for (index, bind) in binds.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.fill(bind.name_fodder, SPACED);
            self.push(bind.name);
            if let Some(parameters) = &bind.parameters {
                self.parameters(parameters);
            }
            self.fill(bind.equals, SPACED);
            self.push("=");
            self.expression(bind.body, Crowded(true));
            self.fill(bind.close, TIGHT);
        }
        self.push(";");
    }

    pub(super) fn member(&mut self, dot: Fodder, name_fodder: Fodder, name: &str) {
        self.fill(dot, TIGHT);
        self.push(".");
        self.fill(name_fodder, TIGHT);
        self.push(name);
    }

    pub(super) fn element(&mut self, open: Fodder, index: NodeId, close: Fodder) {
        self.fill(open, TIGHT);
        self.push("[");
        self.expression(index, Crowded(false));
        self.fill(close, TIGHT);
        self.push("]");
    }

    pub(super) fn slice(&mut self, slice: &Slice) {
        self.fill(slice.open, TIGHT);
        self.push("[");
        if let Some(begin) = slice.begin {
            self.expression(begin, Crowded(false));
        }
        self.fill(slice.end_colon, TIGHT);
        self.push(":");
        if let Some(end) = slice.end {
            self.expression(end, Crowded(false));
        }
        if let Some(step) = slice.step {
            self.fill(slice.step_colon, TIGHT);
            self.push(":");
            self.expression(step, Crowded(false));
        }
        self.fill(slice.close, TIGHT);
        self.push("]");
    }
}
