//! The resolution of names: the binding of each name.

use super::{LintCode, RawFindings};
use crate::rendering::jsonnet::syntax::{
    Bind, Field, FieldKind, FieldName, ForSpec, NodeId, NodeKind, Parameters, Span, SyntaxTree, each_child,
};
use std::collections::HashMap;

/// Unknown names that get a hint, since each is compared with all known names.
const HINTS_MAX: usize = 20;

/// The binding of a name: the source of its value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    /// The standard library.
    StandardLibrary,
    /// A value: a local without parameters.
    Value(NodeId),
    /// A function: the node and the index of its bind.
    Function { of: NodeId, bind: usize },
    /// A value that a call or a comprehension provides.
    Dynamic,
}

/// The names of a file.
pub(super) struct Scopes {
    /// The number of the binding for each variable node.
    numbers: HashMap<NodeId, usize>,
    bindings: Vec<Binding>,
}

impl Scopes {
    pub(super) fn binding_number(&self, variable: NodeId) -> Option<usize> {
        self.numbers.get(&variable).copied()
    }

    pub(super) fn binding(&self, variable: NodeId) -> Option<Binding> {
        self.bindings.get(self.binding_number(variable)?).copied()
    }
}

/// Resolves each name, and reports unknown names and unused locals.
pub(super) fn resolve(tree: &SyntaxTree<'_>, notes: &mut RawFindings) -> Scopes {
    let mut resolver = NameResolver {
        tree,
        notes,
        scopes: Scopes {
            numbers: HashMap::new(),
            bindings: Vec::new(),
        },
        uses: Vec::new(),
        visible: HashMap::new(),
        opened: Vec::new(),
        object_depth: 0,
        hints_left: HINTS_MAX,
    };
    resolver.declare("std", Binding::StandardLibrary, None);
    resolver.expression(tree.root);
    resolver.note_unused();
    resolver.scopes
}

/// A local that should be used, with its count of uses.
struct UseCount<'s> {
    name: &'s str,
    span: Option<Span>,
    count: usize,
}

struct NameResolver<'t, 's, 'n> {
    tree: &'t SyntaxTree<'s>,
    notes: &'n mut RawFindings,
    scopes: Scopes,
    uses: Vec<UseCount<'s>>,
    /// The bindings of each name, the innermost last.
    visible: HashMap<&'s str, Vec<usize>>,
    /// Names in the order in which they became visible.
    opened: Vec<&'s str>,
    /// The number of enclosing objects.
    object_depth: usize,
    hints_left: usize,
}

impl<'t, 's> NameResolver<'t, 's, '_> {
    /// Makes a name visible. Only a name with a span is reported if it is unused.
    fn declare(&mut self, name: &'s str, binding: Binding, span: Option<Span>) {
        let number = self.scopes.bindings.len();
        self.scopes.bindings.push(binding);
        self.uses.push(UseCount { name, span, count: 0 });
        self.visible.entry(name).or_default().push(number);
        self.opened.push(name);
    }

    /// Runs a closure in a new scope; the names it declares become invisible afterwards.
    fn with_scope(&mut self, part: impl FnOnce(&mut Self)) {
        let before = self.opened.len();
        part(self);
        for name in self.opened.drain(before..) {
            if let Some(bindings) = self.visible.get_mut(name) {
                bindings.pop();
            }
        }
    }

    fn expression(&mut self, id: NodeId) {
        self.with_scope(|resolver| {
            let mut next = Some(id);
            // A sequence of locals and assertions is a loop.
            while let Some(id) = next {
                next = resolver.resolve_node(id);
            }
        });
    }

    fn resolve_node(&mut self, id: NodeId) -> Option<NodeId> {
        let tree = self.tree;
        let node = tree.node(id);
        match &node.kind {
            NodeKind::Variable(name) => self.variable(id, name, node.span),
            NodeKind::Local { binds, body } => {
                self.binds(id, binds);
                return Some(*body);
            }
            NodeKind::Assert {
                condition,
                message,
                rest,
                ..
            } => {
                self.expression(*condition);
                message.iter().for_each(|(_, message)| self.expression(*message));
                return Some(*rest);
            }
            NodeKind::Function { parameters, body } => self.function(Some(parameters), *body),
            NodeKind::Object { fields, .. } => self.object(id, fields, &[]),
            NodeKind::ObjectComprehension { fields, specs, .. } => {
                self.with_scope(|resolver| {
                    resolver.specs(specs);
                    resolver.object(id, fields, specs);
                });
            }
            NodeKind::ArrayComprehension { body, specs, .. } => self.with_scope(|resolver| {
                resolver.specs(specs);
                resolver.expression(*body);
            }),
            kind => {
                self.check_object_use(kind, node.span);
                each_child(kind, &mut |child| self.expression(child));
            }
        }
        None
    }

    fn check_object_use(&mut self, kind: &NodeKind<'_>, span: Span) {
        if self.object_depth > 0 {
            return;
        }
        let message = match kind {
            NodeKind::SelfObject => "Can't use self outside of an object.",
            NodeKind::SuperIndex { .. } | NodeKind::SuperMember { .. } | NodeKind::InSuper { .. } => {
                "Can't use super outside of an object."
            }
            NodeKind::Dollar => "No top-level object found.",
            _ => return,
        };
        self.notes.add(LintCode::OutsideObject, span, message);
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
                .add_with_hint(LintCode::UnknownVariable, span, message, hint);
        };
        self.scopes.numbers.insert(id, number);
        if let Some(uses) = self.uses.get_mut(number) {
            uses.count += 1;
        }
    }

    /// Returns a visible name that differs in case or in one letter.
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
        self.with_scope(|resolver| {
            let list = parameters
                .map(|parameters| parameters.list.as_slice())
                .unwrap_or_default();
            for parameter in list {
                resolver.declare(parameter.name, Binding::Dynamic, None);
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
            self.declare(spec.variable, Binding::Dynamic, None);
            spec.conditions
                .iter()
                .for_each(|spec| self.expression(spec.condition));
        }
    }

    /// Resolves an object. Field names are outside of the object, its locals are inside. In a comprehension the locals
    /// count as visible to the field name as well, since an uncertain case is not a finding.
    fn object(&mut self, of: NodeId, fields: &'t [Field<'s>], specs: &[ForSpec<'s>]) {
        if specs.is_empty() {
            fields.iter().for_each(|field| self.field_name(field));
        }
        self.with_scope(|resolver| {
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
            resolver.object_depth += 1;
            for field in fields {
                resolver.function(field.parameters.as_deref(), field.value);
                if let FieldKind::Assert {
                    message: Some(message),
                } = &field.kind
                {
                    resolver.expression(*message);
                }
            }
            resolver.object_depth -= 1;
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
                    LintCode::UnusedVariable,
                    span,
                    format!("Unused variable: {}", uses.name),
                );
            }
        }
    }
}

/// Returns true if two names differ by one typing mistake.
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
