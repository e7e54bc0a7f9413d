//! The kind of value an expression has, as far as the file alone shows it for sure.

use super::follow::{Foreign, ForeignShape, Imported};
use super::kinds::Kinds;
use super::scope::{Binding, Scopes};
use super::standard;
use crate::jsonnet::syntax::{
    Apply, BinaryOperator, Field, FieldKind, FieldName, ImportKind, Kind, NodeId, Parameters, Tree,
    UnaryOperator,
};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Expressions that are followed from one to the next, through names and calls.
const FOLLOWED_MAX: usize = 64;
/// Fields of an object that is still known field by field.
const FIELDS_MAX: usize = 1_000;
/// Objects whose sum is still known field by field.
const SUMMED_MAX: usize = 16;
/// Sums of objects of which one is meant.
const ALTERNATIVES_MAX: usize = 8;

/// The known facts about a value.
#[derive(Clone, Debug)]
pub(super) struct Type<'t, 's> {
    pub(super) kinds: Kinds,
    pub(super) shape: Shape<'t, 's>,
}

/// The known facts about a value beyond its kind.
#[derive(Clone, Debug)]
pub(super) enum Shape<'t, 's> {
    Unknown,
    /// The items of an array.
    Items(NodeId),
    /// The kinds that every item of an array is of.
    ItemsOf(Kinds),
    /// The objects it is the sum of.
    Objects(Rc<[NodeId]>),
    /// Sums of objects, one of which it is.
    OneOf(Rc<[Rc<[NodeId]>]>),
    /// The function it is.
    Function(&'t Parameters<'s>, NodeId),
    /// A function that takes at least and at most so many arguments.
    Arity(usize, usize),
    /// A value of another file.
    Foreign(Arc<Foreign>),
    /// The standard library.
    Standard,
}

impl Type<'_, '_> {
    fn of(kinds: Kinds) -> Self {
        Self {
            kinds,
            shape: Shape::Unknown,
        }
    }

    fn any() -> Self {
        Self::of(Kinds::ANY)
    }

    /// Returns the type of an expression that fails: no value at all.
    fn nothing() -> Self {
        Self::of(Kinds::NOTHING)
    }
}

/// A field that was looked for.
pub(super) enum Found<'t, 's> {
    /// The field is there, or may be.
    Value(Type<'t, 's>),
    /// The field is not there for sure.
    Missing,
}

pub(super) struct Types<'t, 's> {
    tree: &'t Tree<'s>,
    scopes: &'t Scopes,
    imported: &'t Imported,
    known: Vec<Option<Type<'t, 's>>>,
    followed: usize,
}

impl<'t, 's> Types<'t, 's> {
    pub(super) fn new(tree: &'t Tree<'s>, scopes: &'t Scopes, imported: &'t Imported) -> Self {
        Self {
            tree,
            scopes,
            imported,
            known: vec![None; tree.nodes.len()],
            followed: 0,
        }
    }

    /// The file.
    pub(super) fn tree(&self) -> &'t Tree<'s> {
        self.tree
    }

    /// Returns the type of an expression. While it is being found out, it may be anything.
    pub(super) fn of(&mut self, id: NodeId) -> Type<'t, 's> {
        if let Some(Some(known)) = self.known.get(id.index()) {
            return known.clone();
        }
        if self.followed == FOLLOWED_MAX {
            return Type::any();
        }
        self.remember(id, Type::any());
        self.followed += 1;
        let found = self.find(id);
        self.followed -= 1;
        self.remember(id, found.clone());
        found
    }

    fn remember(&mut self, id: NodeId, found: Type<'t, 's>) {
        if let Some(place) = self.known.get_mut(id.index()) {
            *place = Some(found);
        }
    }

