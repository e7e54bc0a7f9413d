//! The changed fields of an object. Items of lists that Kubernetes merges by key are matched by that key, so that a
//! container added at the front is a single addition. Items of other lists are matched by position.

use super::path::{self, FieldStep};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The path, such as `spec.template.spec.containers[name=web].image`.
    pub path: String,
    /// The value before; `None` if the field is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; `None` if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// True if the list has the same items in another order. Then the values are the keys of the items.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
}

/// Lists whose items have a key, with the possible keys in order of preference.
const MERGE_KEYS: [(&str, &[&str]); 12] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("ports", &["name", "containerPort", "port"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", &["name"]),
    ("volumeClaimTemplates", &["metadata.name"]),
    ("hostAliases", &["ip"]),
    ("subjects", &["name"]),
];

/// Returns the fields that differ, sorted by path. Equal values have none, and unequal values have at least one.
/// The caller limits the nesting depth.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut walk = Walk::default();
    if before != after {
        walk.value(before, after);
    }
    walk.found
}

#[derive(Default)]
struct Walk {
    steps: Vec<FieldStep>,
    found: Vec<FieldChange>,
}

impl Walk {
    /// Compares two values that differ.
    fn value(&mut self, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.fields(before, after),
            (Value::Array(before), Value::Array(after)) => self.items(before, after),
            (before, after) => self.note(Some(before), Some(after)),
        }
    }

    fn fields(&mut self, before: &Map<String, Value>, after: &Map<String, Value>) {
        let mut both: BTreeMap<&String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for (name, value) in before {
            both.entry(name).or_default().0 = Some(value);
        }
        for (name, value) in after {
            both.entry(name).or_default().1 = Some(value);
        }
        for (name, (before, after)) in both {
            self.step(|| FieldStep::Field(name.clone()), before, after);
        }
    }

    fn items(&mut self, before: &[Value], after: &[Value]) {
        let list = match self.steps.last() {
            Some(FieldStep::Field(name)) => name.as_str(),
            Some(FieldStep::Keyed { .. } | FieldStep::Item(_)) | None => "",
        };
        match merge_key(list, before, after) {
            Some(key) => self.keyed(key, before, after),
            None => self.positions(before, after),
        }
    }

    fn keyed(&mut self, key: &'static str, before: &[Value], after: &[Value]) {
        let names = |items: &[Value]| {
            items
                .iter()
                .filter_map(|item| key_value(item, key))
                .collect::<Vec<_>>()
        };
        let (names_before, names_after) = (names(before), names(after));
        let mut both: BTreeMap<&String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for (name, item) in names_before.iter().zip(before) {
            both.entry(name).or_default().0 = Some(item);
        }
        for (name, item) in names_after.iter().zip(after) {
            both.entry(name).or_default().1 = Some(item);
        }
        let kept = |names: &[String]| {
            let kept = names
                .iter()
                .filter(|name| both.get(name).is_some_and(|(a, b)| a.is_some() && b.is_some()));
            kept.cloned().collect::<Vec<_>>()
        };
        let (order_before, order_after) = (kept(&names_before), kept(&names_after));
        if order_before != order_after {
            self.found.push(FieldChange {
                path: path::format_path(&self.steps),
                before: Some(order_before.into()),
                after: Some(order_after.into()),
                reordered: true,
            });
        }
        for (name, (before, after)) in both {
            let step = || FieldStep::Keyed {
                key,
                value: name.clone(),
            };
            self.step(step, before, after);
        }
    }

    fn positions(&mut self, before: &[Value], after: &[Value]) {
        for position in 0..before.len().max(after.len()) {
            let step = || FieldStep::Item(position);
            self.step(step, before.get(position), after.get(position));
        }
    }

    fn step(&mut self, step: impl FnOnce() -> FieldStep, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        self.steps.push(step());
        match (before, after) {
            (Some(before), Some(after)) => self.value(before, after),
            (before, after) => self.note(before, after),
        }
        self.steps.pop();
    }

    fn note(&mut self, before: Option<&Value>, after: Option<&Value>) {
        self.found.push(FieldChange {
            path: path::format_path(&self.steps),
            before: before.cloned(),
            after: after.cloned(),
            reordered: false,
        });
    }
}

/// Returns the first key that every item of both lists has and that is unique in each list.
fn merge_key(list: &str, before: &[Value], after: &[Value]) -> Option<&'static str> {
    let (_, keys) = MERGE_KEYS.iter().find(|(name, _)| *name == list)?;
    keys.iter()
        .copied()
        .find(|key| tells_apart(key, before) && tells_apart(key, after))
}

fn tells_apart(key: &str, items: &[Value]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    items
        .iter()
        .all(|item| key_value(item, key).is_some_and(|value| seen.insert(value)))
}

fn key_value(item: &Value, key: &str) -> Option<String> {
    let value = key.split('.').try_fold(item, |value, name| value.get(name))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::changes;
    use serde_json::{Value, json};

    fn shown(before: Value, after: Value) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
        let changes = changes(&before, &after).into_iter();
        changes
            .map(|change| {
                format!(
                    "{}: {} -> {}",
                    change.path,
                    text(change.before),
                    text(change.after)
                )
            })
            .collect()
    }

    #[test]
    fn a_container_added_at_the_front_is_one_addition() {
        let web = json!({ "name": "web", "image": "web:1", "ports": [{ "containerPort": 80 }] });
        let mut newer = web.clone();
        newer["image"] = json!("web:2");
        newer["ports"] = json!([{ "containerPort": 80, "protocol": "TCP" }]);
        let found = shown(
            json!({ "containers": [web] }),
            json!({ "containers": [{ "name": "proxy" }, newer] }),
        );
        assert_eq!(
            found,
            [
                r#"containers[name=proxy]: nothing -> {"name":"proxy"}"#,
                r#"containers[name=web].image: "web:1" -> "web:2""#,
                r#"containers[name=web].ports[containerPort=80].protocol: nothing -> "TCP""#,
            ]
        );
    }

    #[test]
    fn order_is_a_change_where_items_have_keys() {
        let found = shown(
            json!({ "env": [{ "name": "A" }, { "name": "B" }] }),
            json!({ "env": [{ "name": "B" }, { "name": "A" }] }),
        );
        assert_eq!(found, [r#"env: ["A","B"] -> ["B","A"]"#]);
    }

    #[test]
    fn lists_without_usable_keys_go_by_position() {
        let found = shown(
            json!({ "args": ["a", "b"], "env": [{ "name": "A" }, { "name": "A", "value": "1" }] }),
            json!({ "args": ["a"], "env": [{ "name": "A" }, { "name": "A", "value": "2" }] }),
        );
        assert_eq!(
            found,
            [r#"args[1]: "b" -> nothing"#, r#"env[1].value: "1" -> "2""#]
        );
    }

    #[test]
    fn null_is_not_nothing_and_a_type_is_a_value() {
        let found = shown(json!({ "a": null, "b": {} }), json!({ "b": [] }));
        assert_eq!(found, ["a: null -> nothing", "b: {} -> []"]);
    }
}
