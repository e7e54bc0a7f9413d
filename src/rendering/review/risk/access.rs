//! Rules about access: subjects with more permissions than before.

use super::rule::{RiskSeverity, Rule, RuleCheck, field, items, list_few, text};
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of single permissions of a role that are compared one by one.
const PERMISSIONS_MAX: usize = 4_000;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "DD030",
        title: "Role allows more",
        severity: RiskSeverity::High,
        explanation: "A Role or ClusterRole is new or allows a verb on a resource that it did not allow before. \
                      Everyone it is bound to gets it, also through bindings outside this repository.",
        check: RuleCheck::InChange(allows_more),
    },
    Rule {
        id: "DD031",
        title: "Wildcard in a role",
        severity: RiskSeverity::High,
        explanation: "A Role or ClusterRole allows `*` where it did not: every verb, resource, group or address, \
                      also those that do not exist yet.",
        check: RuleCheck::InChange(wildcards),
    },
    Rule {
        id: "DD032",
        title: "Role bound to more subjects",
        severity: RiskSeverity::High,
        explanation: "A RoleBinding or ClusterRoleBinding has a subject that it did not have, and which now may do \
                      whatever its role allows.",
        check: RuleCheck::InChange(subjects),
    },
];

/// A permission of a role.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Permission<'a> {
    verb: &'a str,
    group: &'a str,
    /// A resource, or a URL path.
    target: &'a str,
    /// The name of a single object. Empty for all objects.
    name: &'a str,
}

impl Permission<'_> {
    fn covers(&self, other: &Permission<'_>) -> bool {
        let within = |mine: &str, theirs: &str| mine == "*" || mine == theirs;
        within(self.verb, other.verb)
            && within(self.group, other.group)
            && (within(self.target, other.target) || covers_path(self.target, other.target))
            && (self.name.is_empty() || self.name == other.name)
    }
}

/// True if one path pattern covers another: `/healthz/*` covers `/healthz/ready`.
fn covers_path(mine: &str, theirs: &str) -> bool {
    mine.strip_suffix('*')
        .is_some_and(|prefix| prefix.starts_with('/') && theirs.starts_with(prefix))
}

fn is_role(pair: &Pair<'_>) -> bool {
    pair.is(GROUP, "Role") || pair.is(GROUP, "ClusterRole")
}

fn strings<'a>(rule: &'a Value, list: &str) -> Vec<&'a str> {
    items(rule, list).iter().filter_map(Value::as_str).collect()
}

/// Returns all permissions of one side, or `None` if there are too many to list.
fn permissions(side: Option<&Value>) -> Option<BTreeSet<Permission<'_>>> {
    let mut found = BTreeSet::new();
    for rule in side.map_or(&[][..], |side| items(side, "rules")) {
        let (verbs, groups, resources) = (
            strings(rule, "verbs"),
            strings(rule, "apiGroups"),
            strings(rule, "resources"),
        );
        let mut names = strings(rule, "resourceNames");
        if names.is_empty() {
            names.push("");
        }
        let addresses = strings(rule, "nonResourceURLs");
        let targets = groups
            .iter()
            .flat_map(|group| resources.iter().map(move |resource| (*group, *resource)));
        // A URL path has no group. `/` is no valid API group.
        let targets = targets.chain(addresses.iter().map(|address| ("/", *address)));
        for (group, target) in targets {
            for verb in &verbs {
                for name in &names {
                    found.insert(Permission {
                        verb,
                        group,
                        target,
                        name,
                    });
                    if found.len() > PERMISSIONS_MAX {
                        return None;
                    }
                }
            }
        }
    }
    Some(found)
}

fn allows_more(pair: &Pair<'_>) -> Vec<String> {
    let same_rules =
        pair.before.map(|side| items(side, "rules")) == pair.after.map(|side| items(side, "rules"));
    if !is_role(pair) || same_rules {
        return Vec::new();
    }
    let (Some(before), Some(after)) = (permissions(pair.before), permissions(pair.after)) else {
        return vec!["it allows too much to compare one by one".to_owned()];
    };
    let is_new = |new: &&Permission<'_>| !before.iter().any(|old| old.covers(new));
    let new: BTreeSet<String> = after.iter().filter(is_new).map(shown).collect();
    let new: Vec<String> = new.into_iter().collect();
    match new.as_slice() {
        [] => Vec::new(),
        new => vec![format!("now allows {}", list_few(new))],
    }
}

