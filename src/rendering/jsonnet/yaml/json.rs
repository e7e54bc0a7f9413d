//! JSON in the format of Go's `encoding/json`: sorted names, and escapes for characters that a browser could read as
//! markup.

use super::number;
use serde_json::Value;

/// Returns the value over several lines, each level indented by `indent`, without a line feed at the end.
pub fn indented(value: &Value, indent: &str) -> String {
    let mut out = String::new();
    write(&mut out, value, Some(indent), 0);
    out
}

/// Returns the value on one line, without a line feed.
pub fn compact(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, None, 0);
    out
}

fn write(out: &mut String, value: &Value, indent: Option<&str>, depth: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => out.push_str(&number::json(value.as_f64().unwrap_or_default())),
        Value::String(value) => text(out, value),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                separate(out, position, indent, depth + 1);
                write(out, item, indent, depth + 1);
            }
            close(out, ']', items.len(), indent, depth);
        }
        Value::Object(members) => {
            out.push('{');
            for (position, (name, member)) in members.iter().enumerate() {
                separate(out, position, indent, depth + 1);
                text(out, name);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                write(out, member, indent, depth + 1);
            }
            close(out, '}', members.len(), indent, depth);
        }
    }
}

fn separate(out: &mut String, position: usize, indent: Option<&str>, depth: usize) {
    if position > 0 {
        out.push(',');
    }
    break_line(out, indent, depth);
}

fn close(out: &mut String, bracket: char, count: usize, indent: Option<&str>, depth: usize) {
    if count > 0 {
        break_line(out, indent, depth);
    }
    out.push(bracket);
}

fn break_line(out: &mut String, indent: Option<&str>, depth: usize) {
    if let Some(indent) = indent {
        out.push('\n');
        out.push_str(&indent.repeat(depth));
    }
}

fn text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{compact, indented};
    use serde_json::json;

    #[test]
    fn names_are_sorted_and_markup_is_escaped() {
        let value =
            json!({ "b": [1_000_000, 0.5], "a": "<a href='x'>\u{2028}\u{1}\t\u{8}&é🚀", "c": {}, "d": [] });
        let text = "\"\\u003ca href='x'\\u003e\\u2028\\u0001\\t\\b\\u0026é🚀\"";
        assert_eq!(
            compact(&value),
            format!("{{\"a\":{text},\"b\":[1000000,0.5],\"c\":{{}},\"d\":[]}}")
        );
        assert_eq!(
            indented(&value, "  "),
            format!(
                "{{\n  \"a\": {text},\n  \"b\": [\n    1000000,\n    0.5\n  ],\n  \"c\": {{}},\n  \"d\": []\n}}"
            )
        );
    }
}
