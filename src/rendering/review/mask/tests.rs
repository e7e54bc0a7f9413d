//! Tests of the masks of secret values.

#![allow(clippy::unwrap_used)]
use super::{LAST_APPLIED, Masker};
use proptest::prelude::{any, proptest};
use proptest::test_runner::Config;
use serde_json::{Value, json};

fn masked(mut object: Value) -> Value {
    Masker::new(b"a key").mask(&mut object);
    object
}

fn secret(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db" }, "data": data })
}

#[test]
fn equal_values_have_equal_marks_and_others_do_not() {
    let object = masked(json!({
        "kind": "Secret",
        "data": { "same": "cGFzcw==", "other": "cGFzdA==", "broken": "***", "none": null },
        "stringData": { "same": "pass", "number": 7 },
    }));
    let mark = object["data"]["same"].as_str().unwrap();
    assert!(mark.starts_with("‹hmac:") && mark.chars().count() == 15, "{mark}");
    assert_eq!(object["stringData"]["same"], mark);
    assert_ne!(object["data"]["other"], mark);
    assert!(object["data"]["broken"].as_str().unwrap().starts_with("‹hmac:"));
    assert!(
        object["stringData"]["number"]
            .as_str()
            .unwrap()
            .starts_with("‹hmac:")
    );
    assert_eq!(object["data"]["none"], Value::Null);
}

/// Checks that the reported values are exactly the masked ones, decoded and with their names.
#[test]
fn masked_secret_values_are_reported_decoded_and_by_name() {
    let copy = json!({ "kind": "Secret", "stringData": { "copied": "hunter3" } }).to_string();
    let object = json!({ "kind": "List", "items": [{
        "kind": "Secret",
        "metadata": { "annotations": { LAST_APPLIED: copy } },
        "data": { "decoded": "aHVudGVyMg==", "raw": "/w==", "none": null },
        "stringData": { "deep": { "er": ["hunter1"] }, "number": 7 },
    }, { "kind": "ConfigMap", "data": { "a": "b" } }] });
    let mut held: Vec<(String, String)> = Masker::secret_values(&object)
        .into_iter()
        .map(|held| (held.name, held.value))
        .collect();
    held.sort();
    let expected = [
        ("copied", "hunter3"),
        ("decoded", "hunter2"),
        ("er", "hunter1"),
        ("raw", "/w=="),
    ];
    assert_eq!(
        held,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert!(Masker::secret_values(&json!({ "kind": "ConfigMap", "data": { "a": "b" } })).is_empty());
}

#[test]
fn another_key_gives_other_marks() {
    let mut object = secret(json!({ "a": "eA==" }));
    Masker::new(b"another key").mask(&mut object);
    assert_ne!(object, masked(secret(json!({ "a": "eA==" }))));
}

#[test]
fn lists_and_what_kubectl_left_behind_are_masked_too() {
    let copy = json!({ "kind": "Secret", "stringData": { "password": "hunter2" } }).to_string();
    let untyped = json!({ "data": { "password": "hunter2" } });
    let objects = [
        json!({ "kind": "List", "items": [secret(json!({ "password": "hunter2" }))] }),
        json!({ "kind": "SecretList", "items": [untyped.clone(), secret(json!({ "password": "hunter2" }))] }),
        json!({ "kind": "SecretList", "items": [{ "kind": null, "data": { "password": "hunter2" } }] }),
        json!({ "kind": "Secret", "metadata": { "annotations": { LAST_APPLIED: copy } } }),
        json!({ "kind": "ConfigMap", "metadata": { "annotations": { LAST_APPLIED: untyped.to_string() } } }),
        json!({ "kind": "Secret", "metadata": { "annotations": { LAST_APPLIED: "hunter2, not JSON" } } }),
        json!({ "kind": "Secret", "data": "hunter2" }),
        json!({ "kind": "Secret", "data": { "deep": { "er": ["hunter2"] } } }),
    ];
    for object in objects {
        let shown = masked(object.clone()).to_string();
        assert!(!shown.contains("hunter2"), "{object} became {shown}");
        assert!(shown.contains("‹hmac:"), "{shown}");
    }
}

#[test]
fn a_copy_has_the_marks_of_the_original() {
    let plain = secret(json!({ "a": "eA==" }));
    let mut object = plain.clone();
    object["metadata"]["annotations"] = json!({ LAST_APPLIED: plain.to_string() });
    let object = masked(object);
    let copy = object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert!(copy.contains(object["data"]["a"].as_str().unwrap()), "{copy}");
}

#[test]
fn nothing_else_changes() {
    let copy = r#"{ "kind": "ConfigMap",  "data": {"a": "b"}}"#;
    let object = json!({
        "kind": "ConfigMap",
        "metadata": { "annotations": { LAST_APPLIED: copy } },
        "data": { "a": "b" },
    });
    assert_eq!(masked(object.clone()), object);
}

#[test]
fn marks_grow_until_all_values_have_distinct_ones() {
    let hashes = ["aaaaaaaaab", "aaaaaaaaba", "b"].map(str::to_owned).into();
    assert_eq!(super::digits_needed(&hashes), 9);
    assert_eq!(super::digits_needed(&["a".to_owned()].into()), 8);
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_value_survives(values in proptest::collection::vec("[a-z]{6,20}", 1..6), lists in 0..3_usize) {
        let mut object = json!({ "kind": "Secret", "stringData": values, "data": { "k": values } });
        object["metadata"] = json!({ "annotations": { LAST_APPLIED: object.to_string() } });
        for _ in 0..lists {
            object = json!({ "kind": "List", "items": [object] });
        }
        // Words of the format itself are not secret.
        let format = masked(json!({ "kind": "List", "items": [{ "kind": "Secret", "stringData": "", "data": { "k": "" },
            "metadata": { "annotations": { LAST_APPLIED: "" } } }] })).to_string();
        let shown = masked(object).to_string();
        for value in values.iter().filter(|value| !format.contains(value.as_str())) {
            assert!(!shown.contains(value), "{value} in {shown}");
        }
    }

    #[test]
    fn marks_are_equal_exactly_when_values_are(one in any::<String>(), other in any::<String>()) {
        let mark = |value: &str| masked(json!({ "kind": "Secret", "stringData": { "a": value } }));
        assert_eq!(one == other, mark(&one) == mark(&other));
    }
}
