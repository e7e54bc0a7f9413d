//! A check of a value against a JSON Schema. It knows the keywords that the description of the API uses, and fails on any
//! other, so nothing is skipped. Properties that a schema does not list are refused.

use serde_json::Value;

/// Keywords that restrict nothing here.
const NOTES: &[&str] = &[
    "description",
    "title",
    "format",
    "default",
    "example",
    "additionalProperties",
];

/// Panics with `place` if a value does not fit a schema of a document.
pub(crate) fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Err(why) = fits(document, schema, value) {
        panic!("{place}: {why}\n{value:#}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let keywords = schema.as_object().ok_or_else(|| format!("no schema: {schema}"))?;
    for (keyword, expected) in keywords {
        let is_kept = match keyword.as_str() {
            "$ref" => {
                let pointer = expected.as_str().and_then(|text| text.strip_prefix('#'));
                let target = pointer.and_then(|pointer| document.pointer(pointer));
                fits(
                    document,
                    target.ok_or_else(|| format!("no target: {expected}"))?,
                    value,
                )?;
                true
            }
            "oneOf" => matching(document, expected, value) == 1,
            "anyOf" => matching(document, expected, value) > 0,
            "const" => value == expected,
            "enum" => expected.as_array().unwrap().contains(value),
            "type" => match expected {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of_type(kind, value)),
                kind => is_of_type(kind, value),
            },
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= expected.as_f64().unwrap()),
            "maxLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 <= expected.as_u64().unwrap()),
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= expected.as_u64().unwrap()),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fits(document, expected, item)?;
                }
                true
            }
            "required" => expected.as_array().unwrap().iter().all(|name| {
                let name = name.as_str().unwrap();
                value.as_object().is_none_or(|members| members.contains_key(name))
            }),
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let schema = expected.get(name);
                    fits(
                        document,
                        schema.ok_or_else(|| format!("unknown: {name}"))?,
                        member,
                    )?;
                }
                true
            }
            note if NOTES.contains(&note) => true,
            unknown => panic!("this check does not know {unknown}"),
        };
        if !is_kept {
            return Err(format!("{keyword} {expected}: {value}"));
        }
    }
    Ok(())
}

/// Returns the number of schemas that a value fits.
fn matching(document: &Value, schemas: &Value, value: &Value) -> usize {
    let schemas = schemas.as_array().unwrap().iter();
    schemas
        .filter(|schema| fits(document, schema, value).is_ok())
        .count()
}

fn is_of_type(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type: {other}"),
    }
}
