//! The functions `std.manifestYamlDoc` and `std.manifestYamlStream` as in go-jsonnet 0.22. The first engine's own
//! functions write texts of several lines differently and quote other keys.

use super::text;
use serde_json::Value;

/// Spaces of one level.
const INDENT: &str = "  ";
/// Words that are not texts in YAML, in any case.
const RESERVED: [&str; 16] = [
    "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", "-.inf", "+.inf", ".inf", "null", "-",
    "---", "",
];

/// The options of both functions.
#[derive(Clone, Copy, Debug)]
pub(in crate::rendering::jsonnet) struct YamlLayout {
    /// The indentation of lists that are fields.
    pub(in crate::rendering::jsonnet) lists_in_objects: ListIndent,
    pub(in crate::rendering::jsonnet) keys: KeyQuotes,
}

/// The indentation of a list that is a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) enum ListIndent {
    /// The same column as the field.
    None,
    /// One level deeper than the field.
    Level,
}

/// The choice of quoted keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) enum KeyQuotes {
    All,
    /// Only keys that would not be texts without quotes.
    Needed,
}

/// Returns a value as a document, without a line end after it.
pub(in crate::rendering::jsonnet) fn yaml_document(value: &Value, layout: YamlLayout) -> String {
    let mut out = String::new();
    write(value, layout, &mut String::new(), &mut out);
    out
}

fn write(value: &Value, layout: YamlLayout, indent: &mut String, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&number.as_f64().unwrap_or_default().to_string()),
        Value::String(written) => string(written, indent, out),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    next_line(indent, out);
                }
                out.push('-');
                match item {
                    Value::Array(inner) if !inner.is_empty() => deeper(indent, |indent| {
                        next_line(indent, out);
                        write(item, layout, indent, out);
                    }),
                    Value::Object(inner) if !inner.is_empty() => deeper(indent, |indent| {
                        out.push(' ');
                        write(item, layout, indent, out);
                    }),
                    item => {
                        out.push(' ');
                        write(item, layout, indent, out);
                    }
                }
            }
        }
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(fields) => {
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    next_line(indent, out);
                }
                match layout.keys == KeyQuotes::Needed && is_safe(key) {
                    true => out.push_str(key),
                    false => out.push_str(&text(&Value::String(key.clone()))),
                }
                out.push(':');
                field(value, layout, indent, out);
            }
        }
        other => out.push_str(&text(other)),
    }
}

/// Writes the value after the colon of a field.
fn field(value: &Value, layout: YamlLayout, indent: &mut String, out: &mut String) {
    let is_deeper = match value {
        Value::Array(items) if !items.is_empty() => layout.lists_in_objects == ListIndent::Level,
        Value::Object(fields) if !fields.is_empty() => true,
        value => {
            out.push(' ');
            return write(value, layout, indent, out);
        }
    };
    let mut below = |indent: &mut String| {
        next_line(indent, out);
        write(value, layout, indent, out);
    };
    match is_deeper {
        true => deeper(indent, below),
        false => below(indent),
    }
}

/// Writes a text: as a block if it ends with a line end, otherwise quoted.
fn string(written: &str, indent: &str, out: &mut String) {
    match written.strip_suffix('\n') {
        Some(lines) => {
            out.push('|');
            for line in lines.split('\n') {
                next_line(indent, out);
                out.push_str(INDENT);
                out.push_str(line);
            }
        }
        None => out.push_str(&text(&Value::String(written.to_owned()))),
    }
}

fn next_line(indent: &str, out: &mut String) {
    out.push('\n');
    out.push_str(indent);
}

fn deeper(indent: &mut String, write: impl FnOnce(&mut String)) {
    indent.push_str(INDENT);
    write(indent);
    indent.truncate(indent.len() - INDENT.len());
}

/// True if a key is a text without quotes.
fn is_safe(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'.');
    key.bytes().all(is_plain)
        && !RESERVED.iter().any(|word| key.eq_ignore_ascii_case(word))
        && !is_date(key)
        && !is_number(key)
}

/// True for digits with two dashes among them.
fn is_date(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && key.matches('-').count() == 2
}

