//! The checks for every Kubernetes object.

use super::error::PrimitiveReason;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const NO_TEXT: &str = "missing or not of string type";
const NO_OBJECT: &str = "missing or not an object";

/// Checks that an object has the type fields of a Kubernetes object.
pub(super) fn check_type_meta(members: &Map<String, Value>) -> Result<(), PrimitiveReason> {
    for attribute in ["apiVersion", "kind"] {
        match members.get(attribute) {
            None => return Err(PrimitiveReason::Missing(attribute)),
            Some(Value::String(text)) if text.is_empty() => return Err(PrimitiveReason::Empty(attribute)),
            Some(Value::String(_)) => {}
            Some(other) => {
                return Err(PrimitiveReason::NotText {
                    attribute,
                    kind: type_name(other),
                });
            }
        }
    }
    Ok(())
}

/// Checks that an object has all required fields. Returns each wrong field with the reason.
pub(super) fn check_required_fields(members: &Map<String, Value>) -> Result<(), BTreeMap<String, String>> {
    let fields = wrong_fields(members);
    match fields.is_empty() {
        true => Ok(()),
        false => Err(fields),
    }
}

/// Returns the items of a list of any kind.
fn items(members: &Map<String, Value>) -> Option<&Vec<Value>> {
    members.get("items")?.as_array()
}

fn wrong_fields(members: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut wrong = |field: &str, why: &str| {
        fields.insert(field.to_owned(), why.to_owned());
    };
    for attribute in ["kind", "apiVersion"] {
        if !members.get(attribute).is_some_and(Value::is_string) {
            wrong(attribute, NO_TEXT);
        }
    }
    if items(members).is_some() {
        return fields;
    }
    let metadata = members.get("metadata").unwrap_or(&Value::Null);
    if !metadata.is_object() {
        wrong("metadata", NO_OBJECT);
    }
    if !metadata["name"].is_string() && !metadata["generateName"].is_string() {
        wrong("metadata.name", NO_TEXT);
    }
    for field in ["labels", "annotations"] {
        if let Some(why) = not_texts(&metadata[field]) {
            wrong(&format!("metadata.{field}"), &why);
        }
    }
    fields
}

fn not_texts(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(members) => members
            .iter()
            .find(|(_, value)| !value.is_string())
            .map(|(key, value)| format!("contains non-string field '{key}' of type '{}'", type_name(value))),
        other => Some(format!(
            "must be an object of texts, but is of type '{}'",
            type_name(other)
        )),
    }
}

/// Returns the Go name for the type of a JSON value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
