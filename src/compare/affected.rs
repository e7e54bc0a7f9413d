//! Which entry points a change touches. The graph of a base is kept, so that a comparison reads only
//! what the change touches.

use super::CompareError;
use super::asked::Sides;
use crate::model::RepoPath;
use crate::tanka::TankaError;
use crate::tanka::importers::{Affected, Closure, ImportGraph, Outlines};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Graphs of bases that are kept.
const GRAPHS_MAX: usize = 4;

/// The graphs of the bases that were used last, newest last.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    outlines: Arc<Outlines>,
    // Held to look up and to add.
    graphs: Mutex<Vec<(String, Arc<ImportGraph>)>>,
}

/// What a change touches.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) base: Arc<ImportGraph>,
    pub(super) workspace: Arc<ImportGraph>,
    /// The entry points whose value may differ, among those that were asked for.
    pub(super) affected: Vec<Affected>,
    /// How many of them are rendered: the first ones.
    pub(super) rendered_max: usize,
    /// The entry points that have the same inputs on both sides, with the hash of those.
    pub(super) untouched: BTreeMap<RepoPath, String>,
}

impl Touched {
    /// The entry points that are rendered.
    pub(super) fn rendered(&self) -> impl Iterator<Item = &RepoPath> {
        let affected = self.affected.iter().take(self.rendered_max);
        affected.map(|affected| &affected.entrypoint)
    }

    /// The entry points that would be, were there not so many.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &RepoPath> {
        let affected = self.affected.iter().skip(self.rendered_max);
        affected.map(|affected| &affected.entrypoint)
    }

    /// What is known of an entry point, in the workspace if it is there.
    pub(super) fn closure(&self, entrypoint: &RepoPath) -> Option<&Closure> {
        let found = self.workspace.closures().get(entrypoint);
        found
            .or_else(|| self.base.closures().get(entrypoint))
            .map(AsRef::as_ref)
    }

    /// Whether there is any environment on either side.
    pub(super) fn has_environments(&self) -> bool {
        !self.base.closures().is_empty() || !self.workspace.closures().is_empty()
    }
}

impl Graphs {
    /// What the change between two sides touches, of all entry points or of one.
    pub(super) fn touched(
        &self,
        sides: &Sides,
        only: Option<&str>,
        rendered_max: usize,
    ) -> Result<Touched, CompareError> {
        let base = self.base(sides)?;
        let workspace = changed(&base, sides)?;
        let is_wanted = |entrypoint: &RepoPath| only.is_none_or(|only| entrypoint.as_str() == only);
        let mut affected = base.affected(&workspace);
        affected.retain(|affected| is_wanted(&affected.entrypoint));
        let is_affected = |path: &RepoPath| {
            affected
                .binary_search_by(|affected| affected.entrypoint.cmp(path))
                .is_ok()
        };
        let untouched = workspace.closures().iter();
        let untouched: BTreeMap<RepoPath, String> = untouched
            .filter(|(path, _)| is_wanted(path) && !is_affected(path))
            .map(|(path, closure)| (path.clone(), closure.id()))
            .collect();
        if let Some(only) = only.filter(|_| affected.is_empty() && untouched.is_empty()) {
            let path = only.to_owned();
            return Err(TankaError::NoMatch { path }.into());
        }
        Ok(Touched {
            base,
            workspace,
            affected,
            rendered_max,
            untouched,
        })
    }

    /// What the entry points of the workspace depend on.
    pub(super) fn workspace(&self, sides: &Sides) -> Result<Arc<ImportGraph>, CompareError> {
        changed(&self.base(sides)?, sides)
    }

    fn base(&self, sides: &Sides) -> Result<Arc<ImportGraph>, CompareError> {
        if let Some(graph) = sides.base_id.as_ref().and_then(|id| self.known(id)) {
            return Ok(graph);
        }
        let graph = ImportGraph::build(sides.base.as_ref(), Arc::clone(&self.outlines))?;
        let graph = Arc::new(graph);
        if let Some(id) = &sides.base_id {
            let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
            graphs.retain(|(known, _)| known != id);
            graphs.push((id.clone(), Arc::clone(&graph)));
            if graphs.len() > GRAPHS_MAX {
                graphs.remove(0);
            }
        }
        Ok(graph)
    }

    fn known(&self, id: &str) -> Option<Arc<ImportGraph>> {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        let position = graphs.iter().position(|(known, _)| known == id)?;
        let found = graphs.remove(position);
        let graph = Arc::clone(&found.1);
        graphs.push(found);
        Some(graph)
    }
}

/// The graph of the workspace, from that of its base.
fn changed(base: &Arc<ImportGraph>, sides: &Sides) -> Result<Arc<ImportGraph>, CompareError> {
    let changed: Vec<RepoPath> = sides.changes.iter().map(|change| change.path.clone()).collect();
    Ok(match changed.is_empty() {
        true => Arc::clone(base),
        false => Arc::new(base.with(sides.workspace.as_ref(), &changed)?),
    })
}
