//! Rules about secrets that are removed or have other values. The values are masked before the rules run.

use super::rule::{RiskSeverity, Rule, RuleCheck, field, list_few};
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const RULES: [Rule; 2] = [
    Rule {
        id: "DD080",
        title: "Secret removed",
        severity: RiskSeverity::High,
        explanation: "A Secret, or one of its entries, is removed. Pods that refer to it do not start any more.",
        check: RuleCheck::InChange(removed),
    },
    Rule {
        id: "DD081",
        title: "Secret changes",
        severity: RiskSeverity::Medium,
        explanation: "An entry of a Secret has another value. Pods that read it from their environment see it only \
                      after a restart. The values are compared by a keyed hash and shown nowhere.",
        check: RuleCheck::InChange(changed),
    },
];

/// Returns the entries of one side. `stringData` has priority, as in the cluster.
fn entries(side: &Value) -> BTreeMap<&String, &Value> {
    let maps = ["data", "stringData"].into_iter();
    let entries = maps
        .filter_map(|name| field(side, name).and_then(Value::as_object))
        .flatten();
    entries.collect()
}

fn removed(pair: &Pair<'_>) -> Vec<String> {
    let Some(before) = pair.before.filter(|_| pair.is("", "Secret")) else {
        return Vec::new();
    };
    let Some(after) = pair.after else {
        return vec!["it is removed".to_owned()];
    };
    let after = entries(after);
    let gone = entries(before)
        .into_keys()
        .filter(|name| !after.contains_key(name));
    let gone: Vec<String> = gone.cloned().collect();
    match gone.as_slice() {
        [] => Vec::new(),
        gone => vec![format!("loses {}", list_few(gone))],
    }
}

fn changed(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    if !pair.is("", "Secret") {
        return Vec::new();
    }
    let after = entries(after);
    let differs = |name: &String, value: &Value| after.get(name).is_some_and(|now| *now != value);
    let changed = entries(before)
        .into_iter()
        .filter(|(name, value)| differs(name, value));
    let changed: Vec<String> = changed.map(|(name, _)| name.clone()).collect();
    match changed.as_slice() {
        [] => Vec::new(),
        changed => vec![format!("{} has another value", list_few(changed))],
    }
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    let secret = |fields: Value| [object("v1", "Secret", fields)];
    let one = secret(json!({ "data": { "password": "b25l" } }));
    let other = secret(json!({ "data": { "password": "dHdv" } }));
    let moved = secret(json!({ "stringData": { "password": "one" } }));
    let empty = secret(json!({ "data": {} }));
    vec![
        RuleCase::new("DD080", &one, &[], &["it is removed"]),
        RuleCase::new("DD080", &one, &empty, &["loses `password`"]),
        RuleCase::new("DD080", &one, &moved, &[]),
        RuleCase::new("DD081", &one, &other, &["`password` has another value"]),
        RuleCase::new("DD081", &one, &moved, &[]),
        RuleCase::new("DD081", &empty, &one, &[]),
    ]
}
