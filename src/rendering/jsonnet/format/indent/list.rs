//! Lists, calls and brackets.

use super::{Indent, Indenter};
use crate::rendering::jsonnet::format::spacing::{Crowded, SPACED, Separate, TIGHT};
use crate::rendering::jsonnet::syntax::{
    Apply, Bind, Fodder, Item, NodeId, Parameters, Slice, TrailingComma,
};

impl Indenter<'_, '_> {
    pub(super) fn array(
        &mut self,
        items: &[Item],
        trailing_comma: TrailingComma,
        close: Fodder,
        indent: Indent,
    ) {
        self.column += 1;
        let first = items
            .first()
            .map_or(close, |item| self.open_fodder(item.expression));
        let mut others = items.iter().skip(1);
        let strong = others.any(|item| self.fodders.has_line_end(self.open_fodder(item.expression)));
        let inner = match strong {
            true => self.new_indent_strong(first, indent, self.column),
            false => self.new_indent(first, indent, self.column),
        };
        for (index, item) in items.iter().enumerate() {
            self.column += usize::from(index > 0);
            self.visit(item.expression, inner, Crowded(index > 0));
            self.fill(item.comma, TIGHT, inner.line_up);
        }
        self.column += trailing_comma.text().len();
        let crowded = Crowded(!items.is_empty());
        self.fill_last(close, (crowded, Separate(false)), inner.line_up, indent.base);
        self.column += 1;
    }

    pub(super) fn apply(&mut self, apply: &Apply<'_>, indent: Indent, crowded: Crowded) {
        let column = self.column + usize::from(crowded.0);
        let target = self.align(self.open_fodder(apply.target), indent, column);
        self.visit(apply.target, target, crowded);
        self.fill(apply.open, TIGHT, target.line_up);
        self.column += 1;
        let inner = self.argument_indent(apply, indent);
        for (index, item) in apply.positional.iter().enumerate() {
            self.column += usize::from(index > 0);
            self.visit(item.expression, inner, Crowded(index > 0));
            self.fill(item.comma, TIGHT, inner.line_up);
        }
        for (index, named) in apply.named.iter().enumerate() {
            let first = index == 0 && apply.positional.is_empty();
            self.column += usize::from(!first);
            self.fill(
                named.name_fodder,
                (Crowded(!first), Separate(false)),
                inner.line_up,
            );
            self.column += named.name.len() + 1;
            self.visit(named.value, inner, Crowded(false));
            self.fill(named.comma, TIGHT, inner.line_up);
        }
        self.column += apply.trailing_comma.text().len();
        self.fill_last(apply.close, TIGHT, inner.line_up, indent.base);
        self.column += 1;
        if let Some(fodder) = apply.tail_strict {
            self.fill(fodder, SPACED, indent.base);
            self.column += "tailstrict".len();
        }
    }

    fn argument_indent(&self, apply: &Apply<'_>, indent: Indent) -> Indent {
        let positional = apply
            .positional
            .iter()
            .map(|item| self.open_fodder(item.expression));
        let named = apply.named.iter().map(|named| named.name_fodder);
        let mut fodders = positional.chain(named);
        let first = fodders.next().unwrap_or(apply.close);
        match fodders.any(|fodder| self.fodders.has_line_end(fodder)) {
            true => self.new_indent_strong(first, indent, self.column),
            false => self.new_indent(first, indent, self.column),
        }
    }

    pub(super) fn parameters(&mut self, parameters: &Parameters<'_>, indent: Indent) {
        self.fill(parameters.open, TIGHT, indent.line_up);
        self.column += 1;
        let first = parameters
            .list
            .first()
            .map_or(parameters.close, |first| first.name_fodder);
        let inner = self.new_indent(first, indent, self.column);
        for (index, parameter) in parameters.list.iter().enumerate() {
            self.column += usize::from(index > 0);
            self.fill(
                parameter.name_fodder,
                (Crowded(index > 0), Separate(true)),
                inner.line_up,
            );
            self.column += parameter.name.len();
            if let Some((equals, default)) = parameter.default {
                self.fill(equals, TIGHT, inner.line_up);
                self.column += 1;
                self.visit(default, inner, Crowded(false));
            }
            self.fill(parameter.comma, TIGHT, inner.line_up);
        }
        self.column += parameters.trailing_comma.text().len();
        self.fill_last(parameters.close, TIGHT, inner.line_up, indent.line_up);
        self.column += 1;
    }

    pub(super) fn binds(&mut self, binds: &[Bind<'_>], indent: Indent) {
        self.column += "local".len();
        let first = binds.first().map(|bind| bind.name_fodder).unwrap_or_default();
        let inner = self.new_indent(first, indent, self.column + 1);
        for (index, bind) in binds.iter().enumerate() {
            self.column += usize::from(index > 0);
            self.fill(bind.name_fodder, SPACED, inner.line_up);
            self.column += bind.name.len();
            if let Some(parameters) = &bind.parameters {
                self.parameters(parameters, inner);
            }
            self.fill(bind.equals, SPACED, inner.line_up);
            self.column += 1;
            let body = self.new_indent(self.open_fodder(bind.body), inner, self.column + 1);
            self.visit(bind.body, body, Crowded(true));
            self.fill_last(bind.close, TIGHT, body.line_up, indent.base);
        }
        self.column += 1;
    }

    /// `.name`
    pub(super) fn member(&mut self, dot: Fodder, name_fodder: Fodder, name: &str, indent: Indent) {
        self.fill(dot, TIGHT, indent.line_up);
        self.column += 1;
        let inner = self.new_indent(name_fodder, indent, self.column);
        self.fill(name_fodder, TIGHT, inner.line_up);
        self.column += name.len();
    }

    /// `[index]`
    pub(super) fn element(&mut self, open: Fodder, index: NodeId, close: Fodder, indent: Indent) {
        self.fill(open, TIGHT, indent.line_up);
        self.column += 1;
        let inner = self.new_indent(self.open_fodder(index), indent, self.column);
        self.visit(index, inner, Crowded(false));
        self.fill_last(close, TIGHT, inner.line_up, indent.base);
        self.column += 1;
    }

    /// `[begin:end:step]`
    pub(super) fn slice(&mut self, slice: &Slice, indent: Indent) {
        self.fill(slice.open, TIGHT, indent.line_up);
        self.column += 1;
        let mut inner = Indent::default();
        if let Some(begin) = slice.begin {
            inner = self.new_indent(self.open_fodder(begin), indent, self.column);
            self.visit(begin, inner, Crowded(false));
        }
        let only_colon = slice.begin.is_none() && slice.step.is_none();
        if slice.end.is_some() || slice.step.is_some() || only_colon {
            inner = self.new_indent(slice.end_colon, indent, self.column);
            self.fill(slice.end_colon, TIGHT, inner.line_up);
            self.column += 1;
        }
        if let Some(end) = slice.end {
            self.visit(end, inner, Crowded(false));
        }
        if let Some(step) = slice.step {
            self.fill(slice.step_colon, TIGHT, inner.line_up);
            self.column += 1;
            self.visit(step, inner, Crowded(false));
        }
        self.column += 1;
    }
}
