//! The resolution of names: the binding each name means.

use super::{Code, Notes};
use crate::jsonnet::syntax::{
    Bind, Field, FieldKind, FieldName, ForSpec, Kind, NodeId, Parameters, Span, Tree, each_child,
};
use std::collections::HashMap;

/// The number of unknown names that get a hint; each is compared with all that are known.
const HINTS_MAX: usize = 20;

/// The binding of a name: what gives it its value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    /// The standard library.
    Standard,
    /// A value: a local without parameters.
    Value(NodeId),
    /// A function: which bind of which node.
    Function { of: NodeId, bind: usize },
    /// A value that a call or a comprehension puts there.
    Open,
}

/// The names of a file.
pub(super) struct Scopes {
    /// The number of the binding for each node that is a variable.
    meant: HashMap<NodeId, usize>,
    bindings: Vec<Binding>,
}

impl Scopes {
    /// The number of the binding a variable means.
    pub(super) fn number(&self, variable: NodeId) -> Option<usize> {
        self.meant.get(&variable).copied()
    }

    /// The binding a variable means.
    pub(super) fn binding(&self, variable: NodeId) -> Option<Binding> {
        self.bindings.get(self.number(variable)?).copied()
    }
}

/// Finds what each name means, and notes names that mean nothing and locals that nothing means.
pub(super) fn resolve(tree: &Tree<'_>, notes: &mut Notes) -> Scopes {
    let mut resolver = Resolver {
        tree,
        notes,
        scopes: Scopes {
            meant: HashMap::new(),
            bindings: Vec::new(),
        },
        uses: Vec::new(),
        visible: HashMap::new(),
        opened: Vec::new(),
        objects: 0,
        hints_left: HINTS_MAX,
    };
    resolver.declare("std", Binding::Standard, None);
    resolver.expression(tree.root);
    resolver.note_unused();
    resolver.scopes
}

/// A local that wants to be used, and how often it is.
struct Uses<'s> {
    name: &'s str,
    span: Option<Span>,
    count: usize,
}

struct Resolver<'t, 's, 'n> {
    tree: &'t Tree<'s>,
    notes: &'n mut Notes,
    scopes: Scopes,
    uses: Vec<Uses<'s>>,
    /// The bindings of a name, the nearest last.
    visible: HashMap<&'s str, Vec<usize>>,
    /// Names in the order they became visible.
    opened: Vec<&'s str>,
    /// The number of objects around.
    objects: usize,
    hints_left: usize,
}

