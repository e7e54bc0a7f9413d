//! A list is either on one line or has a line for each of its parts.

use crate::jsonnet::syntax::{
    Apply, Bind, Field, FieldKind, FieldName, Fodder, Fodders, ForSpec, Kind, Node, NodeId, Parameters, Tree,
};

pub(super) fn fix(tree: &mut Tree<'_>) {
    for index in 0..tree.nodes.len() {
        // The node is taken out, so that the nodes it begins with can be changed meanwhile.
        let Some(node) = tree.nodes.get_mut(index) else {
            break;
        };
        if !has_parts(&node.kind) {
            continue;
        }
        let mut kind = std::mem::replace(&mut node.kind, Kind::Null);
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

fn has_parts(kind: &Kind<'_>) -> bool {
    matches!(
        kind,
        Kind::Apply(_)
            | Kind::Array { .. }
            | Kind::ArrayComprehension { .. }
            | Kind::Function { .. }
            | Kind::Local { .. }
            | Kind::Object { .. }
            | Kind::ObjectComprehension { .. }
            | Kind::Parens { .. }
    )
}

struct Expander<'t, 's> {
    nodes: &'t mut Vec<Node<'s>>,
    fodders: &'t mut Fodders<'s>,
}

impl<'s> Expander<'_, 's> {
    fn expand(&mut self, kind: &mut Kind<'s>) {
        match kind {
            Kind::Apply(apply) => self.arguments(apply),
            Kind::Array { items, close, .. } => {
                let mut parts: Vec<&mut Fodder> = vec![close];
                let firsts: Vec<NodeId> = items.iter().map(|item| item.expression).collect();
                self.all_or_none(&firsts, &mut parts);
            }
            Kind::ArrayComprehension {
                body, specs, close, ..
            } => {
                let mut parts = spec_fodders(specs);
                parts.push(close);
                self.all_or_none(&[*body], &mut parts);
            }
            Kind::Function { parameters, .. } => self.parameters(parameters),
            Kind::Local { binds, .. } => self.binds(binds),
            Kind::Object { fields, close, .. } => self.fields(fields, vec![close]),
            Kind::ObjectComprehension {
                fields, specs, close, ..
            } => {
                let mut parts = spec_fodders(specs);
                parts.push(close);
                self.fields(fields, parts);
            }
            Kind::Parens { inner, close } => self.all_or_none(&[*inner], &mut [close]),
            _ => {}
        }
    }

    /// If a line ends before one of them, it ends before all of them.
    fn all_or_none(&mut self, firsts: &[NodeId], parts: &mut [&mut Fodder]) {
        let expand = parts.iter().any(|part| self.fodders.has_line_end(**part))
            || firsts.iter().any(|id| self.breaks_before(*id));
        if expand {
            firsts.iter().for_each(|id| self.break_before(*id));
            for part in parts {
                self.fodders.ensure_line_end(part);
            }
        }
    }

    fn leftmost(&mut self, id: NodeId) -> Option<&mut Fodder> {
        let mut index = id.index();
        while let Some(left) = self.nodes.get(index).and_then(|node| node.kind.left()) {
            index = left.index();
        }
        self.nodes.get_mut(index).map(|node| &mut node.fodder)
    }

    fn breaks_before(&mut self, id: NodeId) -> bool {
        let fodder = self.leftmost(id).copied().unwrap_or_default();
        self.fodders.has_line_end(fodder)
    }

    fn break_before(&mut self, id: NodeId) {
        let mut fodder = self.leftmost(id).copied().unwrap_or_default();
        self.fodders.ensure_line_end(&mut fodder);
        if let Some(place) = self.leftmost(id) {
            *place = fodder;
        }
    }

    fn fields<'f>(&mut self, fields: &'f mut [Field<'s>], mut parts: Vec<&'f mut Fodder>) {
        let mut firsts = Vec::new();
        for field in fields {
            if let Some(parameters) = &mut field.parameters {
                self.parameters(parameters);
            }
            match &field.kind {
                FieldKind::Field {
                    name: FieldName::Text(text),
                    ..
                } => firsts.push(*text),
                _ => parts.push(&mut field.fodder),
            }
        }
        self.all_or_none(&firsts, &mut parts);
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

    /// The lines near the parentheses go together, and so do those between parameters.
    fn parameters(&mut self, parameters: &mut Parameters<'s>) {
        let names = parameters
            .list
            .iter_mut()
            .map(|parameter| &mut parameter.name_fodder);
        let mut near: Vec<&mut Fodder> = names.collect();
        let mut between = near.split_off(near.len().min(1));
        near.push(&mut parameters.close);
        self.all_or_none(&[], &mut near);
        self.all_or_none(&[], &mut between);
    }

    /// As for parameters.
    fn arguments(&mut self, apply: &mut Apply<'s>) {
        let count = apply.positional.len() + apply.named.len();
        let breaks: Vec<bool> = (0..count)
            .map(|index| self.argument_breaks(apply, index))
            .collect();
        let near = breaks.first().is_some_and(|breaks| *breaks) || self.fodders.has_line_end(apply.close);
        let between = breaks.iter().skip(1).any(|breaks| *breaks);
        for index in 0..count {
            if (index == 0 && near) || (index > 0 && between) {
                self.break_argument(apply, index);
            }
        }
        if near {
            self.fodders.ensure_line_end(&mut apply.close);
        }
    }

    fn argument_breaks(&mut self, apply: &Apply<'s>, index: usize) -> bool {
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

fn spec_fodders<'t>(specs: &'t mut [ForSpec<'_>]) -> Vec<&'t mut Fodder> {
    let mut fodders = Vec::new();
    for spec in specs {
        fodders.push(&mut spec.for_fodder);
        fodders.extend(
            spec.conditions
                .iter_mut()
                .map(|condition| &mut condition.if_fodder),
        );
    }
    fodders
}
