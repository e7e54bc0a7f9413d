//! Objects that get in each other's way by their names.

use super::rule::{Finding, Finds, Rule, Severity, State};
use crate::review::key::ObjectKey;
use std::collections::BTreeMap;

pub(super) const RULES: [Rule; 1] = [Rule {
    id: "DD090",
    title: "Object defined twice",
    severity: Severity::Medium,
    explanation: "An environment has several objects of one kind, namespace and name. Only one of them can be in the \
                  cluster: the one that is applied last. Objects with generated names are not meant.",
    finds: Finds::InState(duplicates),
}];

fn duplicates(state: &State<'_>) -> Vec<Finding> {
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
        .map(|(object, count)| Finding {
            object,
            detail: format!("it is defined {count} times"),
        })
        .collect()
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::Case> {
    use super::tests::{Case, object};
    use serde_json::json;
    let map = |value: u32| object("v1", "ConfigMap", json!({ "data": value }));
    let job = || json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "generateName": "job-" } });
    vec![
        Case::new("DD090", &[map(1)], &[map(1), map(2)], &["it is defined 2 times"]),
        Case::new("DD090", &[map(1), map(2)], &[map(1), map(3)], &[]),
        Case::new("DD090", &[], &[job(), job()], &[]),
    ]
}
