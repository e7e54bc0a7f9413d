//! Masks the values of secrets. Each value is replaced by a mark that is computed with a key of this process. Equal
//! values have equal marks, and different values have different marks, so that a change is visible without the
//! values. All later steps work on masked objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::Key;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Minimum number of digits of a mark. More are used if two values would otherwise have the same mark.
const DIGITS_MIN: usize = 8;
/// Number of digits of the whole hash.
const DIGITS_MAX: usize = 64;
/// Maximum depth of documents inside annotations of documents.
const COPIES_MAX: usize = 4;

/// The replacement for a value that is not compared with others.
const HIDDEN: &str = "(hidden)";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces secret values by marks: `‹hmac:ab12cd34›`.
pub struct Masker {
    keyed: Hmac<Sha256>,
    style: MarkStyle,
}

/// The content of a mark.
#[derive(Clone, Copy)]
enum MarkStyle {
    /// This number of digits of the value's hash.
    Digits(usize),
    /// The fixed text [`HIDDEN`].
    Hidden,
}

/// A value of a `Secret` and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretValue {
    /// The name.
    pub name: String,
    /// The usable value: that of `data` is decoded if it is text.
    pub value: String,
}

impl Masker {
    /// Creates a masker with the key of this process. Marks have eight digits.
    pub fn new(key: &[u8]) -> Self {
        // Hashed to a fixed length first, so that any key is valid.
        let mut block = Key::<Hmac<Sha256>>::default();
        for (place, byte) in block.iter_mut().zip(Sha256::digest(key)) {
            *place = byte;
        }
        let keyed = Hmac::<Sha256>::new(&block);
        Self {
            keyed,
            style: MarkStyle::Digits(DIGITS_MIN),
        }
    }

    /// Creates a masker with identical marks, for objects that are only shown and not compared.
    pub fn with_hidden_marks() -> Self {
        Self {
            style: MarkStyle::Hidden,
            ..Self::new(&[])
        }
    }

    /// Returns the values that [`Self::mask`] would replace in the object, in the same order.
    pub fn secret_values(object: &Value) -> Vec<SecretValue> {
        if !may_hold_secrets(object) {
            return Vec::new();
        }
        let masker = Self::with_hidden_marks();
        let mut visit = Visit::new(&masker);
        visit.value(&mut object.clone(), COPIES_MAX);
        visit.values
    }

    /// Creates a masker with enough digits per mark to distinguish all secret values of these objects.
    pub fn with_distinct_marks<'a>(key: &[u8], objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let whole = Self {
            style: MarkStyle::Digits(DIGITS_MAX),
            ..Self::new(key)
        };
        let mut hashes = BTreeSet::new();
        for object in objects.into_iter().filter(|object| may_hold_secrets(object)) {
            let mut copy = object.clone();
            let mut visit = Visit::new(&whole);
            visit.value(&mut copy, COPIES_MAX);
            hashes.append(&mut visit.hashes);
        }
        Self {
            style: MarkStyle::Digits(digits_needed(&hashes)),
            ..whole
        }
    }

    /// Masks the values of every `Secret` in the object: the object itself, items of a list, and the copy that
    /// `kubectl apply` stores in an annotation. The caller limits the nesting depth.
    pub fn mask(&self, object: &mut Value) {
        Visit::new(self).value(object, COPIES_MAX);
    }

    fn hash(&self, domain: &[u8], content: &[u8]) -> String {
        let mut mac = self.keyed.clone();
        mac.update(domain);
        mac.update(content);
        hex::encode(mac.finalize().into_bytes())
    }

    fn mark(&self, hash: &str) -> Value {
        let MarkStyle::Digits(digits) = self.style else {
            return Value::from(HIDDEN);
        };
        let digits: String = hash.chars().take(digits).collect();
        Value::String(format!("‹hmac:{digits}›"))
    }
}

