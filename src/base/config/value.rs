//! Converts written values to the types of their keys. A refusal contains the expected type and the type that was
//! found, never the value: it may be a secret in the wrong place.

use crate::base::config::error::printable;
use crate::base::config::keys::ValueKind;
use crate::base::config::secrets::is_variable_name;
use crate::base::config::url::Url;
use crate::base::model::{Secret, TokenPrice};
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

/// The maximum number of characters of a text value.
const TEXT_CHARS_MAX: usize = 1_000;
/// The maximum number of entries of a list.
const LIST_ENTRIES_MAX: usize = 1_000;

/// A value of its key's type.
#[derive(Clone)]
pub(super) enum Value {
    Integer(u64),
    Boolean(bool),
    Text(String),
    List(Vec<String>),
    Address(SocketAddr),
    Url(Option<Url>),
    Path(PathBuf),
    Price(TokenPrice),
    Secret(SecretSource),
}

/// The source of a secret.
#[derive(Clone)]
pub(super) enum SecretSource {
    /// The value itself; allowed only in the environment.
    Value(Secret),
    /// The variable of this name.
    Variable(String),
    /// The file at this path.
    File(PathBuf),
}

impl SecretSource {
    /// Describes the source without the secret.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Value(_) => "the environment".to_owned(),
            Self::Variable(name) if is_variable_name(name) => format!("env {name}"),
            Self::Variable(_) => "env".to_owned(),
            Self::File(path) => format!("file {}", printable(&path.display().to_string())),
        }
    }
}

/// Converts a value of the file.
pub(super) fn from_toml(kind: ValueKind, value: &DeValue<'_>) -> Result<Value, String> {
    let wrong = || format!("expected {}, found {}", expected(kind), found(value));
    match (kind, value) {
        (ValueKind::Secret { .. }, DeValue::Table(table)) => secret_reference(table),
        (ValueKind::Secret { .. }, DeValue::String(_)) => Err(SECRET_IN_FILE.to_owned()),
        (ValueKind::Integer { .. }, DeValue::Integer(number)) => integer(kind, number),
        (ValueKind::Price, DeValue::Integer(number)) if number.radix() == 10 => price(number.as_str()),
        (ValueKind::Price, DeValue::Float(number)) => price(number.as_str()),
        (ValueKind::Boolean, DeValue::Boolean(value)) => Ok(Value::Boolean(*value)),
        (ValueKind::List, DeValue::Array(entries)) => {
            list(entries).ok_or_else(|| format!("expected {}", expected(kind)))
        }
        (
            ValueKind::Text | ValueKind::Choice(_) | ValueKind::Address | ValueKind::Url | ValueKind::Path,
            DeValue::String(text),
        ) => from_words(kind, text),
        _ => Err(wrong()),
    }
}

/// Converts a value of the environment or the command line.
pub(super) fn from_text(kind: ValueKind, text: &str) -> Result<Value, String> {
    let wrong = || format!("expected {}", expected(kind));
    match kind {
        ValueKind::Secret { .. } => Ok(Value::Secret(SecretSource::Value(Secret::new(text.to_owned())))),
        ValueKind::Integer { .. } => match DeValue::parse(text.trim()).map(toml::Spanned::into_inner) {
            Ok(DeValue::Integer(number)) => integer(kind, &number),
            _ => Err(wrong()),
        },
        ValueKind::Price => price(text.trim()),
        ValueKind::Boolean => text.trim().parse().map(Value::Boolean).map_err(|_| wrong()),
        ValueKind::List if text.trim_start().starts_with('[') => {
            match DeValue::parse(text.trim()).map(toml::Spanned::into_inner) {
                Ok(DeValue::Array(entries)) => list(&entries).ok_or_else(wrong),
                _ => Err(wrong()),
            }
        }
        ValueKind::List => {
            let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            texts(entries.map(str::to_owned).collect()).ok_or_else(wrong)
        }
        ValueKind::Text | ValueKind::Choice(_) | ValueKind::Address | ValueKind::Url | ValueKind::Path => {
            from_words(kind, text)
        }
    }
}

/// The advice for a secret that was written into the file.
const SECRET_IN_FILE: &str =
    "a secret does not belong in this file; write { env = \"NAME\" } or { file = \"path\" }";

fn expected(kind: ValueKind) -> String {
    match kind {
        ValueKind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        ValueKind::Price => "dollars from 0 to 10000, with at most 6 decimals".to_owned(),
        ValueKind::Boolean => "true or false".to_owned(),
        ValueKind::Text => format!("one line of 1 to {TEXT_CHARS_MAX} characters"),
        ValueKind::Choice(words) => format!("one of {}", words.join(", ")),
        ValueKind::List => "a list of texts, such as [\"a\", \"b\"]".to_owned(),
        ValueKind::Address => "an IP address and port, such as 127.0.0.1:7700".to_owned(),
        ValueKind::Url => "an https URL without user, query or fragment (http only to loopback)".to_owned(),
        ValueKind::Path => "a path".to_owned(),
        ValueKind::Secret { .. } => "{ env = \"NAME\" } or { file = \"path\" }".to_owned(),
    }
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn integer(kind: ValueKind, number: &DeInteger<'_>) -> Result<Value, String> {
    let ValueKind::Integer { min, max } = kind else {
        return Err(format!("expected {}, found a whole number", expected(kind)));
    };
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) if (min..=max).contains(&number) => Ok(Value::Integer(number)),
        _ => Err(format!("expected {}", expected(kind))),
    }
}

fn price(text: &str) -> Result<Value, String> {
    let price = TokenPrice::parse(text).map(Value::Price);
    price.ok_or_else(|| format!("expected {}", expected(ValueKind::Price)))
}

fn list(entries: &DeArray<'_>) -> Option<Value> {
    let entries = entries
        .iter()
        .map(|entry| entry.get_ref().as_str().map(str::to_owned));
    texts(entries.collect::<Option<_>>()?)
}

fn texts(entries: Vec<String>) -> Option<Value> {
    let fits = entries.len() <= LIST_ENTRIES_MAX && entries.iter().all(|entry| is_line(entry));
    fits.then_some(Value::List(entries))
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= TEXT_CHARS_MAX && !text.contains(char::is_control)
}

fn from_words(kind: ValueKind, text: &str) -> Result<Value, String> {
    let value = match kind {
        ValueKind::Text => is_line(text).then(|| Value::Text(text.to_owned())),
        ValueKind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
        ValueKind::Address => text.parse().ok().map(Value::Address),
        ValueKind::Path => is_line(text).then(|| Value::Path(PathBuf::from(text))),
        ValueKind::Url if text.is_empty() => Some(Value::Url(None)),
        ValueKind::Url => Url::parse(text).map(|url| Value::Url(Some(url))),
        ValueKind::Integer { .. }
        | ValueKind::Price
        | ValueKind::Boolean
        | ValueKind::List
        | ValueKind::Secret { .. } => None,
    };
    value.ok_or_else(|| format!("expected {}", expected(kind)))
}

fn secret_reference(table: &DeTable<'_>) -> Result<Value, String> {
    let mut entries = table.iter();
    let entry = entries
        .next()
        .map(|(key, value)| (key.get_ref().as_ref(), value.get_ref().as_str()));
    let source = match (entry, entries.next()) {
        (Some(("env", Some(name))), None) => SecretSource::Variable(name.to_owned()),
        (Some(("file", Some(path))), None) if is_line(path) => SecretSource::File(PathBuf::from(path)),
        _ => return Err("expected exactly one of { env = \"NAME\" } and { file = \"path\" }".to_owned()),
    };
    Ok(Value::Secret(source))
}
