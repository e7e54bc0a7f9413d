//! Rules about objects with conflicting names.

use super::rule::{RiskSeverity, Rule, RuleCheck, RuleFinding, SideObjects};
use crate::rendering::review::key::ObjectKey;
use std::collections::BTreeMap;

pub(super) const RULES: [Rule; 1] = [Rule {
    id: "DD090",
    title: "Object defined twice",
    severity: RiskSeverity::Medium,
    explanation: "An environment has several objects of one kind, namespace and name. Only one of them can be in the \
                  cluster: the one that is applied last. Objects with generated names do not count.",
    check: RuleCheck::InState(duplicates),
}];

fn duplicates(state: &SideObjects<'_>) -> Vec<RuleFinding> {
    let mut counts: BTreeMap<ObjectKey, u32> = BTreeMap::new();
    for (key, _) in &state.objects {
        let first = ObjectKey {
            occurrence: 1,
            ..(*key).clone()
        };
        *counts.entry(first).or_default() += 1;
    }
    let doubled = counts
        .into_iter()
        .filter(|(key, count)| *count > 1 && !key.is_generated());
    doubled
        .map(|(object, count)| RuleFinding {
            object,
            detail: format!("it is defined {count} times"),
        })
        .collect()
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    let map = |value: u32| object("v1", "ConfigMap", json!({ "data": value }));
    let job = || json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "generateName": "job-" } });
    vec![
        RuleCase::new("DD090", &[map(1)], &[map(1), map(2)], &["it is defined 2 times"]),
        RuleCase::new("DD090", &[map(1), map(2)], &[map(1), map(3)], &[]),
        RuleCase::new("DD090", &[], &[job(), job()], &[]),
    ]
}
