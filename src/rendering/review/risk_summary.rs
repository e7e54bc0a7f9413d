//! The risk card: the findings of the rules in all environments, without duplicates.

use super::environment_review::EnvironmentReview;
use super::input::ReviewedEnvironment;
use super::report::{Risk, RiskFinding};
use super::risk::{self, Rule};
use super::settings::SettingsChange;
use std::collections::BTreeMap;

/// The findings of one rule: object and detail, with the environments that have them.
struct GroupedFindings {
    rule: &'static Rule,
    places: BTreeMap<(String, String), Vec<String>>,
}

/// The subject of a rule. Settings come first, because no object shows them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RuleSubject {
    Settings,
    Objects,
}

/// Groups the findings by rule, sorted by severity and then by id. The environments must be sorted.
pub(super) fn summarize_risks<'a>(
    looks: impl Iterator<Item = (&'a ReviewedEnvironment, &'a EnvironmentReview)>,
    settings: &[SettingsChange],
) -> Vec<Risk> {
    let mut card = BTreeMap::new();
    for change in settings {
        for (rule, detail) in risk::settings_findings(change) {
            let found = card
                .entry((rule.severity, RuleSubject::Settings, rule.id))
                .or_insert_with(|| GroupedFindings::of(rule));
            let place = ("Environment".to_owned(), detail);
            found
                .places
                .entry(place)
                .or_default()
                .push(change.environment.clone());
        }
    }
    for (environment, look) in looks {
        for (rule, finding) in &look.findings {
            let found = card
                .entry((rule.severity, RuleSubject::Objects, rule.id))
                .or_insert_with(|| GroupedFindings::of(rule));
            let place = (finding.object.short(), finding.detail.clone());
            let environments = found.places.entry(place).or_default();
            // Two namespaces of one environment may have the same finding.
            if environments.last() != Some(&environment.name) {
                environments.push(environment.name.clone());
            }
        }
    }
    card.into_values().map(GroupedFindings::risk).collect()
}

impl GroupedFindings {
    fn of(rule: &'static Rule) -> Self {
        Self {
            rule,
            places: BTreeMap::new(),
        }
    }

    fn risk(self) -> Risk {
        let findings = self
            .places
            .into_iter()
            .map(|((object, detail), environments)| RiskFinding {
                object,
                detail,
                environments,
            });
        Risk {
            id: self.rule.id,
            title: self.rule.title,
            severity: self.rule.severity,
            findings: findings.collect(),
        }
    }
}
