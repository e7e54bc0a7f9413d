//! The kind of an expression's value, as far as the file alone proves it.

use super::import_values::{ImportedShape, ImportedValue, ImportedValues};
use super::kinds::Kinds;
use super::scope::{Binding, Scopes};
use super::standard_library;
use crate::rendering::jsonnet::syntax::{
    Apply, BinaryOperator, Field, FieldKind, FieldName, ImportKind, NodeId, NodeKind, Parameters, SyntaxTree,
    UnaryOperator,
};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Expressions that are followed in sequence, through names and calls.
const INFERENCE_DEPTH_MAX: usize = 64;
/// Fields of an object up to which its fields are tracked.
const FIELDS_MAX: usize = 1_000;
/// Summed objects up to which their fields are tracked.
const SUMMED_MAX: usize = 16;
/// Alternative sums of objects that are tracked for one value.
const ALTERNATIVES_MAX: usize = 8;

/// The known facts about a value.
#[derive(Clone, Debug)]
pub(super) struct Type<'t, 's> {
    pub(super) kinds: Kinds,
    pub(super) shape: ValueShape<'t, 's>,
}

/// The known facts about a value beyond its kind.
#[derive(Clone, Debug)]
pub(super) enum ValueShape<'t, 's> {
    Unknown,
    /// The items of an array.
    Items(NodeId),
    /// The kinds of every item of an array.
    ItemsOf(Kinds),
    /// The objects whose sum is the value.
    Objects(Rc<[NodeId]>),
    /// Alternative sums of objects, one of which is the value.
    OneOf(Rc<[Rc<[NodeId]>]>),
    /// A function with its parameters and body.
    Function(&'t Parameters<'s>, NodeId),
    /// A function with a minimum and maximum number of arguments.
    Arity(usize, usize),
    /// A value of another file.
    Imported(Arc<ImportedValue>),
    StandardLibrary,
}

impl Type<'_, '_> {
    fn from_kinds(kinds: Kinds) -> Self {
        Self {
            kinds,
            shape: ValueShape::Unknown,
        }
    }

    fn any() -> Self {
        Self::from_kinds(Kinds::ANY)
    }

    /// Returns the type of an expression that always fails: it has no value.
    fn nothing() -> Self {
        Self::from_kinds(Kinds::NOTHING)
    }
}

/// The result of a field lookup.
pub(super) enum FieldLookup<'t, 's> {
    /// The field exists, or may exist.
    Value(Type<'t, 's>),
    /// The field certainly does not exist.
    Missing,
}

pub(super) struct TypeInference<'t, 's> {
    tree: &'t SyntaxTree<'s>,
    scopes: &'t Scopes,
    imported: &'t ImportedValues,
    inferred: Vec<Option<Type<'t, 's>>>,
    depth: usize,
}

impl<'t, 's> TypeInference<'t, 's> {
    pub(super) fn new(tree: &'t SyntaxTree<'s>, scopes: &'t Scopes, imported: &'t ImportedValues) -> Self {
        Self {
            tree,
            scopes,
            imported,
            inferred: vec![None; tree.nodes.len()],
            depth: 0,
        }
    }

    /// Returns the tree of the file.
    pub(super) fn tree(&self) -> &'t SyntaxTree<'s> {
        self.tree
    }

    /// Returns the type of an expression. While the type is being inferred, it counts as unknown.
    pub(super) fn type_of(&mut self, id: NodeId) -> Type<'t, 's> {
        if let Some(Some(known)) = self.inferred.get(id.index()) {
            return known.clone();
        }
        if self.depth == INFERENCE_DEPTH_MAX {
            return Type::any();
        }
        self.memoize(id, Type::any());
        self.depth += 1;
        let found = self.infer(id);
        self.depth -= 1;
        self.memoize(id, found.clone());
        found
    }

