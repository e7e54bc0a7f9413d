//! The line breaks of lists: a list is on one line or has a line for each of its parts.

use crate::rendering::jsonnet::syntax::{
    Apply, Bind, Field, FieldKind, FieldName, Fodder, Fodders, ForSpec, Node, NodeId, NodeKind, Parameters,
    SyntaxTree,
};

pub(super) fn fix_newlines(tree: &mut SyntaxTree<'_>) {
    for index in 0..tree.nodes.len() {
        // The node is moved out, so that the nodes it begins with can be changed.
        let Some(node) = tree.nodes.get_mut(index) else {
            break;
        };
        if !has_parts(&node.kind) {
            continue;
        }
        let mut kind = std::mem::replace(&mut node.kind, NodeKind::Null);
        Expander {
            nodes: &mut tree.nodes,
            fodders: &mut tree.fodders,
        }
        .expand(&mut kind);
        if let Some(node) = tree.nodes.get_mut(index) {
            node.kind = kind;
        }
    }
}

fn has_parts(kind: &NodeKind<'_>) -> bool {
    matches!(
        kind,
        NodeKind::Apply(_)
            | NodeKind::Array { .. }
            | NodeKind::ArrayComprehension { .. }
            | NodeKind::Function { .. }
            | NodeKind::Local { .. }
            | NodeKind::Object { .. }
            | NodeKind::ObjectComprehension { .. }
            | NodeKind::Parens { .. }
    )
}

struct Expander<'t, 's> {
    nodes: &'t mut Vec<Node<'s>>,
    fodders: &'t mut Fodders<'s>,
}

