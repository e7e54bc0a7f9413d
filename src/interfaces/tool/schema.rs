//! JSON Schemas of tool arguments, rendered from their types once, when a tool is built. Only the subset that every
//! model API accepts is allowed; any other schema fails the start.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The keywords that [`super::arguments::bind`] checks, and those that only explain or that it implies.
const KNOWN: [&str; 9] = [
    "type",
    "description",
    "default",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minimum",
    "maximum",
];
/// Keywords of a schema that no model needs and some APIs refuse.
const NOISE: [&str; 3] = ["$schema", "title", "format"];

/// Returns the schema of a type's JSON. Its keys are sorted, so its bytes are always the same.
pub(super) fn render<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The tool's own description explains the arguments.
        root.remove("description");
        root.entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
        tidy(root);
    }
    schema
}

/// Returns the reason if a schema cannot be offered to a model.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err("its arguments are not an object".to_owned());
    }
    if schema["additionalProperties"] != false {
        return Err("it accepts unknown parameters".to_owned());
    }
    let Some(properties) = schema["properties"].as_object() else {
        return Err("it has no `properties`".to_owned());
    };
    for (name, property) in properties {
        if !property["type"].is_string() {
            return Err(format!("parameter `{name}` has no type"));
        }
        if property["description"].as_str().is_none_or(str::is_empty) {
            return Err(format!("parameter `{name}` has no description"));
        }
    }
    if let Some(word) = ["$ref", "$defs", "anyOf", "oneOf", "allOf"]
        .into_iter()
        .find(|word| holds(schema, word))
    {
        return Err(format!("it uses `{word}`, which not every model API accepts"));
    }
    if let Some(word) = unknown_keyword(schema) {
        return Err(format!("it uses `{word}`, which arguments are not checked for"));
    }
    Ok(())
}

fn tidy(schema: &mut Map<String, Value>) {
    for word in NOISE {
        schema.remove(word);
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // An optional value may be omitted, but not null.
    if let Some(Value::Array(types)) = schema.get("type") {
        let mut named = types.iter().filter(|name| *name != "null").cloned();
        if let (Some(only), None) = (named.next(), named.next()) {
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(tidy);
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        tidy(items);
    }
}

/// Returns a keyword that arguments are not checked for, at any depth.
fn unknown_keyword(schema: &Value) -> Option<&str> {
    let schema = schema.as_object()?;
    let mut words = schema.keys().map(String::as_str);
    let own = words.find(|word| !KNOWN.contains(word));
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut inner = properties
        .into_iter()
        .flat_map(Map::values)
        .chain(schema.get("items"));
    own.or_else(|| inner.find_map(unknown_keyword))
}

fn holds(schema: &Value, word: &str) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    schema.contains_key(word)
        || schema.get("items").is_some_and(|items| holds(items, word))
        || properties.is_some_and(|properties| properties.values().any(|property| holds(property, word)))
}

#[cfg(test)]
mod tests {
    use super::{check, render};
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Nested {
        /// Packages to install.
        packages: Vec<Package>,
        /// The first place to look.
        #[serde(default)]
        title: Option<String>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Package {
        /// Its name.
        name: String,
    }

    /// TK-26
    #[test]
    fn nested_types_are_rendered_in_place() {
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["packages"],
            "properties": {
                "packages": {
                    "description": "Packages to install.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["name"],
                        "properties": { "name": { "description": "Its name.", "type": "string" } },
                    },
                },
                "title": { "description": "The first place to look.", "type": "string" },
            },
        });
        assert_eq!(render::<Nested>(), expected);
        assert_eq!(check(&expected), Ok(()));
    }

    /// TK-25
    #[test]
    fn a_schema_a_model_api_would_refuse_is_named() {
        let text = json!({ "type": "string", "description": "x" });
        for (schema, why) in [
            (json!("x"), "its arguments are not an object"),
            (json!({ "type": "array" }), "its arguments are not an object"),
            (json!({ "type": "object" }), "it accepts unknown parameters"),
            (
                json!({ "type": "object", "additionalProperties": false }),
                "it has no `properties`",
            ),
            (
                json!({ "type": "object", "additionalProperties": false, "properties": { "a": {} } }),
                "parameter `a` has no type",
            ),
            (
                json!({ "type": "object", "additionalProperties": false, "properties": { "a": { "type": "string" } } }),
                "parameter `a` has no description",
            ),
            (
                json!({ "type": "object", "additionalProperties": false, "properties": { "a": text }, "anyOf": [] }),
                "it uses `anyOf`, which not every model API accepts",
            ),
            (
                json!({ "type": "object", "additionalProperties": false, "properties": {
                    "a": { "type": "array", "description": "x", "items": { "type": "string", "enum": ["b"] } },
                } }),
                "it uses `enum`, which arguments are not checked for",
            ),
        ] {
            assert_eq!(check(&schema), Err(why.to_owned()));
        }
    }
}
