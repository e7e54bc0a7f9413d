//! Fields that rules read but whose text is hidden as a secret. A rule without findings proves nothing about such a
//! field.

use super::rule::{RiskSeverity, Rule, RuleCheck, list_few};
use crate::base::redact::contains_placeholder;
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const RULES: [Rule; 1] = [Rule {
    id: "DD082",
    title: "Field is hidden from the rules",
    severity: RiskSeverity::High,
    explanation: "The value of a field is hidden because the same text is a secret elsewhere, in a Secret for \
                  instance. The rules for images, roles or capabilities could not read the value, so a risk may be \
                  missing. Check the field in the file.",
    check: RuleCheck::InChange(hidden),
}];

/// Names of the fields that rules read. Arguments, environment variables and files of a program are excluded.
const READ: [&str; 34] = [
    "add",
    "apiGroups",
    "apiVersion",
    "cidr",
    "clusterIP",
    "cpu",
    "drop",
    "except",
    "externalIPs",
    "externalName",
    "host",
    "hosts",
    "image",
    "key",
    "kind",
    "loadBalancerSourceRanges",
    "maxUnavailable",
    "memory",
    "minAvailable",
    "name",
    "namespace",
    "nonResourceURLs",
    "operator",
    "path",
    "policyTypes",
    "port",
    "resourceNames",
    "resources",
    "serviceAccountName",
    "storage",
    "storageClassName",
    "targetPort",
    "type",
    "verbs",
];

fn hidden(pair: &Pair<'_>) -> Vec<String> {
    // The values of a `Secret` have rules of their own.
    let Some(after) = pair.after.filter(|_| !pair.is("", "Secret")) else {
        return Vec::new();
    };
    let found = |side: Option<&Value>| {
        let mut found = BTreeMap::new();
        if let Some(side) = side {
            collect(side, "", "", &mut found);
        }
        found
    };
    let before = found(pair.before);
    let mut new = found(Some(after));
    new.retain(|path, text| before.get(path) != Some(text));
    let paths: Vec<String> = new.into_keys().collect();
    match paths.as_slice() {
        [] => Vec::new(),
        paths => vec![format!("rules cannot see {}", list_few(paths))],
    }
}

/// Collects the hidden texts below a value by path. The parser has limited the nesting depth.
fn collect(value: &Value, path: &str, name: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) if READ.contains(&name) && contains_placeholder(text) => {
            found.insert(path.to_owned(), text.clone());
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{place}]"), name, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                collect(field, &path, name, found);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object, workload};
    use serde_json::json;
    let runs = |image: &str, word: &str| {
        let container = json!({
            "name": "web", "image": image, "args": [word], "env": [{ "name": "WORD", "value": word }],
        });
        [workload(
            json!({ "template": { "spec": { "containers": [container] } } }),
        )]
    };
    let role = |verb: &str| {
        [object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({ "rules": [{ "verbs": ["get", verb] }] }),
        )]
    };
    let secret = |word: &str| [object("v1", "Secret", json!({ "type": word }))];
    let (plain, one, two) = (
        runs("web:1", "x"),
        runs("⟦secret:1⟧", "x"),
        runs("⟦secret:2⟧", "x"),
    );
    let image = "rules cannot see `spec.template.spec.containers[0].image`";
    vec![
        RuleCase::new("DD082", &plain, &one, &[image]),
        RuleCase::new("DD082", &[], &one, &[image]),
        RuleCase::new("DD082", &one, &two, &[image]),
        RuleCase::new("DD082", &one, &runs("⟦secret:1⟧", "y"), &[]),
        RuleCase::new("DD082", &plain, &runs("web:1", "⟦secret:1⟧"), &[]),
        RuleCase::new("DD082", &one, &plain, &[]),
        RuleCase::new(
            "DD082",
            &role("list"),
            &role("⟦secret:1⟧"),
            &["rules cannot see `rules[0].verbs[1]`"],
        ),
        RuleCase::new("DD082", &secret("a"), &secret("⟦secret:1⟧"), &[]),
    ]
}