    fn find(&mut self, id: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        match &tree.node(id).kind {
            Kind::Null => Type::of(Kinds::NULL),
            Kind::Boolean(_) | Kind::InSuper { .. } => Type::of(Kinds::BOOLEAN),
            Kind::Number(_) => Type::of(Kinds::NUMBER),
            Kind::Text { .. } => Type::of(Kinds::TEXT),
            Kind::Array { .. } => Type {
                kinds: Kinds::ARRAY,
                shape: Shape::Items(id),
            },
            Kind::ArrayComprehension { .. } => Type::of(Kinds::ARRAY),
            Kind::Object { fields, .. } if fields.len() <= FIELDS_MAX => Type {
                kinds: Kinds::OBJECT,
                shape: Shape::Objects(Rc::new([id])),
            },
            Kind::Object { .. } | Kind::ObjectComprehension { .. } | Kind::SelfObject | Kind::Dollar => {
                Type::of(Kinds::OBJECT)
            }
            Kind::Function { parameters, body } => function(parameters, *body),
            Kind::Local { body, .. } => self.of(*body),
            Kind::Assert { rest, .. } => self.of(*rest),
            Kind::Parens { inner, .. } => self.of(*inner),
            Kind::Conditional(conditional) => {
                let if_true = self.of(conditional.if_true);
                let if_false = match conditional.if_false {
                    Some((_, if_false)) => self.of(if_false),
                    None => Type::of(Kinds::NULL),
                };
                either(&if_true, &if_false)
            }
            Kind::Import { kind, .. } => match kind {
                ImportKind::Code => self.imported.get(&id).map_or_else(Type::any, Self::foreign),
                ImportKind::Text => Type::of(Kinds::TEXT),
                ImportKind::Bytes => Type::of(Kinds::ARRAY),
            },
            Kind::Unary { operator, .. } => Type::of(match operator {
                UnaryOperator::Not => Kinds::BOOLEAN,
                UnaryOperator::BitNot | UnaryOperator::Plus | UnaryOperator::Minus => Kinds::NUMBER,
            }),
            Kind::Binary {
                left,
                operator,
                right,
                ..
            } => self.binary(*left, *operator, *right),
            Kind::ApplyBrace { left, right } => self.sum(*left, *right),
            Kind::Apply(apply) => self.result(apply),
            Kind::Index { target, index, .. } => self.element(*target, *index),
            Kind::Member { target, name, .. } => self.member(*target, name),
            Kind::Variable(_) => self.variable(id),
            // An error gives nothing at all, so whatever is done with it is right.
            Kind::Error(_) | Kind::Slice(_) | Kind::SuperIndex { .. } | Kind::SuperMember { .. } => {
                Type::any()
            }
        }
    }

    fn variable(&mut self, id: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        match self.scopes.binding(id) {
            Some(Binding::Standard) => Type {
                kinds: Kinds::OBJECT,
                shape: Shape::Standard,
            },
            Some(Binding::Value(value)) => self.of(value),
            Some(Binding::Function { of, bind }) => {
                let found = match &tree.node(of).kind {
                    Kind::Local { binds, .. } => binds.get(bind).map(|bind| (&bind.parameters, bind.body)),
                    Kind::Object { fields, .. } | Kind::ObjectComprehension { fields, .. } => {
                        fields.get(bind).map(|field| (&field.parameters, field.value))
                    }
                    _ => None,
                };
                match found {
                    Some((Some(parameters), body)) => function(parameters, body),
                    _ => Type::any(),
                }
            }
            Some(Binding::Open) | None => Type::any(),
        }
    }

