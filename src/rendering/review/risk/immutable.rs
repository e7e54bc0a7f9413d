//! Rules about fields that a cluster refuses to change. The object must be deleted and created again.

use super::quantity;
use super::rule::{RiskSeverity, Rule, RuleCheck, field, list_few, text};
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeSet;

const fn rule(
    id: &'static str,
    title: &'static str,
    explanation: &'static str,
    find: fn(&Pair<'_>) -> Vec<String>,
) -> Rule {
    Rule {
        id,
        title,
        severity: RiskSeverity::High,
        explanation,
        check: RuleCheck::InChange(find),
    }
}

pub(super) const RULES: [Rule; 8] = [
    rule(
        "DD010",
        "Selector of a workload changes",
        "`spec.selector` of a Deployment, StatefulSet, DaemonSet or ReplicaSet cannot be changed. The cluster refuses \
         the object until it is deleted, which stops its pods or leaves them without an owner.",
        selector,
    ),
    rule(
        "DD011",
        "Fixed field of a StatefulSet changes",
        "Of a StatefulSet only the replicas, the ordinals, the template, the update strategy, the revision history, \
         the minimum ready time and the retention of claims can be changed; `volumeClaimTemplates` and `serviceName`, \
         for instance, cannot.",
        stateful_set,
    ),
    rule(
        "DD012",
        "Cluster IP of a Service changes",
        "`spec.clusterIP` is fixed once it is set: the cluster refuses the object. A new Service gets another \
         address, and clients that cached the old one lose the connection.",
        cluster_ip,
    ),
    rule(
        "DD013",
        "Fixed field of a Job changes",
        "`spec.template`, `spec.selector`, `spec.completions` and `spec.completionMode` of a Job cannot be changed. \
         A Job is usually given a new name instead.",
        job,
    ),
    rule(
        "DD014",
        "Volume claim changes in a way that is refused",
        "Of a PersistentVolumeClaim only the requested storage may grow, and its attributes class may change. A \
         smaller request, or another storage class, access mode or volume is refused.",
        volume_claim,
    ),
    rule(
        "DD015",
        "Fixed field of a StorageClass changes",
        "`provisioner`, `parameters`, `reclaimPolicy` and `volumeBindingMode` of a StorageClass cannot be changed.",
        storage_class,
    ),
    rule(
        "DD016",
        "Immutable ConfigMap or Secret changes",
        "An object with `immutable: true` cannot be changed, nor made mutable again. It is usually given a new name.",
        immutable_data,
    ),
    rule(
        "DD017",
        "Role of a binding changes",
        "`roleRef` of a RoleBinding or ClusterRoleBinding cannot be changed. The binding must be deleted and created \
         again, and in between its subjects have neither role.",
        role_ref,
    ),
];

/// Returns one finding with the immutable fields that differ.
fn fixed(pair: &Pair<'_>, paths: &[&str]) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    let differs = |path: &&&str| field(before, path) != field(after, path);
    refused(
        paths
            .iter()
            .filter(differs)
            .map(|path| (*path).to_owned())
            .collect(),
    )
}

fn refused(paths: Vec<String>) -> Vec<String> {
    match paths.as_slice() {
        [] => Vec::new(),
        paths => vec![format!("the cluster refuses a change of {}", list_few(paths))],
    }
}

fn selector(pair: &Pair<'_>) -> Vec<String> {
    let kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
    if !kinds.iter().any(|kind| pair.is("apps", kind)) {
        return Vec::new();
    }
    fixed(pair, &["spec.selector"])
}

fn stateful_set(pair: &Pair<'_>) -> Vec<String> {
    const MAY_CHANGE: [&str; 8] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        // This field has a rule of its own.
        "selector",
    ];
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    if !pair.is("apps", "StatefulSet") {
        return Vec::new();
    }
    refused(differing(before, after, &MAY_CHANGE))
}

/// Returns the fields of the spec that differ, without the exceptions.
fn differing(before: &Value, after: &Value, except: &[&str]) -> Vec<String> {
    let names = |side| {
        field(side, "spec")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|spec| spec.keys())
    };
    let names: BTreeSet<&String> = names(before).chain(names(after)).collect();
    let differ = names.into_iter().filter(|name| {
        let value = |side: &Value| {
            side["spec"]
                .get(name.as_str())
                .filter(|value| !value.is_null())
                .cloned()
        };
        !except.contains(&name.as_str()) && value(before) != value(after)
    });
    differ.map(|name| format!("spec.{name}")).collect()
}

fn cluster_ip(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    let by_name = |side| text(side, "spec.type") == "ExternalName";
    if !pair.is("", "Service") || by_name(before) || by_name(after) {
        return Vec::new();
    }
    if text(before, "spec.clusterIP") == text(after, "spec.clusterIP") {
        return Vec::new();
    }
    fixed(pair, &["spec.clusterIP"])
}

fn job(pair: &Pair<'_>) -> Vec<String> {
    if !pair.is("batch", "Job") || pair.key.is_generated() {
        return Vec::new();
    }
    fixed(
        pair,
        &[
            "spec.template",
            "spec.selector",
            "spec.completions",
            "spec.completionMode",
        ],
    )
}

