//! Functions of the standard library that an engine implements differently from go-jsonnet. The second engine's library
//! calls them by name.

use super::format::{FormatError, FormatString};
use super::{NativeError, manifest, math, text, toml, type_name, yaml};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// The largest code point that `std.base64` accepts as a byte.
const BYTE_MAX: char = '\u{ff}';

/// A replaced function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) enum StandardOverride {
    Text,
    ParseYaml,
    /// The fields that a format requests from an object.
    FormatKeys,
    Format,
    FormatObject,
    Ini,
    TomlEx,
    /// A JSON value with its indentation, its line end, and the separator between a name and its value.
    JsonEx,
    Python,
    PythonVars,
    Xml,
    Base64,
    Base64Decode,
    Trim,
    Round,
    Max,
    Min,
    Log,
    LogOf,
    Pow,
}

/// The functions, with their names and parameters.
pub(in crate::rendering::jsonnet) const STANDARD_OVERRIDES: [(&str, StandardOverride, &[&str]); 20] = [
    ("drydock.text", StandardOverride::Text, &["value"]),
    ("drydock.parseYaml", StandardOverride::ParseYaml, &["str"]),
    ("drydock.formatKeys", StandardOverride::FormatKeys, &["str"]),
    ("drydock.format", StandardOverride::Format, &["str", "vals"]),
    (
        "drydock.formatObject",
        StandardOverride::FormatObject,
        &["str", "vals"],
    ),
    ("drydock.ini", StandardOverride::Ini, &["ini"]),
    ("drydock.tomlEx", StandardOverride::TomlEx, &["value", "indent"]),
    (
        "drydock.jsonEx",
        StandardOverride::JsonEx,
        &["value", "indent", "newline", "key_val_sep"],
    ),
    ("drydock.python", StandardOverride::Python, &["v"]),
    ("drydock.pythonVars", StandardOverride::PythonVars, &["conf"]),
    ("drydock.xml", StandardOverride::Xml, &["value"]),
    ("drydock.base64", StandardOverride::Base64, &["input"]),
    ("drydock.base64Decode", StandardOverride::Base64Decode, &["str"]),
    ("drydock.trim", StandardOverride::Trim, &["str"]),
    ("drydock.round", StandardOverride::Round, &["x"]),
    ("drydock.max", StandardOverride::Max, &["a", "b"]),
    ("drydock.min", StandardOverride::Min, &["a", "b"]),
    ("drydock.log", StandardOverride::Log, &["x"]),
    ("drydock.logOf", StandardOverride::LogOf, &["base", "x"]),
    ("drydock.pow", StandardOverride::Pow, &["x", "n"]),
];

impl From<FormatError> for NativeError {
    fn from(FormatError(why): FormatError) -> Self {
        Self::Message(why)
    }
}

impl StandardOverride {
    /// Returns the function with a name.
    pub(in crate::rendering::jsonnet) fn by_name(name: &str) -> Option<Self> {
        let found = STANDARD_OVERRIDES.iter().find(|(known, _, _)| *known == name);
        found.map(|(_, standard, _)| *standard)
    }

