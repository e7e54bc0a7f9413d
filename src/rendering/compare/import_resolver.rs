//! Resolves imports for the environments of a tree. Each import is resolved once for all files of a validation.

use super::Sides;
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::lint::ImportLookup;
use crate::rendering::tanka::importers::{Closure, ImportGraph, UnresolvedImport};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of cached imports. It protects against a flood of imports.
const IMPORTS_MAX: usize = 1 << 20;

/// The resolution of one import in one file.
#[derive(Debug)]
enum ImportedFile {
    /// The same file, or none, in all environments that evaluate the import.
    Same(Option<RepoPath>),
    /// A file, or none, for each environment, by index.
    PerEnvironment(Vec<Option<RepoPath>>),
}

/// The resolved imports for the environments of a tree.
pub(super) struct ImportResolver<'a> {
    sides: &'a Sides,
    closures: Vec<&'a Closure>,
    numbers: HashMap<&'a RepoPath, usize>,
    // The lock is held to look up and to add.
    resolved: Mutex<HashMap<(String, String), Arc<ImportedFile>>>,
}

impl<'a> ImportResolver<'a> {
    pub(super) fn new(sides: &'a Sides, graph: &'a ImportGraph) -> Self {
        let closures = graph.closures();
        Self {
            sides,
            numbers: closures.keys().zip(0..).collect(),
            closures: closures.values().map(AsRef::as_ref).collect(),
            resolved: Mutex::default(),
        }
    }

    /// Returns the imports as these entry points resolve them. The entry points use the file at `path`.
    pub(super) fn for_users(&'a self, users: &[RepoPath], path: &RepoPath) -> UserImports<'a> {
        let numbers = users.iter().filter_map(|user| self.numbers.get(user).copied());
        let numbers: Vec<usize> = numbers.collect();
        let imports_it = |number: &usize| {
            self.closures
                .get(*number)
                .is_some_and(|closure| closure.dependencies.contains_key(path))
        };
        UserImports {
            are_importers: !numbers.is_empty() && numbers.iter().all(imports_it),
            resolver: self,
            numbers,
        }
    }

    fn resolve(&self, importer: &str, import: &str) -> Arc<ImportedFile> {
        let key = (importer.to_owned(), import.to_owned());
        let locked = || self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = locked().get(&key) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.resolve_uncached(importer, import));
        let mut known = locked();
        if known.len() < IMPORTS_MAX {
            known.insert(key, Arc::clone(&found));
        }
        found
    }

    fn resolve_uncached(&self, importer: &str, import: &str) -> ImportedFile {
        let Ok(importer) = RepoPath::parse(importer) else {
            return ImportedFile::Same(None);
        };
        let comes_to_it = |closure: &Closure| closure.dependencies.contains_key(&importer);
        let mut those = self.closures.iter().filter(|closure| comes_to_it(closure));
        let Some(first) = those.next() else {
            return ImportedFile::Same(None);
        };
        let first = first.resolve_import(&importer, import);
        if those.all(|closure| closure.resolve_import(&importer, import) == first) {
            return ImportedFile::Same(first);
        }
        let each = self.closures.iter();
        ImportedFile::PerEnvironment(
            each.map(|closure| closure.resolve_import(&importer, import))
                .collect(),
        )
    }
}

/// The imports as resolved by all environments that use the validated file. An import that resolves to different
/// files in different environments is not followed.
pub(super) struct UserImports<'a> {
    resolver: &'a ImportResolver<'a>,
    numbers: Vec<usize>,
    /// False if one of the environments uses the file without importing it, such as a file of a chart.
    are_importers: bool,
}

impl UserImports<'_> {
    /// Returns the reason why an import of the file is unresolved in one of the environments.
    pub(super) fn missing(&self, path: &RepoPath, import: &str) -> Option<&UnresolvedImport> {
        let first = UnresolvedImport {
            importer: path.clone(),
            path: import.to_owned(),
            why: String::new(),
        };
        let closures = self
            .numbers
            .iter()
            .filter_map(|number| self.resolver.closures.get(*number));
        let mut found = closures.filter_map(|closure| closure.unresolved.range(&first..).next());
        found.find(|missing| missing.importer == *path && missing.path == import)
    }
}

impl ImportLookup for UserImports<'_> {
    fn resolve(&self, importer: &str, import: &str) -> Option<String> {
        if !self.are_importers {
            return None;
        }
        let meant = self.resolver.resolve(importer, import);
        let meant = match meant.as_ref() {
            ImportedFile::Same(meant) => meant.as_ref()?,
            ImportedFile::PerEnvironment(each) => {
                let mut meanings = self.numbers.iter().map(|number| each.get(*number)?.as_ref());
                let first = meanings.next()??;
                meanings.all(|other| other == Some(first)).then_some(first)?
            }
        };
        Some(meant.to_string())
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        let (sides, path) = (self.resolver.sides, RepoPath::parse(file).ok()?);
        if let Some(guard) = &sides.guard {
            guard.check(sides.workspace.as_ref(), &path).ok()?;
        }
        let version = sides.workspace.read(&path).ok()?;
        Some(std::str::from_utf8(&version.content).ok()?.into())
    }
}
