//! Finds the Kubernetes objects in a value of any structure, and expands lists of objects.

use super::error::{PrimitiveReason, TankaError};
use super::object::Object;
use super::verify;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A field of older libraries that belongs to no object.
const HIDDEN_FIELD: &str = "__ksonnet";

/// Returns the objects in a value in the order of their paths. A `null` member of an object is ignored.
pub(super) fn extract(value: Value) -> Result<Vec<Object>, TankaError> {
    let mut paths = Vec::new();
    match find_objects(&value, &mut Vec::new(), &mut paths) {
        Ok(()) => {}
        Err(ExtractError::Primitive(at)) => {
            return Err(TankaError::Primitive {
                environment: None,
                at,
                reason: PrimitiveReason::NoObject,
                object: None,
            });
        }
        Err(ExtractError::Error(err)) => return Err(err),
    }
    let mut objects = Vec::with_capacity(paths.len());
    take_objects(value, &mut objects);
    let found = paths.into_iter().zip(objects);
    Ok(found.map(|(path, value)| Object { path, value }).collect())
}

/// Replaces lists by their items, including nested lists.
pub(super) fn open_lists(objects: Vec<Object>) -> Result<Vec<Object>, TankaError> {
    let mut opened = Vec::with_capacity(objects.len());
    let mut pending: Vec<Object> = objects.into_iter().rev().collect();
    while let Some(mut object) = pending.pop() {
        let Some(items) = object.value.get_mut("items").and_then(Value::as_array_mut) else {
            opened.push(object);
            continue;
        };
        let items = std::mem::take(items).into_iter().enumerate();
        let items = items.map(|(position, item)| {
            let path = format!("{}.items[{position}]", object.path);
            let members = match item {
                Value::Object(members) => members,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Map::new()
                }
            };
            match verify::check_required_fields(&members) {
                Ok(()) => Ok(Object {
                    path,
                    value: Value::Object(members),
                }),
                Err(fields) => Err(incomplete(path, fields, members)),
            }
        });
        let items = items.collect::<Result<Vec<Object>, _>>()?;
        pending.extend(items.into_iter().rev());
    }
    Ok(opened)
}

fn incomplete(at: String, fields: BTreeMap<String, String>, members: Map<String, Value>) -> TankaError {
    TankaError::Schema {
        environment: None,
        at,
        fields,
        object: Box::new(Value::Object(members)),
    }
}

enum ExtractError {
    /// A scalar outside any object, with the path of its parent.
    Primitive(String),
    Error(TankaError),
}