    fn memoize(&mut self, id: NodeId, found: Type<'t, 's>) {
        if let Some(place) = self.inferred.get_mut(id.index()) {
            *place = Some(found);
        }
    }

    fn infer(&mut self, id: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        match &tree.node(id).kind {
            NodeKind::Null => Type::from_kinds(Kinds::NULL),
            NodeKind::Boolean(_) | NodeKind::InSuper { .. } => Type::from_kinds(Kinds::BOOLEAN),
            NodeKind::Number(_) => Type::from_kinds(Kinds::NUMBER),
            NodeKind::Text { .. } => Type::from_kinds(Kinds::TEXT),
            NodeKind::Array { .. } => Type {
                kinds: Kinds::ARRAY,
                shape: ValueShape::Items(id),
            },
            NodeKind::ArrayComprehension { .. } => Type::from_kinds(Kinds::ARRAY),
            NodeKind::Object { fields, .. } if fields.len() <= FIELDS_MAX => Type {
                kinds: Kinds::OBJECT,
                shape: ValueShape::Objects(Rc::new([id])),
            },
            NodeKind::Object { .. }
            | NodeKind::ObjectComprehension { .. }
            | NodeKind::SelfObject
            | NodeKind::Dollar => Type::from_kinds(Kinds::OBJECT),
            NodeKind::Function { parameters, body } => function(parameters, *body),
            NodeKind::Local { body, .. } => self.type_of(*body),
            NodeKind::Assert { rest, .. } => self.type_of(*rest),
            NodeKind::Parens { inner, .. } => self.type_of(*inner),
            NodeKind::Conditional(conditional) => {
                let if_true = self.type_of(conditional.if_true);
                let if_false = match conditional.if_false {
                    Some((_, if_false)) => self.type_of(if_false),
                    None => Type::from_kinds(Kinds::NULL),
                };
                either(&if_true, &if_false)
            }
            NodeKind::Import { kind, .. } => match kind {
                ImportKind::Code => self.imported.get(&id).map_or_else(Type::any, Self::imported_type),
                ImportKind::Text => Type::from_kinds(Kinds::TEXT),
                ImportKind::Bytes => Type::from_kinds(Kinds::ARRAY),
            },
            NodeKind::Unary { operator, .. } => Type::from_kinds(match operator {
                UnaryOperator::Not => Kinds::BOOLEAN,
                UnaryOperator::BitNot | UnaryOperator::Plus | UnaryOperator::Minus => Kinds::NUMBER,
            }),
            NodeKind::Binary {
                left,
                operator,
                right,
                ..
            } => self.binary(*left, *operator, *right),
            NodeKind::ApplyBrace { left, right } => self.sum(*left, *right),
            NodeKind::Apply(apply) => self.result(apply),
            NodeKind::Index { target, index, .. } => self.element(*target, *index),
            NodeKind::Member { target, name, .. } => self.member(*target, name),
            NodeKind::Variable(_) => self.variable(id),
            // An error has no value, so every use of it is valid.
            NodeKind::Error(_)
            | NodeKind::Slice(_)
            | NodeKind::SuperIndex { .. }
            | NodeKind::SuperMember { .. } => Type::any(),
        }
    }

    fn variable(&mut self, id: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        match self.scopes.binding(id) {
            Some(Binding::StandardLibrary) => Type {
                kinds: Kinds::OBJECT,
                shape: ValueShape::StandardLibrary,
            },
            Some(Binding::Value(value)) => self.type_of(value),
            Some(Binding::Function { of, bind }) => {
                let found = match &tree.node(of).kind {
                    NodeKind::Local { binds, .. } => {
                        binds.get(bind).map(|bind| (&bind.parameters, bind.body))
                    }
                    NodeKind::Object { fields, .. } | NodeKind::ObjectComprehension { fields, .. } => {
                        fields.get(bind).map(|field| (&field.parameters, field.value))
                    }
                    _ => None,
                };
                match found {
                    Some((Some(parameters), body)) => function(parameters, body),
                    _ => Type::any(),
                }
            }
            Some(Binding::Dynamic) | None => Type::any(),
        }
    }