/// True if the value contains anything that the walk would examine.
pub(super) fn may_hold_secrets(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(may_hold_secrets),
        Value::Object(fields) => {
            let kind = fields.get("kind").and_then(Value::as_str);
            matches!(kind, Some("Secret" | "SecretList"))
                || fields.contains_key(LAST_APPLIED)
                || fields.values().any(may_hold_secrets)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the number of digits that distinguish the sorted hashes: one more than the longest common prefix of two
/// neighbours.
fn digits_needed(hashes: &BTreeSet<String>) -> usize {
    let neighbours = hashes.iter().zip(hashes.iter().skip(1));
    let shared =
        neighbours.map(|(one, next)| one.bytes().zip(next.bytes()).take_while(|(a, b)| a == b).count());
    shared
        .max()
        .map_or(DIGITS_MIN, |shared| (shared + 1).max(DIGITS_MIN))
}

/// A walk through an object.
struct Visit<'a> {
    masker: &'a Masker,
    /// The hashes of all masked values.
    hashes: BTreeSet<String>,
    /// The masked values that are strings.
    values: Vec<SecretValue>,
}

impl<'a> Visit<'a> {
    fn new(masker: &'a Masker) -> Self {
        Self {
            masker,
            hashes: BTreeSet::new(),
            values: Vec::new(),
        }
    }

    fn value(&mut self, value: &mut Value, copies: usize) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, copies)),
            Value::Object(fields) => self.fields(fields, copies),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, copies: usize) {
        match fields.get("kind").and_then(Value::as_str) {
            Some("Secret") => self.secret(fields),
            // Items of such a list may have no kind.
            Some("SecretList") => self.items(fields),
            _ => {}
        }
        for (name, field) in fields.iter_mut() {
            if name == LAST_APPLIED {
                self.copy(field, copies);
            } else {
                self.value(field, copies);
            }
        }
    }

    fn items(&mut self, list: &mut Map<String, Value>) {
        let Some(Value::Array(items)) = list.get_mut("items") else {
            return;
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            // An item with the kind `Secret` is handled on its own.
            if item.get("kind").and_then(Value::as_str) != Some("Secret") {
                self.secret(item);
            }
        }
    }

    fn secret(&mut self, secret: &mut Map<String, Value>) {
        if let Some(data) = secret.get_mut("data") {
            self.each(data, &of_base64);
        }
        if let Some(data) = secret.get_mut("stringData") {
            self.each(data, &of_text);
        }
    }

    fn each(&mut self, data: &mut Value, meaning: &impl Fn(&str) -> HashInput) {
        match data {
            Value::Object(entries) => {
                let entries = entries.iter_mut();
                entries.for_each(|(name, entry)| self.one(name, entry, meaning));
            }
            other => self.one("", other, meaning),
        }
    }

    fn one(&mut self, name: &str, entry: &mut Value, meaning: &impl Fn(&str) -> HashInput) {
        let hash = match &*entry {
            Value::Null => return,
            Value::String(text) => {
                let (domain, bytes) = meaning(text);
                let hash = self.masker.hash(domain, &bytes);
                // A value that is not UTF-8 is kept in base64.
                let value = String::from_utf8(bytes).unwrap_or_else(|_| text.clone());
                self.add_value(name, value);
                hash
            }
            other => {
                let text = super::canonical::text(other);
                let hash = self.masker.hash(b"json:", text.as_bytes());
                self.texts(name, other);
                hash
            }
        };
        *entry = self.masker.mark(&hash);
        self.hashes.insert(hash);
    }

    fn add_value(&mut self, name: &str, value: String) {
        let name = name.to_owned();
        self.values.push(SecretValue { name, value });
    }

    fn texts(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(text) => self.add_value(name, text.clone()),
            Value::Array(items) => items.iter().for_each(|item| self.texts(name, item)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| self.texts(name, field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks the document in an annotation. An unreadable document is masked as a whole, and a document without a
    /// kind may be a secret. If nothing is masked, no byte changes.
    fn copy(&mut self, annotation: &mut Value, copies: usize) {
        let document = annotation
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        let (Some(Value::Object(mut fields)), Some(copies)) = (document, copies.checked_sub(1)) else {
            return self.one("", annotation, &of_text);
        };
        let mut inside = Visit::new(self.masker);
        if !fields.contains_key("kind") {
            inside.secret(&mut fields);
        }
        inside.fields(&mut fields, copies);
        if !inside.hashes.is_empty() {
            *annotation = Value::String(super::canonical::text(&Value::Object(fields)));
            self.hashes.append(&mut inside.hashes);
            self.values.append(&mut inside.values);
        }
    }
}

/// The input of a hash: a domain and the bytes of the value.
type HashInput = (&'static [u8], Vec<u8>);

fn of_text(text: &str) -> HashInput {
    (b"value:", text.as_bytes().to_vec())
}

/// Decodes `data` from base64, so that the same value has the same mark in `stringData`.
fn of_base64(text: &str) -> HashInput {
    match STANDARD.decode(text) {
        Ok(bytes) => (b"value:", bytes),
        Err(_) => (b"not base64:", text.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests;