fn volume_claim(pair: &Pair<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return Vec::new();
    };
    if !pair.is("", "PersistentVolumeClaim") {
        return Vec::new();
    }
    let mut found = refused(differing(
        before,
        after,
        &["resources", "volumeAttributesClassName"],
    ));
    let size = |side| field(side, "spec.resources.requests.storage");
    if let (Some(old), Some(new)) = (size(before), size(after))
        && let (Some(old_bytes), Some(new_bytes)) = (quantity::parse(old), quantity::parse(new))
        && new_bytes < old_bytes
    {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        found.push(format!("storage shrinks from {} to {}", plain(old), plain(new)));
    }
    found
}

fn storage_class(pair: &Pair<'_>) -> Vec<String> {
    if !pair.is("storage.k8s.io", "StorageClass") {
        return Vec::new();
    }
    fixed(
        pair,
        &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
    )
}

fn immutable_data(pair: &Pair<'_>) -> Vec<String> {
    let was_immutable = pair.before.is_some_and(|before| before["immutable"] == true);
    if !was_immutable || !(pair.is("", "ConfigMap") || pair.is("", "Secret")) {
        return Vec::new();
    }
    fixed(pair, &["immutable", "data", "binaryData", "stringData"])
}

fn role_ref(pair: &Pair<'_>) -> Vec<String> {
    let group = "rbac.authorization.k8s.io";
    if !(pair.is(group, "RoleBinding") || pair.is(group, "ClusterRoleBinding")) {
        return Vec::new();
    }
    fixed(pair, &["roleRef"])
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    // Each entry: rule, object, the refused field, one value before and after, and an allowed change.
    let refused = [
        (
            "DD010",
            "apps/v1",
            "Deployment",
            json!({ "spec": { "selector": "a" } }),
            json!({ "spec": { "selector": "b" } }),
            "spec.selector",
        ),
        (
            "DD011",
            "apps/v1",
            "StatefulSet",
            json!({ "spec": { "serviceName": "a" } }),
            json!({ "spec": {} }),
            "spec.serviceName",
        ),
        (
            "DD012",
            "v1",
            "Service",
            json!({ "spec": { "clusterIP": "None" } }),
            json!({ "spec": {} }),
            "spec.clusterIP",
        ),
        (
            "DD013",
            "batch/v1",
            "Job",
            json!({ "spec": { "template": 1 } }),
            json!({ "spec": { "template": 2 } }),
            "spec.template",
        ),
        (
            "DD014",
            "v1",
            "PersistentVolumeClaim",
            json!({ "spec": { "volumeName": "a" } }),
            json!({ "spec": { "volumeName": "b" } }),
            "spec.volumeName",
        ),
        (
            "DD015",
            "storage.k8s.io/v1",
            "StorageClass",
            json!({ "provisioner": "a" }),
            json!({ "provisioner": "b" }),
            "provisioner",
        ),
        (
            "DD016",
            "v1",
            "ConfigMap",
            json!({ "immutable": true, "data": { "a": "1" } }),
            json!({ "immutable": true, "data": {} }),
            "data",
        ),
        (
            "DD017",
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({ "roleRef": "a" }),
            json!({ "roleRef": "b" }),
            "roleRef",
        ),
    ];
    let allowed = [
        (
            "DD010",
            "apps/v1",
            "Deployment",
            json!({ "spec": { "replicas": 1 } }),
            json!({ "spec": { "replicas": 2 } }),
        ),
        (
            "DD011",
            "apps/v1",
            "StatefulSet",
            json!({ "spec": { "replicas": 1 } }),
            json!({ "spec": { "replicas": 2, "paused": null } }),
        ),
        (
            "DD012",
            "v1",
            "Service",
            json!({ "spec": { "clusterIP": "" } }),
            json!({ "spec": {} }),
        ),
        (
            "DD013",
            "batch/v1",
            "Job",
            json!({ "spec": { "parallelism": 1 } }),
            json!({ "spec": { "parallelism": 2 } }),
        ),
        (
            "DD015",
            "storage.k8s.io/v1",
            "StorageClass",
            json!({ "allowVolumeExpansion": false }),
            json!({ "allowVolumeExpansion": true }),
        ),
        (
            "DD016",
            "v1",
            "ConfigMap",
            json!({ "data": { "a": "1" } }),
            json!({ "data": {}, "immutable": true }),
        ),
        (
            "DD017",
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({ "subjects": [] }),
            json!({ "subjects": [1] }),
        ),
    ];
    let claim = |size: &str| {
        object(
            "v1",
            "PersistentVolumeClaim",
            json!({ "spec": { "resources": { "requests": { "storage": size } } } }),
        )
    };
    let mut cases = vec![
        RuleCase::new(
            "DD014",
            &[claim("10Gi")],
            &[claim("5G")],
            &["storage shrinks from 10Gi to 5G"],
        ),
        RuleCase::new("DD014", &[claim("10Gi")], &[claim("1Ti")], &[]),
    ];
    cases.extend(refused.map(|(rule, version, kind, before, after, path)| {
        let detail = format!("the cluster refuses a change of `{path}`");
        RuleCase::new(
            rule,
            &[object(version, kind, before)],
            &[object(version, kind, after)],
            &[&detail],
        )
    }));
    cases.extend(allowed.map(|(rule, version, kind, before, after)| {
        RuleCase::new(
            rule,
            &[object(version, kind, before)],
            &[object(version, kind, after)],
            &[],
        )
    }));
    cases
}