    fn binary(&mut self, left: NodeId, operator: BinaryOperator, right: NodeId) -> Type<'t, 's> {
        match operator {
            BinaryOperator::Plus => self.sum(left, right),
            BinaryOperator::Modulo => {
                let left = self.type_of(left).kinds;
                match () {
                    () if left.must_be(Kinds::NUMBER) => Type::from_kinds(Kinds::NUMBER),
                    () if left.must_be(Kinds::TEXT) => Type::from_kinds(Kinds::TEXT),
                    () => Type::any(),
                }
            }
            BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Minus
            | BinaryOperator::ShiftLeft
            | BinaryOperator::ShiftRight
            | BinaryOperator::BitAnd
            | BinaryOperator::BitXor
            | BinaryOperator::BitOr => Type::from_kinds(Kinds::NUMBER),
            BinaryOperator::Greater
            | BinaryOperator::GreaterOrEqual
            | BinaryOperator::Less
            | BinaryOperator::LessOrEqual
            | BinaryOperator::In
            | BinaryOperator::Equal
            | BinaryOperator::Unequal
            | BinaryOperator::And
            | BinaryOperator::Or => Type::from_kinds(Kinds::BOOLEAN),
        }
    }

    fn sum(&mut self, left: NodeId, right: NodeId) -> Type<'t, 's> {
        let (left, right) = (self.type_of(left), self.type_of(right));
        let both = |kind: Kinds| left.kinds.must_be(kind) && right.kinds.must_be(kind);
        if left.kinds.must_be(Kinds::TEXT) || right.kinds.must_be(Kinds::TEXT) {
            return Type::from_kinds(Kinds::TEXT);
        }
        for kind in [Kinds::NUMBER, Kinds::ARRAY] {
            if both(kind) {
                return Type::from_kinds(kind);
            }
        }
        if !both(Kinds::OBJECT) {
            return Type::any();
        }
        let shape = match (&left.shape, &right.shape) {
            (ValueShape::Objects(one), ValueShape::Objects(other))
                if one.len() + other.len() <= SUMMED_MAX =>
            {
                ValueShape::Objects(one.iter().chain(other.iter()).copied().collect())
            }
            _ => ValueShape::Unknown,
        };
        Type {
            kinds: Kinds::OBJECT,
            shape,
        }
    }

    fn result(&mut self, apply: &Apply<'s>) -> Type<'t, 's> {
        let tree = self.tree;
        if let Some(standard) = self.standard_function(apply.target) {
            let shape = match standard.result {
                Kinds::ARRAY if standard.items != Kinds::ANY => ValueShape::ItemsOf(standard.items),
                _ => ValueShape::Unknown,
            };
            let kinds = standard.result;
            return Type { kinds, shape };
        }
        let target = self.type_of(apply.target);
        if !target.kinds.may_be(Kinds::FUNCTION) {
            return Type::nothing();
        }
        match target.shape {
            ValueShape::Function(_, body) if tree.nodes.len() > body.index() => self.type_of(body),
            ValueShape::Imported(foreign) => match &foreign.shape {
                ImportedShape::Function(_, gives) => Self::imported_type(gives),
                _ => Type::any(),
            },
            _ => Type::any(),
        }
    }

    fn member(&mut self, target: NodeId, name: &str) -> Type<'t, 's> {
        if !self.type_of(target).kinds.may_be(Kinds::OBJECT) {
            return Type::nothing();
        }
        match self.field(target, name) {
            FieldLookup::Value(value) => value,
            FieldLookup::Missing => Type::nothing(),
        }
    }

