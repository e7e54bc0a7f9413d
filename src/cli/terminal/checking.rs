//! Drydock's own checks of a session's changes, or of the change that it reviews, made before a turn ends as done and on
//! request.

use super::reviewed_packages::ReviewedPackages;
use crate::base::model::{Check, CheckState, FileChange};
use crate::base::redact::Redactor;
use crate::engine::agent::Postconditions;
use crate::rendering::change_checks::{self, BranchState, CheckOutcome};
use crate::rendering::compare::{
    BrokenEnvironment, ChangeReport, CompareError, CompareProgress, CompareRequest, Comparer, Sides,
};
use crate::state::workspace::Workspace;
use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The maximum number of characters of the text about effects on environments.
const EFFECTS_CHARS_MAX: usize = 4_000;

/// The result of checking the changes.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ChangeCheck {
    /// The checks, in a fixed order; empty without changes.
    pub(in crate::cli) checks: Vec<Check>,
    /// The effects of the changes on environments, as text.
    pub(in crate::cli) effects: String,
    /// The environments that do not render, with the location of each failure.
    pub(super) broken: Vec<BrokenEnvironment>,
    finding: CheckOutcome,
}

/// The change that is checked.
#[derive(Clone)]
pub(super) enum CheckedChange {
    /// The edits of this session.
    Session,
    /// A change that the session reviews and does not edit: the workspace has its edits.
    Reviewed(ReviewedPackages),
    /// The edits of earlier steps, which a step that may not edit does not answer for.
    EarlierSteps,
    /// The edits of a step and of those before it. A step that leaves these changes as they are does not answer for them.
    Step(Vec<FileChange>),
    /// A patch file that the session reviews. It is not applied, so nothing is checked.
    PatchFile,
}

/// A checker of the changes, used on demand. The last result is reused until the files change or
/// [`ChangeChecker::forget`] is called.
pub(super) struct ChangeChecker {
    pub(super) workspace: Workspace,
    pub(super) subject: CheckedChange,
    pub(super) comparer: Arc<Comparer>,
    pub(super) redactor: Arc<Redactor>,
    // The lock is held only to read or replace the value.
    pub(super) latest: Mutex<Option<(Vec<FileChange>, ChangeCheck)>>,
}

impl ChangeChecker {
    /// Discards the last result, because other programs may have edited files since.
    pub(super) fn forget(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Leaves a reviewed change unchecked, unless it was checked, because the review was stopped.
    pub(super) fn stop_review(&self) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let (CheckedChange::Reviewed(_), None) = (&self.subject, &*latest) {
            *latest = self
                .workspace
                .tree
                .changes()
                .ok()
                .map(|changes| (changes, not_checked("the review was stopped before its checks")));
        }
    }

    /// Checks the current files, or returns the last result if the changes are still the same.
    pub(super) async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> Result<ChangeCheck, CompareError> {
        let packages = match &self.subject {
            CheckedChange::Session | CheckedChange::Step(_) => None,
            CheckedChange::EarlierSteps => return Ok(unchanged()),
            CheckedChange::Reviewed(packages) => Some(packages),
            CheckedChange::PatchFile => {
                return Ok(not_checked(
                    "a patch file is not applied, so only the model has read it",
                ));
            }
        };
        let sides = Sides::from_workspace(&self.workspace)?;
        let changes = sides.changes.clone();
        let is_of_earlier_steps =
            matches!(&self.subject, CheckedChange::Step(earlier) if *earlier == changes);
        if changes.is_empty() || is_of_earlier_steps {
            return Ok(unchanged());
        }
        let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, checked)) = known.filter(|(seen, _)| *seen == changes) {
            return Ok(checked);
        }
        let mut checks = self.check_files(&changes);
        let compared = self
            .comparer
            .compare_with_progress(CompareRequest::all(sides.clone(), ""), progress, cancel)
            .await;
        let compared = match compared {
            Ok(compared) => Ok(compared),
            Err(error) => Err(self.comparer.report_uncompared(sides, error).await),
        };
        let report = ChangeReport::new(compared, EFFECTS_CHARS_MAX, &self.redactor);
        let mut finding = change_checks::combined_outcome(&checks, &report);
        let failing = checks.iter().filter(|check| check.state == CheckState::Fail);
        let failing: Vec<String> = failing
            .map(|check| format!("{}: no, {}", check.name, check.detail))
            .collect();
        // Of a review, every failed check of the files decides, also one that no edit to the files mends.
        if !failing.is_empty() && packages.is_some() && !matches!(finding, CheckOutcome::Failed(_)) {
            finding = CheckOutcome::Failed(failing);
        }
        let examines_environments = report
            .checks
            .iter()
            .any(|check| check.state != CheckState::NotRun);
        checks.extend(report.checks);
        if let Some(packages) = packages.filter(|_| examines_environments) {
            checks.extend(packages.checks());
            if let (CheckOutcome::Incomplete(why), Some(remedy)) = (&mut finding, packages.remedy()) {
                why.push_str(&format!("; {remedy}"));
            }
        }
        let checked = ChangeCheck {
            checks,
            effects: report.effects,
            broken: report.broken,
            finding,
        };
        // A reviewed change stays as it is, and a review that was stopped is not checked again.
        if !cancel.is_cancelled() || packages.is_some() {
            let latest = Some((changes, checked.clone()));
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
        }
        Ok(checked)
    }

    /// Runs the checks that need no environments.
    fn check_files(&self, changes: &[FileChange]) -> Vec<Check> {
        // In a work tree the base is always the newest commit. A reviewed change may be based on any commit.
        let base = self.workspace.base.as_deref().unwrap_or_default();
        let state = BranchState {
            base,
            head: base,
            branch: "HEAD",
        };
        match self.subject {
            CheckedChange::Session | CheckedChange::EarlierSteps | CheckedChange::Step(_) => {
                change_checks::check_files(changes, state, &self.redactor)
            }
            CheckedChange::Reviewed(_) | CheckedChange::PatchFile => {
                change_checks::check_contents(changes, &self.redactor)
            }
        }
    }
}

/// Returns the result without changes.
fn unchanged() -> ChangeCheck {
    ChangeCheck {
        checks: Vec::new(),
        effects: String::new(),
        broken: Vec::new(),
        finding: CheckOutcome::Unchanged,
    }
}

/// Returns the result for a change that is not checked, with the reason.
fn not_checked(why: &str) -> ChangeCheck {
    ChangeCheck {
        checks: vec![Check {
            name: "files and environments".to_owned(),
            state: CheckState::NotRun,
            detail: why.to_owned(),
        }],
        effects: String::new(),
        broken: Vec::new(),
        finding: CheckOutcome::Unchanged,
    }
}

#[async_trait]
impl Postconditions for ChangeChecker {
    async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome> {
        Ok(self.check(progress, cancel).await?.finding)
    }
}
