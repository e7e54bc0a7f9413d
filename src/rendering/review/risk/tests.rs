//! Tests that every rule finds exactly its risk. The cases are in the files of the rules.
#![allow(clippy::expect_used)]

use super::rules;
use crate::rendering::review::mask::Masker;
use crate::rendering::review::pair::pairs;
use crate::rendering::review::settings::SettingsChange;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Both sides of an environment, and the expected findings of one rule.
pub(super) struct RuleCase {
    rule: &'static str,
    before: Vec<Value>,
    after: Vec<Value>,
    settings: Option<SettingsChange>,
    details: Vec<String>,
}

impl RuleCase {
    pub(super) fn new(rule: &'static str, before: &[Value], after: &[Value], details: &[&str]) -> Self {
        Self {
            rule,
            before: before.to_vec(),
            after: after.to_vec(),
            settings: None,
            details: details.iter().map(|&detail| detail.to_owned()).collect(),
        }
    }

    pub(super) fn of_settings(rule: &'static str, change: SettingsChange, details: &[&str]) -> Self {
        Self {
            settings: Some(change),
            ..Self::new(rule, &[], &[], details)
        }
    }

    fn found(&self) -> Vec<String> {
        let masked = |objects: &[Value]| {
            let mut objects = objects.to_vec();
            objects
                .iter_mut()
                .for_each(|object| Masker::new(b"key").mask(object));
            objects
        };
        let (before, after) = (masked(&self.before), masked(&self.after));
        let rule = rules()
            .find(|rule| rule.id == self.rule)
            .expect("a rule of the list");
        if let Some(change) = &self.settings {
            return rule.of_settings(change).into_iter().collect();
        }
        let findings = rule.apply(&pairs(&before, &after, &[])).into_iter();
        findings.map(|finding| finding.detail).collect()
    }
}

/// Builds an object with the name `web` and further fields.
pub(super) fn object(version: &str, kind: &str, fields: Value) -> Value {
    let mut object =
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "web", "namespace": "shop" } });
    let fields = fields.as_object().expect("fields").clone();
    object.as_object_mut().expect("an object").extend(fields);
    object
}

/// Builds a Deployment with the name `web`.
pub(super) fn workload(spec: Value) -> Value {
    object("apps/v1", "Deployment", json!({ "spec": spec }))
}

fn cases() -> Vec<RuleCase> {
    [
        super::workload::cases(),
        super::immutable::cases(),
        super::deletion::cases(),
        super::hidden::cases(),
        super::access::cases(),
        super::host::cases(),
        super::network::cases(),
        super::policy::cases(),
        super::image::cases(),
        super::scaling::cases(),
        super::secret::cases(),
        super::identity::cases(),
        super::placement::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_rule_finds_what_its_cases_say() {
    for case in cases() {
        let (before, after) = (json!(case.before), json!(case.after));
        let settings = &case.settings;
        assert_eq!(
            case.found(),
            case.details,
            "{}: {before} to {after}, {settings:?}",
            case.rule
        );
    }
}

#[test]
fn every_rule_has_a_case_it_finds_and_one_it_does_not() {
    let covered = |finds: bool| {
        let cases = cases()
            .into_iter()
            .filter(|case| case.details.is_empty() != finds);
        cases.map(|case| case.rule).collect::<BTreeSet<_>>()
    };
    let all: BTreeSet<_> = rules().map(|rule| rule.id).collect();
    assert_eq!(covered(true), all);
    assert_eq!(covered(false), all);
}

#[test]
fn no_rule_finds_anything_where_nothing_changes() {
    for case in cases() {
        let same = RuleCase::new(case.rule, &case.after, &case.after, &[]);
        assert_eq!(same.found(), same.details, "{}", case.rule);
    }
}

#[test]
fn ids_are_in_order_and_explanations_fit_a_table() {
    let ids: Vec<_> = rules().map(|rule| rule.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    for rule in rules() {
        assert!(!rule.explanation.contains(['|', '\n']), "{}", rule.id);
        assert!(
            rule.explanation.ends_with('.') && !rule.title.ends_with('.'),
            "{}",
            rule.id
        );
    }
}

#[test]
fn the_documented_rules_are_the_rules() {
    assert_eq!(include_str!("../../../../docs/risks.md"), super::documentation());
}
