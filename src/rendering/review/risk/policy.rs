//! Rules about network policies that allow more than before.

use super::rule::{RiskSeverity, Rule, RuleCheck, field, items};
use crate::rendering::review::pair::Pair;
use serde_json::Value;

pub(super) const RULES: [Rule; 2] = [
    Rule {
        id: "DD054",
        title: "Network policy removed",
        severity: RiskSeverity::High,
        explanation: "A NetworkPolicy is removed. Pods that no other policy selects accept and open every connection.",
        check: RuleCheck::InChange(removed),
    },
    Rule {
        id: "DD055",
        title: "Network policy allows more",
        severity: RiskSeverity::High,
        explanation: "A NetworkPolicy selects other pods, does not govern a direction any more, or has a rule that lets \
                      through what none of its rules did before.",
        check: RuleCheck::InChange(widened),
    },
];

fn is_policy(pair: &Pair<'_>) -> bool {
    pair.is("networking.k8s.io", "NetworkPolicy")
}

fn removed(pair: &Pair<'_>) -> Vec<String> {
    match is_policy(pair) && pair.after.is_none() {
        true => vec!["it is removed".to_owned()],
        false => Vec::new(),
    }
}

fn widened(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    if !is_policy(pair) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if before["spec"]["podSelector"] != after["spec"]["podSelector"] {
        found.push("selects other pods".to_owned());
    }
    for (kind, list, peers) in [("Ingress", "ingress", "from"), ("Egress", "egress", "to")] {
        if !governs(before, kind) {
            continue;
        }
        if !governs(after, kind) {
            found.push(format!("does not govern {list} any more"));
            continue;
        }
        let rules = |side| {
            items(
                side,
                if kind == "Ingress" {
                    "spec.ingress"
                } else {
                    "spec.egress"
                },
            )
        };
        let is_covered = |new: &Value| rules(before).iter().any(|old| covers(old, new, peers));
        if !rules(after).iter().all(is_covered) {
            found.push(format!("allows more {list}"));
        }
    }
    found
}

/// True if the policy applies to a kind of traffic. Without `policyTypes`, it always applies to ingress, and to
/// egress if there are egress rules.
fn governs(policy: &Value, kind: &str) -> bool {
    match field(policy, "spec.policyTypes").and_then(Value::as_array) {
        Some(types) if !types.is_empty() => types.iter().any(|named| named == kind),
        Some(_) | None => kind == "Ingress" || !items(policy, "spec.egress").is_empty(),
    }
}

fn covers(old: &Value, new: &Value, peers: &str) -> bool {
    covers_list(items(old, peers), items(new, peers)) && covers_list(items(old, "ports"), items(new, "ports"))
}

/// True if one list allows everything that the other one allows. An empty list allows everything.
fn covers_list(old: &[Value], new: &[Value]) -> bool {
    old.is_empty() || (!new.is_empty() && new.iter().all(|item| old.contains(item)))
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    let policy = |spec: Value| {
        [object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({ "spec": spec }),
        )]
    };
    let from = |apps: &[&str]| {
        let peers: Vec<Value> = apps
            .iter()
            .map(|app| json!({ "podSelector": { "matchLabels": { "app": app } } }))
            .collect();
        policy(json!({ "ingress": [{ "from": peers }] }))
    };
    let more = ["allows more ingress"];
    vec![
        RuleCase::new("DD054", &from(&["a"]), &[], &["it is removed"]),
        RuleCase::new("DD054", &from(&["a"]), &from(&["b"]), &[]),
        RuleCase::new("DD055", &from(&["a"]), &from(&["a", "b"]), &more),
        RuleCase::new("DD055", &from(&["a"]), &from(&[]), &more),
        RuleCase::new("DD055", &from(&["a", "b"]), &from(&["b"]), &[]),
        RuleCase::new("DD055", &from(&[]), &from(&["b"]), &[]),
        RuleCase::new(
            "DD055",
            &policy(json!({ "policyTypes": ["Ingress", "Egress"] })),
            &policy(json!({ "policyTypes": ["Ingress"], "podSelector": { "matchLabels": { "app": "a" } } })),
            &["selects other pods", "does not govern egress any more"],
        ),
    ]
}
