//! Tests of the document against the table of routes, and of its references.

use super::super::routes::listed;
use super::{PATH, document};
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the operations of the document, as method and path.
fn described(document: &Value) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            found.insert((method.to_uppercase(), path.clone()));
        }
    }
    found
}

#[test]
fn every_route_beside_those_of_events_is_described_and_no_other() {
    let routes: BTreeSet<(String, String)> = listed()
        .into_iter()
        .filter(|(_, path, _)| !path.starts_with("/in/"))
        .flat_map(|(methods, path, _)| {
            let methods = methods.iter();
            methods.map(move |method| ((*method).to_owned(), path.to_owned()))
        })
        .collect();
    let described = described(&document());
    assert_eq!(routes, described);
    assert!(described.contains(&("GET".to_owned(), PATH.to_owned())));
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_of_the_description_has_its_target_and_every_component_is_used() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for kind in ["schemas", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(found.contains(reference.as_str()), "{reference}");
        }
    }
}

#[test]
fn every_operation_has_a_name_and_answers_that_fail() {
    let document = document();
    let mut names = BTreeSet::new();
    for (method, path) in described(&document) {
        let operation = &document["paths"][path.as_str()][method.to_lowercase()];
        assert!(names.insert(operation["operationId"].as_str().unwrap()), "{path}");
        for status in ["200", "405", "500"] {
            assert!(operation["responses"][status].is_object(), "{path} {status}");
        }
        let needs_token = operation["security"].is_array();
        assert_eq!(operation["responses"]["403"].is_object(), needs_token, "{path}");
    }
}
