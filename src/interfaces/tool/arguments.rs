//! Converts the model's JSON to typed arguments. Common deviations from the schema are accepted. Anything else that
//! does not match is refused with its JSON pointer, so that the model can correct it.

use super::ToolError;
use super::nearest::nearest;
use crate::base::model::RepoPath;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The typed arguments of a tool.
pub(super) trait ToolArguments: DeserializeOwned + JsonSchema + Send + 'static {
    /// The text parameter that tells people what a call is about, such as its path; `None` if there is no such one.
    const SUBJECT: Option<&'static str>;

    /// Other names that models use for parameters, each with the parameter's name.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];

    /// Text parameters that also accept any other JSON value, which is then written out as text.
    const ANY_JSON: &'static [&'static str] = &[];
}

/// A path as the model wrote it. It has to be checked before it names anything.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct PathArgument(String);

impl PathArgument {
    /// Returns the path inside the repository. A path that leads outside matches the schema, so the call is refused
    /// instead of malformed, and the refusal is reported to the user.
    pub(super) fn parse(&self) -> Result<RepoPath, ToolError> {
        RepoPath::parse(&self.0).map_err(|err| ToolError::refused(err.to_string()))
    }
}

/// Converts the model's JSON to the arguments of `tool`, whose schema is `schema`. Everything that does not match is
/// found in the schema; the type only decodes.
pub(super) fn bind<A: ToolArguments>(tool: &str, schema: &Value, arguments: Value) -> Result<A, ToolError> {
    let malformed = |why: String| ToolError::Malformed(format!("{tool}: {why}"));
    let Value::Object(given) = arguments else {
        return Err(malformed(format!(
            "the arguments must be a JSON object, not {}",
            kind(&arguments)
        )));
    };
    let mut given = rename::<A>(given).map_err(malformed)?;
    for name in A::ANY_JSON {
        if let Some(value) = given.get_mut(*name) {
            write_out(value);
        }
    }
    let mut arguments = Value::Object(given);
    coerce(schema, &mut arguments, "").map_err(malformed)?;
    // The schema is the only check: what it accepts can be decoded.
    serde_json::from_value(arguments).map_err(|err| {
        ToolError::Fatal(anyhow::Error::new(err).context(format!("the schema of `{tool}` accepts too much")))
    })
}

/// Returns the subject in arguments as the model wrote them, under its own name or another one for it.
pub(super) fn subject<A: ToolArguments>(arguments: &Value) -> Option<&str> {
    let subject = A::SUBJECT?;
    let aliases = A::ALIASES.iter().filter(|(_, meant)| *meant == subject);
    let names = aliases.map(|(alias, _)| *alias);
    std::iter::once(subject)
        .chain(names)
        .find_map(|name| arguments.get(name)?.as_str())
}

fn rename<A: ToolArguments>(given: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut renamed = Map::new();
    let meant = |name: &str| {
        A::ALIASES
            .iter()
            .find(|(alias, _)| *alias == name)
            .map(|(_, meant)| *meant)
    };
    for (name, value) in given {
        let name = match meant(&name) {
            Some(meant) => meant.to_owned(),
            None => name,
        };
        if renamed.contains_key(&name) {
            return Err(format!(
                "`{}` is given twice under different names",
                pointer("", &name)
            ));
        }
        renamed.insert(name, value);
    }
    Ok(renamed)
}

/// Writes a JSON value out as the text of a file. Null is kept and counts as omitted.
fn write_out(value: &mut Value) {
    if value.is_string() || value.is_null() {
        return;
    }
    *value = Value::String(format!("{value:#}\n"));
}

/// Checks a value against its schema and corrects unambiguous deviations: digits in quotes, null for an omitted
/// value, a number above its maximum. Recursion follows the schema, which is defined in the code and finite.
fn coerce(schema: &Value, value: &mut Value, at: &str) -> Result<(), String> {
    let expected = schema["type"].as_str().unwrap_or_default();
    match (expected, &mut *value) {
        ("object", Value::Object(fields)) => return coerce_fields(schema, fields, at),
        ("array", Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                coerce(&schema["items"], item, &format!("{at}/{index}"))?;
            }
            return Ok(());
        }
        ("integer", _) => {
            if let Some(number) = integer(schema, value) {
                *value = number;
                return Ok(());
            }
        }
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => {
            return Ok(());
        }
        _ => {}
    }
    Err(format!(
        "`{at}`: expected {}, got {}",
        wanted(schema),
        kind(value)
    ))
}

fn coerce_fields(schema: &Value, fields: &mut Map<String, Value>, at: &str) -> Result<(), String> {
    let empty = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&empty);
    if let Some(unknown) = fields.keys().find(|name| !known.contains_key(*name)) {
        return Err(unknown_parameter(&pointer(at, unknown), unknown, known));
    }
    fields.retain(|_, value| !value.is_null());
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    for name in required.iter().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            let wanted = known.get(name).map_or_else(String::new, wanted);
            return Err(format!("`{}` is missing: expected {wanted}", pointer(at, name)));
        }
    }
    for (name, value) in fields {
        if let Some(schema) = known.get(name) {
            coerce(schema, value, &pointer(at, name))?;
        }
    }
    Ok(())
}

fn unknown_parameter(at: &str, name: &str, known: &Map<String, Value>) -> String {
    let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    let names = if names.is_empty() {
        "this tool takes no parameters".to_owned()
    } else {
        format!("known: {}", names.join(", "))
    };
    match nearest(name, known.keys().map(String::as_str)) {
        Some(meant) => format!("`{at}`: unknown parameter, did you mean `{meant}`? {names}"),
        None => format!("`{at}`: unknown parameter; {names}"),
    }
}