    /// Calls the function.
    pub(in crate::rendering::jsonnet) fn call(self, arguments: &[Value]) -> Result<Value, NativeError> {
        let (first, second) = match arguments {
            [first] => (first, &Value::Null),
            [first, second, ..] => (first, second),
            [] => {
                return Err(NativeError::message(
                    "a function gets other arguments than it takes",
                ));
            }
        };
        Ok(match self {
            Self::Text => text(first).into(),
            Self::ParseYaml => yaml::parse_standard(string(first)?)?,
            Self::FormatKeys => {
                let format = FormatString::parse(string(first)?)?;
                format.keys().collect::<Vec<&str>>().into()
            }
            Self::Format => format(string(first)?, second)?.into(),
            Self::FormatObject => {
                let fields = |name: &str| Ok::<_, NativeError>(second.get(name).cloned());
                FormatString::parse(string(first)?)?.format_object(fields)?.into()
            }
            Self::Ini => manifest::ini(first)?.into(),
            Self::TomlEx => toml::toml(first, string(second)?)?.into(),
            Self::JsonEx => {
                let part = |at: usize| arguments.get(at).map_or(Ok(""), string);
                manifest::json_ex(first, part(1)?, part(2)?, part(3)?).into()
            }
            Self::Python => manifest::python(first).into(),
            Self::PythonVars => manifest::python_variables(first)?.into(),
            Self::Xml => manifest::xml(first)?.into(),
            Self::Base64 => base64(first)?.into(),
            Self::Base64Decode => base64_decode(string(first)?)?.into(),
            Self::Trim => string(first)?.trim().into(),
            Self::Round => number(first)?.round().into(),
            Self::Max => larger(number(first)?, number(second)?).into(),
            Self::Min => (-larger(-number(first)?, -number(second)?)).into(),
            Self::Log => finite(math::log(number(first)?))?,
            Self::LogOf => finite(math::log_base(number(first)?, number(second)?))?,
            Self::Pow => finite(math::pow(number(first)?, number(second)?))?,
        })
    }
}

/// Formats a text with the values of a list, or with one other value.
fn format(format: &str, values: &Value) -> Result<String, NativeError> {
    let values = match values {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let value = |at: usize| Ok::<_, NativeError>(values.get(at).cloned().unwrap_or_default());
    FormatString::parse(format)?.format_list(values.len(), value)
}

/// Encodes a text, or a list of bytes, as `std.base64` does.
fn base64(value: &Value) -> Result<String, NativeError> {
    let invalid = |number: &dyn std::fmt::Display| {
        NativeError::message(format!(
            "base64 encountered invalid codepoint value in the array (must be 0 <= X <= 255), got {number}"
        ))
    };
    match value {
        Value::String(text) => match text.chars().find(|next| *next > BYTE_MAX) {
            Some(next) => Err(invalid(&u32::from(next))),
            None => Ok(BASE64.encode(text)),
        },
        Value::Array(items) => {
            let byte = |item: &Value| match item.as_f64() {
                Some(number) if (0.0..=255.0).contains(&number) && number.fract() == 0.0 => Ok(number as u8),
                Some(number) if number.fract() == 0.0 => Err(invalid(&number)),
                _ => Err(NativeError::message(format!(
                    "base64 encountered a non-integer value in the array, got {}",
                    type_name(item)
                ))),
            };
            let bytes: Result<Vec<u8>, NativeError> = items.iter().map(byte).collect();
            Ok(BASE64.encode(bytes?))
        }
        other => Err(NativeError::message(format!(
            "base64 can only base64 encode strings / arrays of single bytes, got {}",
            type_name(other)
        ))),
    }
}

fn base64_decode(text: &str) -> Result<String, NativeError> {
    if !text.len().is_multiple_of(4) {
        let length = text.len();
        return Err(NativeError::message(format!(
            "input string appears not to be a base64 encoded string. Wrong length found ({length})"
        )));
    }
    let bytes = BASE64.decode(text);
    let bytes = bytes.map_err(|error| NativeError::message(format!("failed to decode: {error}")))?;
    Ok(super::yaml_scalar::lossy(&bytes))
}

fn string(value: &Value) -> Result<&str, NativeError> {
    value.as_str().ok_or_else(|| unexpected(value, "string"))
}

fn number(value: &Value) -> Result<f64, NativeError> {
    value.as_f64().ok_or_else(|| unexpected(value, "number"))
}

fn unexpected(value: &Value, expected: &str) -> NativeError {
    NativeError::message(format!(
        "Unexpected type {}, expected {expected}",
        type_name(value)
    ))
}

/// Returns the first of two numbers if it is larger, otherwise the second.
fn larger(first: f64, second: f64) -> f64 {
    if first > second { first } else { second }
}

/// Returns a result if it is a finite number.
fn finite(number: f64) -> Result<Value, NativeError> {
    match number {
        number if number.is_nan() => Err(NativeError::message("Not a number")),
        number if number.is_infinite() => Err(NativeError::message("Overflow")),
        number => Ok(number.into()),
    }
}