fn shown(permission: &Permission<'_>) -> String {
    let name = match permission.name {
        "" => String::new(),
        name => format!(" {name}"),
    };
    match permission.group {
        "" | "/" => format!("{} {}{name}", permission.verb, permission.target),
        group => format!("{} {}.{group}{name}", permission.verb, permission.target),
    }
}

fn wildcards(pair: &Pair<'_>) -> Vec<String> {
    if !is_role(pair) {
        return Vec::new();
    }
    let lists = ["verbs", "resources", "apiGroups", "nonResourceURLs"];
    let has = |side: Option<&Value>, list: &str| {
        let rules = side.map_or(&[][..], |side| items(side, "rules"));
        rules.iter().any(|rule| strings(rule, list).contains(&"*"))
    };
    let new = lists
        .into_iter()
        .filter(|list| has(pair.after, list) && !has(pair.before, list));
    new.map(|list| format!("now has `*` in `{list}`")).collect()
}

fn subjects(pair: &Pair<'_>) -> Vec<String> {
    if !(pair.is(GROUP, "RoleBinding") || pair.is(GROUP, "ClusterRoleBinding")) {
        return Vec::new();
    }
    let of = |side: Option<&Value>| {
        let subjects = side.map_or(&[][..], |side| items(side, "subjects"));
        subjects.iter().map(subject).collect::<BTreeSet<_>>()
    };
    let (before, after) = (of(pair.before), of(pair.after));
    let role = pair
        .after
        .and_then(|after| field(after, "roleRef.name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let new: Vec<String> = after.difference(&before).cloned().collect();
    match new.as_slice() {
        [] => Vec::new(),
        new => vec![format!("binds `{role}` to {}", list_few(new))],
    }
}

fn subject(subject: &Value) -> String {
    let (kind, name) = (text(subject, "kind"), text(subject, "name"));
    match text(subject, "namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object};
    use serde_json::json;
    let role = |rules: Value| object("rbac.authorization.k8s.io/v1", "Role", json!({ "rules": rules }));
    let rule = |verbs: &[&str], resources: &[&str]| json!({ "apiGroups": [""], "verbs": verbs, "resources": resources });
    let reads = role(json!([rule(&["get", "list"], &["pods"])]));
    let deletes = role(json!([rule(&["get", "delete"], &["pods"])]));
    let split = role(json!([rule(&["list"], &["pods"]), rule(&["get"], &["pods"])]));
    let all = role(json!([rule(&["*"], &["pods"])]));
    let addresses = |address: &str| role(json!([{ "verbs": ["get"], "nonResourceURLs": [address] }]));
    let binding = |subjects: Value| {
        let fields = json!({ "roleRef": { "name": "edit" }, "subjects": subjects });
        object("rbac.authorization.k8s.io/v1", "RoleBinding", fields)
    };
    let ann = json!({ "kind": "User", "name": "ann" });
    let bot = json!({ "kind": "ServiceAccount", "name": "bot", "namespace": "ci" });
    let case = |rule, before: &Value, after: &Value, details: &[&str]| {
        RuleCase::new(
            rule,
            std::slice::from_ref(before),
            std::slice::from_ref(after),
            details,
        )
    };
    vec![
        case("DD030", &reads, &deletes, &["now allows `delete pods`"]),
        case("DD030", &deletes, &reads, &["now allows `list pods`"]),
        case("DD030", &reads, &split, &[]),
        case("DD030", &all, &reads, &[]),
        case(
            "DD030",
            &addresses("/healthz/*"),
            &addresses("/healthz/ready"),
            &[],
        ),
        RuleCase::new(
            "DD030",
            &[],
            std::slice::from_ref(&reads),
            &["now allows `get pods`, `list pods`"],
        ),
        case("DD031", &reads, &all, &["now has `*` in `verbs`"]),
        case("DD031", &all, &reads, &[]),
        case(
            "DD032",
            &binding(json!([ann])),
            &binding(json!([ann, bot])),
            &["binds `edit` to `ServiceAccount ci/bot`"],
        ),
        case("DD032", &binding(json!([ann, bot])), &binding(json!([bot])), &[]),
    ]
}
