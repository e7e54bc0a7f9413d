//! Checks of values that are used in a way their kind does not allow.

use super::arguments;
use super::import_values::{ImportedShape, ImportedValues};
use super::kinds::Kinds;
use super::scope::Scopes;
use super::types::{FieldLookup, TypeInference, ValueShape};
use super::{LintCode, RawFindings};
use crate::rendering::jsonnet::syntax::{Apply, NodeId, NodeKind, Span, SyntaxTree, UnaryOperator};
use std::borrow::Cow;

pub(super) fn check(
    tree: &SyntaxTree<'_>,
    scopes: &Scopes,
    imported: &ImportedValues,
    notes: &mut RawFindings,
) {
    let mut checker = Checker {
        types: TypeInference::new(tree, scopes, imported),
        tree,
        notes,
    };
    for node in &tree.nodes {
        match &node.kind {
            NodeKind::Apply(apply) => checker.call(apply, node.span),
            NodeKind::Index { target, index, .. } => checker.index(*target, *index, node.span),
            NodeKind::Member { target, name, .. } => checker.member(*target, name, node.span),
            NodeKind::Unary { operator, operand } => checker.unary(*operator, *operand, node.span),
            _ => {}
        }
    }
}

struct Checker<'t, 's, 'n> {
    types: TypeInference<'t, 's>,
    tree: &'t SyntaxTree<'s>,
    notes: &'n mut RawFindings,
}

impl<'s> Checker<'_, 's, '_> {
    fn call(&mut self, apply: &Apply<'s>, span: Span) {
        if let Some(standard) = self.types.standard_function(apply.target) {
            let bounds = (standard.arguments_min, standard.arguments_max);
            return arguments::check_count(bounds, apply, span, self.notes);
        }
        let target = self.types.type_of(apply.target);
        if !target.kinds.may_be(Kinds::FUNCTION) {
            let assumed = target.kinds.describe();
            let message = format!("Called value must be a function, but it is assumed to be {assumed}");
            return self.notes.add(LintCode::Type, span, message);
        }
        if !target.kinds.must_be(Kinds::FUNCTION) {
            return;
        }
        match target.shape {
            ValueShape::Function(parameters, _) if parameters.list.is_empty() => {
                arguments::check_count((0, 0), apply, span, self.notes);
            }
            ValueShape::Function(parameters, _) => {
                arguments::check_arguments(
                    &arguments::parameter_specs(parameters),
                    apply,
                    self.tree,
                    span,
                    self.notes,
                );
            }
            ValueShape::Imported(foreign) => {
                if let ImportedShape::Function(parameters, _) = &foreign.shape {
                    let wanted = parameters.iter().map(|(name, needed)| (name.as_str(), *needed));
                    let wanted: Vec<_> = wanted.collect();
                    match wanted.is_empty() {
                        true => arguments::check_count((0, 0), apply, span, self.notes),
                        false => arguments::check_arguments(&wanted, apply, self.tree, span, self.notes),
                    }
                }
            }
            ValueShape::Arity(min, max) => arguments::check_count((min, max), apply, span, self.notes),
            ValueShape::Unknown
            | ValueShape::Items(_)
            | ValueShape::ItemsOf(_)
            | ValueShape::Objects(_)
            | ValueShape::OneOf(_)
            | ValueShape::StandardLibrary => {}
        }
    }

    fn index(&mut self, target: NodeId, index: NodeId, span: Span) {
        let kinds = self.types.type_of(index).kinds;
        let name = self.tree.literal(index);
        self.check_access(target, kinds, name, span);
    }

    fn member(&mut self, target: NodeId, name: &str, span: Span) {
        self.check_access(target, Kinds::TEXT, Some(Cow::Borrowed(name)), span);
    }

    fn check_access(&mut self, target_id: NodeId, index: Kinds, name: Option<Cow<'_, str>>, span: Span) {
        let target = self.types.type_of(target_id).kinds;
        let (array, object) = (target.may_be(Kinds::ARRAY), target.may_be(Kinds::OBJECT));
        let text = target.may_be(Kinds::TEXT);
        if !array && !object && !text {
            let message = "Indexed value is neither an array nor an object nor a string";
            return self.notes.add(LintCode::Type, span, message);
        }
        if !object {
            let assumed = match (array, text) {
                (true, true) => "an array or a string",
                (true, false) => "an array",
                (false, _) => "a string",
            };
            if !index.may_be(Kinds::NUMBER) {
                let message = format!("Indexed value is assumed to be {assumed}, but index is not a number");
                self.notes.add(LintCode::Type, span, message);
            }
            return;
        }
        if array || text {
            if !index.may_be(Kinds::NUMBER.or(Kinds::TEXT)) {
                let message = "Index is neither a number (for indexing arrays and string) nor a string (for indexing objects)";
                self.notes.add(LintCode::Type, span, message);
            }
            return;
        }
        if !index.may_be(Kinds::TEXT) {
            let message = "Indexed value is assumed to be an object, but index is not a string";
            return self.notes.add(LintCode::Type, span, message);
        }
        if let Some(name) = name
            && target.must_be(Kinds::OBJECT)
            && matches!(self.types.field(target_id, &name), FieldLookup::Missing)
        {
            self.notes.add(
                LintCode::Type,
                span,
                format!("Indexed object has no field {name:?}"),
            );
        }
    }

    fn unary(&mut self, operator: UnaryOperator, operand: NodeId, span: Span) {
        let kinds = self.types.type_of(operand).kinds;
        let (wanted, word) = match operator {
            UnaryOperator::Not => (Kinds::BOOLEAN, "boolean"),
            UnaryOperator::BitNot | UnaryOperator::Plus | UnaryOperator::Minus => (Kinds::NUMBER, "number"),
        };
        if !kinds.may_be(wanted) {
            let assumed = kinds.describe();
            let message = format!("Operand is not a {word}, it is assumed to be {assumed}");
            self.notes.add(LintCode::Type, span, message);
        }
    }
}
