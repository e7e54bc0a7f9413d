//! What kind of value an expression gives, as far as the file alone shows it for sure.

use super::kinds::Kinds;
use super::scope::{Binding, Scopes};
use super::standard;
use crate::jsonnet::syntax::{
    Apply, BinaryOperator, Field, FieldKind, FieldName, ImportKind, Kind, NodeId, Parameters, Tree,
    UnaryOperator, unescape,
};
use std::borrow::Cow;
use std::rc::Rc;

/// Expressions that are followed from one to the next, through names and calls.
const FOLLOWED_MAX: usize = 64;
/// Fields of an object that is still known field by field.
const FIELDS_MAX: usize = 1_000;
/// Objects whose sum is still known field by field.
const SUMMED_MAX: usize = 16;

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Type<'t, 's> {
    pub(super) kinds: Kinds,
    pub(super) shape: Shape<'t, 's>,
}

/// What is known beyond the kind.
#[derive(Clone, Debug)]
pub(super) enum Shape<'t, 's> {
    /// Nothing.
    Unknown,
    /// The items of an array.
    Items(NodeId),
    /// The objects it is the sum of, all of whose fields are known.
    Objects(Rc<[NodeId]>),
    /// The function it is.
    Function(&'t Parameters<'s>, NodeId),
    /// A function that takes at least and at most so many arguments.
    Arity(usize, usize),
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
}

/// A field that was looked for.
pub(super) enum Found<'t, 's> {
    /// It is there, or may be.
    Value(Type<'t, 's>),
    /// It is not there for sure.
    Missing,
}

pub(super) struct Types<'t, 's> {
    tree: &'t Tree<'s>,
    scopes: &'t Scopes,
    known: Vec<Option<Type<'t, 's>>>,
    followed: usize,
}

impl<'t, 's> Types<'t, 's> {
    pub(super) fn new(tree: &'t Tree<'s>, scopes: &'t Scopes) -> Self {
        Self {
            tree,
            scopes,
            known: vec![None; tree.nodes.len()],
            followed: 0,
        }
    }

    /// What an expression gives. While it is being found out, it may be anything.
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
            Kind::Object { fields, .. } if fields.len() <= FIELDS_MAX && fields.iter().all(is_named) => {
                Type {
                    kinds: Kinds::OBJECT,
                    shape: Shape::Objects(Rc::new([id])),
                }
            }
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
                ImportKind::Code => Type::any(),
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
            Kind::Member { target, name, .. } => match self.field(*target, name) {
                Found::Value(value) => value,
                Found::Missing => Type::any(),
            },
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
            return Type::of(standard.gives);
        }
        let target = self.of(apply.target);
        match target.shape {
            Shape::Function(_, body) if tree.nodes.len() > body.index() => self.of(body),
            _ => Type::any(),
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
        if self.of(target).kinds.must_be(Kinds::TEXT) {
            return Type::of(Kinds::TEXT);
        }
        match &tree.node(index).kind {
            Kind::Text { .. } => {
                let Some(name) = literal(tree, index) else {
                    return Type::any();
                };
                match self.field(target, &name) {
                    Found::Value(value) => value,
                    Found::Missing => Type::any(),
                }
            }
            Kind::Number(number) => {
                let target = self.of(target);
                let (Shape::Items(array), Ok(number)) = (target.shape, number.parse::<usize>()) else {
                    return Type::any();
                };
                let item = match &tree.node(array).kind {
                    Kind::Array { items, .. } => items.get(number).map(|item| item.expression),
                    _ => None,
                };
                item.map_or_else(Type::any, |item| self.of(item))
            }
            _ => Type::any(),
        }
    }

    /// A field of what an expression gives.
    pub(super) fn field(&mut self, target: NodeId, name: &str) -> Found<'t, 's> {
        let tree = self.tree;
        let target = self.of(target);
        let (true, Shape::Objects(objects)) = (target.kinds.must_be(Kinds::OBJECT), target.shape) else {
            return Found::Value(Type::any());
        };
        for object in objects.iter().rev() {
            let Kind::Object { fields, .. } = &tree.node(*object).kind else {
                continue;
            };
            let named = fields
                .iter()
                .find(|field| field_name(tree, field).is_some_and(|own| own == name));
            let Some(field) = named else { continue };
            let FieldKind::Field { plus, .. } = &field.kind else {
                continue;
            };
            return Found::Value(match (&field.parameters, plus) {
                (Some(parameters), _) => function(parameters, field.value),
                (None, false) => self.of(field.value),
                // What is added to is found further left, or nowhere.
                (None, true) => Type::any(),
            });
        }
        Found::Missing
    }
}

fn function<'t, 's>(parameters: &'t Parameters<'s>, body: NodeId) -> Type<'t, 's> {
    Type {
        kinds: Kinds::FUNCTION,
        shape: Shape::Function(parameters, body),
    }
}

/// How many arguments a function takes, at least and at most.
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
        Shape::Unknown | Shape::Items(_) | Shape::Objects(_) | Shape::Standard => None,
    }
}

fn either<'t, 's>(one: &Type<'t, 's>, other: &Type<'t, 's>) -> Type<'t, 's> {
    let kinds = one.kinds.or(other.kinds);
    let shape = match (arity(&one.shape), arity(&other.shape)) {
        (Some((min, max)), Some((other_min, other_max))) => {
            Shape::Arity(min.min(other_min), max.max(other_max))
        }
        _ => Shape::Unknown,
    };
    Type { kinds, shape }
}

fn is_named(field: &Field<'_>) -> bool {
    !matches!(
        field.kind,
        FieldKind::Field {
            name: FieldName::Computed { .. },
            ..
        }
    )
}

/// What a string in the source means.
pub(super) fn literal<'t>(tree: &'t Tree<'_>, id: NodeId) -> Option<Cow<'t, str>> {
    let Kind::Text { style, value, .. } = &tree.node(id).kind else {
        return None;
    };
    match style.keeps_escapes() {
        true => unescape(value).ok(),
        false => Some(Cow::Borrowed(value)),
    }
}

fn field_name<'t>(tree: &'t Tree<'_>, field: &'t Field<'_>) -> Option<Cow<'t, str>> {
    match &field.kind {
        FieldKind::Field {
            name: FieldName::Identifier(name),
            ..
        } => Some(Cow::Borrowed(name)),
        FieldKind::Field {
            name: FieldName::Text(text),
            ..
        } => literal(tree, *text),
        _ => None,
    }
}