/// Returns true if Go's parser reads a key as a number, or if the key begins like a hexadecimal number or is a binary
/// one.
fn is_number(key: &str) -> bool {
    let unsigned = key.strip_prefix('-').unwrap_or(key);
    let binary = unsigned.strip_prefix("0b").unwrap_or_default();
    let is_binary = !binary.is_empty() && binary.bytes().all(|byte| matches!(byte, b'0' | b'1' | b'_'));
    let is_hexadecimal = key.match_indices("0x").any(|(at, _)| {
        let digit = key.as_bytes().get(at + 2);
        digit.is_some_and(|digit| digit.is_ascii_hexdigit() || *digit == b'_')
    });
    let is_word = ["inf", "infinity"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word))
        || key.eq_ignore_ascii_case("nan");
    is_binary || is_hexadecimal || is_word || is_decimal(unsigned)
}

/// True for digits with an optional fraction and exponent; `_` may occur between digits.
fn is_decimal(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let stands_between = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    let has_odd = bytes
        .iter()
        .enumerate()
        .any(|(at, byte)| *byte == b'_' && !stands_between(at));
    let is_plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'_');
    let begins = bytes
        .first()
        .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
    !has_odd
        && begins
        && bytes.iter().all(|byte| is_plain(*byte))
        && text.replace('_', "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::{KeyQuotes, ListIndent, YamlLayout, is_safe, yaml_document};
    use serde_json::json;

    const PLAIN: YamlLayout = YamlLayout {
        lists_in_objects: ListIndent::None,
        keys: KeyQuotes::All,
    };

    #[test]
    fn documents_are_laid_out_as_go_jsonnet_does() {
        let value = json!({ "a": "x\ny", "b": "x\n", "c": [[], {}, [{}], [[1]], { "d": [1, { "e": 0.7 }] }], "f": { "g": [1] } });
        let expected = "\"a\": \"x\\ny\"\n\"b\": |\n  x\n\"c\":\n- []\n- {}\n-\n  - {}\n-\n  -\n    - 1\n- \"d\":\n  - 1\n  - \"e\": 0.7\n\"f\":\n  \"g\":\n  - 1";
        assert_eq!(yaml_document(&value, PLAIN), expected);
        let layout = YamlLayout {
            lists_in_objects: ListIndent::Level,
            keys: KeyQuotes::Needed,
        };
        let value = json!({ "a": [[], [1], { "b": [1] }], "y": "x\n\n", "n-1": ["m\n"] });
        let expected = "a:\n  - []\n  -\n    - 1\n  - b:\n      - 1\nn-1:\n  - |\n    m\n\"y\": |\n  x\n  ";
        assert_eq!(yaml_document(&value, layout), expected);
        for (value, expected) in [
            (json!("x\n"), "|\n  x"),
            (json!(""), "\"\""),
            (json!(null), "null"),
            (json!({}), "{}"),
            (json!(1e21), "1000000000000000000000"),
            (json!(-0.0), "-0"),
            (json!("\u{7f}"), "\"\\u007f\""),
        ] {
            assert_eq!(yaml_document(&value, PLAIN), expected);
        }
    }

    /// Compares with the output of go-jsonnet 0.22 for these keys.
    #[test]
    fn keys_are_quoted_where_go_jsonnet_quotes_them() {
        for key in [
            "",
            "+.inf",
            "+1",
            "-",
            "--",
            "---",
            "--0x1",
            "--1",
            "-.5",
            "-.inf",
            "-0b1",
            "-0x1",
            "-1",
            "-1.5",
            "-1e-5",
            ".5",
            ".NaN",
            ".inf",
            ".nan",
            "017",
            "0b1",
            "0x1f",
            "0xAB_CD",
            "1",
            "1,000",
            "1--1",
            "1-1-",
            "1-1-1",
            "1.",
            "1.5",
            "1.e5",
            "1E5",
            "1_000",
            "1e-5",
            "1e5",
            "2020-01-01",
            "<<",
            "=",
            "TRUE",
            "Y",
            "Yes",
            "a b",
            "a:b",
            "inf",
            "n",
            "nan",
            "null",
            "off",
            "on",
            "true",
            "y",
            "~",
            "\u{e9}",
        ] {
            assert!(!is_safe(key), "{key}");
        }
        for key in [
            "-0X_", "-1-e-5", "-a", "-e", ".", "..", "._", "0.0.0", "0B1", "0X1F", "0b", "0b2", "0o17", "0x",
            "0xg", "1-", "1-1", "1-2-3-4", "1-e5", "1.2-3", "1.5.5", "1._5", "12-", "1_", "1a", "1b", "1e",
            "1e1e1", "E1", "_", "_-_", "_-_-_", "_1", "_e_", "a", "a-", "a.b", "a/b", "a1", "a_b", "b", "e",
            "e-1", "e.e", "x-1.2e3",
        ] {
            assert!(is_safe(key), "{key}");
        }
    }
}
