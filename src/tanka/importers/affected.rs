//! The differences of entry points between two trees, reduced to the paths that began them.

use super::closure::{Closure, DependencyRole};
use super::path_probe::PathState;
use crate::model::RepoPath;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An entry point whose value may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffectedEntrypoint {
    /// The entry point.
    pub entrypoint: RepoPath,
    /// The reasons, at least one.
    pub reasons: Vec<AffectedReason>,
}

/// The reason the value of an entry point may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AffectedReason {
    /// The entry point is new.
    New,
    /// The entry point is gone.
    Removed,
    /// The project of the entry point begins in another directory, so that its imports are searched elsewhere.
    ProjectRoot,
    /// A path it depends on has changed.
    Path {
        /// The path, as the imports name it.
        path: RepoPath,
        /// The path without symlinks.
        real: RepoPath,
        /// The role of the path for the entry point.
        role: DependencyRole,
        /// The change of the path.
        change: PathChange,
        /// The files from the entry point to the path, each named by the one before it.
        chain: Vec<RepoPath>,
    },
}

/// The kind of a change at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathChange {
    /// The path is new. What was found elsewhere before may be found here.
    Added,
    /// The path has another content.
    Edited,
    /// The path is gone.
    Deleted,
}

/// The entry points that are `wanted` and differ.
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

/// Two walks through imports are the same up to the first path both looked at and found different.
/// Paths only one of them knows are consequences.
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
            // As a chart it counts with its files, as an import it does not: something else began that.
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
