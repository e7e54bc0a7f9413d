//! The list of environments with their destinations and the effects of the workspace on them.

use super::learning::list_and_learn;
use super::{AnswerDocument, InspectAnswer, InspectError, Inspector};
use crate::base::model::{one_line, pluralize};
use crate::rendering::compare::{BrokenEnvironment, CompareRequest};
use crate::rendering::review::{EnvironmentReport, Impact, NotProven, Presence, Report};
use crate::rendering::tanka::{EnvironmentFailure, EnvironmentList, ListedEnvironment};
use crate::state::workspace::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of environments in one answer. An answer that does not fit in a message is sent as a file.
const ENVIRONMENTS_MAX: usize = 10_000;
/// Maximum number of failures in one answer.
const FAILURES_MAX: usize = 20;
const REASON_CHARS_MAX: usize = 200;

/// The effects of the workspace by environment name. Unaffected environments are left out.
type EnvironmentMarks = BTreeMap<String, String>;

/// The effects of the workspace on environments.
#[derive(Default)]
struct Effects {
    marks: EnvironmentMarks,
    /// The reason why the effects are unknown.
    note: Option<String>,
    broken: Vec<BrokenEnvironment>,
}

impl Inspector<'_> {
    pub(super) async fn environments(&self) -> Result<InspectAnswer, InspectError> {
        let tree = self.workspace.guarded_tree();
        let renderer = self.comparer.renderer(&(Arc::clone(&tree) as Arc<dyn Tree>));
        let list = list_and_learn(&renderer, &tree, ".", self.cancel).await?;
        let Effects { marks, note, broken } = self.effects().await?;
        let failures = list.failures.iter().take(FAILURES_MAX);
        let redactor = &tree.guard().redactor;
        let unloaded = failures.filter_map(|failure| {
            BrokenEnvironment::from_error(failure.entrypoint.as_str(), &failure.error, redactor)
        });
        let broken = unloaded.chain(broken).collect();
        let changed = pluralize(marks.len(), "environment", "environments");
        let found = pluralize(list.environments.len(), "environment", "environments");
        let mut summary = format!("{found} in `{}`", self.workspace.repository.name());
        match marks.len() {
            0 => summary.push('.'),
            _ => summary.push_str(&format!("; {changed} marked.")),
        }
        if !list.failures.is_empty() {
            let failed = pluralize(list.failures.len(), "entry point", "entry points");
            summary.push_str(&format!(" {failed} could not be loaded."));
        }
        if let Some(note) = note {
            summary.push_str(&format!("\n{note}"));
        }
        let text = text(&list, &marks);
        Ok(InspectAnswer {
            summary,
            document: (!text.is_empty()).then(|| AnswerDocument {
                file_name: "environments.txt".to_owned(),
                language: "",
                text,
            }),
            broken,
        })
    }

    /// Returns the effects of the workspace, or the reason why they are unknown. This never makes the list fail.
    async fn effects(&self) -> Result<Effects, InspectError> {
        let unknown = |why: String| Effects {
            note: Some(format!("It is unknown what changes here: {why}")),
            ..Effects::default()
        };
        let sides = match self.sides().await {
            Ok(sides) => sides,
            Err(InspectError::NoAnswer(why) | InspectError::Fails { why, .. }) => return Ok(unknown(why)),
            Err(InspectError::Cancelled) => return Err(InspectError::Cancelled),
        };
        if sides.changes.is_empty() {
            return Ok(Effects::default());
        }
        let comparing = self.comparer.compare(CompareRequest::all(sides, ""), self.cancel);
        match comparing.await.map_err(InspectError::from) {
            Ok(comparison) => Ok(Effects {
                marks: marks(&comparison.report),
                note: None,
                broken: BrokenEnvironment::from_report(&comparison.report),
            }),
            Err(InspectError::NoAnswer(why) | InspectError::Fails { why, .. }) => Ok(unknown(why)),
            Err(InspectError::Cancelled) => Err(InspectError::Cancelled),
        }
    }
}

