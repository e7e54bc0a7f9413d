//! The fields of a JSON object of an answer, byte for byte, and the decision whether the object may be sent back.

use crate::base::model::CallArguments;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The fields of an object, byte for byte and without duplicates: different parsers read a duplicate differently.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct RawFields(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = RawFields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with each field once")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.insert(name, value).is_some() {
                        return Err(A::Error::custom("a field twice"));
                    }
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

impl RawFields {
    /// Returns true if the field exists.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Returns the value of a field.
    pub(super) fn raw(&self, field: &str) -> Option<&RawValue> {
        self.0.get(field).map(AsRef::as_ref)
    }

    /// Returns the text of a field, if it exists and is a text.
    pub(super) fn string(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.0.get(field)?.get()).ok()
    }

    /// Returns a field as the arguments of a call.
    pub(super) fn arguments(&self, field: &str) -> Option<CallArguments> {
        self.0.get(field).cloned().map(CallArguments::from)
    }

    /// Sets a field, or replaces its value.
    pub(super) fn set(&mut self, field: &str, value: Box<RawValue>) {
        self.0.insert(field.to_owned(), value);
    }

    /// Returns true if there are no fields besides these.
    pub(super) fn has_only(&self, known: &[&str]) -> bool {
        self.0.keys().all(|field| known.contains(&field.as_str()))
    }

    /// Returns true if a field is missing, no text, or a text without words.
    pub(super) fn is_blank(&self, field: &str) -> bool {
        self.string(field).unwrap_or_default().trim().is_empty()
    }

    /// Sends an object back if it has only known fields: the effect of an unknown field in a request is unknown as well.
    pub(super) fn replay_if_only(&self, known: &[&str]) -> Replay {
        match self.has_only(known) {
            true => Replay::AsItIs,
            false => Replay::Nothing,
        }
    }
}

/// The effect of an object on the replay of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// The object is sent back unchanged.
    AsItIs,
    /// The answer is sent back without the object.
    LeaveOut,
    /// The answer is sent back in Drydock's own format instead of the provider's objects.
    Nothing,
}
