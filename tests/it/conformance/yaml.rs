//! YAML of the two Go libraries, generated to be difficult.

use drydock::jsonnet::yaml::{Profile, document, stream};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Differences that are there for a reason, by the line of the case.
#[derive(Debug, Deserialize)]
struct Known {
    yaml: BTreeMap<String, String>,
}

#[test]
fn conformance_yaml() {
    let Some(pack) = super::pack::pack("go-yaml-encode.jsonl.gz") else {
        return;
    };
    let known: Known = toml::from_str(include_str!("known.toml")).expect("the list of known differences");
    let (mut equal, mut total, mut expected) = (0, 0, 0);
    for line in pack.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let value = &case["doc"];
        let written = match case["op"].as_str() {
            Some("v2") => document(Profile::V2, value),
            Some("v3") => document(Profile::V3, value),
            Some("v2stream") => stream(value.as_array().expect("documents")),
            other => panic!("no operation {other:?}"),
        };
        total += 1;
        let is_equal = case["out"] == written.as_str();
        let is_known = known.yaml.contains_key(&total.to_string());
        assert!(
            !(is_equal && is_known),
            "line {total} is listed as known, and is equal"
        );
        if is_equal {
            equal += 1;
        } else if is_known {
            expected += 1;
        } else {
            eprintln!("{line}\n  ours: {written:?}");
        }
    }
    println!("yaml {}/{total} ({expected} known)", equal + expected);
    assert_eq!(equal + expected, total);
    assert_eq!(expected, known.yaml.len());
}
