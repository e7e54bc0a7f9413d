//! The canonical text of a JSON value, which is independent of the order of its fields. It is used for hashes and
//! for sorting.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns a value as compact JSON with sorted fields. The caller limits the nesting depth.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                separate(out, position);
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (position, (name, field)) in sorted.into_iter().enumerate() {
                separate(out, position);
                out.push_str(&Value::String(name.clone()).to_string());
                out.push(':');
                write(out, field);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn separate(out: &mut String, position: usize) {
    if position > 0 {
        out.push(',');
    }
}

/// Returns the SHA-256 of the texts in order, as hex digits.
pub(super) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        // Compact JSON contains no line feed, so the boundaries are unambiguous.
        hasher.update(text.as_bytes());
        hasher.update(b"\n");
    }
    hex::encode(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::text;
    use serde_json::json;

    #[test]
    fn fields_are_sorted_at_every_level() {
        let value = json!({ "b": [{ "z": 1, "a": "\n" }], "a": null });
        assert_eq!(text(&value), r#"{"a":null,"b":[{"a":"\n","z":1}]}"#);
    }
}
