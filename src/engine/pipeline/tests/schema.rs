//! Tests that the JSON Schema accepts what the check accepts, and refuses what it refuses.

use super::COMPLETE;
use crate::engine::pipeline::document::{from_json, from_yaml};
use crate::engine::pipeline::problem::FoundProblems;
use crate::engine::pipeline::{json_schema, structure};
use regex::Regex;
use serde_json::{Map, Value, json};

/// Returns true if a schema accepts a value. It knows the keywords that the schema uses, and no others.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let keywords = schema.as_object().unwrap();
    keywords.iter().all(|(word, rule)| match word.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" => true,
        "$ref" => accepts(
            root,
            root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap())
                .unwrap(),
            value,
        ),
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| is_type(name, value)),
            name => is_type(name, value),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => rule == value,
        "oneOf" => count(root, rule, value) == 1,
        "anyOf" => count(root, rule, value) > 0,
        "allOf" => count(root, rule, value) == rule.as_array().unwrap().len(),
        "not" => !accepts(root, rule, value),
        "required" => value.as_object().is_none_or(|map| {
            let names = rule.as_array().unwrap().iter();
            names.filter_map(Value::as_str).all(|name| map.contains_key(name))
        }),
        "properties" => value.as_object().is_none_or(|map| {
            let known = rule.as_object().unwrap();
            map.iter()
                .all(|(name, value)| known.get(name).is_none_or(|schema| accepts(root, schema, value)))
        }),
        "patternProperties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(name, value)| {
                let mut patterns = rule.as_object().unwrap().iter();
                patterns.all(|(pattern, schema)| !is_match(pattern, name) || accepts(root, schema, value))
            })
        }),
        "additionalProperties" => {
            assert_eq!(rule, &Value::Bool(false));
            value
                .as_object()
                .is_none_or(|map| map.keys().all(|name| is_known(keywords, name)))
        }
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|item| accepts(root, rule, item))),
        "pattern" => value
            .as_str()
            .is_none_or(|text| is_match(rule.as_str().unwrap(), text)),
        "minLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() >= size(rule)),
        "maxLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() <= size(rule)),
        "minItems" => value.as_array().is_none_or(|items| items.len() >= size(rule)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() <= size(rule)),
        "maxProperties" => value.as_object().is_none_or(|map| map.len() <= size(rule)),
        "minimum" => value
            .as_f64()
            .is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value
            .as_f64()
            .is_none_or(|number| number <= rule.as_f64().unwrap()),
        other => panic!("the schema uses `{other}`"),
    })
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("the schema uses the type `{other}`"),
    }
}

fn is_known(keywords: &Map<String, Value>, name: &str) -> bool {
    let has = |list: &str| {
        keywords
            .get(list)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    has("properties").any(|(known, _)| known == name)
        || has("patternProperties").any(|(pattern, _)| is_match(pattern, name))
}

fn is_match(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(text)
}

fn size(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().unwrap()).unwrap()
}

fn count(root: &Value, options: &Value, value: &Value) -> usize {
    options
        .as_array()
        .unwrap()
        .iter()
        .filter(|option| accepts(root, option, value))
        .count()
}

/// Returns true if the check of the structure accepts a value.
fn is_accepted(value: &Value) -> bool {
    let mut problems = FoundProblems::default();
    let document = from_json(value.clone(), &mut problems).unwrap();
    structure::checked(&document, &mut problems);
    problems.is_empty()
}

