//! The neutral form of an environment's objects, which is used to compare two environments: names and values
//! without the words that identify the environment.

use super::input::ReviewedEnvironment;
use super::key::ObjectKey;
use serde_json::{Map, Value};

/// The label that Tanka sets on every object of an environment.
const ENVIRONMENT_LABEL: &str = "tanka.dev/environment";
/// The replacement for words of an environment. It cannot occur in a Kubernetes name.
const HERE: char = '\u{fffc}';

/// The words that identify one environment: its name, the parts of the name, and its namespace.
pub(super) struct EnvironmentWords {
    words: Vec<String>,
    namespace: String,
}

impl EnvironmentWords {
    pub(super) fn of(environment: &ReviewedEnvironment) -> Self {
        // The first part is the folder of all environments.
        let parts = environment.name.split('/').skip(1);
        let mut words: Vec<String> = parts
            .chain([environment.name.as_str(), environment.namespace.as_str()])
            .filter(|word| is_distinctive(word))
            .map(str::to_owned)
            .collect();
        // Longest first: `prod-eu` before `prod`.
        words.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        words.dedup();
        Self {
            words,
            namespace: environment.namespace.clone(),
        }
    }

    /// Returns the key as text, without the words and the namespace of the environment.
    pub(super) fn key(&self, key: &ObjectKey) -> String {
        let mut neutral = key.clone();
        neutral.namespace = self.in_namespace(&key.namespace);
        neutral.name = self.text(&key.name);
        neutral.to_string()
    }

    fn in_namespace(&self, namespace: &str) -> String {
        match namespace == self.namespace {
            true => HERE.to_string(),
            false => self.text(namespace),
        }
    }

    /// Returns the text without the words of the environment, where they are whole words.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for word in &self.words {
            out = without(&out, word);
        }
        out
    }

    /// Returns the value without the words and the label of the environment. The caller limits the nesting depth.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut neutral = Map::new();
        for (name, value) in fields.iter().filter(|(name, _)| *name != ENVIRONMENT_LABEL) {
            // If two names became equal, a field would be lost.
            let free = Some(self.text(name)).filter(|free| !neutral.contains_key(free));
            let value = match (name.as_str(), value) {
                ("namespace", Value::String(namespace)) => Value::String(self.in_namespace(namespace)),
                (_, value) => self.value(value),
            };
            neutral.insert(free.unwrap_or_else(|| name.clone()), value);
        }
        neutral
    }

    /// True if the field at this path is the label, which differs in every environment.
    pub(super) fn is_label(path: &str) -> bool {
        path.ends_with(&format!("labels[\"{ENVIRONMENT_LABEL}\"]"))
    }
}

/// True unless the word is a number, a single letter or the namespace `default`, which are too common.
fn is_distinctive(word: &str) -> bool {
    word != "default" && word.chars().count() > 1 && word.chars().any(char::is_alphabetic)
}

fn without(text: &str, word: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let piece = |range| text.get(range).unwrap_or_default();
    for (start, found) in text.match_indices(word) {
        let end = start + found.len();
        let before = piece(0..start).chars().next_back();
        let after = piece(end..text.len()).chars().next();
        if !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric) {
            out.push_str(piece(copied..start));
            out.push(HERE);
            copied = end;
        }
    }
    out.push_str(piece(copied..text.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::EnvironmentWords;
    use crate::rendering::review::{EnvironmentRendering, ReviewedEnvironment};
    use serde_json::json;

    fn neutral(name: &str, namespace: &str) -> EnvironmentWords {
        EnvironmentWords::of(&ReviewedEnvironment {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            rendering: EnvironmentRendering::ClosureUnchanged {
                closure: String::new(),
            },
        })
    }

    #[test]
    fn an_environment_is_taken_out_of_what_it_names() {
        let prod = neutral("environments/prod-eu", "shop");
        for (text, expected) in [
            ("prod-eu", "\u{fffc}"),
            ("shop", "\u{fffc}"),
            (
                "https://prod-eu.example.com/shop",
                "https://\u{fffc}.example.com/\u{fffc}",
            ),
            ("environments/prod-eu", "\u{fffc}"),
            ("workshop shops", "workshop shops"),
            ("prod-europe", "prod-europe"),
            ("shopshop", "shopshop"),
        ] {
            assert_eq!(prod.text(text), expected, "{text}");
        }
        let value = json!({ "labels": { "tanka.dev/environment": "abc", "env": "prod-eu" }, "n": 3 });
        assert_eq!(
            prod.value(&value),
            json!({ "labels": { "env": "\u{fffc}" }, "n": 3 })
        );
    }

    #[test]
    fn numbers_and_letters_are_not_words_of_an_environment() {
        let odd = neutral("environments/1/a", "default");
        assert_eq!(odd.text("app:1.1 a default"), "app:1.1 a default");
        let value = json!({ "namespace": "default", "class": "default" });
        assert_eq!(
            odd.value(&value),
            json!({ "namespace": "\u{fffc}", "class": "default" })
        );
    }
}
