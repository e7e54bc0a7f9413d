//! The entry points that a change touches. The import graph of a base is cached, so that a comparison reads only
//! the files that the change touches.

use super::CompareError;
use super::request::Sides;
use crate::base::model::{FileChange, RepoPath};
use crate::rendering::tanka::TankaError;
use crate::rendering::tanka::importers::{AffectedEntrypoint, Closure, ImportGraph, OutlineCache};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of cached graphs. The graphs of workspaces with the same base share most of their data.
const GRAPHS_MAX: usize = 8;

/// The most recently used graphs of bases and workspaces, newest last.
#[derive(Debug, Default)]
pub(super) struct GraphCache {
    outlines: Arc<OutlineCache>,
    // The lock is held to look up and to add.
    graphs: Mutex<Vec<(String, Arc<ImportGraph>)>>,
}

/// The entry points that a change touches, and the untouched ones.
#[derive(Debug)]
pub(super) struct TouchedEntrypoints {
    pub(super) base: Arc<ImportGraph>,
    pub(super) workspace: Arc<ImportGraph>,
    /// The requested entry points whose value may differ.
    pub(super) affected: Vec<AffectedEntrypoint>,
    /// The number of affected entry points that are rendered, counted from the first.
    pub(super) rendered_max: usize,
    /// The entry points with equal inputs on both sides, with the hash of the inputs.
    pub(super) untouched: BTreeMap<RepoPath, String>,
}

impl TouchedEntrypoints {
    /// Returns the entry points that are rendered.
    pub(super) fn rendered(&self) -> impl Iterator<Item = &RepoPath> {
        let affected = self.affected.iter().take(self.rendered_max);
        affected.map(|affected| &affected.entrypoint)
    }

    /// Returns the affected entry points that are not rendered, because there are too many.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &RepoPath> {
        let affected = self.affected.iter().skip(self.rendered_max);
        affected.map(|affected| &affected.entrypoint)
    }

    /// Returns the import closure of an entry point in the workspace, or else in the base.
    pub(super) fn closure(&self, entrypoint: &RepoPath) -> Option<&Closure> {
        let found = self.workspace.closures().get(entrypoint);
        found
            .or_else(|| self.base.closures().get(entrypoint))
            .map(AsRef::as_ref)
    }

    /// True if there is an environment on either side.
    pub(super) fn has_environments(&self) -> bool {
        !self.base.closures().is_empty() || !self.workspace.closures().is_empty()
    }
}

impl GraphCache {
    /// Returns the entry points that the change between two sides touches, among all entry points or for a single
    /// one.
    pub(super) fn touched_entrypoints(
        &self,
        sides: &Sides,
        only: Option<&str>,
        rendered_max: usize,
    ) -> Result<TouchedEntrypoints, CompareError> {
        let base = self.base(sides)?;
        let workspace = self.changed_graph(&base, sides)?;
        let is_wanted = |entrypoint: &RepoPath| only.is_none_or(|only| entrypoint.as_str() == only);
        let affected = base.affected_among(&workspace, &is_wanted);
        let is_affected = |path: &RepoPath| {
            affected
                .binary_search_by(|affected| affected.entrypoint.cmp(path))
                .is_ok()
        };
        let untouched = workspace.closures().iter();
        let untouched: BTreeMap<RepoPath, String> = untouched
            .filter(|(path, _)| is_wanted(path) && !is_affected(path))
            .map(|(path, closure)| (path.clone(), closure.id().to_owned()))
            .collect();
        if let Some(only) = only.filter(|_| affected.is_empty() && untouched.is_empty()) {
            let path = only.to_owned();
            return Err(TankaError::NoMatch { path }.into());
        }
        Ok(TouchedEntrypoints {
            base,
            workspace,
            affected,
            rendered_max,
            untouched,
        })
    }

    pub(super) fn workspace(&self, sides: &Sides) -> Result<Arc<ImportGraph>, CompareError> {
        if sides.base_id.is_none() {
            // The base has no lasting identity, so its graph is not cached and cannot be reused.
            let graph = ImportGraph::build(sides.workspace.as_ref(), Arc::clone(&self.outlines))?;
            return Ok(Arc::new(graph));
        }
        self.changed_graph(&self.base(sides)?, sides)
    }

    pub(super) fn base(&self, sides: &Sides) -> Result<Arc<ImportGraph>, CompareError> {
        self.get_or_build(sides.base_id.clone(), || {
            ImportGraph::build(sides.base.as_ref(), Arc::clone(&self.outlines))
        })
    }

    fn changed_graph(
        &self,
        base: &Arc<ImportGraph>,
        sides: &Sides,
    ) -> Result<Arc<ImportGraph>, CompareError> {
        if sides.changes.is_empty() {
            return Ok(Arc::clone(base));
        }
        let id = sides
            .base_id
            .as_ref()
            .map(|base| format!("{base} {}", digest(&sides.changes)));
        self.get_or_build(id, || {
            let changed: Vec<RepoPath> = sides.changes.iter().map(|change| change.path.clone()).collect();
            base.with_changes(sides.workspace.as_ref(), &changed)
        })
    }

    fn get_or_build(
        &self,
        id: Option<String>,
        make: impl FnOnce() -> Result<ImportGraph, TankaError>,
    ) -> Result<Arc<ImportGraph>, CompareError> {
        if let Some(graph) = id.as_ref().and_then(|id| self.get(id)) {
            return Ok(graph);
        }
        let graph = Arc::new(make()?);
        if let Some(id) = id {
            let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
            graphs.retain(|(known, _)| *known != id);
            graphs.push((id, Arc::clone(&graph)));
            if graphs.len() > GRAPHS_MAX {
                graphs.remove(0);
            }
        }
        Ok(graph)
    }

    fn get(&self, id: &str) -> Option<Arc<ImportGraph>> {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        let position = graphs.iter().position(|(known, _)| known == id)?;
        let found = graphs.remove(position);
        let graph = Arc::clone(&found.1);
        graphs.push(found);
        Some(graph)
    }
}

/// Returns a hash of the changed paths and their new content.
fn digest(changes: &[FileChange]) -> String {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    for change in changes {
        add(change.path.as_str().as_bytes());
        match &change.after {
            Some(after) => {
                add(format!("{:?}", after.mode).as_bytes());
                add(&after.content);
            }
            None => add(b"deleted"),
        }
    }
    hex::encode(digest.finalize())
}
