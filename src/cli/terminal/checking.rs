//! Our own checks of what a session changed: before a turn ends as done, and when it is told.

use crate::agent::{Finding, Postconditions};
use crate::compare::{Asked, Broken, CompareError, Comparer, Progress, Sides, Told};
use crate::model::{Check, FileChange};
use crate::redact::Redactor;
use crate::verify::{self, Standing};
use crate::workspace::Workspace;
use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Characters that say what the changes do to environments.
const EFFECTS_CHARS_MAX: usize = 4_000;

/// The result of checking the changes.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Checked {
    /// Our checks, in a fixed order; none without changes.
    pub(in crate::cli) checks: Vec<Check>,
    /// The effects of the changes on environments, in words.
    pub(in crate::cli) effects: String,
    /// The environments that do not render, and where each fails.
    pub(super) broken: Vec<Broken>,
    finding: Finding,
}

/// Checks the changes, as often as somebody asks; anew only after edits, or when it is to forget.
pub(super) struct Checking {
    pub(super) workspace: Workspace,
    pub(super) comparer: Arc<Comparer>,
    pub(super) redactor: Arc<Redactor>,
    // Held to take or to put.
    pub(super) latest: Mutex<Option<(Vec<FileChange>, Checked)>>,
}

impl Checking {
    /// Looks anew the next time: files may have been edited by others since.
    pub(super) fn forget(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the checks of the files as they are now; those of the last time if the changes are still the same.
    pub(super) async fn checked(
        &self,
        progress: &mut (dyn FnMut(Progress) + Send),
        cancel: &CancellationToken,
    ) -> Result<Checked, CompareError> {
        let sides = Sides::of(&self.workspace)?;
        let changes = sides.changes.clone();
        if changes.is_empty() {
            return Ok(Checked {
                checks: Vec::new(),
                effects: String::new(),
                broken: Vec::new(),
                finding: Finding::Unchanged,
            });
        }
        let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, checked)) = known.filter(|(seen, _)| *seen == changes) {
            return Ok(checked);
        }
        // In a work tree the base is always the newest commit.
        let base = self.workspace.base.as_deref().unwrap_or_default();
        let standing = Standing {
            base,
            head: base,
            branch: "HEAD",
        };
        let mut checks = verify::checks(&changes, standing, &self.redactor);
        let compared = self
            .comparer
            .watched(Asked::all(sides.clone(), ""), progress, cancel)
            .await;
        let compared = match compared {
            Ok(compared) => Ok(compared),
            Err(error) => Err(self.comparer.uncompared(sides, error).await),
        };
        let told = Told::of(compared, EFFECTS_CHARS_MAX, &self.redactor);
        let finding = verify::finding(&checks, &told);
        checks.extend(told.checks);
        let checked = Checked {
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
impl Postconditions for Checking {
    async fn look(
        &self,
        progress: &mut (dyn FnMut(Progress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<Finding> {
        Ok(self.checked(progress, cancel).await?.finding)
    }
}
