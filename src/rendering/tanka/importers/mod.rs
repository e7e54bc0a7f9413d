//! The import graph: the entry points that a change affects, and the reasons. It is built by reading imports, not
//! by evaluation. It follows every path that an evaluation can examine, including missing ones, because a file that
//! appears there changes the value. Imports that are never evaluated also count. The result may contain too many
//! entry points, but never too few.

mod affected;
mod closure;
mod lexer;
mod path_probe;
mod outline;
mod tk;
mod dependents;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

pub use affected::{AffectedEntrypoint, AffectedReason, PathChange};
pub use closure::{Closure, DependencyRole, PathDependency, UnresolvedImport};
pub use outline::OutlineCache;
pub use path_probe::PathState;
pub use tk::{Depth, importers as tk_importers, importers_count as tk_importers_count};

use super::TankaError;
use super::layout::{self, Layout};
use super::listing::Listing;
use crate::base::model::RepoPath;
use crate::base::parallel;
use crate::state::workspace::Tree;
use dependents::DependentsIndex;
use path_probe::PathProbes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The closures of all entry points of a tree. All methods read files and may block.
#[derive(Debug)]
pub struct ImportGraph {
    outlines: Arc<OutlineCache>,
    listing: Listing,
    closures: BTreeMap<RepoPath, Arc<Closure>>,
    // Built on first use, because most workspaces are not changed again.
    dependents_index: OnceLock<Arc<DependentsIndex>>,
}

/// An entry point that depends on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Importer {
    /// The entry point.
    pub entrypoint: RepoPath,
    /// The role of the path for the entry point.
    pub role: DependencyRole,
    /// The import chain from the entry point to the path. Each file names the next one.
    pub chain: Vec<RepoPath>,
}

impl ImportGraph {
    /// Reads the dependencies of the entry points of `tree`. `outlines` is a shared cache, so that each blob is
    /// read once for all trees.
    pub fn build(tree: &dyn Tree, outlines: Arc<OutlineCache>) -> Result<Self, TankaError> {
        Self::build_from(tree, outlines, |_| None)
    }

    /// Returns the graph of a tree that differs only at the `changed` paths. Unaffected files are not read again.
    pub fn with_changes(&self, tree: &dyn Tree, changed: &[RepoPath]) -> Result<Self, TankaError> {
        let stale = self.dependents_index().affected_by(changed.iter());
        let listing = Listing::read(tree)?;
        let is_file = |path: &RepoPath| self.listing.is_file(path.as_str()) && listing.is_file(path.as_str());
        if changed.iter().all(is_file) {
            return Ok(self.with_edits(tree, listing, &stale));
        }
        Self::build_from(tree, Arc::clone(&self.outlines), |layout| {
            let known = self.closures.get(&layout.entrypoint)?;
            let is_current = known.layout == *layout && !stale.contains(&layout.entrypoint);
            is_current.then(|| Arc::clone(known))
        })
    }

    /// Returns the graph of a tree with the same set of files but other content. All environments keep their
    /// locations.
    fn with_edits(&self, tree: &dyn Tree, listing: Listing, stale: &BTreeSet<RepoPath>) -> Self {
        let mut closures = self.closures.clone();
        let stale_layouts = stale
            .iter()
            .filter_map(|entrypoint| self.closures.get(entrypoint));
        let layouts = stale_layouts.map(|closure| closure.layout.clone()).collect();
        closures.extend(build_closures(tree, &listing, &self.outlines, layouts));
        let again = stale
            .iter()
            .filter_map(|path| Some((path, closures.get(path)?.as_ref())));
        let watched = DependentsIndex::new(again).with_previous(self.dependents_index(), stale);
        Self {
            outlines: Arc::clone(&self.outlines),
            listing,
            dependents_index: watched.map_or_else(OnceLock::new, |watched| OnceLock::from(Arc::new(watched))),
            closures,
        }
    }

    fn build_from(
        tree: &dyn Tree,
        outlines: Arc<OutlineCache>,
        known: impl Fn(&Layout) -> Option<Arc<Closure>>,
    ) -> Result<Self, TankaError> {
        let listing = Listing::read(tree)?;
        let (mut closures, mut unknown) = (BTreeMap::new(), Vec::new());
        for layout in layouts(&listing)? {
            match known(&layout) {
                Some(closure) => drop(closures.insert(layout.entrypoint, closure)),
                None => unknown.push(layout),
            }
        }
        closures.extend(build_closures(tree, &listing, &outlines, unknown));
        Ok(Self {
            outlines,
            listing,
            closures,
            dependents_index: OnceLock::new(),
        })
    }