impl<'s> Expander<'_, 's> {
    fn expand(&mut self, kind: &mut NodeKind<'s>) {
        match kind {
            NodeKind::Apply(apply) => self.arguments(apply),
            NodeKind::Array { items, close, .. } => {
                let breaks = items.iter().any(|item| self.breaks_before(item.expression));
                if breaks || self.fodders.has_line_end(*close) {
                    items.iter().for_each(|item| self.break_before(item.expression));
                    self.fodders.ensure_line_end(close);
                }
            }
            NodeKind::ArrayComprehension {
                body, specs, close, ..
            } if self.breaks_before(*body) || self.breaks_in(specs) || self.fodders.has_line_end(*close) => {
                self.break_before(*body);
                self.break_in(specs);
                self.fodders.ensure_line_end(close);
            }
            NodeKind::Function { parameters, .. } => self.parameters(parameters),
            NodeKind::Local { binds, .. } => self.binds(binds),
            NodeKind::Object { fields, close, .. } => self.fields(fields, &mut [], close),
            NodeKind::ObjectComprehension {
                fields, specs, close, ..
            } => self.fields(fields, specs, close),
            NodeKind::Parens { inner, close }
                if self.breaks_before(*inner) || self.fodders.has_line_end(*close) =>
            {
                self.break_before(*inner);
                self.fodders.ensure_line_end(close);
            }
            _ => {}
        }
    }

    /// Returns the index of the node that begins with the first token of this one.
    fn leftmost(&self, id: NodeId) -> usize {
        let mut index = id.index();
        while let Some(left) = self.nodes.get(index).and_then(|node| node.kind.left()) {
            index = left.index();
        }
        index
    }

    fn breaks_before(&self, id: NodeId) -> bool {
        let node = self.nodes.get(self.leftmost(id));
        node.is_some_and(|node| self.fodders.has_line_end(node.fodder))
    }

    fn break_before(&mut self, id: NodeId) {
        let leftmost = self.leftmost(id);
        if let Some(node) = self.nodes.get_mut(leftmost) {
            self.fodders.ensure_line_end(&mut node.fodder);
        }
    }

    fn breaks_in(&self, specs: &[ForSpec<'s>]) -> bool {
        specs.iter().any(|spec| {
            let mut conditions = spec.conditions.iter();
            self.fodders.has_line_end(spec.for_fodder)
                || conditions.any(|condition| self.fodders.has_line_end(condition.if_fodder))
        })
    }

    fn break_in(&mut self, specs: &mut [ForSpec<'s>]) {
        for spec in specs {
            self.fodders.ensure_line_end(&mut spec.for_fodder);
            for condition in &mut spec.conditions {
                self.fodders.ensure_line_end(&mut condition.if_fodder);
            }
        }
    }

    /// Breaks all fields of an object if one breaks: if a line ends before a field, before a comprehension clause, or
    /// before the closing brace, a line ends before all of them.
    fn fields(&mut self, fields: &mut [Field<'s>], specs: &mut [ForSpec<'s>], close: &mut Fodder) {
        for field in fields.iter_mut() {
            if let Some(parameters) = &mut field.parameters {
                self.parameters(parameters);
            }
        }
        let field_breaks = |field: &Field<'s>| match first_text(field) {
            Some(text) => self.breaks_before(text),
            None => self.fodders.has_line_end(field.fodder),
        };
        let breaks = fields.iter().any(field_breaks);
        if !breaks && !self.breaks_in(specs) && !self.fodders.has_line_end(*close) {
            return;
        }
        for field in fields {
            match first_text(field) {
                Some(text) => self.break_before(text),
                None => self.fodders.ensure_line_end(&mut field.fodder),
            }
        }
        self.break_in(specs);
        self.fodders.ensure_line_end(close);
    }

    fn binds(&mut self, binds: &mut [Bind<'s>]) {
        let expand = binds
            .iter()
            .any(|bind| self.fodders.has_line_end(bind.name_fodder));
        for (index, bind) in binds.iter_mut().enumerate() {
            if expand && index > 0 {
                self.fodders.ensure_line_end(&mut bind.name_fodder);
            }
            if let Some(parameters) = &mut bind.parameters {
                self.parameters(parameters);
            }
        }
    }

    /// Breaks the lines at the parentheses together, and the lines between parameters together.
    fn parameters(&mut self, parameters: &mut Parameters<'s>) {
        let breaks = |index: usize| {
            let parameter = parameters.list.get(index);
            parameter.is_some_and(|parameter| self.fodders.has_line_end(parameter.name_fodder))
        };
        let near = breaks(0) || self.fodders.has_line_end(parameters.close);
        let between = (1..parameters.list.len()).any(breaks);
        for (index, parameter) in parameters.list.iter_mut().enumerate() {
            if (index == 0 && near) || (index > 0 && between) {
                self.fodders.ensure_line_end(&mut parameter.name_fodder);
            }
        }
        if near {
            self.fodders.ensure_line_end(&mut parameters.close);
        }
    }

    /// Breaks the arguments of a call in the same way as parameters.
    fn arguments(&mut self, apply: &mut Apply<'s>) {
        let count = apply.positional.len() + apply.named.len();
        let near = self.argument_breaks(apply, 0) || self.fodders.has_line_end(apply.close);
        let between = (1..count).any(|index| self.argument_breaks(apply, index));
        for index in 0..count {
            if (index == 0 && near) || (index > 0 && between) {
                self.break_argument(apply, index);
            }
        }
        if near {
            self.fodders.ensure_line_end(&mut apply.close);
        }
    }

    fn argument_breaks(&self, apply: &Apply<'s>, index: usize) -> bool {
        if let Some(item) = apply.positional.get(index) {
            return self.breaks_before(item.expression);
        }
        apply
            .named
            .get(index - apply.positional.len())
            .is_some_and(|named| self.fodders.has_line_end(named.name_fodder))
    }

    fn break_argument(&mut self, apply: &mut Apply<'s>, index: usize) {
        if let Some(item) = apply.positional.get(index) {
            return self.break_before(item.expression);
        }
        if let Some(named) = apply.named.get_mut(index - apply.positional.len()) {
            self.fodders.ensure_line_end(&mut named.name_fodder);
        }
    }
}

/// Returns the string at the start of a field, if a string names the field.
fn first_text(field: &Field<'_>) -> Option<NodeId> {
    match &field.kind {
        FieldKind::Field {
            name: FieldName::Text(text),
            ..
        } => Some(*text),
        _ => None,
    }
}
