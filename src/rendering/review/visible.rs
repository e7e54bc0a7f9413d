//! Formats names and values of a repository on one line, so that they cannot start a line, move the cursor or
//! change the direction of the text.

use super::fields::FieldChange;
use crate::base::model::cut_to;
pub(super) use crate::base::model::one_line as line;
use serde_json::Value;

const VALUE_CHARS_MAX: usize = 60;

/// Formats the change from one value to another: `3 -> 5`. If different values would look the same, the text
/// explains it.
pub(super) fn format_transition(before: Option<&Value>, after: Option<&Value>) -> String {
    let plain = (value(before), value(after));
    if plain.0 != plain.1 {
        return format!("{} -> {}", plain.0, plain.1);
    }
    let exact = (json(before), json(after));
    if exact.0 != exact.1 {
        return format!("{} -> {}", exact.0, exact.1);
    }
    format!("{} (differs further on)", plain.0)
}

/// Formats a value in a line: a string as it is, any other value as JSON.
fn value(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if !text.is_empty() => cut_to(&line(text), VALUE_CHARS_MAX).into_owned(),
        other => json(other),
    }
}

fn json(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), super::canonical::text);
    cut_to(&line(&text), VALUE_CHARS_MAX).into_owned()
}

/// Formats a changed field: `spec.replicas: 3 -> 5`.
pub(super) fn field(change: &FieldChange) -> String {
    let path = line(&change.path);
    match change.reordered {
        true => format!("{path}: in another order"),
        false => format!(
            "{path}: {}",
            format_transition(change.before.as_ref(), change.after.as_ref())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::format_transition;
    use serde_json::{Value, json};

    #[test]
    fn different_values_look_different() {
        let long = |end: &str| json!(format!("{}{end}", "x".repeat(80)));
        let shown = |before: Value, after: Value| format_transition(Some(&before), Some(&after));
        assert_eq!(shown(json!(3), json!({ "a": "ü" })), r#"3 -> {"a":"ü"}"#);
        assert_eq!(shown(json!("3"), json!(3)), r#""3" -> 3"#);
        assert_eq!(shown(json!(""), json!("nothing")), r#""" -> nothing"#);
        assert_eq!(
            format_transition(None, Some(&json!("nothing"))),
            r#"nothing -> "nothing""#
        );
        assert_eq!(
            shown(long("a"), long("b")),
            format!("{}… (differs further on)", "x".repeat(59))
        );
    }
}