impl<'t, 's> Resolver<'t, 's, '_> {
    /// Makes a name visible. Only a name with a span is missed when nothing uses it.
    fn declare(&mut self, name: &'s str, binding: Binding, span: Option<Span>) {
        let number = self.scopes.bindings.len();
        self.scopes.bindings.push(binding);
        self.uses.push(Uses { name, span, count: 0 });
        self.visible.entry(name).or_default().push(number);
        self.opened.push(name);
    }

    /// Runs a part; the names it declares are forgotten after it.
    fn within(&mut self, part: impl FnOnce(&mut Self)) {
        let before = self.opened.len();
        part(self);
        for name in self.opened.drain(before..) {
            if let Some(bindings) = self.visible.get_mut(name) {
                bindings.pop();
            }
        }
    }

    fn expression(&mut self, id: NodeId) {
        self.within(|resolver| {
            let mut next = Some(id);
            // A row of locals and assertions is a loop.
            while let Some(id) = next {
                next = resolver.one(id);
            }
        });
    }

    fn one(&mut self, id: NodeId) -> Option<NodeId> {
        let tree = self.tree;
        let node = tree.node(id);
        match &node.kind {
            Kind::Variable(name) => self.variable(id, name, node.span),
            Kind::Local { binds, body } => {
                self.binds(id, binds);
                return Some(*body);
            }
            Kind::Assert {
                condition,
                message,
                rest,
                ..
            } => {
                self.expression(*condition);
                message.iter().for_each(|(_, message)| self.expression(*message));
                return Some(*rest);
            }
            Kind::Function { parameters, body } => self.function(Some(parameters), *body),
            Kind::Object { fields, .. } => self.object(id, fields, &[]),
            Kind::ObjectComprehension { fields, specs, .. } => {
                self.within(|resolver| {
                    resolver.specs(specs);
                    resolver.object(id, fields, specs);
                });
            }
            Kind::ArrayComprehension { body, specs, .. } => self.within(|resolver| {
                resolver.specs(specs);
                resolver.expression(*body);
            }),
            kind => {
                self.needs_object(kind, node.span);
                each_child(kind, &mut |child| self.expression(child));
            }
        }
        None
    }

    fn needs_object(&mut self, kind: &Kind<'_>, span: Span) {
        if self.objects > 0 {
            return;
        }
        let message = match kind {
            Kind::SelfObject => "Can't use self outside of an object.",
            Kind::SuperIndex { .. } | Kind::SuperMember { .. } | Kind::InSuper { .. } => {
                "Can't use super outside of an object."
            }
            Kind::Dollar => "No top-level object found.",
            _ => return,
        };
        self.notes.add(Code::OutsideObject, span, message);
    }

    fn variable(&mut self, id: NodeId, name: &str, span: Span) {
        let number = self
            .visible
            .get(name)
            .and_then(|bindings| bindings.last())
            .copied();
        let Some(number) = number else {
            let hint = self.nearest(name).map(|near| format!("`{near}` is known here"));
            let message = format!("Unknown variable: {name}");
            return self
                .notes
                .add_with_hint(Code::UnknownVariable, span, message, hint);
        };
        self.scopes.meant.insert(id, number);
        if let Some(uses) = self.uses.get_mut(number) {
            uses.count += 1;
        }
    }

    /// A visible name that differs in case or in one letter.
    fn nearest(&mut self, name: &str) -> Option<&'s str> {
        self.hints_left = self.hints_left.checked_sub(1)?;
        let mut near: Vec<&'s str> = self
            .visible
            .iter()
            .filter(|(other, bindings)| !bindings.is_empty() && is_near(name, other))
            .map(|(other, _)| *other)
            .collect();
        near.sort_unstable();
        near.first().copied()
    }

    fn binds(&mut self, of: NodeId, binds: &'t [Bind<'s>]) {
        for (index, bind) in binds.iter().enumerate() {
            let binding = match bind.parameters {
                Some(_) => Binding::Function { of, bind: index },
                None => Binding::Value(bind.body),
            };
            let whole = bind.name_span.to(self.tree.node(bind.body).span);
            self.declare(bind.name, binding, Some(whole));
        }
        for bind in binds {
            self.function(bind.parameters.as_deref(), bind.body);
        }
    }

    fn function(&mut self, parameters: Option<&'t Parameters<'s>>, body: NodeId) {
        self.within(|resolver| {
            let list = parameters
                .map(|parameters| parameters.list.as_slice())
                .unwrap_or_default();
            for parameter in list {
                resolver.declare(parameter.name, Binding::Open, None);
            }
            for (_, default) in list.iter().filter_map(|parameter| parameter.default) {
                resolver.expression(default);
            }
            resolver.expression(body);
        });
    }

    fn specs(&mut self, specs: &'t [ForSpec<'s>]) {
        for spec in specs {
            self.expression(spec.array);
            self.declare(spec.variable, Binding::Open, None);
            spec.conditions
                .iter()
                .for_each(|spec| self.expression(spec.condition));
        }
    }

    /// Names of fields are outside of the object they name, its locals are inside. In a comprehension
    /// the locals count as visible to the name as well: a doubt is no finding.
    fn object(&mut self, of: NodeId, fields: &'t [Field<'s>], specs: &[ForSpec<'s>]) {
        if specs.is_empty() {
            fields.iter().for_each(|field| self.field_name(field));
        }
        self.within(|resolver| {
            for (index, field) in fields.iter().enumerate() {
                if let FieldKind::Local { name, .. } = &field.kind {
                    let binding = match field.parameters {
                        Some(_) => Binding::Function { of, bind: index },
                        None => Binding::Value(field.value),
                    };
                    resolver.declare(name, binding, Some(field.span));
                }
            }
            if !specs.is_empty() {
                fields.iter().for_each(|field| resolver.field_name(field));
            }
            resolver.objects += 1;
            for field in fields {
                resolver.function(field.parameters.as_deref(), field.value);
                if let FieldKind::Assert {
                    message: Some(message),
                } = &field.kind
                {
                    resolver.expression(*message);
                }
            }
            resolver.objects -= 1;
        });
    }

    fn field_name(&mut self, field: &Field<'s>) {
        if let FieldKind::Field {
            name: FieldName::Computed { name, .. },
            ..
        } = &field.kind
        {
            self.expression(*name);
        }
    }

    fn note_unused(&mut self) {
        for uses in &self.uses {
            if let (Some(span), 0) = (uses.span, uses.count) {
                self.notes.add(
                    Code::UnusedVariable,
                    span,
                    format!("Unused variable: {}", uses.name),
                );
            }
        }
    }
}

/// Returns true if two names are one slip of the hand apart.
fn is_near(one: &str, other: &str) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return true;
    }
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().min(other.len()) < 3 || one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let left = one.len().min(other.len()) - start;
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take(left)
        .take_while(|(a, b)| a == b)
        .count();
    one.len().max(other.len()) - start - end <= 1
}