    /// Returns the closure of every entry point, by path.
    pub fn closures(&self) -> &BTreeMap<RepoPath, Arc<Closure>> {
        &self.closures
    }

    /// True if the tree has this file.
    pub fn has_file(&self, path: &str) -> bool {
        self.listing.is_file(path)
    }

    /// Returns the entry points that depend on a file or on anything in a directory, with the reasons. For a
    /// missing path, returns those that would depend on it if it existed.
    pub fn importers(&self, path: &RepoPath) -> Vec<Importer> {
        let importer = |(entrypoint, closure, found): (RepoPath, &Closure, &RepoPath)| {
            let dependency = closure.dependencies.get(found)?;
            Some(Importer {
                role: dependency.role,
                chain: closure.chain(found),
                entrypoint,
            })
        };
        self.dependents(path).filter_map(importer).collect()
    }

    /// Returns the entry points of [`Self::importers`] without the reasons.
    pub fn dependent_entrypoints(&self, path: &RepoPath) -> Vec<RepoPath> {
        self.dependents(path).map(|(entrypoint, ..)| entrypoint).collect()
    }

    /// True if any entry point depends on a file or on anything in a directory.
    pub fn is_used(&self, path: &RepoPath) -> bool {
        self.dependents(path).next().is_some()
    }

    /// Returns the entry points that depend on a path, each with the dependencies at or below it: the path itself,
    /// if it is one.
    fn dependents<'a>(
        &'a self,
        path: &'a RepoPath,
    ) -> impl Iterator<Item = (RepoPath, &'a Closure, &'a RepoPath)> {
        let exists = self.listing.is_file(path.as_str()) || self.listing.is_directory(path.as_str());
        let entrypoints = self
            .dependents_index()
            .affected_by(std::iter::once(path))
            .into_iter();
        entrypoints.filter_map(move |entrypoint| {
            let closure = self.closures.get(&entrypoint)?;
            let is_there = |dependency: &PathDependency| !exists || dependency.state != PathState::Absent;
            let itself = closure.dependencies.get_key_value(path);
            let (found, _) = itself
                .filter(|(_, dependency)| is_there(dependency))
                .or_else(|| {
                    let mut touched = closure.dependencies.iter();
                    touched.find(|(_, dependency)| {
                        let mut trail = dependency.resolved_chain.iter();
                        is_there(dependency) && trail.any(|watched| dependents::overlaps(watched, path))
                    })
                })?;
            Some((entrypoint, closure.as_ref(), found))
        })
    }

    /// Returns the entry points whose value may differ in `head`, with every reason. All other entry points have
    /// the same inputs in both trees.
    pub fn affected(&self, head: &Self) -> Vec<AffectedEntrypoint> {
        self.affected_among(head, &|_| true)
    }

    /// Returns the `wanted` entry points among those of [`Self::affected`].
    pub fn affected_among(&self, head: &Self, wanted: &dyn Fn(&RepoPath) -> bool) -> Vec<AffectedEntrypoint> {
        affected::compare(&self.closures, &head.closures, wanted)
    }

    fn dependents_index(&self) -> &Arc<DependentsIndex> {
        self.dependents_index.get_or_init(|| {
            let closures = self.closures.iter();
            Arc::new(DependentsIndex::new(
                closures.map(|(path, closure)| (path, closure.as_ref())),
            ))
        })
    }
}

/// Returns the closures of the entry points at these locations. Each thread shares the paths it has examined
/// between its entry points.
fn build_closures(
    tree: &dyn Tree,
    listing: &Listing,
    outlines: &OutlineCache,
    layouts: Vec<Layout>,
) -> Vec<(RepoPath, Arc<Closure>)> {
    let begin = || PathProbes::new(tree, listing, outlines);
    parallel::map_with(layouts, begin, |looks, layout| {
        let closure = Closure::build(layout, looks);
        (closure.layout.entrypoint.clone(), Arc::new(closure))
    })
}

/// Returns the locations of all environments. A repository without a project has none.
fn layouts(listing: &Listing) -> Result<Vec<Layout>, TankaError> {
    let entrypoints = match layout::entrypoints(listing, listing, "") {
        Err(TankaError::NoRoot) => return Ok(Vec::new()),
        other => other?,
    };
    let mut layouts = Vec::new();
    for entrypoint in entrypoints {
        match Layout::find(listing, entrypoint.as_str()) {
            Ok(layout) => layouts.push(layout),
            Err(TankaError::NoRoot | TankaError::NoBase { .. }) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(layouts)
}
