//! The standard library functions that format a value as INI, Python, XML or JSON, as in go-jsonnet.

use super::{NativeError, text, type_name};
use serde_json::{Map, Value};

type ManifestResult = Result<String, NativeError>;

/// Formats like `std.manifestIni`: the optional `main` section, and the other sections.
pub(in crate::rendering::jsonnet) fn ini(value: &Value) -> ManifestResult {
    let field = |name: &str| value.get(name);
    let mut lines = Vec::new();
    if let Some(main) = field("main") {
        ini_body(main, &mut lines)?;
    }
    let sections = field("sections").ok_or_else(|| NativeError::message("Field does not exist: sections"))?;
    for (name, section) in fields(sections)? {
        lines.push(format!("[{name}]"));
        ini_body(section, &mut lines)?;
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

fn ini_body(section: &Value, lines: &mut Vec<String>) -> Result<(), NativeError> {
    for (key, value) in fields(section)? {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        lines.extend(
            values
                .iter()
                .map(|value| format!("{key} = {}", std_to_string(value))),
        );
    }
    Ok(())
}

/// Formats like `std.manifestPython`.
pub(in crate::rendering::jsonnet) fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(_) | Value::String(_) => text(value),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = sorted(fields);
            let field = |(key, value): &(&String, &Value)| format!("{}: {}", quoted(key), python(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// Formats like `std.manifestPythonVars`.
pub(in crate::rendering::jsonnet) fn python_variables(value: &Value) -> ManifestResult {
    let line = |(key, value): (&String, &Value)| format!("{key} = {}\n", python(value));
    Ok(fields(value)?.into_iter().map(line).collect())
}

/// Formats like `std.manifestXmlJsonml`.
pub(in crate::rendering::jsonnet) fn xml(value: &Value) -> ManifestResult {
    match value {
        Value::Array(_) => xml_node(value),
        other => Err(NativeError::message(format!(
            "Expected a JSONML value (an array), got {}",
            type_name(other)
        ))),
    }
}

fn xml_node(value: &Value) -> ManifestResult {
    let parts = match value {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        other => {
            return Err(NativeError::message(format!(
                "Value non indexable: {}",
                type_name(other)
            )));
        }
    };
    let (tag, rest) = match parts.as_slice() {
        [Value::String(tag), rest @ ..] => (tag, rest),
        [other, ..] => {
            let got = type_name(other);
            return Err(NativeError::message(format!(
                "Unexpected type {got}, expected string"
            )));
        }
        [] => return Err(NativeError::message("Index 0 out of bounds, not within [0, 0)")),
    };
    let (attributes, children) = match rest {
        [Value::Object(attributes), children @ ..] => (sorted(attributes), children),
        children => (Vec::new(), children),
    };
    let mut out = format!("<{tag}");
    for (name, value) in attributes {
        out.push_str(&format!(" {name}=\"{}\"", std_to_string(value)));
    }
    out.push('>');
    for child in children {
        out.push_str(&xml_node(child)?);
    }
    out.push_str(&format!("</{tag}>"));
    Ok(out)
}

/// Formats like `std.manifestJsonEx`, with the given indentation, line end, and separator between a name and its value.
pub(in crate::rendering::jsonnet) fn json_ex(
    value: &Value,
    indent: &str,
    newline: &str,
    separator: &str,
) -> String {
    let mut out = String::new();
    JsonLayout {
        indent,
        newline,
        separator,
    }
    .write(value, 0, &mut out);
    out
}

struct JsonLayout<'a> {
    indent: &'a str,
    newline: &'a str,
    separator: &'a str,
}

impl JsonLayout<'_> {
    fn write(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::Number(number) => out.push_str(&number.as_f64().unwrap_or_default().to_string()),
            Value::String(text) => json_string(text, out),
            Value::Array(items) => {
                let each = items.iter().map(|item| (None, item));
                self.lines('[', each, ']', depth, out);
            }
            Value::Object(fields) => {
                let fields = sorted(fields).into_iter();
                let each = fields.map(|(name, value)| (Some(name.as_str()), value));
                self.lines('{', each, '}', depth, out);
            }
            other => out.push_str(&text(other)),
        }
    }

    fn lines<'v>(
        &self,
        open: char,
        parts: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
        close: char,
        depth: usize,
        out: &mut String,
    ) {
        out.push(open);
        out.push_str(self.newline);
        for (position, (name, value)) in parts.enumerate() {
            if position > 0 {
                out.push(',');
                out.push_str(self.newline);
            }
            out.push_str(&self.indent.repeat(depth + 1));
            if let Some(name) = name {
                json_string(name, out);
                out.push_str(self.separator);
            }
            self.write(value, depth + 1, out);
        }
        out.push_str(self.newline);
        out.push_str(&self.indent.repeat(depth));
        out.push(close);
    }
}

/// Writes a string as Go's JSON library does, which differs from the rest of the language.
fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for next in text.chars() {
        match next {
            '"' | '\\' => out.extend(['\\', next]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(next)));
            }
            next => out.push(next),
        }
    }
    out.push('"');
}

/// Escapes like `std.escapeStringBash`.
pub(in crate::rendering::jsonnet) fn escape_bash(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

/// Escapes like `std.escapeStringXML`.
pub(in crate::rendering::jsonnet) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for next in text.chars() {
        match next {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            next => out.push(next),
        }
    }
    out
}

/// Returns a text unchanged, and converts any other value like `std.toString`.
pub(in crate::rendering::jsonnet) fn std_to_string(value: &Value) -> String {
    match value {
        Value::String(value) => value.clone(),
        value => text(value),
    }
}

pub(super) fn quoted(value: &str) -> String {
    text(&Value::from(value))
}

fn fields(value: &Value) -> Result<Vec<(&String, &Value)>, NativeError> {
    match value {
        Value::Object(fields) => Ok(sorted(fields)),
        other => {
            let got = type_name(other);
            Err(NativeError::message(format!(
                "Unexpected type {got}, expected object"
            )))
        }
    }
}

/// Returns the fields of an object sorted by name.
pub(super) fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    fields
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{ini, python, python_variables, xml};
    use serde_json::json;

    #[test]
    fn values_are_laid_out_as_go_jsonnet_does() {
        let value = json!({ "main": { "b": 0.7, "a": ["x", 1e-7] }, "sections": { "s": { "k": [] }, "r": { "t": null } } });
        let expected = "a = x\na = 9.9999999999999995e-08\nb = 0.69999999999999996\n[r]\nt = null\n[s]\n";
        assert_eq!(ini(&value).unwrap(), expected);
        let value = json!({ "b": [1, 0.7, null, true, {}], "a": "x\"" });
        let expected = "{\"a\": \"x\\\"\", \"b\": [1, 0.69999999999999996, None, True, {}]}";
        assert_eq!(python(&value), expected);
        assert_eq!(
            python_variables(&value).unwrap(),
            "a = \"x\\\"\"\nb = [1, 0.69999999999999996, None, True, {}]\n"
        );
        let value = json!(["a", { "y": 0.7, "x": "<" }, "t", ["b"], ["c", {}]]);
        let expected = "<a x=\"<\" y=\"0.69999999999999996\">t<b></b><c></c></a>";
        assert_eq!(xml(&value).unwrap(), expected);
    }

    #[test]
    fn what_has_no_such_layout_is_refused() {
        assert!(ini(&json!({})).is_err() && ini(&json!({ "sections": [] })).is_err());
        assert!(python_variables(&json!([])).is_err());
        for value in [json!("a"), json!([]), json!([1]), json!(["a", 1])] {
            assert!(xml(&value).is_err(), "{value}");
        }
    }
}
