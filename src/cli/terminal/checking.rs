//! Drydock's own checks of a session's changes, made before a turn ends as done and on request.

use crate::base::model::{Check, FileChange};
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

/// A checker of the changes, used on demand. The last result is reused until the files change or
/// [`ChangeChecker::forget`] is called.
pub(super) struct ChangeChecker {
    pub(super) workspace: Workspace,
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

    /// Checks the current files, or returns the last result if the changes are still the same.
    pub(super) async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> Result<ChangeCheck, CompareError> {
        let sides = Sides::from_workspace(&self.workspace)?;
        let changes = sides.changes.clone();
        if changes.is_empty() {
            return Ok(ChangeCheck {
                checks: Vec::new(),
                effects: String::new(),
                broken: Vec::new(),
                finding: CheckOutcome::Unchanged,
            });
        }
        let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, checked)) = known.filter(|(seen, _)| *seen == changes) {
            return Ok(checked);
        }
        // In a work tree the base is always the newest commit.
        let base = self.workspace.base.as_deref().unwrap_or_default();
        let branch_state = BranchState {
            base,
            head: base,
            branch: "HEAD",
        };
        let mut checks = change_checks::check_files(&changes, branch_state, &self.redactor);
        let compared = self
            .comparer
            .compare_with_progress(CompareRequest::all(sides.clone(), ""), progress, cancel)
            .await;
        let compared = match compared {
            Ok(compared) => Ok(compared),
            Err(error) => Err(self.comparer.report_uncompared(sides, error).await),
        };
        let report = ChangeReport::new(compared, EFFECTS_CHARS_MAX, &self.redactor);
        let finding = change_checks::combined_outcome(&checks, &report);
        checks.extend(report.checks);
        let checked = ChangeCheck {
            checks,
            effects: report.effects,
            broken: report.broken,
            finding,
        };
        if !cancel.is_cancelled() {
            let latest = Some((changes, checked.clone()));
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
        }
        Ok(checked)
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
