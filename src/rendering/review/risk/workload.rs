//! Rules about running pods.

use super::pod;
use super::rule::{RiskSeverity, Rule, RuleCheck, field, list_few, text};
use crate::rendering::review::fields;
use crate::rendering::review::pair::Pair;
use serde_json::Value;

pub(super) const RULES: [Rule; 4] = [
    Rule {
        id: "DD001",
        title: "Pods are replaced",
        severity: RiskSeverity::Medium,
        explanation: "The pod template of a Deployment, StatefulSet or DaemonSet changes, so all its pods are \
                      replaced, by its update strategy. A paused Deployment and the strategy `OnDelete` wait.",
        check: RuleCheck::InChange(restarts),
    },
    Rule {
        id: "DD002",
        title: "Scaled to zero",
        severity: RiskSeverity::High,
        explanation: "`spec.replicas` becomes 0: all pods stop, and so does the service they provide.",
        check: RuleCheck::InChange(scaled_to_zero),
    },
    Rule {
        id: "DD003",
        title: "Probe removed",
        severity: RiskSeverity::Medium,
        explanation: "A container loses a liveness, readiness or startup probe. Without a readiness probe it gets \
                      traffic as soon as it starts; without a liveness probe it is not restarted when it hangs.",
        check: RuleCheck::InChange(probes_removed),
    },
    Rule {
        id: "DD004",
        title: "Resource request or limit removed",
        severity: RiskSeverity::Medium,
        explanation: "Without a request a pod may be placed where there is no room and is evicted first; without a \
                      limit it may use resources that others on its node need.",
        check: RuleCheck::InChange(resources_removed),
    },
];

fn restarts(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    let waits = text(after, "spec.updateStrategy.type") == "OnDelete" || after["spec"]["paused"] == true;
    if !rolls(pair) || waits {
        return Vec::new();
    }
    let changed = fields::changes(&before["spec"]["template"], &after["spec"]["template"]);
    let mut paths: Vec<String> = changed.into_iter().map(|change| change.path).collect();
    paths.dedup();
    match paths.as_slice() {
        [] => Vec::new(),
        paths => vec![format!("its pods are replaced for {}", list_few(paths))],
    }
}

fn rolls(pair: &Pair<'_>) -> bool {
    ["Deployment", "StatefulSet", "DaemonSet"]
        .iter()
        .any(|kind| pair.is("apps", kind))
}

fn scaled_to_zero(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    let count = |side| field(side, "spec.replicas").and_then(Value::as_u64);
    match (count(before), count(after)) {
        (Some(0), _) => Vec::new(),
        (Some(count), Some(0)) => vec![format!("`spec.replicas` goes from {count} to 0")],
        (None, Some(0)) => vec!["`spec.replicas` becomes 0".to_owned()],
        (_, Some(_) | None) => Vec::new(),
    }
}

fn probes_removed(pair: &Pair<'_>) -> Vec<String> {
    lost(pair, &["livenessProbe", "readinessProbe", "startupProbe"])
}

fn resources_removed(pair: &Pair<'_>) -> Vec<String> {
    let paths = [
        "resources.requests.cpu",
        "resources.requests.memory",
        "resources.limits.cpu",
        "resources.limits.memory",
    ];
    lost(pair, &paths)
}

/// Returns the containers that lost one of these fields.
fn lost(pair: &Pair<'_>, paths: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (before, after) in pod::matched(pair) {
        let Some(before) = before else { continue };
        let is_lost =
            |path: &&&str| field(before.value, path).is_some() && field(after.value, path).is_none();
        let lost: Vec<String> = paths
            .iter()
            .filter(is_lost)
            .map(|path| (*path).to_owned())
            .collect();
        if !lost.is_empty() {
            found.push(format!("{after} loses {}", few_all(&lost)));
        }
    }
    found
}

fn few_all(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, workload};
    use serde_json::json;
    let web = |image: &str| json!({ "template": { "spec": { "containers": [{ "name": "web", "image": image }] } } });
    let paused = |image: &str| {
        let mut spec = web(image);
        spec["paused"] = json!(true);
        workload(spec)
    };
    let scaled = |replicas: u32| workload(json!({ "replicas": replicas }));
    let container = |fields: serde_json::Value| {
        let mut container = json!({ "name": "web", "image": "web:1.0.0" });
        container
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        workload(json!({ "template": { "spec": { "containers": [container] } } }))
    };
    let probe = container(json!({ "readinessProbe": { "tcpSocket": { "port": 80 } } }));
    let limited =
        container(json!({ "resources": { "limits": { "memory": "1Gi" }, "requests": { "cpu": "1" } } }));
    let requested = container(json!({ "resources": { "requests": { "cpu": "2" } } }));
    let both = |before: &serde_json::Value, after: &serde_json::Value| ([before.clone()], [after.clone()]);
    let case = |rule, (before, after): ([_; 1], [_; 1]), details: &[&str]| {
        RuleCase::new(rule, &before, &after, details)
    };
    vec![
        case(
            "DD001",
            both(&workload(web("web:1")), &workload(web("web:2"))),
            &["its pods are replaced for `spec.containers[name=web].image`"],
        ),
        case("DD001", both(&paused("web:1"), &paused("web:2")), &[]),
        case("DD001", both(&scaled(1), &scaled(2)), &[]),
        case(
            "DD002",
            both(&scaled(3), &scaled(0)),
            &["`spec.replicas` goes from 3 to 0"],
        ),
        case(
            "DD002",
            both(&workload(json!({})), &scaled(0)),
            &["`spec.replicas` becomes 0"],
        ),
        case("DD002", both(&scaled(0), &scaled(3)), &[]),
        case(
            "DD003",
            both(&probe, &container(json!({}))),
            &["container `web` loses `readinessProbe`"],
        ),
        case("DD003", both(&container(json!({})), &probe), &[]),
        case(
            "DD004",
            both(&limited, &requested),
            &["container `web` loses `resources.limits.memory`"],
        ),
        case("DD004", both(&requested, &limited), &[]),
    ]
}
