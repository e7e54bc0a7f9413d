//! The functions `parseJson`, `manifestJsonFromJson` and `manifestYamlFromJson`.

use super::NativeError;
use crate::rendering::jsonnet::yaml::{self, GoYamlVersion};
use serde_json::Value;

/// Spaces of one level that may be requested.
const INDENT_MAX: f64 = 100.0;
/// Levels of nesting that are formatted; the parser has the same limit.
const DEPTH_MAX: usize = 128;

/// Parses JSON. If a field occurs twice, the last one counts; nesting is limited to 128 levels.
pub(super) fn parse(text: &str) -> Result<Value, NativeError> {
    serde_json::from_str(text).map_err(|error| NativeError::message(format!("parseJson: {error}")))
}

/// Converts JSON to YAML.
pub(super) fn json_to_yaml(text: &str) -> Result<String, NativeError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| NativeError::message(format!("manifestYamlFromJson: {error}")))?;
    Ok(document(&value))
}

/// Returns the value as a YAML document. The recursion is as deep as the value, so the caller must bound its nesting.
pub(super) fn document(value: &Value) -> String {
    yaml::document(GoYamlVersion::V3, value)
}

/// Formats JSON over several lines. Fields keep their order and numbers keep their digits.
pub(super) fn indent(text: &str, spaces: f64) -> Result<String, NativeError> {
    if !(0.0..=INDENT_MAX).contains(&spaces) {
        return Err(NativeError::message(format!(
            "manifestJsonFromJson: indent {spaces} is not between 0 and {INDENT_MAX}"
        )));
    }
    serde_json::from_str::<&serde_json::value::RawValue>(text)
        .map_err(|error| NativeError::message(format!("manifestJsonFromJson: {error}")))?;
    let mut layout = JsonIndenter {
        out: String::with_capacity(text.len() * 2),
        // The checks above ensure a small whole number.
        step: " ".repeat(spaces as usize),
        depth: 0,
        opened: false,
    };
    layout.lines(text)?;
    layout.out.push('\n');
    Ok(layout.out)
}

struct JsonIndenter {
    out: String,
    step: String,
    depth: usize,
    /// True if the last output opened a bracket.
    opened: bool,
}

impl JsonIndenter {
    /// Formats `text`, which is valid JSON. Brackets inside of strings are skipped.
    fn lines(&mut self, text: &str) -> Result<(), NativeError> {
        let (mut in_string, mut escaped) = (false, false);
        for character in text.chars() {
            if in_string {
                self.out.push(character);
                in_string = escaped || character != '"';
                escaped = character == '\\' && !escaped;
                continue;
            }
            match character {
                ' ' | '\t' | '\r' | '\n' => continue,
                ']' | '}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        self.line();
                    }
                    self.out.push(character);
                    continue;
                }
                _ => {}
            }
            if std::mem::take(&mut self.opened) {
                self.line();
            }
            self.out.push(character);
            match character {
                '[' | '{' => {
                    self.depth += 1;
                    self.opened = true;
                    if self.depth > DEPTH_MAX {
                        return Err(NativeError::message("manifestJsonFromJson: exceeded max depth"));
                    }
                }
                ',' => self.line(),
                ':' => self.out.push(' '),
                '"' => in_string = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str(&self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{indent, json_to_yaml, parse};
    use serde_json::json;

    #[test]
    fn json_is_laid_out_and_nothing_else() {
        for (text, spaces, expected) in [
            (r#"{"b":1.50,"a":[]}"#, 2.0, "{\n  \"b\": 1.50,\n  \"a\": []\n}\n"),
            (
                r#" [ 1 , {} , [ 2 ] ] "#,
                4.0,
                "[\n    1,\n    {},\n    [\n        2\n    ]\n]\n",
            ),
            (r#""a\"[,:{""#, 2.0, "\"a\\\"[,:{\"\n"),
            (
                r#"{"a\\":{"b":null}}"#,
                0.0,
                "{\n\"a\\\\\": {\n\"b\": null\n}\n}\n",
            ),
        ] {
            assert_eq!(indent(text, spaces).as_deref(), Ok(expected));
        }
        assert!(indent("{", 2.0).is_err());
        assert!(indent("{}", -1.0).is_err());
        assert!(indent("{}", f64::NAN).is_err());
        assert!(indent("{}", 1e9).is_err());
    }

    #[test]
    fn json_becomes_yaml_as_go_writes_it() {
        let text = r#"{"b":[1,{"c":"yes"}],"a":0.5}"#;
        assert_eq!(
            json_to_yaml(text).as_deref(),
            Ok("a: 0.5\nb:\n    - 1\n    - c: \"yes\"\n")
        );
        assert!(json_to_yaml("{").is_err());
    }

    #[test]
    fn the_last_of_two_fields_counts() {
        assert_eq!(parse(r#"{"a":1,"a":2}"#), Ok(json!({"a": 2})));
    }

    /// T54
    #[test]
    fn json_that_nests_too_deeply_is_refused() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(json_to_yaml(&"[".repeat(100_000)).is_err());
        assert!(indent(&"[".repeat(100_000), 2.0).is_err());
        assert!(indent(&format!("{}{}", "[".repeat(200), "]".repeat(200)), 2.0).is_err());
    }
}