fn marks(report: &Report) -> EnvironmentMarks {
    let marked = |environment: &EnvironmentReport| {
        let mark = mark(environment)?;
        Some((environment.name.clone(), mark))
    };
    report.environments.iter().filter_map(marked).collect()
}

fn mark(environment: &EnvironmentReport) -> Option<String> {
    let brief = |why: &str| why.chars().take(REASON_CHARS_MAX).collect::<String>();
    match (&environment.impact, environment.presence) {
        (Impact::NotProven { reason }, _) => Some(match reason {
            NotProven::FailsInWorkspace { workspace } => {
                format!("broken by the change: {}", brief(&workspace.message))
            }
            NotProven::FailsOnBoth { workspace, .. } => {
                format!("does not render: {}", brief(&workspace.message))
            }
            NotProven::FailsOnBase { .. } => "repaired by the change".to_owned(),
            NotProven::NotLookedAt { why } => format!("may change: {}", brief(why)),
        }),
        (_, Presence::Created) => Some("new".to_owned()),
        (_, Presence::Deleted) => Some("removed".to_owned()),
        (Impact::Affected { .. }, Presence::Kept) => Some("changed".to_owned()),
        (Impact::Unaffected { .. }, Presence::Kept) => None,
    }
}

fn text(list: &EnvironmentList, marks: &EnvironmentMarks) -> String {
    let mut out = list_environments(list, marks, ENVIRONMENTS_MAX);
    let there = |name: &str| {
        let mut found = list.environments.iter();
        found.any(|found| found.environment.metadata.name == name)
    };
    let gone = marks.iter().filter(|(name, _)| !there(name));
    out.extend(gone.map(|(name, mark)| one_line(&format!("{name} [{mark}]")) + "\n"));
    out
}

/// Lists at most `environments_max` environments with their destinations, one line each, and adds the marks by
/// name. The failures with their reasons follow. Empty without environments and failures.
pub fn list_environments(
    list: &EnvironmentList,
    marks: &BTreeMap<String, String>,
    environments_max: usize,
) -> String {
    let EnvironmentList {
        environments,
        failures,
        ..
    } = list;
    let shown = environments.iter().take(environments_max);
    let mut out: String = shown.map(|found| line(found, marks)).collect();
    match environments.len().saturating_sub(environments_max) {
        0 => {}
        more => out.push_str(&format!("[… {more} more]\n")),
    }
    if !failures.is_empty() {
        let failed = pluralize(failures.len(), "entry point", "entry points");
        out.push_str(&format!("\n{failed} could not be loaded:\n"));
        out.extend(failures.iter().take(FAILURES_MAX).map(reason));
        match failures.len().saturating_sub(FAILURES_MAX) {
            0 => {}
            more => out.push_str(&format!("[… {more} more]\n")),
        }
    }
    out
}

fn line(found: &ListedEnvironment, marks: &BTreeMap<String, String>) -> String {
    let metadata = &found.environment.metadata;
    let spec = &found.environment.spec;
    let mark = marks.get(&metadata.name);
    let mark = mark.map_or_else(String::new, |mark| format!(" [{mark}]"));
    let namespace = match spec.namespace.as_str() {
        "" => "none",
        namespace => namespace,
    };
    let mut line = format!("{}{mark}: namespace {namespace}", metadata.name);
    if !spec.api_server.is_empty() {
        line.push_str(&format!(", API server {}", spec.api_server));
    }
    if !spec.context_names.is_empty() {
        line.push_str(&format!(", contexts {}", spec.context_names.join(" ")));
    }
    if !metadata.labels.is_empty() {
        let labels = metadata
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        line.push_str(&format!(", labels {}", labels.collect::<Vec<_>>().join(" ")));
    }
    one_line(&format!("{line} (`{}`)", found.entrypoint)) + "\n"
}

fn reason(failure: &EnvironmentFailure) -> String {
    let why = failure.error.to_string();
    let first = why.lines().next().unwrap_or_default();
    one_line(&format!("`{}`: {first}", failure.entrypoint)) + "\n"
}
