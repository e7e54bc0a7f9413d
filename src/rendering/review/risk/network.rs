//! Rules about the network: services and hosts that are no longer reachable, or no longer over TLS.

use super::pod;
use super::rule::{RiskSeverity, Rule, RuleCheck, RuleFinding, SideObjects, field, items, list_few, text};
use super::selector;
use crate::rendering::review::key::ObjectKey;
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "DD050",
        title: "Service selects no pods",
        severity: RiskSeverity::High,
        explanation: "The selector of a Service matches the labels of no pod template of its environment, and either \
                      it did before or the Service is new: it has no endpoints. Pods that an operator creates are \
                      not visible to this rule.",
        check: RuleCheck::InState(orphans),
    },
    Rule {
        id: "DD051",
        title: "Ingress host removed",
        severity: RiskSeverity::High,
        explanation: "An Ingress does not serve a host any more that it served before.",
        check: RuleCheck::InChange(hosts_removed),
    },
    Rule {
        id: "DD052",
        title: "Ingress TLS removed",
        severity: RiskSeverity::High,
        explanation: "An Ingress still serves a host but has no certificate for it any more: its visitors lose HTTPS.",
        check: RuleCheck::InChange(tls_removed),
    },
];

fn orphans(state: &SideObjects<'_>) -> Vec<RuleFinding> {
    let services = state.of_kind("", "Service");
    let orphaned = services.filter_map(|(key, service)| {
        let wanted = field(service, "spec.selector")
            .filter(|wanted| wanted.as_object().is_some_and(|map| !map.is_empty()))?;
        let is_orphan = text(service, "spec.type") != "ExternalName" && !is_served(state, key, wanted);
        is_orphan.then(|| RuleFinding {
            object: key.clone(),
            detail: "its selector matches no pod template".to_owned(),
        })
    });
    orphaned.collect()
}

fn is_served(state: &SideObjects<'_>, service: &ObjectKey, wanted: &Value) -> bool {
    state.objects.iter().any(|(key, object)| {
        let labels = pod::template(object).and_then(|template| field(template, "metadata.labels"));
        key.namespace == service.namespace && labels.is_some_and(|labels| selector::has_all(wanted, labels))
    })
}

fn is_ingress(pair: &Pair<'_>) -> bool {
    pair.is("networking.k8s.io", "Ingress") || pair.is("extensions", "Ingress")
}

/// Returns the hosts of the rules of one side. A rule without a host applies to all hosts.
fn hosts(side: Option<&Value>) -> BTreeSet<String> {
    let rules = side.map_or(&[][..], |side| items(side, "spec.rules"));
    let host = |rule: &Value| match text(rule, "host") {
        "" => "*".to_owned(),
        host => host.to_owned(),
    };
    rules.iter().map(host).collect()
}

fn hosts_removed(pair: &Pair<'_>) -> Vec<String> {
    if !is_ingress(pair) {
        return Vec::new();
    }
    let gone: Vec<String> = hosts(pair.before)
        .difference(&hosts(pair.after))
        .cloned()
        .collect();
    match gone.as_slice() {
        [] => Vec::new(),
        gone => vec![format!("does not serve {} any more", list_few(gone))],
    }
}

fn tls_removed(pair: &Pair<'_>) -> Vec<String> {
    if !is_ingress(pair) {
        return Vec::new();
    }
    let (before, after) = (certified(pair.before), certified(pair.after));
    let lost = hosts(pair.after)
        .into_iter()
        .filter(|host| before.contains(host) && !after.contains(host));
    let lost: Vec<String> = lost.collect();
    match lost.as_slice() {
        [] => Vec::new(),
        lost => vec![format!("has no certificate for {} any more", list_few(lost))],
    }
}

/// Returns the hosts with a certificate. An entry without hosts applies to all hosts.
fn certified(side: Option<&Value>) -> BTreeSet<String> {
    let entries = side.map_or(&[][..], |side| items(side, "spec.tls"));
    let mut found = BTreeSet::new();
    for entry in entries {
        match items(entry, "hosts") {
            [] => found.extend(hosts(side)),
            named => found.extend(named.iter().filter_map(|host| host.as_str().map(str::to_owned))),
        }
    }
    found
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object, workload};
    use serde_json::json;
    let service = || {
        object(
            "v1",
            "Service",
            json!({ "spec": { "selector": { "app": "web" } } }),
        )
    };
    let pods = |app: &str| {
        let template =
            json!({ "metadata": { "labels": { "app": app, "more": "x" } }, "spec": { "containers": [] } });
        workload(json!({ "template": template }))
    };
    let ingress = |hosts: &[&str], tls: Value| {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({ "host": host })).collect();
        object(
            "networking.k8s.io/v1",
            "Ingress",
            json!({ "spec": { "rules": rules, "tls": tls } }),
        )
    };
    let tls = || json!([{ "hosts": ["a.example"] }]);
    vec![
        RuleCase::new(
            "DD050",
            &[service(), pods("web")],
            &[service(), pods("api")],
            &["its selector matches no pod template"],
        ),
        RuleCase::new("DD050", &[service(), pods("api")], &[service(), pods("job")], &[]),
        RuleCase::new("DD050", &[], &[service(), pods("web")], &[]),
        RuleCase::new(
            "DD051",
            &[ingress(&["a.example", "b.example"], json!([]))],
            &[ingress(&["b.example"], json!([]))],
            &["does not serve `a.example` any more"],
        ),
        RuleCase::new(
            "DD051",
            &[ingress(&["a.example"], json!([]))],
            &[],
            &["does not serve `a.example` any more"],
        ),
        RuleCase::new("DD051", &[], &[ingress(&["a.example"], json!([]))], &[]),
        RuleCase::new(
            "DD052",
            &[ingress(&["a.example"], tls())],
            &[ingress(&["a.example"], json!([]))],
            &["has no certificate for `a.example` any more"],
        ),
        RuleCase::new(
            "DD052",
            &[ingress(&["a.example"], tls())],
            &[ingress(&["a.example"], json!([{}]))],
            &[],
        ),
        RuleCase::new("DD052", &[ingress(&["a.example"], tls())], &[], &[]),
    ]
}
