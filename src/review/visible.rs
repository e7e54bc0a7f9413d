//! Formats names and values of a repository on one line, so that they cannot start a line, move the cursor or
//! change the direction of the text.

use super::fields::FieldChange;
pub(super) use crate::model::one_line as line;
use serde_json::Value;

/// Cuts a text after this many characters and adds `…`.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    if chars_max > 0 {
        out.push('…');
    }
    out
}

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
        Some(Value::String(text)) if !text.is_empty() => cut(&line(text), VALUE_CHARS_MAX),
        other => json(other),
    }
}

fn json(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), super::canonical::text);
    cut(&line(&text), VALUE_CHARS_MAX)
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
    use super::{cut, format_transition};
    use serde_json::{Value, json};

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("äöü", 2), "ä…");
        assert_eq!(cut("äöü", 0), "");
        assert_eq!(cut("äöü", 3), "äöü");
    }

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
