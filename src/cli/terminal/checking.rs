//! Our own checks of what a session changed: before a turn ends as done, and when it is told.

use crate::agent::{CheckOutcome, Postconditions};
use crate::compare::{
    BrokenEnvironment, ChangeReport, CompareError, CompareProgress, CompareRequest, Comparer, Sides,
};
use crate::model::{Check, FileChange};
use crate::redact::Redactor;
use crate::verify::{self, BranchState};
use crate::workspace::Workspace;
use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Characters that say what the changes do to environments.
const EFFECTS_CHARS_MAX: usize = 4_000;

/// The result of checking the changes.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ChangeCheck {
    /// Our checks, in a fixed order; none without changes.
    pub(in crate::cli) checks: Vec<Check>,
    /// The effects of the changes on environments, in words.
    pub(in crate::cli) effects: String,
    /// The environments that do not render, and where each fails.
    pub(super) broken: Vec<BrokenEnvironment>,
    finding: CheckOutcome,
}

/// Checks the changes, as often as somebody asks; anew only after edits, or when it is to forget.
pub(super) struct ChangeChecker {
    pub(super) workspace: Workspace,
    pub(super) comparer: Arc<Comparer>,
    pub(super) redactor: Arc<Redactor>,
    // Held to take or to put.
    pub(super) latest: Mutex<Option<(Vec<FileChange>, ChangeCheck)>>,
}

impl ChangeChecker {
    /// Looks anew the next time: files may have been edited by others since.
    pub(super) fn forget(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the checks of the files as they are now; those of the last time if the changes are still the same.
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
        let standing = BranchState {
            base,
            head: base,
            branch: "HEAD",
        };
        let mut checks = verify::checks(&changes, standing, &self.redactor);
        let compared = self
            .comparer
            .compare_with_progress(CompareRequest::all(sides.clone(), ""), progress, cancel)
            .await;
        let compared = match compared {
            Ok(compared) => Ok(compared),
            Err(error) => Err(self.comparer.report_uncompared(sides, error).await),
        };
        let told = ChangeReport::new(compared, EFFECTS_CHARS_MAX, &self.redactor);
        let finding = verify::check_outcome(&checks, &told);
        checks.extend(told.checks);
        let checked = ChangeCheck {
            checks,
            effects: told.effects,
            broken: told.broken,
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