    fn binary(&mut self, left: NodeId, operator: BinaryOperator, right: NodeId) -> Type<'t, 's> {
        match operator {
            BinaryOperator::Plus => self.sum(left, right),
            BinaryOperator::Modulo => {
                let left = self.of(left).kinds;
                match () {
                    () if left.must_be(Kinds::NUMBER) => Type::of(Kinds::NUMBER),
                    () if left.must_be(Kinds::TEXT) => Type::of(Kinds::TEXT),
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
            | BinaryOperator::BitOr => Type::of(Kinds::NUMBER),
            BinaryOperator::Greater
            | BinaryOperator::GreaterOrEqual
            | BinaryOperator::Less
            | BinaryOperator::LessOrEqual
            | BinaryOperator::In
            | BinaryOperator::Equal
            | BinaryOperator::Unequal
            | BinaryOperator::And
            | BinaryOperator::Or => Type::of(Kinds::BOOLEAN),
        }
    }

    fn sum(&mut self, left: NodeId, right: NodeId) -> Type<'t, 's> {
        let (left, right) = (self.of(left), self.of(right));
        let both = |kind: Kinds| left.kinds.must_be(kind) && right.kinds.must_be(kind);
        if left.kinds.must_be(Kinds::TEXT) || right.kinds.must_be(Kinds::TEXT) {
            return Type::of(Kinds::TEXT);
        }
        for kind in [Kinds::NUMBER, Kinds::ARRAY] {
            if both(kind) {
                return Type::of(kind);
            }
        }
        if !both(Kinds::OBJECT) {
            return Type::any();
        }
        let shape = match (&left.shape, &right.shape) {
            (Shape::Objects(one), Shape::Objects(other)) if one.len() + other.len() <= SUMMED_MAX => {
                Shape::Objects(one.iter().chain(other.iter()).copied().collect())
            }
            _ => Shape::Unknown,
        };
        Type {
            kinds: Kinds::OBJECT,
            shape,
        }
    }

    fn result(&mut self, apply: &Apply<'s>) -> Type<'t, 's> {
        let tree = self.tree;
        if let Some(standard) = self.standard_function(apply.target) {
            let shape = match standard.gives {
                Kinds::ARRAY if standard.items != Kinds::ANY => Shape::ItemsOf(standard.items),
                _ => Shape::Unknown,
            };
            let kinds = standard.gives;
            return Type { kinds, shape };
        }
        let target = self.of(apply.target);
        if !target.kinds.may_be(Kinds::FUNCTION) {
            return Type::nothing();
        }
        match target.shape {
            Shape::Function(_, body) if tree.nodes.len() > body.index() => self.of(body),
            Shape::Foreign(foreign) => match &foreign.shape {
                ForeignShape::Function(_, gives) => Self::foreign(gives),
                _ => Type::any(),
            },
            _ => Type::any(),
        }
    }

    fn member(&mut self, target: NodeId, name: &str) -> Type<'t, 's> {
        if !self.of(target).kinds.may_be(Kinds::OBJECT) {
            return Type::nothing();
        }
        match self.field(target, name) {
            Found::Value(value) => value,
            Found::Missing => Type::nothing(),
        }
    }

    /// The function of the standard library an expression names.
    pub(super) fn standard_function(&mut self, id: NodeId) -> Option<standard::StandardFunction> {
        let tree = self.tree;
        let Kind::Member { target, name, .. } = &tree.node(id).kind else {
            return None;
        };
        let target = self.of(*target);
        matches!(target.shape, Shape::Standard).then(|| standard::function(name))?
    }

    fn element(&mut self, target: NodeId, index: NodeId) -> Type<'t, 's> {
        let tree = self.tree;
        let (indexed, by) = (self.of(target), self.of(index).kinds);
        let is_list = indexed.kinds.may_be(Kinds::ARRAY.or(Kinds::TEXT)) && by.may_be(Kinds::NUMBER);
        let is_object = indexed.kinds.may_be(Kinds::OBJECT) && by.may_be(Kinds::TEXT);
        if !is_list && !is_object {
            return Type::nothing();
        }
        if indexed.kinds.must_be(Kinds::TEXT) {
            return Type::of(Kinds::TEXT);
        }
        if let Shape::ItemsOf(kinds) = indexed.shape {
            return Type::of(kinds);
        }
        match &tree.node(index).kind {
            Kind::Text { .. } => match tree.literal(index) {
                Some(name) => self.member(target, &name),
                None => Type::any(),
            },
            Kind::Number(number) => number
                .parse::<usize>()
                .map_or_else(|_| Type::any(), |number| self.item(&indexed.shape, number)),
            _ => Type::any(),
        }
    }

    fn item(&mut self, array: &Shape<'t, 's>, number: usize) -> Type<'t, 's> {
        let tree = self.tree;
        match array {
            Shape::Items(array) => match &tree.node(*array).kind {
                Kind::Array { items, .. } => match items.get(number) {
                    Some(item) => self.of(item.expression),
                    None => Type::any(),
                },
                _ => Type::any(),
            },
            Shape::Foreign(foreign) => match &foreign.shape {
                ForeignShape::Items(items) => items.get(number).map_or_else(Type::any, Self::foreign),
                _ => Type::any(),
            },
            _ => Type::any(),
        }
    }

    /// A field of what an expression gives.
    pub(super) fn field(&mut self, target: NodeId, name: &str) -> Found<'t, 's> {
        let target = self.of(target);
        if !target.kinds.must_be(Kinds::OBJECT) {
            return Found::Value(Type::any());
        }
        match target.shape {
            Shape::Objects(objects) => self.field_of_sum(&objects, name),
            // Where one of them lacks the field, using it fails; where it does not fail, it is another.
            Shape::OneOf(sums) => {
                let mut found = Found::Missing;
                for objects in sums.iter() {
                    found = found.or(self.field_of_sum(objects, name));
                }
                found
            }
            Shape::Foreign(foreign) => match &foreign.shape {
                ForeignShape::Fields(fields) => fields
                    .get(name)
                    .map_or(Found::Missing, |field| Found::Value(Self::foreign(field))),
                _ => Found::Value(Type::any()),
            },
            _ => Found::Value(Type::any()),
        }
    }

    /// A field of a sum of objects: the rightmost of that name, or one right of it whose name is computed.
    pub(super) fn field_of_sum(&mut self, objects: &[NodeId], name: &str) -> Found<'t, 's> {
        let tree = self.tree;
        let mut found = Found::Missing;
        for object in objects.iter().rev() {
            let Kind::Object { fields, .. } = &tree.node(*object).kind else {
                continue;
            };
            let named = fields
                .iter()
                .find(|field| field_name(tree, field).is_some_and(|own| own == name));
            if let Some(field) = named {
                return found.or(Found::Value(self.value(field)));
            }
            for field in fields.iter().filter(|field| is_computed(field)) {
                found = found.or(Found::Value(self.value(field)));
            }
        }
        found
    }

    fn value(&mut self, field: &'t Field<'s>) -> Type<'t, 's> {
        match (&field.parameters, &field.kind) {
            (Some(parameters), _) => function(parameters, field.value),
            (None, FieldKind::Field { plus: false, .. }) => self.of(field.value),
            // What is added to is found further left, or nowhere.
            (None, _) => Type::any(),
        }
    }
}

impl Found<'_, '_> {
    /// Returns the result for a value that is either of two.
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
        shape: Shape::Function(parameters, body),
    }
}

/// Returns the number of arguments a function takes, at least and at most.
fn arity(shape: &Shape<'_, '_>) -> Option<(usize, usize)> {
    match shape {
        Shape::Function(parameters, _) => {
            let needed = parameters
                .list
                .iter()
                .filter(|parameter| parameter.default.is_none());
            Some((needed.count(), parameters.list.len()))
        }
        Shape::Arity(min, max) => Some((*min, *max)),
        Shape::Foreign(foreign) => match &foreign.shape {
            ForeignShape::Function(parameters, _) => {
                let needed = parameters.iter().filter(|(_, is_needed)| *is_needed);
                Some((needed.count(), parameters.len()))
            }
            _ => None,
        },
        Shape::Unknown
        | Shape::Items(_)
        | Shape::ItemsOf(_)
        | Shape::Objects(_)
        | Shape::OneOf(_)
        | Shape::Standard => None,
    }
}

/// The sums of objects of which a value is one.
fn sums(shape: &Shape<'_, '_>) -> Option<Vec<Rc<[NodeId]>>> {
    match shape {
        Shape::Objects(objects) => Some(vec![Rc::clone(objects)]),
        Shape::OneOf(sums) => Some(sums.to_vec()),
        Shape::Unknown
        | Shape::Items(_)
        | Shape::ItemsOf(_)
        | Shape::Function(..)
        | Shape::Arity(..)
        | Shape::Foreign(_)
        | Shape::Standard => None,
    }
}

fn either<'t, 's>(one: &Type<'t, 's>, other: &Type<'t, 's>) -> Type<'t, 's> {
    let kinds = one.kinds.or(other.kinds);
    if let (Some(mut all), Some(others)) = (sums(&one.shape), sums(&other.shape)) {
        all.extend(others);
        let known = all.len() <= ALTERNATIVES_MAX;
        let shape = if known {
            Shape::OneOf(all.into())
        } else {
            Shape::Unknown
        };
        return Type { kinds, shape };
    }
    let shape = match (arity(&one.shape), arity(&other.shape)) {
        (Some((min, max)), Some((other_min, other_max))) => {
            Shape::Arity(min.min(other_min), max.max(other_max))
        }
        _ => Shape::Unknown,
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

pub(super) fn field_name<'t>(tree: &'t Tree<'_>, field: &'t Field<'_>) -> Option<Cow<'t, str>> {
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
