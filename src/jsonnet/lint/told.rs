//! The known facts about the value of a file that its importers are told.

use super::follow::{Foreign, ForeignShape};
use super::types::{Found, Shape, Type, Types, field_name, is_computed};
use crate::jsonnet::syntax::{Kind, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

impl<'t, 's> Types<'t, 's> {
    /// Returns what is known of a value in a form that does not refer to its file. Each part takes one of `parts_left`.
    pub(super) fn told(&mut self, value: &Type<'t, 's>, deep: usize, parts_left: &mut usize) -> Arc<Foreign> {
        let unknown = Foreign::of(value.kinds);
        if deep == 0 || *parts_left == 0 {
            return unknown;
        }
        *parts_left -= 1;
        let tree = self.tree();
        let shape = match &value.shape {
            Shape::Foreign(foreign) => return Arc::clone(foreign),
            Shape::Objects(objects) => self.told_fields(objects, deep, parts_left),
            Shape::Items(array) => match &tree.node(*array).kind {
                Kind::Array { items, .. } if items.len() < *parts_left => {
                    let mut told = Vec::with_capacity(items.len());
                    for item in items {
                        let item = self.of(item.expression);
                        told.push(self.told(&item, deep - 1, parts_left));
                    }
                    Some(ForeignShape::Items(told))
                }
                _ => None,
            },
            Shape::Function(parameters, body) => {
                let names = parameters.list.iter();
                let names = names.map(|parameter| (parameter.name.to_owned(), parameter.default.is_none()));
                let gives = self.of(*body);
                let gives = self.told(&gives, deep - 1, parts_left);
                Some(ForeignShape::Function(names.collect(), gives))
            }
            Shape::Unknown | Shape::ItemsOf(_) | Shape::OneOf(_) | Shape::Arity(..) | Shape::Standard => None,
        };
        shape.map_or(unknown, |shape| {
            Arc::new(Foreign {
                kinds: value.kinds,
                shape,
            })
        })
    }

    /// Returns all fields of a sum of objects; `None` where one of them has a name that is computed.
    fn told_fields(
        &mut self,
        objects: &Rc<[NodeId]>,
        deep: usize,
        parts_left: &mut usize,
    ) -> Option<ForeignShape> {
        let tree = self.tree();
        let mut names = BTreeSet::new();
        for object in objects.iter() {
            let Kind::Object { fields, .. } = &tree.node(*object).kind else {
                return None;
            };
            if fields.iter().any(is_computed) || fields.len() > *parts_left {
                return None;
            }
            names.extend(fields.iter().filter_map(|field| field_name(tree, field)));
        }
        let mut told = BTreeMap::new();
        for name in names {
            let Found::Value(value) = self.field_of_sum(objects, &name) else {
                continue;
            };
            told.insert(name.into_owned(), self.told(&value, deep - 1, parts_left));
        }
        Some(ForeignShape::Fields(told))
    }

    /// Returns the type of a value of another file.
    pub(super) fn foreign(foreign: &Arc<Foreign>) -> Type<'t, 's> {
        Type {
            kinds: foreign.kinds,
            shape: match foreign.shape {
                ForeignShape::Unknown => Shape::Unknown,
                _ => Shape::Foreign(Arc::clone(foreign)),
            },
        }
    }
}
