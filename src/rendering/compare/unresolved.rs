//! Imports that resolve to no file, with the searched paths and similar files.

use super::affected::TouchedEntrypoints;
use crate::base::model::{RepoPath, quoted};
use crate::rendering::jsonnet::path::clean;
use crate::rendering::jsonnet::similar_files;
use crate::state::workspace::Tree;
use std::collections::BTreeMap;

/// Maximum number of unresolved imports of a change for which similar files are searched.
const HINTED_MAX: usize = 5;

pub(super) struct ImportSearch {
    /// The searched paths, in order.
    pub(super) searched: Vec<String>,
    /// Files with a similar name.
    pub(super) similar: Vec<String>,
}

impl ImportSearch {
    /// Repeats the search for an import, in the directory of its file and in the libraries.
    pub(super) fn run(tree: &dyn Tree, importer: &RepoPath, libraries: &[String], import: &str) -> Self {
        let own = importer.parent().unwrap_or_default();
        let libraries = libraries.iter().map(String::as_str);
        let directories: Vec<&str> = std::iter::once(own).chain(libraries).collect();
        let mut searched: Vec<String> = Vec::new();
        for path in directories
            .iter()
            .filter_map(|directory| clean(directory, import))
        {
            if !searched.contains(&path) {
                searched.push(path);
            }
        }
        Self {
            similar: similar_files(tree, &directories, &searched),
            searched,
        }
    }

    /// Formats similar files as the end of a sentence. Empty if there are none.
    pub(super) fn hint(&self) -> String {
        match self.similar.as_slice() {
            [] => String::new(),
            similar => format!("; similar: {}", list_paths(similar)),
        }
    }
}

/// Formats paths for a sentence.
pub(super) fn list_paths(paths: &[String]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    paths.join(", ")
}

/// Returns the imports of the workspace that resolve to no file but did not fail in the base.
pub(super) fn unresolved_imports(touched: &TouchedEntrypoints, tree: &dyn Tree) -> Vec<String> {
    let mut found = BTreeMap::new();
    for affected in &touched.affected {
        let Some(closure) = touched.workspace.closures().get(&affected.entrypoint) else {
            continue;
        };
        let before = touched.base.closures().get(&affected.entrypoint);
        for import in &closure.unresolved {
            let was = |known: &crate::rendering::tanka::importers::UnresolvedImport| {
                known.importer == import.importer && known.path == import.path
            };
            if !before.is_some_and(|before| before.unresolved.iter().any(was)) {
                let said = format!("`{}` imports {:?}: {}", import.importer, import.path, import.why);
                found.insert(said, (import, closure));
            }
        }
    }
    let messages = found.into_iter().enumerate();
    messages
        .map(|(number, (said, (import, closure)))| {
            if !import.is_absent() || number >= HINTED_MAX {
                return said;
            }
            let libraries: Vec<String> = closure.layout.jpath().into_iter().rev().collect();
            let search = ImportSearch::run(tree, &import.importer, &libraries, &import.path);
            format!("{said}{}", search.hint())
        })
        .collect()
}
