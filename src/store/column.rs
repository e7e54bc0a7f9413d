//! Conversion of values to columns: times as milliseconds, structured values as JSON, enums as words.

use super::StoreError;
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Milliseconds since 1970.
pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// The time of a column.
pub(super) fn time(millis: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(millis).map_err(|err| StoreError::Unreadable {
        what: "time",
        why: err.to_string(),
    })
}

/// The JSON text of a value; the same value always gives the same text.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|err| unreadable("value", &err))
}

/// The value of a JSON text.
pub(super) fn parse<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|err| unreadable(what, &err))
}

/// The text of a column, whatever its row was made of.
pub(super) fn text(what: &'static str, row: &Row<'_>, index: usize) -> Result<String, StoreError> {
    let unreadable = |why: &str| StoreError::Unreadable {
        what,
        why: why.to_owned(),
    };
    match row.get_ref(index)? {
        ValueRef::Text(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| unreadable("it is not UTF-8")),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(unreadable("it is no text"))
        }
    }
}

/// The word of a plain enum.
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

/// The plain enum of a word.
pub(super) fn parse_word<T: DeserializeOwned>(what: &'static str, word: String) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word)).map_err(|err| unreadable(what, &err))
}

/// A count or size from a column; never negative.
pub(super) fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A count as a column, as far as it can hold it.
pub(super) fn count_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unreadable(what: &'static str, err: &serde_json::Error) -> StoreError {
    // Position and kind only: the message of serde_json may quote the content.
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
