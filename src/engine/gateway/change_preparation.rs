//! Preparation of a change: the workspace's patch against its base, the effects on environments, and the checks. The
//! program computes all of it; no text comes from the model.

use super::compose;
use crate::rendering::change_checks::{self, BranchState, CheckOutcome};
use crate::rendering::compare::{
    ChangeReport, CompareError, CompareProgress, CompareRequest, Comparer, Comparison, Sides,
};
use crate::rendering::tanka::required_grants;
use crate::state::store::NewChange;
use crate::state::workspace::{Workspace, patch};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest time for rendering the environments of one change.
const COMPARE_MAX: Duration = Duration::from_secs(120);
/// Longest description of a change's effects on environments, in characters.
const EFFECTS_CHARS_MAX: usize = 1_500;

/// The commit and branch for which a change is prepared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeTarget<'a> {
    /// The newest commit of the branch.
    pub(super) head: &'a str,
    pub(super) branch: &'a str,
}

/// A change and the result of its checks.
#[derive(Clone, Debug)]
pub(super) struct PreparedChange {
    pub(super) change: NewChange,
    pub(super) outcome: CheckOutcome,
}

/// Prepares and checks the change of the workspace against its base. Returns `None` if there is no change.
/// `request` is the person's request; it shows which edits were not requested. After `stop`, environments are no
/// longer rendered, but the rest completes. `progress` receives the progress.
pub(super) async fn prepare_change(
    comparer: &Arc<Comparer>,
    workspace: &Workspace,
    onto: ChangeTarget<'_>,
    request: &str,
    progress: &mut (dyn FnMut(CompareProgress) + Send),
    stop: &CancellationToken,
) -> anyhow::Result<Option<PreparedChange>> {
    let (seen, redactor) = (workspace.clone(), Arc::clone(&workspace.guard.redactor));
    let (head, branch) = (onto.head.to_owned(), onto.branch.to_owned());
    let stopped = stop.clone();
    let read = move || -> anyhow::Result<_> {
        let sides = Sides::from_workspace(&seen)?;
        // The patch shows all of the change.
        let is_stopped = || stopped.is_cancelled();
        seen.guard
            .learn_all(&sides.changes, seen.tree.as_ref(), &is_stopped);
        let standing = BranchState {
            base: seen.base.as_deref().unwrap_or_default(),
            head: &head,
            branch: &branch,
        };
        let checks = change_checks::check_files(&sides.changes, standing, &redactor);
        let patch = patch::write_onto(standing.base, &sides.changes);
        let changed = sides.changes.iter().map(|change| &change.path);
        let needs = required_grants(changed, &sides.base.files()?);
        Ok((sides, checks, patch, needs))
    };
    let (sides, mut checks, patch, needs) = tokio::task::spawn_blocking(read).await??;
    if sides.changes.is_empty() {
        return Ok(None);
    }
    let asked = CompareRequest::all(sides.clone(), request);
    let compared = match compare_environments(comparer, asked, progress, stop).await {
        Ok(compared) => Ok(compared),
        Err(error) => Err(comparer.report_uncompared(sides, error).await),
    };
    let redactor = &workspace.guard.redactor;
    let report = ChangeReport::new(compared, EFFECTS_CHARS_MAX, redactor);
    let finding = change_checks::combined_outcome(&checks, &report);
    checks.extend(report.checks);
    let change = NewChange {
        repository: workspace.repository.name().to_owned(),
        base: workspace.base.clone().unwrap_or_default(),
        content: Sha256::digest(&patch.text).into(),
        patch: compose::masked(&patch.text, redactor),
        stats: patch.stats,
        checks,
        effects: report.effects,
        overview: report.overview,
        needs: [needs, report.needs].concat(),
    };
    Ok(Some(PreparedChange {
        change,
        outcome: finding,
    }))
}

async fn compare_environments(
    comparer: &Arc<Comparer>,
    asked: CompareRequest,
    progress: &mut (dyn FnMut(CompareProgress) + Send),
    stop: &CancellationToken,
) -> Result<Comparison, CompareError> {
    let enough = stop.child_token();
    let _ended = enough.clone().drop_guard();
    let comparing = comparer.compare_with_progress(asked, progress, &enough);
    tokio::select! {
        compared = comparing => compared,
        () = tokio::time::sleep(COMPARE_MAX) => {
            let seconds = COMPARE_MAX.as_secs();
            Err(CompareError::Internal(format!("it took more than {seconds} s")))
        }
    }
}