/// Returns the integer that a value represents, if it is not below the schema's minimum. A number above the maximum
/// becomes the maximum; the answer then says what is left.
fn integer(schema: &Value, value: &Value) -> Option<Value> {
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?))?,
        Value::String(digits) if !digits.starts_with('+') => digits.parse().ok()?,
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let minimum = schema["minimum"].as_u64().unwrap_or(0);
    let maximum = schema["maximum"].as_u64().unwrap_or(u64::from(u32::MAX));
    (number >= minimum).then(|| Value::from(number.min(maximum)))
}

/// Returns a number such as `10.0`, as some models write it, as an integer.
fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    // The bounds above make the conversion exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fits.then_some(number as u64)
}

fn wanted(schema: &Value) -> String {
    match schema["type"].as_str().unwrap_or_default() {
        "integer" => {
            let minimum = schema["minimum"].as_u64().unwrap_or(0);
            match schema["maximum"].as_u64() {
                Some(maximum) => format!("an integer from {minimum} to {maximum}"),
                None => format!("an integer from {minimum}"),
            }
        }
        "object" => "an object".to_owned(),
        "array" => "an array".to_owned(),
        other => format!("a {other}"),
    }
}

/// Returns the type of a value in words; short scalars are shown literally.
fn kind(value: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(boolean) => boolean.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= SHOWN_CHARS_MAX => {
            format!("the string {}", Value::from(text.as_str()))
        }
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Returns the JSON pointer of a field. Very long names are truncated, because the model reads the pointer.
fn pointer(at: &str, name: &str) -> String {
    const NAME_CHARS_MAX: usize = 64;
    let name = name.replace('~', "~0").replace('/', "~1");
    if name.chars().count() <= NAME_CHARS_MAX {
        return format!("{at}/{name}");
    }
    let cut: String = name.chars().take(NAME_CHARS_MAX).collect();
    format!("{at}/{cut}…")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ToolArguments, bind};
    use crate::interfaces::tool::{ToolError, schema};
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Install {
        /// The directory.
        path: String,
        /// The packages.
        #[serde(default)]
        packages: Vec<Package>,
        /// The number of attempts.
        #[serde(default = "three")]
        #[schemars(range(min = 1, max = 9))]
        attempts: usize,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Package {
        /// The name of the package.
        name: String,
    }

    fn three() -> usize {
        3
    }

    impl ToolArguments for Install {
        const SUBJECT: Option<&'static str> = Some("path");
        const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
    }

    fn bound(arguments: Value) -> Result<Install, String> {
        bind("install", &schema::render::<Install>(), arguments).map_err(|err| match err {
            ToolError::Malformed(text) => text,
            ToolError::Failed(_) | ToolError::Refused { .. } | ToolError::Fatal(_) => String::new(),
        })
    }

    /// TK-26
    #[test]
    fn arrays_and_nested_types_are_bound() {
        let expected = Install {
            path: "a".to_owned(),
            packages: vec![Package { name: "k".to_owned() }],
            attempts: 3,
        };
        assert_eq!(
            bound(json!({ "path": "a", "packages": [{ "name": "k" }] })),
            Ok(expected)
        );
    }

    #[test]
    fn what_models_commonly_write_is_understood() {
        let attempts = |value: Value| bound(json!({ "path": "a", "attempts": value })).unwrap().attempts;
        assert_eq!(attempts(json!("7")), 7);
        assert_eq!(attempts(json!(7.0)), 7);
        assert_eq!(attempts(json!(null)), 3);
        assert_eq!(attempts(json!(10)), 9);
        assert_eq!(attempts(json!(u64::MAX)), 9);
        assert_eq!(bound(json!({ "file": "a" })).unwrap().path, "a");
    }

    /// T59
    #[test]
    fn what_does_not_fit_is_named_with_its_pointer() {
        for (arguments, why) in [
            (json!([]), "the arguments must be a JSON object, not an array"),
            (
                json!("{}"),
                "the arguments must be a JSON object, not the string \"{}\"",
            ),
            (json!({}), "`/path` is missing: expected a string"),
            (json!({ "path": null }), "`/path` is missing: expected a string"),
            (json!({ "path": 7 }), "`/path`: expected a string, got 7"),
            (
                json!({ "path": "a", "file": "b" }),
                "`/path` is given twice under different names",
            ),
            (
                json!({ "path": "a", "a/b~c": 1 }),
                "`/a~1b~0c`: unknown parameter; known: `attempts`, `packages`, `path`",
            ),
            (
                json!({ "path": "a", "atempts": 1 }),
                "`/atempts`: unknown parameter, did you mean `attempts`? known: `attempts`, `packages`, `path`",
            ),
            (
                json!({ "path": "a", "packages": {} }),
                "`/packages`: expected an array, got an object",
            ),
            (
                json!({ "path": "a", "packages": [{ "name": "k" }, "l"] }),
                "`/packages/1`: expected an object, got the string \"l\"",
            ),
            (
                json!({ "path": "a", "packages": [{ "name": false }] }),
                "`/packages/0/name`: expected a string, got false",
            ),
            (
                json!({ "path": "a", "packages": [{}] }),
                "`/packages/0/name` is missing: expected a string",
            ),
            (
                json!({ "path": "a", "attempts": 0 }),
                "`/attempts`: expected an integer from 1 to 9, got 0",
            ),
            (
                json!({ "path": "a", "attempts": 1.5 }),
                "`/attempts`: expected an integer from 1 to 9, got 1.5",
            ),
        ] {
            assert_eq!(bound(arguments), Err(format!("install: {why}")));
        }
    }
}
