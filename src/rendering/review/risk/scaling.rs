//! Rules about objects that conflict when pods are scaled or moved.

use super::pod;
use super::rule::{RiskSeverity, Rule, RuleCheck, RuleFinding, SideObjects, field, text};
use super::selector;
use crate::rendering::review::key::ObjectKey;
use serde_json::Value;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "DD070",
        title: "Disruption budget allows no disruption",
        severity: RiskSeverity::Medium,
        explanation: "A PodDisruptionBudget needs as many pods as there are replicas, or allows none to be away. Nodes \
                      with such a pod cannot be drained.",
        check: RuleCheck::InState(blocked_budgets),
    },
    Rule {
        id: "DD071",
        title: "Replicas set beside an autoscaler",
        severity: RiskSeverity::Medium,
        explanation: "A workload says how many replicas it has while a HorizontalPodAutoscaler scales it. Every apply \
                      puts the number back, and pods start or stop until the autoscaler corrects it.",
        check: RuleCheck::InState(contested_replicas),
    },
    Rule {
        id: "DD072",
        title: "Autoscaler bounds below what is set",
        severity: RiskSeverity::Medium,
        explanation: "The `maxReplicas` of a HorizontalPodAutoscaler is below the replicas of its workload or below its \
                      own `minReplicas`: pods are stopped, or the autoscaler is refused.",
        check: RuleCheck::InState(low_bounds),
    },
];

fn finding(object: &ObjectKey, detail: String) -> RuleFinding {
    RuleFinding {
        object: object.clone(),
        detail,
    }
}

fn replicas(workload: &Value) -> Option<u64> {
    field(workload, "spec.replicas").and_then(Value::as_u64)
}

fn blocked_budgets(state: &SideObjects<'_>) -> Vec<RuleFinding> {
    let budgets = state.of_kind("policy", "PodDisruptionBudget");
    let found = budgets.flat_map(|(key, budget)| {
        let guarded = guarded(state, key, budget).into_iter();
        guarded.filter_map(|(workload, count)| {
            blocks(budget, count).map(|why| finding(key, format!("{why} of {}", workload.short())))
        })
    });
    found.collect()
}

