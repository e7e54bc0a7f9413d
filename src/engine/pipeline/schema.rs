//! The JSON Schema of a file of pipelines, made from the types. The check of files reads the same schema, so neither
//! accepts what the other refuses.

use super::definition::PipelineFile;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

static SNAKE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<PipelineFile>().to_value();
    schema.as_object_mut().into_iter().for_each(tidy);
    schema
});

/// Returns the JSON Schema of `.drydock/pipelines.yaml` and of the value of `.drydock/pipelines.jsonnet`. It accepts
/// each key in snake case and in camel case.
pub fn json_schema() -> Value {
    let mut schema = SNAKE_SCHEMA.clone();
    if let Some(root) = schema.as_object_mut() {
        add_camel_case(root);
        root.insert("$schema".to_owned(), DIALECT.into());
        root.insert("title".to_owned(), "Pipelines of Drydock".into());
    }
    schema
}

/// Returns the schema with the keys in snake case alone.
pub(super) fn snake_schema() -> &'static Value {
    &SNAKE_SCHEMA
}

/// Calls a function on each schema directly below one. Names of properties are no keywords.
fn for_each_below(keywords: &mut Map<String, Value>, change: fn(&mut Map<String, Value>)) {
    let named = ["properties", "patternProperties", "$defs"];
    let listed = ["anyOf", "oneOf", "allOf"];
    for (word, value) in keywords.iter_mut() {
        let below: Vec<&mut Value> = match value {
            Value::Object(schemas) if named.contains(&word.as_str()) => schemas.values_mut().collect(),
            Value::Array(schemas) if listed.contains(&word.as_str()) => schemas.iter_mut().collect(),
            schema if word == "items" => vec![schema],
            _ => Vec::new(),
        };
        below
            .into_iter()
            .filter_map(Value::as_object_mut)
            .for_each(change);
    }
}

/// Removes what says nothing, and refuses unknown keys and `null` everywhere.
fn tidy(keywords: &mut Map<String, Value>) {
    for_each_below(keywords, tidy);
    for word in ["title", "format", "unevaluatedProperties"] {
        keywords.remove(word);
    }
    let is_scalar = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    if keywords.get("default").is_some_and(|value| !is_scalar(value)) {
        keywords.remove("default");
    }
    refuse_null(keywords);
    join_alternatives(keywords);
    refuse_unknown_keys(keywords);
}

fn refuse_null(keywords: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            keywords.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(options)) = keywords.get_mut("anyOf") else {
        return;
    };
    options.retain(|option| option["type"] != "null");
    if let [only] = options.as_slice()
        && let Value::Object(only) = only.clone()
    {
        keywords.remove("anyOf");
        for (word, value) in only {
            keywords.entry(word).or_insert(value);
        }
    }
}

/// Joins alternatives that differ in one key each: they become keys of one object, exactly one of which is required.
fn join_alternatives(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(options)) = keywords.get("oneOf") else {
        return;
    };
    let mut properties = Map::new();
    for option in options {
        let Some(Value::Object(own)) = option.get("properties") else {
            return;
        };
        for (name, property) in own {
            let mut property = property.clone();
            if let (Some(about), Some(property)) = (option.get("description"), property.as_object_mut()) {
                property.insert("description".to_owned(), about.clone());
            }
            properties.insert(name.clone(), property);
        }
    }
    let required: Vec<Value> = properties
        .keys()
        .map(|name| json!({ "required": [name] }))
        .collect();
    keywords.insert("oneOf".to_owned(), required.into());
    keywords.insert("type".to_owned(), "object".into());
    let all = keywords.entry("properties").or_insert_with(|| json!({}));
    if let Some(all) = all.as_object_mut() {
        all.extend(properties);
    }
}

fn refuse_unknown_keys(keywords: &mut Map<String, Value>) {
    if keywords.get("type") != Some(&Value::from("object")) || keywords.contains_key("patternProperties") {
        return;
    }
    keywords.entry("properties").or_insert_with(|| json!({}));
    keywords.insert("additionalProperties".to_owned(), false.into());
}

/// Adds each key in camel case. Both spellings of one key together are refused.
fn add_camel_case(keywords: &mut Map<String, Value>) {
    for_each_below(keywords, add_camel_case);
    let Some(Value::Object(properties)) = keywords.get_mut("properties") else {
        return;
    };
    let mut exclusions = Vec::new();
    let snake: Vec<(String, Value)> = properties
        .iter()
        .filter(|(name, _)| name.contains('_'))
        .map(|(name, property)| (name.clone(), property.clone()))
        .collect();
    for (name, property) in snake {
        for spelling in camel_cases(&name) {
            exclusions.push(json!({ "not": { "required": [name, spelling] } }));
            properties.insert(spelling, property.clone());
        }
    }
    if !exclusions.is_empty() {
        keywords.insert("allOf".to_owned(), exclusions.into());
    }
    if let Some(Value::Array(options)) = keywords.get_mut("oneOf") {
        add_camel_alternatives(options);
    }
}

/// Adds the other spellings of a required alternative.
fn add_camel_alternatives(options: &mut Vec<Value>) {
    let names: Vec<String> = options
        .iter()
        .filter_map(|option| option["required"][0].as_str().map(str::to_owned))
        .collect();
    for name in names.iter().filter(|name| name.contains('_')) {
        let spellings = camel_cases(name).into_iter();
        options.extend(spellings.map(|spelling| json!({ "required": [spelling] })));
    }
}

/// Returns the spellings of a key in camel case: `maxSteps`, and `baseURL` beside `baseUrl`.
fn camel_cases(name: &str) -> Vec<String> {
    let mut camel = String::new();
    for part in name.split('_') {
        let mut characters = part.chars();
        match characters.next() {
            Some(first) if !camel.is_empty() => {
                camel.push(first.to_ascii_uppercase());
                camel.push_str(characters.as_str());
            }
            _ => camel.push_str(part),
        }
    }
    match camel.strip_suffix("Url") {
        Some(start) => vec![format!("{start}URL"), camel],
        None => vec![camel],
    }
}
