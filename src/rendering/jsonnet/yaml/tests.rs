//! Tests against the recorded output of the Go encoders for generated documents.

#![allow(clippy::unwrap_used)]

use super::{GoYamlVersion, document, readable, stream};
use serde_json::{Value, json};

/// A sample of the recorded cases; `cargo test conformance` runs all of them.
const SAMPLE: &str = include_str!("testdata/go-yaml.jsonl");

fn encode(operation: &str, value: &Value) -> String {
    match operation {
        "v2" => document(GoYamlVersion::V2, value),
        "v3" => document(GoYamlVersion::V3, value),
        "v2stream" => stream(value.as_array().unwrap()),
        other => panic!("no operation `{other}`"),
    }
}

#[test]
fn documents_are_written_as_the_go_encoders_write_them() {
    let mut cases = 0;
    for line in SAMPLE.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let written = encode(case["op"].as_str().unwrap(), &case["doc"]);
        assert_eq!(written, case["out"].as_str().unwrap(), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 950);
}

#[test]
fn no_documents_are_an_empty_stream() {
    assert_eq!(stream(&[]), "");
    assert_eq!(stream(&[json!({})]), "{}\n");
    assert_eq!(stream(&[json!({ "a": [1] }), json!(2)]), "a:\n- 1\n---\n2\n");
}

#[test]
fn people_read_numbers_written_out() {
    let value = json!({ "replicas": 1_000_000, "port": "8080", "share": 0.5 });
    assert_eq!(
        readable(&value),
        "port: \"8080\"\nreplicas: 1000000\nshare: 0.5\n"
    );
}
