//! The arguments of a tool call: the exact text that the model wrote, and its JSON value, which is parsed once.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The arguments of a call as the model wrote them. They stay text, so that the model gets broken JSON as a result and
/// histories keep the exact bytes; the syntax is checked when they are created, and the value is parsed when it is
/// first asked for. Clones share both.
#[derive(Clone, Default)]
pub struct CallArguments(Arc<Written>);

#[derive(Default)]
struct Written {
    text: ArgumentText,
    value: OnceLock<Result<Value, serde_json::Error>>,
}

/// The text, by what is known about its syntax.
#[derive(Clone)]
enum ArgumentText {
    /// JSON.
    Json(Box<RawValue>),
    /// JSON between blanks: the whole text, and the JSON.
    PaddedJson(String, Box<RawValue>),
    /// Any other text, such as truncated JSON.
    Other(String),
}

impl Default for ArgumentText {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl CallArguments {
    /// Returns the exact text.
    pub fn text(&self) -> &str {
        match &self.0.text {
            ArgumentText::Json(json) => json.get(),
            ArgumentText::PaddedJson(text, _) | ArgumentText::Other(text) => text,
        }
    }

    /// Returns the value. Some models write an empty text for a call without arguments, so that is an empty object.
    pub fn value(&self) -> Result<&Value, &serde_json::Error> {
        let parse = || match self.is_blank() {
            true => Ok(Value::Object(Map::new())),
            false => serde_json::from_str(self.text()),
        };
        self.0.value.get_or_init(parse).as_ref()
    }

    /// Returns the same text without its parsed value, for a record that outlives the call.
    pub fn without_value(&self) -> Self {
        Self::from(self.0.text.clone())
    }

    /// Returns the text of the JSON, without blanks around it; `None` if the text is not JSON.
    pub fn json(&self) -> Option<&RawValue> {
        match &self.0.text {
            ArgumentText::Json(json) | ArgumentText::PaddedJson(_, json) => Some(json),
            ArgumentText::Other(_) => None,
        }
    }

    /// Returns the text of the JSON if it is an object.
    pub fn object(&self) -> Option<&RawValue> {
        self.json().filter(|json| json.get().starts_with('{'))
    }

    /// Returns the arguments in the form that providers accept: an object, or `{}` if the model wrote anything else.
    pub fn object_or_empty(&self) -> &RawValue {
        let empty = || serde_json::from_str("{}").unwrap_or(RawValue::NULL);
        self.object().unwrap_or_else(empty)
    }

    /// Returns true if the text has only blanks.
    pub fn is_blank(&self) -> bool {
        self.text().trim().is_empty()
    }
}

impl From<ArgumentText> for CallArguments {
    fn from(text: ArgumentText) -> Self {
        let value = OnceLock::new();
        Self(Arc::new(Written { text, value }))
    }
}

impl From<String> for CallArguments {
    fn from(text: String) -> Self {
        let json = serde_json::from_str::<Box<RawValue>>(&text);
        Self::from(match json {
            Ok(json) if json.get().len() == text.len() => ArgumentText::Json(json),
            Ok(json) => ArgumentText::PaddedJson(text, json),
            Err(_) => ArgumentText::Other(text),
        })
    }
}

impl From<&str> for CallArguments {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Box<RawValue>> for CallArguments {
    fn from(json: Box<RawValue>) -> Self {
        Self::from(ArgumentText::Json(json))
    }
}

impl fmt::Debug for CallArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

impl fmt::Display for CallArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialEq for CallArguments {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for CallArguments {}

impl Hash for CallArguments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl Serialize for CallArguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for CallArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::CallArguments;
    use serde_json::json;

    #[test]
    fn arguments_are_parsed_once_for_all_their_clones() {
        let arguments = CallArguments::from("{\"path\":\"a\"}");
        let clone = arguments.clone();
        assert!(std::ptr::eq(arguments.value().unwrap(), clone.value().unwrap()));
        assert_eq!(clone.value().unwrap(), &json!({ "path": "a" }));
    }

    /// Stored conversations and requests keep the bytes of the model.
    #[test]
    fn the_text_stays_byte_for_byte_whatever_it_is() {
        for text in [
            "",
            " ",
            "{}",
            " {\"a\":1 }\n",
            "{\"a\":1e999}",
            "{\"b\":1,\"a\":2,\"b\":3}",
            "{\"path\":\"en",
            "[1]",
            "null",
            "{} {}",
        ] {
            let arguments = CallArguments::from(text);
            assert_eq!(arguments.text(), text);
            let stored = serde_json::to_string(&arguments).unwrap();
            assert_eq!(stored, serde_json::to_string(text).unwrap());
            let loaded: CallArguments = serde_json::from_str(&stored).unwrap();
            assert_eq!(loaded.text(), text);
        }
    }

    #[test]
    fn an_empty_text_is_an_empty_object_and_broken_json_says_why() {
        for blank in ["", " \n"] {
            assert_eq!(CallArguments::from(blank).value().unwrap(), &json!({}));
        }
        let broken = CallArguments::from("{");
        assert_eq!(
            broken.value().unwrap_err().to_string(),
            "EOF while parsing an object at line 1 column 1"
        );
        assert!(broken.json().is_none());
    }

    #[test]
    fn arguments_that_are_no_object_go_back_as_an_empty_one() {
        for wrong in ["", "{", "[1]", "\"a\"", "null", "{} {}"] {
            let arguments = CallArguments::from(wrong);
            assert_eq!(arguments.object_or_empty().get(), "{}", "{wrong}");
            assert!(arguments.object().is_none());
        }
        let padded = CallArguments::from(" {\"a\":1 }\n");
        assert_eq!(padded.object_or_empty().get(), "{\"a\":1 }");
        let nested = CallArguments::from("{\"a\":1e999}");
        assert_eq!(nested.object_or_empty().get(), "{\"a\":1e999}");
    }
}
