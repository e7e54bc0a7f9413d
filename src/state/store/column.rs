//! Conversion of values to columns: times as milliseconds, structured values as JSON, enums as words.

use super::StoreError;
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Converts a time to milliseconds since 1970.
pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// Converts a column to a time.
pub(super) fn time(millis: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(millis).map_err(|err| StoreError::Unreadable {
        what: "time",
        why: err.to_string(),
    })
}

/// Converts a value to JSON. Equal values give equal text.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|err| unreadable("value", &err))
}

/// Parses a value from JSON.
pub(super) fn parse<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|err| unreadable(what, &err))
}

/// Reads a text column. A value of another type is an error about `what`.
pub(super) fn text(what: &'static str, row: &Row<'_>, index: usize) -> Result<String, StoreError> {
    let unreadable = |why: &str| StoreError::Unreadable {
        what,
        why: why.to_owned(),
    };
    match row.get_ref(index)? {
        ValueRef::Text(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| unreadable("it is not UTF-8")),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(unreadable("it is not text"))
        }
    }
}

/// Converts a plain enum to its word.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String, StoreError> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Ok(word),
        Ok(_) => Err(StoreError::Unreadable {
            what: "word",
            why: "it is not a word".to_owned(),
        }),
        Err(err) => Err(unreadable("word", &err)),
    }
}

/// Parses a plain enum from its word.
pub(super) fn parse_word<T: DeserializeOwned>(what: &'static str, word: String) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word)).map_err(|err| unreadable(what, &err))
}

/// Converts a column to a count or size, which is never negative.
pub(super) fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Converts a count to a column, capped at its maximum.
pub(super) fn count_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unreadable(what: &'static str, err: &serde_json::Error) -> StoreError {
    // Only position and kind are reported, because serde_json's message may quote the content.
    StoreError::Unreadable {
        what,
        why: format!(
            "{:?} error at line {} column {}",
            err.classify(),
            err.line(),
            err.column()
        ),
    }
}
