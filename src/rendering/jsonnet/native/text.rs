//! The conversion of a value to text, as in `std.toString`. The engines' own conversions write fractions with fewer
//! digits than Go.

use crate::rendering::jsonnet::canonical::write_escaped;
use crate::rendering::jsonnet::number::write_number;
use serde_json::Value;

/// Returns JSON on one line, with spaces between its parts.
pub(in crate::rendering::jsonnet) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number.as_f64().unwrap_or_default()),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                separate(position, out);
                write(item, out);
            }
            close(items.len(), ']', out);
        }
        Value::Object(fields) => {
            out.push('{');
            for (position, (name, value)) in fields.iter().enumerate() {
                separate(position, out);
                string(name, out);
                out.push_str(": ");
                write(value, out);
            }
            close(fields.len(), '}', out);
        }
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

fn separate(position: usize, out: &mut String) {
    if position > 0 {
        out.push_str(", ");
    }
}

fn close(count: usize, bracket: char, out: &mut String) {
    if count == 0 {
        out.push(' ');
    }
    out.push(bracket);
}

#[cfg(test)]
mod tests {
    use super::text;
    use serde_json::json;

    #[test]
    fn values_are_laid_out_as_go_does() {
        let value = json!({ "a": [1, 0.1, {}, []], "b": "\u{7f}\"", "c": null });
        let expected = "{\"a\": [1, 0.10000000000000001, { }, [ ]], \"b\": \"\\u007f\\\"\", \"c\": null}";
        assert_eq!(text(&value), expected);
    }
}
