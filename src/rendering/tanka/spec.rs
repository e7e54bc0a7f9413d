//! Parses the settings of an environment, from a `spec.json` or an inline environment. Unknown fields are ignored,
//! as in Tanka. Known fields of the wrong type are errors.

use super::TankaError;
use super::environment::{Environment, Spec};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

static NULL: Value = Value::Null;

/// Parsed settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedEnvironment {
    /// The environment.
    pub environment: Environment,
    /// Warnings about deprecated or questionable text.
    pub warnings: Vec<String>,
    /// True if the settings name the destination in the deprecated format, of which `tk` ignores a part.
    pub(super) has_deprecated_destination: bool,
}

impl ParsedEnvironment {
    /// Returns the environment if `tk` reads the same destination from it.
    pub(super) fn check_destination(self, at: &str) -> Result<Environment, TankaError> {
        match self.has_deprecated_destination {
            true => Err(TankaError::Spec {
                path: at.to_owned(),
                why: "`server` and `namespace` belong in `spec`: above it, `tk` may not read them".to_owned(),
            }),
            false => Ok(self.environment),
        }
    }
}

/// Maximum size of a `spec.json` in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Parses an environment from JSON. `at` names it in errors.
pub fn parse(value: &Value, at: &str) -> Result<ParsedEnvironment, TankaError> {
    let malformed = |why: String| TankaError::Spec {
        path: at.to_owned(),
        why,
    };
    let fields = Fields::of(value, "").map_err(malformed)?;
    read(&fields).map_err(malformed)
}

/// Parses a `spec.json`.
pub(super) fn parse_file(content: &[u8], at: &str) -> Result<ParsedEnvironment, TankaError> {
    let malformed = |why: String| TankaError::Spec {
        path: at.to_owned(),
        why,
    };
    if content.len() > FILE_BYTES_MAX {
        return Err(malformed(format!("more than {FILE_BYTES_MAX} bytes")));
    }
    let value: Value = serde_json::from_slice(content).map_err(|err| malformed(err.to_string()))?;
    parse(&value, at)
}

fn read(fields: &Fields<'_>) -> Result<ParsedEnvironment, String> {
    let mut environment = Environment::default();
    fields.text("apiVersion", &mut environment.api_version)?;
    fields.text("kind", &mut environment.kind)?;
    let metadata = fields.object("metadata")?;
    metadata.text("name", &mut environment.metadata.name)?;
    metadata.text("namespace", &mut environment.metadata.namespace)?;
    metadata.texts_by_name("labels", &mut environment.metadata.labels)?;
    let spec = fields.object("spec")?;
    read_spec(&spec, &mut environment.spec)?;
    let warnings = read_deprecated(fields, &spec, &mut environment)?;
    let server = &mut environment.spec.api_server;
    if !server.is_empty() && !server.match_indices("://").any(|(position, _)| position > 0) {
        server.insert_str(0, "https://");
    }
    Ok(ParsedEnvironment {
        environment,
        warnings,
        has_deprecated_destination: ["server", "namespace"]
            .iter()
            .any(|name| fields.get(name).is_some()),
    })
}

fn read_spec(fields: &Fields<'_>, spec: &mut Spec) -> Result<(), String> {
    fields.text("apiServer", &mut spec.api_server)?;
    fields.texts("contextNames", &mut spec.context_names)?;
    fields.text("namespace", &mut spec.namespace)?;
    fields.text("diffStrategy", &mut spec.diff_strategy)?;
    fields.text("applyStrategy", &mut spec.apply_strategy)?;
    fields.boolean("injectLabels", &mut spec.inject_labels)?;
    fields.texts("tankaEnvLabelFromFields", &mut spec.tanka_env_label_from_fields)?;
    let defaults = fields.object("resourceDefaults")?;
    defaults.texts_by_name("annotations", &mut spec.resource_defaults.annotations)?;
    defaults.texts_by_name("labels", &mut spec.resource_defaults.labels)?;
    let versions = fields.object("expectVersions")?;
    versions.text("tanka", &mut spec.expect_versions.tanka)?;
    fields.text(
        "exportJsonnetImplementation",
        &mut spec.export_jsonnet_implementation,
    )
}

