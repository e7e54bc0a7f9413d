//! The known facts about the value of a file, in the form for its importers.

use super::import_values::{ImportedShape, ImportedValue};
use super::types::{FieldLookup, Type, TypeInference, ValueShape, field_name, is_computed};
use crate::rendering::jsonnet::syntax::{NodeId, NodeKind};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

impl<'t, 's> TypeInference<'t, 's> {
    /// Returns the known facts about a value in a form that does not refer to its file. Each part uses up one of
    /// `parts_left`.
    pub(super) fn export_value(
        &mut self,
        value: &Type<'t, 's>,
        deep: usize,
        parts_left: &mut usize,
    ) -> Arc<ImportedValue> {
        let unknown = ImportedValue::from_kinds(value.kinds);
        if deep == 0 || *parts_left == 0 {
            return unknown;
        }
        *parts_left -= 1;
        let tree = self.tree();
        let shape = match &value.shape {
            ValueShape::Imported(foreign) => return Arc::clone(foreign),
            ValueShape::Objects(objects) => self.export_fields(objects, deep, parts_left),
            ValueShape::Items(array) => match &tree.node(*array).kind {
                NodeKind::Array { items, .. } if items.len() < *parts_left => {
                    let mut exported = Vec::with_capacity(items.len());
                    for item in items {
                        let item = self.type_of(item.expression);
                        exported.push(self.export_value(&item, deep - 1, parts_left));
                    }
                    Some(ImportedShape::Items(exported))
                }
                _ => None,
            },
            ValueShape::Function(parameters, body) => {
                let names = parameters.list.iter();
                let names = names.map(|parameter| (parameter.name.to_owned(), parameter.default.is_none()));
                let gives = self.type_of(*body);
                let gives = self.export_value(&gives, deep - 1, parts_left);
                Some(ImportedShape::Function(names.collect(), gives))
            }
            ValueShape::Unknown
            | ValueShape::ItemsOf(_)
            | ValueShape::OneOf(_)
            | ValueShape::Arity(..)
            | ValueShape::StandardLibrary => None,
        };
        shape.map_or(unknown, |shape| {
            Arc::new(ImportedValue {
                kinds: value.kinds,
                shape,
            })
        })
    }

    /// Returns all fields of a sum of objects; `None` if one of the names is computed.
    fn export_fields(
        &mut self,
        objects: &Rc<[NodeId]>,
        deep: usize,
        parts_left: &mut usize,
    ) -> Option<ImportedShape> {
        let tree = self.tree();
        let mut names = BTreeSet::new();
        for object in objects.iter() {
            let NodeKind::Object { fields, .. } = &tree.node(*object).kind else {
                return None;
            };
            if fields.iter().any(is_computed) || fields.len() > *parts_left {
                return None;
            }
            names.extend(fields.iter().filter_map(|field| field_name(tree, field)));
        }
        let mut exported = BTreeMap::new();
        for name in names {
            let FieldLookup::Value(value) = self.field_of_sum(objects, &name) else {
                continue;
            };
            exported.insert(name.into_owned(), self.export_value(&value, deep - 1, parts_left));
        }
        Some(ImportedShape::Fields(exported))
    }

    /// Returns the type of a value of another file.
    pub(super) fn imported_type(foreign: &Arc<ImportedValue>) -> Type<'t, 's> {
        Type {
            kinds: foreign.kinds,
            shape: match foreign.shape {
                ImportedShape::Unknown => ValueShape::Unknown,
                _ => ValueShape::Imported(Arc::clone(foreign)),
            },
        }
    }
}
