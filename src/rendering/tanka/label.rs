//! The label that assigns an object to an environment.

use super::TankaError;
use super::environment::Environment;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The name of the label.
pub(super) const ENVIRONMENT_LABEL: &str = "tanka.dev/environment";
/// The default fields from which the value of the label is computed.
const FIELDS: [&str; 2] = [".metadata.name", ".metadata.namespace"];
/// Number of hex digits of the hash that fit in a label.
const DIGITS: usize = 48;

/// Computes the value of the label: a hash of some fields of the environment.
pub(super) fn value(environment: &Environment) -> Result<String, TankaError> {
    let fields: Vec<&str> = match environment.spec.tanka_env_label_from_fields.as_slice() {
        [] => FIELDS.to_vec(),
        given => given.iter().map(String::as_str).collect(),
    };
    let settings = serde_json::to_value(environment).map_err(|err| TankaError::Internal(err.to_string()))?;
    let values = fields.into_iter().map(|field| {
        let path = field.strip_prefix('.').unwrap_or(field);
        text_at(&settings, path).ok_or_else(|| TankaError::LabelField(field.to_owned()))
    });
    let values = values.collect::<Result<Vec<&str>, _>>()?;
    let digits = hex::encode(Sha256::digest(values.join(":").as_bytes()));
    Ok(digits.chars().take(DIGITS).collect())
}

/// Returns the text at a path. A name may itself contain dots: `metadata.labels.a.b/c`.
fn text_at<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    if let Some(text) = value.get(path).and_then(Value::as_str) {
        return Some(text);
    }
    let (first, rest) = path.split_once('.')?;
    text_at(value.get(first)?, rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::value;
    use crate::rendering::tanka::Environment;

    fn environment(name: &str, fields: &[&str]) -> Environment {
        let mut environment = Environment::default();
        environment.metadata.name = name.to_owned();
        environment.metadata.namespace = format!("{name}/main.jsonnet");
        let labels = [("only", "v"), ("app.kubernetes.io/name", "x")];
        environment.metadata.labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        environment.spec.namespace = "lf".to_owned();
        environment.spec.tanka_env_label_from_fields =
            fields.iter().map(|field| (*field).to_owned()).collect();
        environment
    }

    /// TK-5
    #[test]
    fn the_label_is_the_one_of_tanka() {
        for (name, fields, expected) in [
            (
                "environments/labels",
                [].as_slice(),
                "28a07410f4a79eac638413330c4e5ae34b1b01168e612fd0",
            ),
            (
                "any",
                &[".metadata.labels.only", "spec.namespace"],
                "b94bc71553f5f5e06f6c4093a7f2d6c172fd7f675cd4aedf",
            ),
        ] {
            assert_eq!(value(&environment(name, fields)).unwrap(), expected);
        }
        assert!(value(&environment("any", &["metadata.labels.app.kubernetes.io/name"])).is_ok());
    }

    #[test]
    fn a_field_that_is_not_there_is_an_error() {
        for field in [
            ".metadata.labels.none",
            "spec",
            "spec.injectLabels",
            "",
            ".",
            "a.b.c",
        ] {
            let err = value(&environment("any", &[field])).unwrap_err();
            let expected =
                format!("`spec.tankaEnvLabelFromFields`: the environment has no text at `{field}`");
            assert_eq!(err.to_string(), expected);
        }
    }
}
