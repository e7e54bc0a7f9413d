//! Rules about pods with more access to their node than before.

use super::pod::{self, Container};
use super::rule::{RiskSeverity, Rule, RuleCheck, field, items, list_few, text};
use crate::rendering::review::pair::Pair;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const RULES: [Rule; 5] = [
    Rule {
        id: "DD040",
        title: "Host namespace",
        severity: RiskSeverity::High,
        explanation: "A pod shares the network, the processes or the IPC of its node, and can observe the other pods \
                      there.",
        check: RuleCheck::InChange(namespaces),
    },
    Rule {
        id: "DD041",
        title: "Host path",
        severity: RiskSeverity::High,
        explanation: "A pod mounts a directory of its node. What it reads and writes there belongs to the node.",
        check: RuleCheck::InChange(paths),
    },
    Rule {
        id: "DD042",
        title: "Privileged container",
        severity: RiskSeverity::High,
        explanation: "A container is privileged, or may gain privileges that it was not started with. A privileged \
                      one is root on its node.",
        check: RuleCheck::InChange(privileged),
    },
    Rule {
        id: "DD043",
        title: "Capability added",
        severity: RiskSeverity::High,
        explanation: "A container gets a Linux capability that it did not have.",
        check: RuleCheck::InChange(capabilities),
    },
    Rule {
        id: "DD044",
        title: "Runs as root",
        severity: RiskSeverity::Medium,
        explanation: "A container runs as user 0, or is not required any more to run as a user other than root.",
        check: RuleCheck::InChange(root),
    },
];

fn is_on(side: Option<&Value>, path: &str) -> bool {
    side.and_then(|side| field(side, path))
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn namespaces(pair: &Pair<'_>) -> Vec<String> {
    let (before, after) = (pod::spec(pair.before), pod::spec(pair.after));
    let names = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let new = names.filter(|name| is_on(after, name) && !is_on(before, name));
    new.map(|name| format!("sets `{name}`")).collect()
}

fn paths(pair: &Pair<'_>) -> Vec<String> {
    let of = |side| {
        let volumes = pod::spec(side).map_or(&[][..], |spec| items(spec, "volumes"));
        let paths = volumes.iter().filter_map(|volume| field(volume, "hostPath"));
        paths
            .map(|path| text(path, "path").to_owned())
            .collect::<BTreeSet<_>>()
    };
    let new: Vec<String> = of(pair.after).difference(&of(pair.before)).cloned().collect();
    match new.as_slice() {
        [] => Vec::new(),
        new => vec![format!("mounts {} of its node", list_few(new))],
    }
}

fn privileged(pair: &Pair<'_>) -> Vec<String> {
    let flags = ["privileged", "allowPrivilegeEscalation"];
    per_container(pair, |before, after| {
        let path = |flag: &str| format!("securityContext.{flag}");
        let new = flags.iter().filter(|flag| {
            is_on(Some(after.value), &path(flag)) && !is_on(before.map(|before| before.value), &path(flag))
        });
        new.map(|flag| format!("sets `{flag}`")).collect()
    })
}

fn capabilities(pair: &Pair<'_>) -> Vec<String> {
    let added = |container: &Container<'_>| {
        let names = items(container.value, "securityContext.capabilities.add").iter();
        names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect::<BTreeSet<_>>()
    };
    per_container(pair, |before, after| {
        let before = before.map(added).unwrap_or_default();
        let new: Vec<String> = added(after).difference(&before).cloned().collect();
        match new.as_slice() {
            [] => Vec::new(),
            new => vec![format!("adds {}", list_few(new))],
        }
    })
}

fn root(pair: &Pair<'_>) -> Vec<String> {
    let (spec_before, spec_after) = (pod::spec(pair.before), pod::spec(pair.after));
    per_container(pair, |before, after| {
        let user =
            |container: &Container<'_>, spec| context(container, spec, "runAsUser").and_then(Value::as_u64);
        let held = |container: &Container<'_>, spec| {
            context(container, spec, "runAsNonRoot") == Some(&Value::Bool(true))
        };
        let was_root = before.is_some_and(|before| user(before, spec_before) == Some(0));
        if user(after, spec_after) == Some(0) && !was_root {
            return vec!["runs as user 0".to_owned()];
        }
        if before.is_some_and(|before| held(before, spec_before)) && !held(after, spec_after) {
            return vec!["loses `runAsNonRoot`".to_owned()];
        }
        Vec::new()
    })
}

/// Returns the security setting of a container, or else that of its pod.
fn context<'a>(container: &Container<'a>, spec: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    let path = format!("securityContext.{name}");
    field(container.value, &path).or_else(|| spec.and_then(|spec| field(spec, &path)))
}

fn per_container(
    pair: &Pair<'_>,
    find: impl Fn(Option<&Container<'_>>, &Container<'_>) -> Vec<String>,
) -> Vec<String> {
    let matched = pod::matched(pair).into_iter();
    let found = matched.flat_map(|(before, after)| {
        let details = find(before.as_ref(), &after).into_iter();
        details.map(move |detail| format!("{after} {detail}"))
    });
    found.collect()
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, workload};
    use serde_json::json;
    use std::slice::from_ref;
    let pods = |spec: Value| workload(json!({ "template": { "spec": spec } }));
    let contained =
        |context: Value| pods(json!({ "containers": [{ "name": "web", "securityContext": context }] }));
    let plain = contained(json!({}));
    let with = |name: &str, value: Value| pods(json!({ "containers": [], name: value }));
    let mounting = with(
        "volumes",
        json!([{ "name": "logs", "hostPath": { "path": "/var/log" } }]),
    );
    let held =
        pods(json!({ "securityContext": { "runAsNonRoot": true }, "containers": [{ "name": "web" }] }));
    let adding = |names: &[&str]| contained(json!({ "capabilities": { "add": names } }));
    let both = ["DD040", "DD041", "DD042", "DD043", "DD044"];
    let found = [
        (
            plain.clone(),
            with("hostNetwork", json!(true)),
            "sets `hostNetwork`",
        ),
        (plain.clone(), mounting, "mounts `/var/log` of its node"),
        (
            plain.clone(),
            contained(json!({ "privileged": true })),
            "container `web` sets `privileged`",
        ),
        (
            adding(&["CHOWN"]),
            adding(&["CHOWN", "SYS_ADMIN"]),
            "container `web` adds `SYS_ADMIN`",
        ),
        (
            held.clone(),
            plain.clone(),
            "container `web` loses `runAsNonRoot`",
        ),
    ];
    let mut cases = vec![
        RuleCase::new("DD042", from_ref(&plain), from_ref(&held), &[]),
        RuleCase::new(
            "DD044",
            from_ref(&plain),
            &[contained(json!({ "runAsUser": 0 }))],
            &["container `web` runs as user 0"],
        ),
        RuleCase::new(
            "DD044",
            &[held],
            &[contained(json!({ "runAsNonRoot": true, "runAsUser": 7 }))],
            &[],
        ),
        RuleCase::new("DD040", &[], &[with("hostPID", json!(true))], &["sets `hostPID`"]),
    ];
    for (rule, (before, after, detail)) in both.into_iter().zip(found) {
        cases.push(RuleCase::new(
            rule,
            from_ref(&before),
            from_ref(&after),
            &[detail],
        ));
        // The reverse change is not a risk.
        cases.push(RuleCase::new(rule, &[after], &[before], &[]));
    }
    cases
}