/// Finds the objects, or returns the reason why a value is not one. The parser has already limited the nesting
/// depth.
fn find_objects(value: &Value, trace: &mut Vec<String>, paths: &mut Vec<String>) -> Result<(), ExtractError> {
    match value {
        Value::Object(members) => find_in_members(members, trace, paths),
        Value::Array(items) => {
            for (position, item) in items.iter().enumerate() {
                trace.push(format!("[{position}]"));
                find_objects(item, trace, paths)?;
                trace.pop();
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let parent = trace
                .split_last()
                .map_or_else(Default::default, |(_, parent)| parent);
            Err(ExtractError::Primitive(path_of(parent)))
        }
    }
}

fn find_in_members(
    members: &Map<String, Value>,
    trace: &mut Vec<String>,
    paths: &mut Vec<String>,
) -> Result<(), ExtractError> {
    let Err(reason) = verify::check_type_meta(members) else {
        let path = path_of(trace);
        return match verify::check_required_fields(members) {
            Ok(()) => {
                paths.push(path);
                Ok(())
            }
            Err(fields) => Err(ExtractError::Error(incomplete(
                path,
                fields,
                without_hidden(members),
            ))),
        };
    };
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (key, member) in sorted
        .into_iter()
        .filter(|(key, member)| is_searched(key, member))
    {
        trace.push(key.clone());
        match find_objects(member, trace, paths) {
            Ok(()) => {}
            Err(ExtractError::Primitive(at)) => {
                return Err(ExtractError::Error(TankaError::Primitive {
                    environment: None,
                    at,
                    reason,
                    object: Some(Box::new(Value::Object(without_hidden(members)))),
                }));
            }
            Err(stop @ ExtractError::Error(_)) => return Err(stop),
        }
        trace.pop();
    }
    Ok(())
}

/// Moves the objects that were found out of the value, in the same order.
fn take_objects(value: Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(mut members) if verify::check_type_meta(&members).is_ok() => {
            members.remove(HIDDEN_FIELD);
            found.push(Value::Object(members));
        }
        Value::Object(members) => {
            let mut sorted: Vec<(String, Value)> = members.into_iter().collect();
            sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let looked_into = sorted
                .into_iter()
                .filter(|(key, member)| is_searched(key, member));
            looked_into.for_each(|(_, member)| take_objects(member, found));
        }
        Value::Array(items) => items.into_iter().for_each(|item| take_objects(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_searched(key: &str, member: &Value) -> bool {
    !member.is_null() && key != HIDDEN_FIELD
}

fn without_hidden(members: &Map<String, Value>) -> Map<String, Value> {
    let mut members = members.clone();
    members.remove(HIDDEN_FIELD);
    members
}

fn path_of(trace: &[String]) -> String {
    format!(".{}", trace.join("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{extract, open_lists};
    use serde_json::{Value, json};

    fn named(name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
    }

    fn paths(value: Value) -> Vec<String> {
        let objects = open_lists(extract(value).unwrap()).unwrap();
        objects.into_iter().map(|object| object.path).collect()
    }

    fn error(value: Value) -> String {
        extract(value).unwrap_err().in_environment("e").to_string()
    }

    #[test]
    fn objects_are_found_at_any_depth_and_lists_are_opened() {
        let list = |items: Value| json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let value = json!({
            "z": { "deep": [named("a"), { "more": named("b") }] },
            "nothing": null,
            "l": list(json!([named("c"), list(json!([named("d"), list(json!([]))]))])),
        });
        assert_eq!(
            paths(value),
            [
                ".l.items[0]",
                ".l.items[1].items[0]",
                ".z.deep.[0]",
                ".z.deep.[1].more"
            ]
        );
        assert_eq!(paths(named("a")), ["."]);
        assert_eq!(paths(json!({})), Vec::<String>::new());
        assert_eq!(paths(json!([])), Vec::<String>::new());
    }

    #[test]
    fn the_field_of_older_libraries_disappears() {
        let mut value = named("a");
        value["__ksonnet"] = json!("x");
        assert_eq!(extract(value).unwrap()[0].value, named("a"));
    }

    #[test]
    fn a_scalar_names_the_nearest_object_and_what_it_lacks() {
        let prefix = "got an error while extracting env `e`: found invalid Kubernetes object";
        for (value, rest) in [
            (
                json!({ "a": [null] }),
                "(at .a): missing attribute \"apiVersion\"\n\na:\n    - null\n",
            ),
            (
                json!({ "a": { "apiVersion": "v1", "kind": 3000, "metadata": {} } }),
                "(at .a): attribute \"kind\" is not a string, it is a float64\n\napiVersion: v1\nkind: 3000\nmetadata: {}\n",
            ),
            (
                json!({ "a": { "apiVersion": "v1", "kind": "" } }),
                "(at .a): attribute \"kind\" is empty\n\napiVersion: v1\nkind: \"\"\n",
            ),
            (
                json!({ "a": [{ "b": { "c": 1 } }] }),
                "(at .a.[0].b): missing attribute \"apiVersion\"\n\nc: 1\n",
            ),
            (json!("text"), "(at .): %!s(<nil>)\n\n{}\n"),
            (json!(null), "(at .): %!s(<nil>)\n\n{}\n"),
            (json!([1]), "(at .): %!s(<nil>)\n\n{}\n"),
        ] {
            assert_eq!(error(value), format!("{prefix} {rest}"));
        }
    }

    #[test]
    fn objects_without_what_they_need_are_shown() {
        let value = json!({ "a": { "apiVersion": "v1", "kind": "X" } });
        assert_eq!(
            error(value),
            "got an error while extracting env `e`: .a has missing or invalid fields:\n  \
             - metadata: missing or not an object\n  - metadata.name: missing or not of string type\n\n\
             Please check below object:\n  apiVersion: v1\n  kind: X"
        );
        let items = json!({ "apiVersion": "v1", "kind": "List", "items": [1] });
        let refused = open_lists(extract(json!({ "l": items })).unwrap()).unwrap_err();
        let expected = ".l.items[0] has missing or invalid fields:\n  - apiVersion: ";
        assert!(refused.to_string().starts_with(expected), "{refused}");
    }
}
