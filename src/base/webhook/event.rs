//! The part of hook events that all schemes share: converts a verified JSON payload to an [`Inbound`] of the service
//! identity `hook:<name>`. Values of the payload become data, never instructions.

use super::{HookChange, HookSettings, Received, Rejected};
use crate::base::model::{Account, ChatPlace, Inbound, InboundKind, Sender};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The maximum number of characters of a field; longer values are truncated.
const FIELD_CHARS_MAX: usize = 1_000;
/// The maximum nesting of a payload that is stored as a whole, and of an event in a condition. The stored message nests it
/// further, and no parser may refuse that.
pub const EVENT_NESTING_MAX: usize = 64;
/// The maximum number of characters of an event name or delivery id, both of which the sender chooses.
const NAME_CHARS_MAX: usize = 100;

/// The service identity of one hook, and the fields it reads from payloads.
pub(super) struct HookEvents {
    name: String,
    chat: String,
    change: HookChange,
    sources: Vec<String>,
    fields: BTreeMap<String, String>,
    starts_pipelines: bool,
}

impl HookEvents {
    pub(super) fn new(name: &str, settings: &HookSettings) -> Self {
        Self {
            name: name.to_owned(),
            chat: settings.post_to.chat.clone(),
            change: settings.change,
            sources: settings.sources.clone(),
            fields: settings.fields.clone(),
            starts_pipelines: settings.starts_pipelines,
        }
    }

    /// Decodes a verified payload. One that is stored as a whole is nested at most [`EVENT_NESTING_MAX`] levels deep.
    pub(super) fn decode(&self, body: &[u8]) -> Result<Value, Rejected> {
        let payload = decode(body)?;
        if self.starts_pipelines && is_deeper(&payload, EVENT_NESTING_MAX) {
            return Err(Rejected::Malformed("the body is nested more than 64 levels deep"));
        }
        Ok(payload)
    }

    /// Returns true if the payload comes from a repository that the hook accepts.
    pub(super) fn is_allowed(&self, payload: &Value) -> bool {
        let source = payload.pointer("/repository/full_name").and_then(Value::as_str);
        self.sources.is_empty()
            || source.is_some_and(|source| self.sources.iter().any(|allowed| allowed == source))
    }

    /// Returns the verified event as an inbound message. `deliveries` are its identities among the events of this
    /// hook; if any of them was seen before, the event is a duplicate. The first one is also the thread. So each
    /// event has its own conversation, unless the hook's events continue the change of earlier ones.
    pub(super) fn received(&self, event: String, deliveries: &[&str], payload: &Value) -> Received {
        Received::Inbound(Box::new(Inbound {
            channel: self.name.clone(),
            delivery: deliveries
                .iter()
                .map(|delivery| format!("hook:{}:{delivery}", self.name))
                .collect(),
            sender: Sender::of_hook(&self.name),
            place: ChatPlace {
                account: Account::of_hook(&self.name),
                chat: self.chat.clone(),
                thread: match self.change {
                    HookChange::New => deliveries.first().map(|delivery| (*delivery).to_owned()),
                    HookChange::Continue => None,
                },
            },
            direct: false,
            message: None,
            kind: InboundKind::Hook {
                event,
                fields: self.fields_of(payload),
                payload: self.starts_pipelines.then(|| Box::new(payload.clone())),
            },
            files: Vec::new(),
            about: None,
            response_url: None,
        }))
    }

    /// Returns the configured fields of the payload. Only texts, numbers and booleans are included.
    fn fields_of(&self, payload: &Value) -> BTreeMap<String, String> {
        let value_of = |pointer: &String| payload.pointer(pointer).and_then(scalar);
        self.fields
            .iter()
            .filter_map(|(name, pointer)| Some((name.clone(), value_of(pointer)?)))
            .collect()
    }
}

/// Refuses a body whose content type is not JSON.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Rejected> {
    if is_of_type(headers, "application/json") {
        return Ok(());
    }
    Err(Rejected::Unsupported("the content type must be application/json"))
}

/// Returns true if the content type of the body is this one, with any parameters.
pub(super) fn is_of_type(headers: &HeaderMap, essence: &str) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let named = content_type.split(';').next().unwrap_or_default().trim();
    named.eq_ignore_ascii_case(essence)
}

/// Decodes a verified payload, which must be a JSON object. The parser refuses deep nesting.
fn decode(body: &[u8]) -> Result<Value, Rejected> {
    match serde_json::from_slice(body) {
        Ok(payload @ Value::Object(_)) => Ok(payload),
        Ok(_) => Err(Rejected::Malformed("the body is not a JSON object")),
        Err(_) => Err(Rejected::Malformed("the body is not JSON")),
    }
}

/// Returns true if a value has more than so many levels of lists and objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_inner_deeper = |inner: &Value| is_deeper(inner, levels.saturating_sub(1));
    match value {
        Value::Array(values) => levels == 0 || values.iter().any(is_inner_deeper),
        Value::Object(fields) => levels == 0 || fields.values().any(is_inner_deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns true if a text is short and in the alphabet of event names and delivery ids, which are used in logs and
/// database keys.
pub(super) fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(known)
}

/// Returns `sha256:<hex>` of a body: an identity that no unsigned header can change.
pub(super) fn content_identity(body: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(body)))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.chars().take(FIELD_CHARS_MAX).collect()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{EVENT_NESTING_MAX, decode, is_deeper, is_name, scalar};
    use crate::base::webhook::Rejected;
    use proptest::prelude::{ProptestConfig, any, proptest};
    use serde_json::{Value, json};

    #[test]
    fn a_field_is_a_short_text_and_nothing_else() {
        let long = "\u{1f6a2}".repeat(1_001);
        assert_eq!(scalar(&json!(long)), Some("\u{1f6a2}".repeat(1_000)));
        assert_eq!(scalar(&json!(-1.5)), Some("-1.5".to_owned()));
        assert_eq!(scalar(&json!(true)), Some("true".to_owned()));
        assert_eq!(scalar(&json!("")), Some(String::new()));
        for value in [Value::Null, json!(["a"]), json!({"a": "b"})] {
            assert_eq!(scalar(&value), None);
        }
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["release", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "evt_1:2.3"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a b", "a/b", "a\n", "ä", "<!channel>", &"a".repeat(101)] {
            assert!(!is_name(name), "{name}");
        }
    }

    /// T91
    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(
            decode(deep.as_bytes()),
            Err(Rejected::Malformed("the body is not JSON"))
        );
    }

    /// T91
    #[test]
    fn a_payload_to_store_has_a_bounded_nesting() {
        let nested = |lists: usize| -> Value {
            let text = format!("{{\"a\":{}{}}}", "[".repeat(lists), "]".repeat(lists));
            serde_json::from_str(&text).unwrap()
        };
        assert!(!is_deeper(&nested(EVENT_NESTING_MAX - 1), EVENT_NESTING_MAX));
        assert!(is_deeper(&nested(EVENT_NESTING_MAX), EVENT_NESTING_MAX));
        assert!(!is_deeper(&json!({ "a": 1 }), 1) && is_deeper(&json!({ "a": {} }), 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_an_object_or_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            assert!(decode(&body).is_err() || decode(&body).unwrap().is_object());
        }
    }
}