#[test]
fn the_schema_and_the_check_accept_the_same_documents() {
    let mut problems = FoundProblems::default();
    let complete = structure::checked(&from_yaml(COMPLETE, &mut problems).unwrap(), &mut problems);
    assert!(problems.is_empty());
    let schema = json_schema();
    let pipeline = "/pipelines/review-pr";
    let agent = format!("{pipeline}/steps/1/parallel/0/agent");
    let at = |rest: &str| format!("{pipeline}/{rest}");
    let many = |count: usize| Value::Array(vec![json!("x"); count]);
    let cases: Vec<(String, Value, bool)> = vec![
        (String::new(), complete.clone(), true),
        (String::new(), json!({}), false),
        (String::new(), json!([]), false),
        (String::new(), json!({"pipelines": {}}), true),
        (
            String::new(),
            json!({"pipelines": {"Big": complete["pipelines"]["review-pr"]}}),
            false,
        ),
        (String::new(), json!({"pipelines": {}, "more": 1}), false),
        (String::new(), json!({"pipelines": {}, "mcpServers": {}}), true),
        (
            String::new(),
            json!({"pipelines": {}, "mcpServers": {}, "mcp_servers": {}}),
            false,
        ),
        (at("description"), json!("x".repeat(201)), false),
        (at("description"), json!(null), false),
        (at("triggers"), json!([]), false),
        (at("triggers/0"), json!({"when": "true"}), false),
        (at("triggers/0"), json!({"chat": {}, "api": {}}), false),
        (at("triggers/0"), json!({"commandLine": {}}), true),
        (
            at("triggers/0"),
            json!({"commandLine": {}, "command_line": {}}),
            false,
        ),
        (at("triggers/0"), json!({"chat": {"x": 1}}), false),
        (at("triggers/1/schedule/timeZone"), json!("UTC"), false),
        (at("triggers/1/schedule/params/number"), json!(true), true),
        (at("triggers/1/schedule/params/number"), json!([1]), false),
        (at("triggers/2/slash_command/command"), json!("review"), false),
        (at("params/depth/type"), json!("number"), true),
        (at("params/depth/type"), json!("date"), false),
        (at("params/depth/choices"), many(50), true),
        (at("params/depth/choices"), many(51), false),
        (at("concurrency/on_conflict"), json!("wait"), false),
        (at("concurrency/onConflict"), json!("skip"), false),
        (at("concurrency/group"), json!("${steps.build.output}"), true),
        (at("concurrency/group"), json!("a-${params.x}"), false),
        (at("concurrency/group"), json!("$${params.x}"), false),
        (at("concurrency/group"), json!("$5 and {x}$"), true),
        (at("budget/max_steps"), json!(0), false),
        (at("budget/max_steps"), json!("5"), false),
        (at("budget/max_cents"), json!(100_000_000), true),
        (at("budget/max_cents"), json!(100_000_001), false),
        (at("budget/timeout"), json!("0m"), false),
        (at("permissions/role"), json!("admin"), false),
        (at("permissions/replies/0"), json!("channel:team:C1"), true),
        (at("permissions/replies/0"), json!("mail"), false),
        (at("steps/0/name"), json!("Build"), false),
        (at("steps/0/name"), json!("b".repeat(64)), true),
        (at("steps/0/name"), json!("b".repeat(65)), false),
        (at("steps/0/task/command"), json!([]), false),
        (at("steps/0/task/command"), many(64), true),
        (at("steps/0/task/command"), many(65), false),
        (at("steps/0/task/env"), json!({"not-a-name": "x"}), false),
        (at("steps/0/ask"), json!({}), false),
        (at("steps/1/parallel"), json!([]), false),
        (at("steps/1/parallel/0/parallel"), json!([]), false),
        (
            at("steps/2/ask/to"),
            json!({"person": "alice", "group": "x"}),
            false,
        ),
        (at("steps/2/ask/to"), json!({"person": "alice"}), true),
        (at("steps/2/ask/choices"), json!(["only"]), false),
        (format!("{agent}/maxSteps"), json!(5), false),
        (format!("{agent}/max_steps"), json!(200), true),
        (format!("{agent}/max_steps"), json!(201), false),
        (format!("{agent}/max_steps"), json!(1.5), false),
        (format!("{agent}/max_tokens"), json!(0), true),
        (
            format!("{agent}/baseURL"),
            json!("https://models.example.com/v1"),
            true,
        ),
        (
            format!("{agent}/baseUrl"),
            json!("https://models.example.com/v1"),
            true,
        ),
        (
            format!("{agent}/base_url"),
            json!("http://models.example.com"),
            false,
        ),
        (
            format!("{agent}/base_url"),
            json!("http://127.0.0.1:11434/v1"),
            true,
        ),
        (format!("{agent}/model"), json!("gpt"), false),
        (format!("{agent}/model"), json!("ollama/qwen2.5:7b"), true),
        (format!("{agent}/prompt"), json!("read ${params.x}"), false),
        (
            format!("{agent}/tools/0"),
            json!({"name": "a", "image": "b"}),
            false,
        ),
        (
            format!("{agent}/tools/0"),
            json!({"name": "a", "image": "b", "description": "c"}),
            true,
        ),
        (format!("{agent}/tools/0"), json!(1), false),
        (
            format!("{agent}/mcp_servers/0"),
            json!({"type": "stdio", "command": "x", "args": ["y"]}),
            true,
        ),
        (format!("{agent}/mcp_servers/0"), json!({"type": "ftp"}), false),
        (format!("{agent}/unknown"), json!(1), false),
    ];
    for (pointer, change, expected) in cases {
        let mut document = complete.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", ""));
        match document.pointer_mut(&pointer) {
            Some(place) => *place = change.clone(),
            None => document.pointer_mut(parent).unwrap()[name] = change.clone(),
        }
        let by_schema = accepts(&schema, &schema, &document);
        assert_eq!(
            (by_schema, is_accepted(&document)),
            (expected, expected),
            "{pointer} {change}"
        );
    }
}