    /// Returns the function of the standard library that an expression names.
    pub(super) fn standard_function(&mut self, id: NodeId) -> Option<standard_library::StandardFunction> {
        let tree = self.tree;
        let NodeKind::Member { target, name, .. } = &tree.node(id).kind else {
            return None;
        };
        let target = self.type_of(*target);
        matches!(target.shape, ValueShape::StandardLibrary).then(|| standard_library::function(name))?
    }

    fn element(&mut self, target: NodeId, index: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        let (indexed, by) = (self.type_of(target), self.type_of(index).kinds);
        let is_list = indexed.kinds.may_be(Kinds::ARRAY.or(Kinds::TEXT)) && by.may_be(Kinds::NUMBER);
        let is_object = indexed.kinds.may_be(Kinds::OBJECT) && by.may_be(Kinds::TEXT);
        if !is_list && !is_object {
            return Type::nothing();
        }
        if indexed.kinds.must_be(Kinds::TEXT) {
            return Type::from_kinds(Kinds::TEXT);
        }
        if let ValueShape::ItemsOf(kinds) = indexed.shape {
            return Type::from_kinds(kinds);
        }
        match &tree.node(index).kind {
            NodeKind::Text { .. } => match tree.literal(index) {
                Some(name) => self.member(target, &name),
                None => Type::any(),
            },
            NodeKind::Number(number) => number
                .parse::<usize>()
                .map_or_else(|_| Type::any(), |number| self.item(&indexed.shape, number)),
            _ => Type::any(),
        }
    }

    fn item(&mut self, array: &ValueShape<'t, 's>, number: usize) -> Type<'t, 's> {
        let tree = self.tree;
        match array {
            ValueShape::Items(array) => match &tree.node(*array).kind {
                NodeKind::Array { items, .. } => match items.get(number) {
                    Some(item) => self.type_of(item.expression),
                    None => Type::any(),
                },
                _ => Type::any(),
            },
            ValueShape::Imported(foreign) => match &foreign.shape {
                ImportedShape::Items(items) => items.get(number).map_or_else(Type::any, Self::imported_type),
                _ => Type::any(),
            },
            _ => Type::any(),
        }
    }

    /// Looks up a field in the value of an expression.
    pub(super) fn field(&mut self, target: NodeId, name: &str) -> FieldLookup<'t, 's> {
        let target = self.type_of(target);
        if !target.kinds.must_be(Kinds::OBJECT) {
            return FieldLookup::Value(Type::any());
        }
        match target.shape {
            ValueShape::Objects(objects) => self.field_of_sum(&objects, name),
            // If one alternative lacks the field and the use does not fail, the value is another alternative.
            ValueShape::OneOf(sums) => {
                let mut found = FieldLookup::Missing;
                for objects in sums.iter() {
                    found = found.or(self.field_of_sum(objects, name));
                }
                found
            }
            ValueShape::Imported(foreign) => match &foreign.shape {
                ImportedShape::Fields(fields) => fields.get(name).map_or(FieldLookup::Missing, |field| {
                    FieldLookup::Value(Self::imported_type(field))
                }),
                _ => FieldLookup::Value(Type::any()),
            },
            _ => FieldLookup::Value(Type::any()),
        }
    }

    /// Looks up a field in a sum of objects: the rightmost field of that name, unless an object to the right has a
    /// computed name.
    pub(super) fn field_of_sum(&mut self, objects: &[NodeId], name: &str) -> FieldLookup<'t, 's> {
        let tree = self.tree;
        let mut found = FieldLookup::Missing;
        for object in objects.iter().rev() {
            let NodeKind::Object { fields, .. } = &tree.node(*object).kind else {
                continue;
            };
            let named = fields
                .iter()
                .find(|field| field_name(tree, field).is_some_and(|own| own == name));
            if let Some(field) = named {
                return found.or(FieldLookup::Value(self.value(field)));
            }
            for field in fields.iter().filter(|field| is_computed(field)) {
                found = found.or(FieldLookup::Value(self.value(field)));
            }
        }
        found
    }