/// Returns the workloads whose pods a budget selects, with their replicas. The default is 1.
fn guarded<'a>(state: &SideObjects<'a>, budget_key: &ObjectKey, budget: &Value) -> Vec<(&'a ObjectKey, u64)> {
    let kinds = ["Deployment", "StatefulSet"];
    let workloads = kinds.into_iter().flat_map(|kind| state.of_kind("apps", kind));
    let selected = workloads.filter(|(key, workload)| {
        let labels = pod::template(workload).and_then(|template| field(template, "metadata.labels"));
        key.namespace == budget_key.namespace
            && labels.is_some_and(|labels| selector::matches(&budget["spec"]["selector"], labels))
    });
    selected
        .map(|(key, workload)| (key, replicas(workload).unwrap_or(1)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn blocks(budget: &Value, count: u64) -> Option<String> {
    let whole = |value: &Value| value.as_u64();
    let percent = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.strip_suffix('%'))
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(least) = field(budget, "spec.minAvailable") {
        // A percentage is rounded up, as in Kubernetes.
        let share = percent(least).map(|percent| percent.saturating_mul(count).div_ceil(100));
        let needed = whole(least).or(share)?;
        return (needed >= count).then(|| format!("needs {} of the {count} pods", shown(least)));
    }
    let most = field(budget, "spec.maxUnavailable")?;
    let is_none = whole(most) == Some(0) || percent(most) == Some(0);
    is_none
        .then(|| format!("allows {} of the {count} pods", shown(most)).replace("of the", "to be away of the"))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the workload that an autoscaler scales.
fn target<'a>(
    state: &SideObjects<'a>,
    key: &ObjectKey,
    autoscaler: &Value,
) -> Option<(&'a ObjectKey, &'a Value)> {
    let reference = field(autoscaler, "spec.scaleTargetRef")?;
    let group = text(reference, "apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let mut workloads = state.of_kind(group, text(reference, "kind"));
    workloads
        .find(|(workload, _)| workload.namespace == key.namespace && workload.name == text(reference, "name"))
}

fn contested_replicas(state: &SideObjects<'_>) -> Vec<RuleFinding> {
    let autoscalers = state.of_kind("autoscaling", "HorizontalPodAutoscaler");
    let found = autoscalers.filter_map(|(key, autoscaler)| {
        let (workload, value) = target(state, key, autoscaler)?;
        let count = replicas(value)?;
        Some(finding(
            workload,
            format!("sets {count} replicas and is scaled by {}", key.short()),
        ))
    });
    found.collect()
}

fn low_bounds(state: &SideObjects<'_>) -> Vec<RuleFinding> {
    let autoscalers = state.of_kind("autoscaling", "HorizontalPodAutoscaler");
    let found = autoscalers.filter_map(|(key, autoscaler)| {
        let most = field(autoscaler, "spec.maxReplicas").and_then(Value::as_u64)?;
        let least = field(autoscaler, "spec.minReplicas").and_then(Value::as_u64);
        if let Some(least) = least.filter(|least| *least > most) {
            return Some(finding(
                key,
                format!("`maxReplicas` {most} is below `minReplicas` {least}"),
            ));
        }
        let (workload, value) = target(state, key, autoscaler)?;
        let count = replicas(value).filter(|count| *count > most)?;
        Some(finding(
            key,
            format!(
                "`maxReplicas` {most} is below the {count} replicas of {}",
                workload.short()
            ),
        ))
    });
    found.collect()
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, object, workload};
    use serde_json::json;
    let web = |replicas: Value| {
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } });
        workload(json!({ "replicas": replicas, "template": template }))
    };
    let budget = |name: &str, value: Value| {
        let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, name: value });
        object("policy/v1", "PodDisruptionBudget", json!({ "spec": spec }))
    };
    let scaler = |least: u32, most: u32| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let spec = json!({ "scaleTargetRef": target, "minReplicas": least, "maxReplicas": most });
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({ "spec": spec }),
        )
    };
    let two = || budget("minAvailable", json!(2));
    let both = "apps/Deployment web";
    vec![
        RuleCase::new(
            "DD070",
            &[web(json!(3)), two()],
            &[web(json!(2)), two()],
            &[&format!("needs 2 of the 2 pods of {both}")],
        ),
        RuleCase::new("DD070", &[web(json!(2)), two()], &[web(json!(1)), two()], &[]),
        RuleCase::new("DD070", &[], &[web(json!(3)), two()], &[]),
        RuleCase::new(
            "DD070",
            &[web(json!(3))],
            &[web(json!(3)), budget("maxUnavailable", json!("0%"))],
            &[&format!("allows 0% to be away of the 3 pods of {both}")],
        ),
        RuleCase::new(
            "DD070",
            &[web(json!(3))],
            &[web(json!(3)), budget("minAvailable", json!("51%"))],
            &[],
        ),
        RuleCase::new(
            "DD071",
            &[web(json!(null)), scaler(1, 5)],
            &[web(json!(3)), scaler(1, 5)],
            &["sets 3 replicas and is scaled by autoscaling/HorizontalPodAutoscaler web"],
        ),
        RuleCase::new(
            "DD071",
            &[web(json!(3)), scaler(1, 5)],
            &[web(json!(null)), scaler(1, 6)],
            &[],
        ),
        RuleCase::new(
            "DD072",
            &[web(json!(4)), scaler(1, 5)],
            &[web(json!(4)), scaler(1, 3)],
            &[&format!("`maxReplicas` 3 is below the 4 replicas of {both}")],
        ),
        RuleCase::new(
            "DD072",
            &[],
            &[scaler(4, 3)],
            &["`maxReplicas` 3 is below `minReplicas` 4"],
        ),
        RuleCase::new(
            "DD072",
            &[web(json!(4)), scaler(1, 5)],
            &[web(json!(4)), scaler(1, 4)],
            &[],
        ),
    ]
}
