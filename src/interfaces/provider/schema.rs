//! A tool's schema, and its text in the form that providers accept: the root is an object and type names are in lower
//! case. The text is created once and used in every request.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::ops::Deref;
use std::sync::Arc;

/// The JSON Schema of a tool's arguments. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolSchema(Arc<SchemaText>);

#[derive(Debug)]
struct SchemaText {
    schema: Value,
    text: Box<RawValue>,
}

impl From<Value> for ToolSchema {
    fn from(schema: Value) -> Self {
        // Serialising a JSON value cannot fail.
        let text = to_raw_value(&Parameters(&schema)).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(Arc::new(SchemaText { schema, text }))
    }
}

impl Deref for ToolSchema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.schema
    }
}

impl PartialEq for ToolSchema {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ToolSchema {}

impl ToolSchema {
    /// Returns the schema in the form that providers accept.
    pub(super) fn parameters(&self) -> &RawValue {
        &self.0.text
    }

    /// Returns the number of bytes of the schema in a request.
    pub(super) fn bytes(&self) -> usize {
        self.0.text.get().len()
    }
}

/// The schema of a tool's arguments.
struct Parameters<'a>(&'a Value);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        for (key, value) in self.0.as_object().into_iter().flatten() {
            if key != "type" {
                entry(&mut map, key, value)?;
            }
        }
        map.end()
    }
}

/// A schema below the root.
struct Schema<'a>(&'a Value);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in object {
                    entry(&mut map, key, value)?;
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Schema(item))?;
                }
                list.end()
            }
            other => other.serialize(serializer),
        }
    }
}

fn entry<M: SerializeMap>(map: &mut M, key: &str, value: &Value) -> Result<(), M::Error> {
    match (key, value) {
        ("type", Value::String(name)) => map.serialize_entry(key, &name.to_ascii_lowercase()),
        ("type", Value::Array(names)) => {
            let names: Vec<String> = names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_ascii_lowercase)
                .collect();
            map.serialize_entry(key, &names)
        }
        // These are values, not schemas: they may have a `type` field of their own.
        ("enum" | "const" | "default" | "examples", _) => map.serialize_entry(key, value),
        _ => map.serialize_entry(key, &Schema(value)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::ToolSchema;
    use serde_json::{Value, json};

    fn encoded(schema: &Value) -> Value {
        let schema = ToolSchema::from(schema.clone());
        serde_json::from_str(schema.parameters().get()).expect("schema")
    }

    /// TK-77
    #[test]
    fn type_names_are_lower_case_everywhere() {
        let schema = json!({"type": "OBJECT", "properties": {
            "type": {"type": "STRING", "enum": [{"type": "KEPT"}]},
            "lines": {"type": ["ARRAY", "null"], "items": {"type": "Integer"}},
        }, "required": ["type"]});
        let expected = json!({"type": "object", "properties": {
            "type": {"type": "string", "enum": [{"type": "KEPT"}]},
            "lines": {"type": ["array", "null"], "items": {"type": "integer"}},
        }, "required": ["type"]});
        assert_eq!(encoded(&schema), expected);
    }

    /// TK-78
    #[test]
    fn the_root_is_always_an_object() {
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "string"}),
            json!({"type": ["null"]}),
        ] {
            assert_eq!(encoded(&schema)["type"], "object", "{schema}");
        }
    }
}
