//! Values that are used as what they cannot be.

use super::arguments;
use super::follow::{ForeignShape, Imported};
use super::kinds::Kinds;
use super::scope::Scopes;
use super::types::{Found, Shape, Types};
use super::{Code, Notes};
use crate::jsonnet::syntax::{Apply, Kind, NodeId, Span, Tree, UnaryOperator};
use std::borrow::Cow;

pub(super) fn check(tree: &Tree<'_>, scopes: &Scopes, imported: &Imported, notes: &mut Notes) {
    let mut checker = Checker {
        types: Types::new(tree, scopes, imported),
        tree,
        notes,
    };
    for node in &tree.nodes {
        match &node.kind {
            Kind::Apply(apply) => checker.call(apply, node.span),
            Kind::Index { target, index, .. } => checker.index(*target, *index, node.span),
            Kind::Member { target, name, .. } => checker.member(*target, name, node.span),
            Kind::Unary { operator, operand } => checker.unary(*operator, *operand, node.span),
            _ => {}
        }
    }
}

struct Checker<'t, 's, 'n> {
    types: Types<'t, 's>,
    tree: &'t Tree<'s>,
    notes: &'n mut Notes,
}

impl<'s> Checker<'_, 's, '_> {
    fn call(&mut self, apply: &Apply<'s>, span: Span) {
        if let Some(standard) = self.types.standard_function(apply.target) {
            let bounds = (standard.arguments_min, standard.arguments_max);
            return arguments::count(bounds, apply, span, self.notes);
        }
        let target = self.types.of(apply.target);
        if !target.kinds.may_be(Kinds::FUNCTION) {
            let assumed = target.kinds.describe();
            let message = format!("Called value must be a function, but it is assumed to be {assumed}");
            return self.notes.add(Code::Type, span, message);
        }
        if !target.kinds.must_be(Kinds::FUNCTION) {
            return;
        }
        match target.shape {
            Shape::Function(parameters, _) if parameters.list.is_empty() => {
                arguments::count((0, 0), apply, span, self.notes);
            }
            Shape::Function(parameters, _) => {
                arguments::fit(&arguments::wanted(parameters), apply, self.tree, span, self.notes);
            }
            Shape::Foreign(foreign) => {
                if let ForeignShape::Function(parameters, _) = &foreign.shape {
                    let wanted = parameters.iter().map(|(name, needed)| (name.as_str(), *needed));
                    let wanted: Vec<_> = wanted.collect();
                    match wanted.is_empty() {
                        true => arguments::count((0, 0), apply, span, self.notes),
                        false => arguments::fit(&wanted, apply, self.tree, span, self.notes),
                    }
                }
            }
            Shape::Arity(min, max) => arguments::count((min, max), apply, span, self.notes),
            Shape::Unknown
            | Shape::Items(_)
            | Shape::ItemsOf(_)
            | Shape::Objects(_)
            | Shape::OneOf(_)
            | Shape::Standard => {}
        }
    }

    fn index(&mut self, target: NodeId, index: NodeId, span: Span) {
        let kinds = self.types.of(index).kinds;
        let name = self.tree.literal(index);
        self.indexed(target, kinds, name, span);
    }

    fn member(&mut self, target: NodeId, name: &str, span: Span) {
        self.indexed(target, Kinds::TEXT, Some(Cow::Borrowed(name)), span);
    }

    fn indexed(&mut self, target_id: NodeId, index: Kinds, name: Option<Cow<'_, str>>, span: Span) {
        let target = self.types.of(target_id).kinds;
        let (array, object) = (target.may_be(Kinds::ARRAY), target.may_be(Kinds::OBJECT));
        let text = target.may_be(Kinds::TEXT);
        if !array && !object && !text {
            let message = "Indexed value is neither an array nor an object nor a string";
            return self.notes.add(Code::Type, span, message);
        }
        if !object {
            let assumed = match (array, text) {
                (true, true) => "an array or a string",
                (true, false) => "an array",
                (false, _) => "a string",
            };
            if !index.may_be(Kinds::NUMBER) {
                let message = format!("Indexed value is assumed to be {assumed}, but index is not a number");
                self.notes.add(Code::Type, span, message);
            }
            return;
        }
        if array || text {
            if !index.may_be(Kinds::NUMBER.or(Kinds::TEXT)) {
                let message = "Index is neither a number (for indexing arrays and string) nor a string (for indexing objects)";
                self.notes.add(Code::Type, span, message);
            }
            return;
        }
        if !index.may_be(Kinds::TEXT) {
            let message = "Indexed value is assumed to be an object, but index is not a string";
            return self.notes.add(Code::Type, span, message);
        }
        if let Some(name) = name
            && target.must_be(Kinds::OBJECT)
            && matches!(self.types.field(target_id, &name), Found::Missing)
        {
            self.notes
                .add(Code::Type, span, format!("Indexed object has no field {name:?}"));
        }
    }

    fn unary(&mut self, operator: UnaryOperator, operand: NodeId, span: Span) {
        let kinds = self.types.of(operand).kinds;
        let (wanted, word) = match operator {
            UnaryOperator::Not => (Kinds::BOOLEAN, "boolean"),
            UnaryOperator::BitNot | UnaryOperator::Plus | UnaryOperator::Minus => (Kinds::NUMBER, "number"),
        };
        if !kinds.may_be(wanted) {
            let assumed = kinds.describe();
            let message = format!("Operand is not a {word}, it is assumed to be {assumed}");
            self.notes.add(Code::Type, span, message);
        }
    }
}
