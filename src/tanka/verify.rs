//! What every Kubernetes object needs before it may pass.

use super::error::{PrimitiveReason, TankaError};
use super::object::Object;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const NO_TEXT: &str = "missing or not of string type";
const NO_OBJECT: &str = "missing or not an object";

/// Whether an object says that it is a Kubernetes object, and if not, why not.
pub(super) fn claim(members: &Map<String, Value>) -> Result<(), PrimitiveReason> {
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

/// An object with everything it needs.
pub(super) fn object(path: String, members: Map<String, Value>) -> Result<Object, TankaError> {
    let value = Value::Object(members);
    let fields = wrong_fields(&value);
    if fields.is_empty() {
        return Ok(Object { path, value });
    }
    Err(TankaError::Schema {
        environment: None,
        at: path,
        fields,
        object: Box::new(value),
    })
}

/// The items of a list, whatever kind it says it is.
pub(super) fn items(value: &Value) -> Option<&Vec<Value>> {
    value.get("items")?.as_array()
}

fn wrong_fields(value: &Value) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut wrong = |field: &str, why: &str| {
        fields.insert(field.to_owned(), why.to_owned());
    };
    for attribute in ["kind", "apiVersion"] {
        if !value[attribute].is_string() {
            wrong(attribute, NO_TEXT);
        }
    }
    if items(value).is_some() {
        return fields;
    }
    let metadata = &value["metadata"];
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

/// What Go calls the type of a JSON value.
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
