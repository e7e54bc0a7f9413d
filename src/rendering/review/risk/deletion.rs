//! Rules about removed objects and the data that is removed with them.

use super::rule::{RiskSeverity, Rule, RuleCheck};
use crate::rendering::review::pair::Pair;

pub(super) const RULES: [Rule; 4] = [
    Rule {
        id: "DD020",
        title: "Volume claim removed",
        severity: RiskSeverity::High,
        explanation: "Deleting a PersistentVolumeClaim deletes its data, unless its volume is retained. Tanka \
                      deletes removed objects only on `tk prune`.",
        check: RuleCheck::InChange(volume_claim),
    },
    Rule {
        id: "DD021",
        title: "Namespace removed",
        severity: RiskSeverity::High,
        explanation: "Deleting a Namespace deletes everything in it, also objects that are not in this repository.",
        check: RuleCheck::InChange(namespace),
    },
    Rule {
        id: "DD022",
        title: "Custom resource definition removed",
        severity: RiskSeverity::High,
        explanation: "Deleting a CustomResourceDefinition deletes every object of its kind in the whole cluster.",
        check: RuleCheck::InChange(definition),
    },
    Rule {
        id: "DD023",
        title: "Workload removed",
        severity: RiskSeverity::Medium,
        explanation: "A Deployment, StatefulSet, DaemonSet or CronJob is removed. A new name is a removal and an \
                      addition: until the old one is pruned both run.",
        check: RuleCheck::InChange(workload),
    },
];

fn removed(pair: &Pair<'_>, group: &str, kinds: &[&str]) -> Vec<String> {
    if pair.after.is_some() || !kinds.iter().any(|kind| pair.is(group, kind)) {
        return Vec::new();
    }
    vec!["it is removed".to_owned()]
}

fn volume_claim(pair: &Pair<'_>) -> Vec<String> {
    removed(pair, "", &["PersistentVolumeClaim"])
}

fn namespace(pair: &Pair<'_>) -> Vec<String> {
    removed(pair, "", &["Namespace"])
}

fn definition(pair: &Pair<'_>) -> Vec<String> {
    removed(pair, "apiextensions.k8s.io", &["CustomResourceDefinition"])
}

fn workload(pair: &Pair<'_>) -> Vec<String> {
    let mut found = removed(pair, "apps", &["Deployment", "StatefulSet", "DaemonSet"]);
    found.extend(removed(pair, "batch", &["CronJob"]));
    found
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    let kinds = [
        ("DD020", "v1", "PersistentVolumeClaim"),
        ("DD021", "v1", "Namespace"),
        ("DD022", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("DD023", "apps/v1", "StatefulSet"),
    ];
    let cases = kinds.into_iter().flat_map(|(rule, version, kind)| {
        let one = object(version, kind, json!({ "spec": 1 }));
        let other = object(version, kind, json!({ "spec": 2 }));
        let foreign = object("example.com/v1", kind, json!({}));
        [
            RuleCase::new(rule, std::slice::from_ref(&one), &[], &["it is removed"]),
            RuleCase::new(rule, &[one], &[other], &[]),
            RuleCase::new(rule, &[foreign], &[], &[]),
        ]
    });
    cases.collect()
}