    fn value(&mut self, field: &'t Field<'s>) -> Type<'t, 's> {
        match (&field.parameters, &field.kind) {
            (Some(parameters), _) => function(parameters, field.value),
            (None, FieldKind::Field { plus: false, .. }) => self.type_of(field.value),
            // With `+:` the final value also depends on the field further left.
            (None, _) => Type::any(),
        }
    }
}

impl FieldLookup<'_, '_> {
    /// Returns the union of two types.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Missing, found) | (found, Self::Missing) => found,
            (Self::Value(one), Self::Value(other)) => Self::Value(either(&one, &other)),
        }
    }
}

fn function<'t, 's>(parameters: &'t Parameters<'s>, body: NodeId) -> Type<'t, 's> {
    Type {
        kinds: Kinds::FUNCTION,
        shape: ValueShape::Function(parameters, body),
    }
}

/// Returns the minimum and maximum number of arguments of a function.
fn arity(shape: &ValueShape<'_, '_>) -> Option<(usize, usize)> {
    match shape {
        ValueShape::Function(parameters, _) => {
            let needed = parameters
                .list
                .iter()
                .filter(|parameter| parameter.default.is_none());
            Some((needed.count(), parameters.list.len()))
        }
        ValueShape::Arity(min, max) => Some((*min, *max)),
        ValueShape::Imported(foreign) => match &foreign.shape {
            ImportedShape::Function(parameters, _) => {
                let needed = parameters.iter().filter(|(_, is_needed)| *is_needed);
                Some((needed.count(), parameters.len()))
            }
            _ => None,
        },
        ValueShape::Unknown
        | ValueShape::Items(_)
        | ValueShape::ItemsOf(_)
        | ValueShape::Objects(_)
        | ValueShape::OneOf(_)
        | ValueShape::StandardLibrary => None,
    }
}

/// Returns the alternative sums of objects of a value.
fn sums(shape: &ValueShape<'_, '_>) -> Option<Vec<Rc<[NodeId]>>> {
    match shape {
        ValueShape::Objects(objects) => Some(vec![Rc::clone(objects)]),
        ValueShape::OneOf(sums) => Some(sums.to_vec()),
        ValueShape::Unknown
        | ValueShape::Items(_)
        | ValueShape::ItemsOf(_)
        | ValueShape::Function(..)
        | ValueShape::Arity(..)
        | ValueShape::Imported(_)
        | ValueShape::StandardLibrary => None,
    }
}

fn either<'t, 's>(one: &Type<'t, 's>, other: &Type<'t, 's>) -> Type<'t, 's> {
    let kinds = one.kinds.or(other.kinds);
    if let (Some(mut all), Some(others)) = (sums(&one.shape), sums(&other.shape)) {
        all.extend(others);
        let known = all.len() <= ALTERNATIVES_MAX;
        let shape = if known {
            ValueShape::OneOf(all.into())
        } else {
            ValueShape::Unknown
        };
        return Type { kinds, shape };
    }
    let shape = match (arity(&one.shape), arity(&other.shape)) {
        (Some((min, max)), Some((other_min, other_max))) => {
            ValueShape::Arity(min.min(other_min), max.max(other_max))
        }
        _ => ValueShape::Unknown,
    };
    Type { kinds, shape }
}

pub(super) fn is_computed(field: &Field<'_>) -> bool {
    matches!(
        field.kind,
        FieldKind::Field {
            name: FieldName::Computed { .. },
            ..
        }
    )
}

pub(super) fn field_name<'t>(tree: &'t SyntaxTree<'_>, field: &'t Field<'_>) -> Option<Cow<'t, str>> {
    match &field.kind {
        FieldKind::Field {
            name: FieldName::Identifier(name),
            ..
        } => Some(Cow::Borrowed(name)),
        FieldKind::Field {
            name: FieldName::Text(text),
            ..
        } => tree.literal(*text),
        _ => None,
    }
}
