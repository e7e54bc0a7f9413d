//! YAML of the two Go libraries, for generated difficult values.

use drydock::rendering::jsonnet::yaml::{GoYamlVersion, document, stream};
use serde_json::Value;

#[test]
fn yaml_output_matches_recorded_go_yaml_output() {
    let Some(pack) = super::pack::read_pack("go-yaml-encode.jsonl.gz") else {
        return;
    };
    let (mut equal, mut total) = (0, 0);
    for line in pack.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let value = &case["doc"];
        let written = match case["op"].as_str() {
            Some("v2") => document(GoYamlVersion::V2, value),
            Some("v3") => document(GoYamlVersion::V3, value),
            Some("v2stream") => stream(value.as_array().expect("documents")),
            other => panic!("no operation {other:?}"),
        };
        total += 1;
        if case["out"] == written.as_str() {
            equal += 1;
        } else {
            eprintln!("{line}\n  ours: {written:?}");
        }
    }
    println!("yaml {equal}/{total}");
    assert_eq!(equal, total);
}
