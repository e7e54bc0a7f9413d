//! The report of a change, which contains everything that a person is shown about it.

use super::asked_for::AskedFor;
use super::classes::ChangeClass;
use super::diff::ObjectChange;
use super::proof::{Impact, NotProven};
use super::risk::RiskSeverity;
use super::settings::SettingsChange;
use crate::base::model::ChangeOverview;
use serde::Serialize;

/// The report of a change. All lists have a fixed order, so that the same input gives the same report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The environments whose settings differ or may differ, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingsChange>,
    /// The counts.
    pub counts: Counts,
    /// The files that differ, by path.
    pub files: Vec<FileLine>,
    /// All environments, by name.
    pub environments: Vec<EnvironmentReport>,
    /// The environments that change, grouped by their change, largest group first.
    pub classes: Vec<ChangeClass>,
    /// The risks, most severe first.
    pub risks: Vec<Risk>,
}

/// The numbers of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of examined environments.
    pub environments: usize,
    /// Number of environments whose objects change.
    pub affected: usize,
    /// Number of environments whose objects are proven not to change.
    pub unaffected: usize,
    /// Number of environments with an unknown effect.
    pub not_proven: usize,
    /// Number of environments among those that the change breaks.
    pub broken: usize,
    /// Number of new objects in all environments.
    pub objects_added: usize,
    /// Number of changed objects in all environments.
    pub objects_changed: usize,
    /// Number of removed objects in all environments.
    pub objects_removed: usize,
    /// Number of files that differ.
    pub files: usize,
    /// Number of lines added in files.
    pub lines_added: u64,
    /// Number of lines removed in files.
    pub lines_removed: u64,
    /// Number of files that the request does not mention.
    pub files_not_asked_for: usize,
    /// Number of affected or broken environments that the request does not mention.
    pub environments_not_asked_for: usize,
    /// Number of findings of all rules. A finding in several environments counts once.
    pub risks: usize,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLine {
    /// The path in the repository.
    pub path: String,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The mention in the person's request.
    pub asked_for: AskedFor,
}

/// The report of one environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvironmentReport {
    /// The name.
    pub name: String,
    /// The sides on which it exists.
    pub presence: Presence,
    /// The effect: affected, unaffected with proof, or not proven.
    #[serde(flatten)]
    pub impact: Impact,
    /// The mention in the person's request.
    pub asked_for: AskedFor,
    /// The objects that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectChange>,
}

/// The sides on which an environment exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The environment is on both sides.
    Kept,
    /// The environment is only in the workspace.
    Created,
    /// The environment is only in the base.
    Deleted,
}

/// The findings of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Risk {
    /// The id, such as `DD001`.
    pub id: &'static str,
    /// The title of the rule.
    pub title: &'static str,
    /// The severity.
    pub severity: RiskSeverity,
    /// The findings, without duplicates.
    pub findings: Vec<RiskFinding>,
}

/// A finding, with all environments that have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RiskFinding {
    /// The object, such as `apps/Deployment web`.
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

    /// Formats the report as plain text of at most this many characters. Entries that do not fit are counted.
    pub fn text(&self, chars_max: usize) -> String {
        super::summary::text(self, chars_max)
    }

    /// Returns the overview for the first screen of a result.
    pub fn overview(&self) -> ChangeOverview {
        super::overview::overview(self)
    }

    /// Formats the risks and the environments that no rule could examine, as lines of at most this many characters.
    /// Empty without any.
    pub fn risk_text(&self, chars_max: usize) -> String {
        super::summary::risk_text(self, chars_max)
    }
}

impl EnvironmentReport {
    /// True if its objects change.
    pub fn is_affected(&self) -> bool {
        matches!(self.impact, Impact::Affected { .. })
    }

    /// True if it renders in the base but not in the workspace.
    pub fn is_broken(&self) -> bool {
        matches!(
            self.impact,
            Impact::NotProven {
                reason: NotProven::FailsInWorkspace { .. }
            }
        )
    }

    /// Returns the differences of all its objects as one text. Every line of an object begins with a sign, so that
    /// no line can be mistaken for the name of another object.
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
