//! The reverse import graph: from a path in the tree to the entry points that depend on it.

use super::closure::Closure;
use crate::base::model::RepoPath;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The entry points by the paths they depend on, including symlinks on the way.
#[derive(Debug)]
pub(super) struct DependentsIndex {
    entrypoints: Vec<RepoPath>,
    by_path: BTreeMap<String, Vec<usize>>,
    previous: Option<PreviousIndex>,
}

/// The dependencies of entry points that were not read again.
#[derive(Debug)]
struct PreviousIndex {
    index: Arc<DependentsIndex>,
    /// The entry points that were read again.
    stale: BTreeSet<RepoPath>,
}

impl DependentsIndex {
    /// Indexes closures by the paths they depend on.
    pub(super) fn new<'a>(closures: impl Iterator<Item = (&'a RepoPath, &'a Closure)>) -> Self {
        let mut entrypoints = Vec::new();
        let mut by_path: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, (entrypoint, closure)) in closures.enumerate() {
            entrypoints.push(entrypoint.clone());
            let trails = closure
                .dependencies
                .values()
                .flat_map(|found| &found.resolved_chain);
            for path in trails {
                match by_path.get_mut(path.as_str()) {
                    Some(watching) if watching.last() == Some(&index) => {}
                    Some(watching) => watching.push(index),
                    None => {
                        by_path.insert(path.as_str().to_owned(), vec![index]);
                    }
                }
            }
        }
        Self {
            entrypoints,
            by_path,
            previous: None,
        }
    }

    /// Adds the entry points of an earlier index that are not `stale`. Returns `None` if the earlier index itself
    /// has a predecessor, because the chain would otherwise grow with every edit.
    pub(super) fn with_previous(self, watched: &Arc<Self>, stale: &BTreeSet<RepoPath>) -> Option<Self> {
        let before = PreviousIndex {
            index: Arc::clone(watched),
            stale: stale.clone(),
        };
        watched.previous.is_none().then_some(Self {
            previous: Some(before),
            ..self
        })
    }

    /// Returns the entry points that a change of any of these paths may affect.
    pub(super) fn affected_by<'a>(
        &self,
        changed: impl Iterator<Item = &'a RepoPath> + Clone,
    ) -> BTreeSet<RepoPath> {
        let mut found = BTreeSet::new();
        for changed in changed.clone() {
            let changed = changed.as_str();
            let above = changed.match_indices('/').filter_map(|(at, _)| changed.get(..at));
            for path in above.chain([changed]) {
                found.extend(self.by_path.get(path).into_iter().flatten());
            }
            let prefix = format!("{changed}/");
            let start = (Bound::Included(prefix.as_str()), Bound::Unbounded);
            let below = self.by_path.range::<str, _>(start);
            for (_, watching) in below.take_while(|(path, _)| path.starts_with(&prefix)) {
                found.extend(watching);
            }
        }
        let entrypoints = found
            .into_iter()
            .filter_map(|index: &usize| self.entrypoints.get(*index));
        let mut entrypoints: BTreeSet<RepoPath> = entrypoints.cloned().collect();
        if let Some(before) = &self.previous {
            let unchanged = before.index.affected_by(changed).into_iter();
            entrypoints.extend(unchanged.filter(|entrypoint| !before.stale.contains(entrypoint)));
        }
        entrypoints
    }
}

/// True if a change of one path can change the content of the other: they are equal, or one is a directory that
/// contains the other.
pub(super) fn overlaps(one: &RepoPath, other: &RepoPath) -> bool {
    let is_in = |inner: &RepoPath, outer: &RepoPath| {
        let rest = inner.as_str().strip_prefix(outer.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_in(one, other) || is_in(other, one)
}
