//! The report: all that a person is told about a change, counted and named here and nowhere else.

use super::asked_for::AskedFor;
use super::classes::ChangeClass;
use super::diff::ObjectChange;
use super::proof::{Impact, NotProven};
use super::risk::RiskSeverity;
use super::settings::SettingsChange;
use serde::Serialize;

/// The report of a change. All lists are in a fixed order: the same input gives the same report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The environments whose settings differ or may, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingsChange>,
    /// The counts.
    pub counts: Counts,
    /// The files that differ, by path.
    pub files: Vec<FileLine>,
    /// All environments, by name.
    pub environments: Vec<EnvironmentReport>,
    /// The environments that change, grouped by what changes: the largest group first.
    pub classes: Vec<ChangeClass>,
    /// The risks, the worst first.
    pub risks: Vec<Risk>,
}

/// The numbers of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Environments that were looked at.
    pub environments: usize,
    /// Environments whose objects change.
    pub affected: usize,
    /// Environments whose objects are proven not to change.
    pub unaffected: usize,
    /// Environments of which nothing is known.
    pub not_proven: usize,
    /// Environments of those that the change breaks.
    pub broken: usize,
    /// Objects that are new, over all environments.
    pub objects_added: usize,
    /// Objects that differ, over all environments.
    pub objects_changed: usize,
    /// Objects that are gone, over all environments.
    pub objects_removed: usize,
    /// Files that differ.
    pub files: usize,
    /// Lines added in files.
    pub lines_added: u64,
    /// Lines removed in files.
    pub lines_removed: u64,
    /// Files that nobody asked for.
    pub files_not_asked_for: usize,
    /// Affected or broken environments that nobody asked for.
    pub environments_not_asked_for: usize,
    /// Findings of all rules, each once for all environments that have it.
    pub risks: usize,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLine {
    /// The path in the repository.
    pub path: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The mention in the person's request.
    pub asked_for: AskedFor,
}

/// The report of one environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvironmentReport {
    /// The name.
    pub name: String,
    /// The sides of the change it is on.
    pub presence: Presence,
    /// Affected, unaffected with proof, or not proven.
    #[serde(flatten)]
    pub impact: Impact,
    /// The mention in the person's request.
    pub asked_for: AskedFor,
    /// The objects that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectChange>,
}

/// The sides an environment is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The environment is on both sides.
    Kept,
    /// The environment is in the workspace only.
    Created,
    /// The environment is on the base only.
    Deleted,
}

/// The findings of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Risk {
    /// `DD001`.
    pub id: &'static str,
    /// The rule in a few words.
    pub title: &'static str,
    /// The severity.
    pub severity: RiskSeverity,
    /// The findings, each once.
    pub findings: Vec<RiskFinding>,
}

/// A finding, with all environments that have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RiskFinding {
    /// `apps/Deployment web`.
    pub object: String,
    /// The text of the finding.
    pub detail: String,
    /// The environments, sorted.
    pub environments: Vec<String>,
}

impl Report {
    /// Returns the report of one environment.
    pub fn environment(&self, name: &str) -> Option<&EnvironmentReport> {
        self.environments
            .iter()
            .find(|environment| environment.name == name)
    }

    /// The report as plain text for people, in at most so many characters. What does not fit is counted.
    pub fn text(&self, chars_max: usize) -> String {
        super::summary::text(self, chars_max)
    }

    /// The risks alone, and the environments no rule could look at, as lines in at most so many
    /// characters; empty where there are none of both.
    pub fn risk_text(&self, chars_max: usize) -> String {
        super::summary::risk_text(self, chars_max)
    }
}

impl EnvironmentReport {
    /// Returns true if its objects change.
    pub fn is_affected(&self) -> bool {
        matches!(self.impact, Impact::Affected { .. })
    }

    /// Returns true if it rendered on the base, and does not any more.
    pub fn is_broken(&self) -> bool {
        matches!(
            self.impact,
            Impact::NotProven {
                reason: NotProven::FailsInWorkspace { .. }
            }
        )
    }

    /// The differences of all its objects as one text. Every line of an object has a sign before it, so
    /// that nothing in an object reads as the name of another.
    pub fn patch(&self) -> String {
        let mut out = String::new();
        for change in &self.objects {
            let object = super::visible::line(&change.object.to_string());
            let (added, removed) = (change.lines_added, change.lines_removed);
            out.push_str(&format!(
                "=== {object} ({}, +{added} -{removed})\n",
                change.happens.name()
            ));
            out.push_str(&change.patch);
        }
        out
    }
}
