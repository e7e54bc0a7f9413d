//! Rules about environments with another destination, or with other settings for all their objects.

use super::rule::{RiskSeverity, Rule, RuleCheck};
use crate::rendering::review::settings::SettingsChange;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "DD101",
        title: "Environment moves to another cluster or namespace",
        severity: RiskSeverity::High,
        explanation: "The settings of an environment name another cluster or namespace, are new, or are removed. The \
                      next apply writes to another place, over the objects there, and leaves the objects of the old \
                      place behind. The objects may be the same to the last byte. The change requires a grant for \
                      every environment with the same destination.",
        check: RuleCheck::OfSettings(SettingsChange::describe_move),
    },
    Rule {
        id: "DD102",
        title: "Destination of an environment is unknown",
        severity: RiskSeverity::High,
        explanation: "The program that defines the destination of an environment was not or could not be evaluated, \
                      so it is unknown whether the environment moves.",
        check: RuleCheck::OfSettings(SettingsChange::not_compared),
    },
    Rule {
        id: "DD103",
        title: "Settings of an environment change",
        severity: RiskSeverity::Medium,
        explanation: "The labels, defaults or strategies of an environment differ. They can affect every object, \
                      pruning, and the way of applying.",
        check: RuleCheck::OfSettings(SettingsChange::describe_others),
    },
];

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::RuleCase;
    use crate::rendering::review::settings::{SettingChange, SettingsChangeKind};
    use serde_json::json;
    let setting = |path: &str, before: &str, after: &str| SettingChange {
        path: path.to_owned(),
        before: Some(json!(before)).filter(|_| !before.is_empty()),
        after: Some(json!(after)).filter(|_| !after.is_empty()),
    };
    let change = |happens: SettingsChangeKind, reaches: &[&str]| SettingsChange {
        environment: "environments/dev".to_owned(),
        kind: happens,
        reaches: reaches.iter().map(|name| (*name).to_owned()).collect(),
    };
    let moved = || vec![setting("spec.namespace", "dev", "prod")];
    let labelled = || vec![setting("metadata.labels.team", "a", "b")];
    let added = || vec![setting("spec.namespace", "", "prod")];
    let why = || "it does not render".to_owned();
    let is = |settings: Vec<SettingChange>| SettingsChangeKind::Changed { settings };
    let new = |settings: Vec<SettingChange>| SettingsChangeKind::Added { settings };
    vec![
        RuleCase::of_settings(
            "DD101",
            change(is(moved()), &[]),
            &["`spec.namespace` dev -> prod"],
        ),
        RuleCase::of_settings(
            "DD101",
            change(is(moved()), &["environments/prod"]),
            &["`spec.namespace` dev -> prod; it may share the destination of `environments/prod`"],
        ),
        RuleCase::of_settings(
            "DD101",
            change(new(added()), &["environments/prod"]),
            &[
                "it is new: `spec.namespace` nothing -> prod; it may share the destination of `environments/prod`",
            ],
        ),
        RuleCase::of_settings(
            "DD101",
            change(SettingsChangeKind::Removed { settings: Vec::new() }, &[]),
            &["its settings are removed"],
        ),
        RuleCase::of_settings("DD101", change(is(labelled()), &[]), &[]),
        RuleCase::of_settings("DD101", change(new(added()), &[]), &[]),
        RuleCase::of_settings(
            "DD102",
            change(SettingsChangeKind::NotCompared { why: why() }, &[]),
            &["it does not render"],
        ),
        RuleCase::of_settings("DD102", change(is(moved()), &[]), &[]),
        RuleCase::of_settings(
            "DD103",
            change(is(labelled()), &[]),
            &["`metadata.labels.team` a -> b"],
        ),
        RuleCase::of_settings(
            "DD103",
            change(new(added()), &[]),
            &["it is new: `spec.namespace` nothing -> prod"],
        ),
        RuleCase::of_settings("DD103", change(is(moved()), &[]), &[]),
    ]
}