/// Reads the top-level fields of the deprecated format. Tanka reads two of them and then discards its other
/// results. Here all three are used.
fn read_deprecated(
    fields: &Fields<'_>,
    spec: &Fields<'_>,
    environment: &mut Environment,
) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    let mut warn = |old: &str, new: &str| {
        warnings.push(format!("Warning: `{old}` is deprecated, use `{new}` instead."));
    };
    if fields.get("server").is_some() {
        warn("server", "spec.apiServer");
        fields.text("server", &mut environment.spec.api_server)?;
    }
    if fields.get("namespace").is_some() {
        warn("namespace", "spec.namespace");
        if spec.get("namespace").is_none() {
            fields.text("namespace", &mut environment.spec.namespace)?;
        }
    }
    if fields.get("team").is_some() {
        warn("team", "metadata.labels.team");
        let mut team = String::new();
        fields.text("team", &mut team)?;
        environment.metadata.labels.insert("team".to_owned(), team);
    }
    Ok(warnings)
}

/// The members of one object. A name matches exactly or else without regard to case. `null` counts as absent.
struct Fields<'a> {
    at: String,
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, at: &str) -> Result<Self, String> {
        let members = match value {
            Value::Null => None,
            Value::Object(members) => Some(members),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let at = at.trim_end_matches('.');
                let named = if at.is_empty() { "it" } else { at };
                return Err(format!("`{named}` is not an object"));
            }
        };
        Ok(Self {
            at: at.to_owned(),
            members,
        })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let members = self.members?;
        let value = members.get(name).or_else(|| {
            let mut others = members.iter();
            others
                .find(|(other, _)| other.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })?;
        (!value.is_null()).then_some(value)
    }

    fn object(&self, name: &str) -> Result<Self, String> {
        let at = format!("{}{name}.", self.at);
        Self::of(self.get(name).unwrap_or(&NULL), &at)
    }

    fn text(&self, name: &str, into: &mut String) -> Result<(), String> {
        if let Some(value) = self.get(name) {
            *into = value
                .as_str()
                .ok_or_else(|| self.wrong(name, "a text"))?
                .to_owned();
        }
        Ok(())
    }

    fn boolean(&self, name: &str, into: &mut bool) -> Result<(), String> {
        if let Some(value) = self.get(name) {
            *into = value.as_bool().ok_or_else(|| self.wrong(name, "true or false"))?;
        }
        Ok(())
    }

    fn texts(&self, name: &str, into: &mut Vec<String>) -> Result<(), String> {
        if let Some(value) = self.get(name) {
            let wrong = || self.wrong(name, "a list of texts");
            let items = value.as_array().ok_or_else(wrong)?.iter();
            let texts = items.map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong));
            *into = texts.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    fn texts_by_name(&self, name: &str, into: &mut BTreeMap<String, String>) -> Result<(), String> {
        if let Some(value) = self.get(name) {
            let wrong = || self.wrong(name, "an object of texts");
            for (key, value) in value.as_object().ok_or_else(wrong)? {
                let text = match value {
                    Value::Null => "",
                    other => other.as_str().ok_or_else(wrong)?,
                };
                into.insert(key.clone(), text.to_owned());
            }
        }
        Ok(())
    }

    fn wrong(&self, name: &str, expected: &str) -> String {
        format!("`{}{name}` is not {expected}", self.at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{parse, parse_file};
    use serde_json::json;

    #[test]
    fn settings_are_printed_in_the_order_of_tanka() {
        let value = json!({
            "metadata": { "name": "x", "labels": { "b": "2", "a": "1" } },
            "spec": {
                "namespace": "ns", "apiServer": "localhost:6443", "injectLabels": true,
                "expectVersions": { "tanka": ">=0.1" }, "contextNames": ["c"], "unknown": 1,
                "exportJsonnetImplementation": "binary:/tmp/x",
            },
            "more": [],
        });
        let parsed = parse(&value, "spec.json").unwrap();
        assert_eq!(
            serde_json::to_string(&parsed.environment).unwrap(),
            "{\"apiVersion\":\"tanka.dev/v1alpha1\",\"kind\":\"Environment\",\"metadata\":{\"name\":\"x\",\
             \"labels\":{\"a\":\"1\",\"b\":\"2\"}},\"spec\":{\"apiServer\":\"https://localhost:6443\",\
             \"contextNames\":[\"c\"],\"namespace\":\"ns\",\"injectLabels\":true,\"resourceDefaults\":{},\
             \"expectVersions\":{\"tanka\":\">=0.1\"},\"exportJsonnetImplementation\":\"binary:/tmp/x\"}}"
        );
        assert_eq!(parsed.warnings, Vec::<String>::new());
    }

    #[test]
    fn a_server_gets_a_scheme_unless_it_has_one() {
        let server = |text: &str| {
            let value = json!({ "spec": { "apiServer": text } });
            parse(&value, "").unwrap().environment.spec.api_server
        };
        assert_eq!(
            ["", "h", "http://h", "://h"].map(server),
            ["", "https://h", "http://h", "https://://h"]
        );
    }

    #[test]
    fn fields_of_the_first_format_still_count_and_warn() {
        let parsed = parse(&json!({ "server": "h:1", "namespace": "old", "team": "ops" }), "").unwrap();
        assert_eq!(parsed.environment.spec.api_server, "https://h:1");
        assert_eq!(parsed.environment.spec.namespace, "old");
        assert_eq!(parsed.environment.metadata.labels["team"], "ops");
        assert_eq!(
            parsed.warnings,
            [
                "Warning: `server` is deprecated, use `spec.apiServer` instead.",
                "Warning: `namespace` is deprecated, use `spec.namespace` instead.",
                "Warning: `team` is deprecated, use `metadata.labels.team` instead.",
            ]
        );
        let both = parse(&json!({ "namespace": "old", "spec": { "namespace": "new" } }), "").unwrap();
        assert_eq!(both.environment.spec.namespace, "new");
    }

    #[test]
    fn malformed_settings_name_the_field() {
        for (value, why) in [
            (json!([]), "`it` is not an object"),
            (json!({ "spec": 1 }), "`spec` is not an object"),
            (
                json!({ "spec": { "namespace": 1 } }),
                "`spec.namespace` is not a text",
            ),
            (
                json!({ "spec": { "injectLabels": "yes" } }),
                "`spec.injectLabels` is not true or false",
            ),
            (
                json!({ "metadata": { "labels": { "a": 1 } } }),
                "`metadata.labels` is not an object of texts",
            ),
            (
                json!({ "spec": { "contextNames": "x" } }),
                "`spec.contextNames` is not a list of texts",
            ),
        ] {
            let err = parse(&value, "e/spec.json").unwrap_err();
            assert_eq!(err.to_string(), format!("parsing `e/spec.json`: {why}"));
        }
        let err = parse_file(b"{", "e/spec.json").unwrap_err();
        assert!(err.to_string().starts_with("parsing `e/spec.json`: EOF"), "{err}");
    }

    #[test]
    fn nothing_given_is_everything_default() {
        for value in [
            json!({}),
            json!(null),
            json!({ "spec": null, "metadata": { "labels": null } }),
        ] {
            assert_eq!(
                parse(&value, "").unwrap().environment,
                super::Environment::default()
            );
        }
        let shouted = json!({ "SPEC": { "NameSpace": "n" } });
        assert_eq!(parse(&shouted, "").unwrap().environment.spec.namespace, "n");
    }
}
