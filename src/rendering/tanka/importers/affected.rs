//! The differences between the entry points of two trees, reduced to the paths that caused them.

use super::closure::{Closure, DependencyRole};
use super::path_probe::PathState;
use crate::base::model::RepoPath;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An entry point whose value may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffectedEntrypoint {
    /// The entry point.
    pub entrypoint: RepoPath,
    /// The reasons. There is at least one.
    pub reasons: Vec<AffectedReason>,
}

/// The reason why the value of an entry point may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AffectedReason {
    /// The entry point is new.
    New,
    /// The entry point was removed.
    Removed,
    /// The project of the entry point has another root directory, so imports are searched in other places.
    ProjectRoot,
    /// A path that it depends on has changed.
    Path {
        /// The path, as the imports name it.
        path: RepoPath,
        /// The path with symlinks resolved.
        real: RepoPath,
        /// The role of the path for the entry point.
        role: DependencyRole,
        /// The change of the path.
        change: PathChange,
        /// The import chain from the entry point to the path. Each file names the next one.
        chain: Vec<RepoPath>,
    },
}

/// The kind of a change at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathChange {
    /// The path is new. An import may now find this file instead of another one.
    Added,
    /// The content of the path has changed.
    Edited,
    /// The path was removed.
    Deleted,
}

/// Returns the `wanted` entry points that differ.
pub(super) fn compare(
    base: &BTreeMap<RepoPath, Arc<Closure>>,
    head: &BTreeMap<RepoPath, Arc<Closure>>,
    wanted: &dyn Fn(&RepoPath) -> bool,
) -> Vec<AffectedEntrypoint> {
    let all = base.keys().chain(head.keys());
    let entrypoints: BTreeSet<&RepoPath> = all.filter(|entrypoint| wanted(entrypoint)).collect();
    let reasons_of = |entrypoint: &RepoPath| match (base.get(entrypoint), head.get(entrypoint)) {
        (Some(before), Some(after)) if Arc::ptr_eq(before, after) => Vec::new(),
        (Some(before), Some(after)) => reasons(before, after),
        (None, _) => vec![AffectedReason::New],
        (_, None) => vec![AffectedReason::Removed],
    };
    let affected = entrypoints.into_iter().filter_map(|entrypoint| {
        let reasons = reasons_of(entrypoint);
        (!reasons.is_empty()).then(|| AffectedEntrypoint {
            entrypoint: entrypoint.clone(),
            reasons,
        })
    });
    affected.collect()
}

/// Returns the root causes of a difference. Two import searches agree up to the first path that both examined and
/// found different. Paths that only one of them examined are consequences.
fn reasons(before: &Closure, after: &Closure) -> Vec<AffectedReason> {
    let mut reasons = Vec::new();
    if before.layout != after.layout {
        reasons.push(AffectedReason::ProjectRoot);
    }
    for (path, was) in &before.dependencies {
        let Some(is) = after.dependencies.get(path) else {
            continue;
        };
        let change = match (&was.state, &is.state) {
            (before, now) if before == now => continue,
            // The content of a directory matters for a chart, but not for an import. Another path caused the change
            // of role.
            (PathState::Directory { .. }, PathState::Directory { .. }) if was.role != is.role => continue,
            (PathState::Absent, _) => PathChange::Added,
            (_, PathState::Absent) => PathChange::Deleted,
            _ => PathChange::Edited,
        };
        let seen = if change == PathChange::Deleted { was } else { is };
        reasons.push(AffectedReason::Path {
            path: path.clone(),
            real: seen.resolved_chain.last().unwrap_or(path).clone(),
            role: is.role,
            change,
            chain: after.chain(path),
        });
    }
    reasons
}
