//! The function `std.manifestTomlEx` as in go-jsonnet 0.22.

use super::manifest::{quoted, sorted};
use super::{NativeError, text, type_name};
use serde_json::{Map, Value};

type TomlResult = Result<String, NativeError>;

/// Returns a value as TOML, with `indent` for each level.
pub(in crate::rendering::jsonnet) fn toml(value: &Value, indent: &str) -> TomlResult {
    match value {
        Value::Object(fields) => Toml { indent }.table(fields, &[], ""),
        other => Err(NativeError::message(format!(
            "TOML body must be an object. Got {}",
            type_name(other)
        ))),
    }
}

struct Toml<'a> {
    indent: &'a str,
}

impl Toml<'_> {
    /// Writes the fields of a table: plain values before tables.
    fn table(&self, fields: &Map<String, Value>, path: &[&str], indent: &str) -> TomlResult {
        let (mut lines, mut sections) = (Vec::new(), vec![String::new()]);
        for (name, value) in sorted(fields) {
            let below = [path, &[name.as_str()]].concat();
            match value {
                Value::Object(fields) => {
                    let head = format!("{indent}[{}]", dotted(&below));
                    sections.push(self.section(head, fields, &below, indent)?);
                }
                Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
                    let tables = items.iter().filter_map(Value::as_object).map(|fields| {
                        let head = format!("{indent}[[{}]]", dotted(&below));
                        self.section(head, fields, &below, indent)
                    });
                    let tables: Result<Vec<String>, NativeError> = tables.collect();
                    sections.push(tables?.join("\n\n"));
                }
                value => {
                    let written = self.value(value, &below)?;
                    lines.push(format!("{} = {written}", key(name)));
                }
            }
        }
        // Further lines of a value are indented as well.
        let lines = lines.join("\n").replace('\n', &format!("\n{indent}"));
        let before = if lines.is_empty() { "" } else { indent };
        Ok([before, &lines, &sections.join("\n\n")].concat())
    }

    fn section(&self, head: String, fields: &Map<String, Value>, path: &[&str], indent: &str) -> TomlResult {
        let end = if fields.is_empty() { "" } else { "\n" };
        let body = self.table(fields, path, &format!("{indent}{}", self.indent))?;
        Ok([&head, end, &body].concat())
    }

    /// Writes the value of a field. A list has one line for each item.
    fn value(&self, value: &Value, path: &[&str]) -> TomlResult {
        match value {
            Value::Array(items) if !items.is_empty() => {
                let item = |(at, item): (usize, &Value)| {
                    let written = inline(item, &[path, &[&at.to_string()]].concat())?;
                    Ok([self.indent, &written].concat())
                };
                let items: Result<Vec<String>, NativeError> = items.iter().enumerate().map(item).collect();
                Ok(format!("[\n{}\n]", items?.join(",\n")))
            }
            value => inline(value, path),
        }
    }
}

/// Writes a value on one line.
fn inline(value: &Value, path: &[&str]) -> TomlResult {
    Ok(match value {
        Value::Null => {
            let path = path.join(" ");
            return Err(NativeError::message(format!(
                "Tried to manifest \"null\" at [{path}]"
            )));
        }
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Array(items) => {
            let item = |(at, item): (usize, &Value)| inline(item, &[path, &[&at.to_string()]].concat());
            let items: Result<Vec<String>, NativeError> = items.iter().enumerate().map(item).collect();
            format!("[ {} ]", items?.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let value = inline(value, &[path, &[name.as_str()]].concat())?;
                Ok(format!("{} = {value}", key(name)))
            };
            let fields: Result<Vec<String>, NativeError> = sorted(fields).into_iter().map(field).collect();
            format!("{{ {} }}", fields?.join(", "))
        }
        value => text(value),
    })
}

fn dotted(path: &[&str]) -> String {
    let path: Vec<String> = path.iter().map(|name| key(name)).collect();
    path.join(".")
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match name {
        "" => "''".to_owned(),
        name if name.bytes().all(is_bare) => name.to_owned(),
        name => quoted(name),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::toml;
    use serde_json::json;

    #[test]
    fn tables_are_laid_out_as_go_jsonnet_does() {
        let value = json!({
            "a": 0.7, "l": [1, [2, {}], { "x": "y" }], "e": [], "t": { "k k": "v", "u": { "": true } },
            "s": [{ "n": [1] }, {}], "z": {},
        });
        let expected = "a = 0.69999999999999996\ne = []\nl = [\n  1,\n  [ 2, {  } ],\n  { x = \"y\" }\n]\n\n[[s]]\n  n = [\n    1\n  ]\n\n[[s]]\n\n[t]\n  \"k k\" = \"v\"\n\n  [t.u]\n    '' = true\n\n[z]";
        assert_eq!(toml(&value, "  ").unwrap(), expected);
        assert!(toml(&json!([]), "").is_err());
        let error = toml(&json!({ "a": [[null]] }), "").unwrap_err();
        assert_eq!(error.to_string(), "Tried to manifest \"null\" at [a 0 0]");
    }
}
