//! The files that imports mean to the environments of a tree, each found once for all files that are looked at.

use super::Sides;
use crate::jsonnet::lint::Sources;
use crate::model::RepoPath;
use crate::tanka::importers::{Closure, ImportGraph, Unresolved};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Imports whose meaning is kept. The bound is against a flood of them.
const MEANINGS_MAX: usize = 1 << 20;

/// The meaning of one import in one file.
#[derive(Debug)]
enum Meant {
    /// One file, or none, to all environments that come to the import.
    One(Option<RepoPath>),
    /// A file, or none, by number of the environment.
    Each(Vec<Option<RepoPath>>),
}

/// The files that imports mean to the environments of a tree.
pub(super) struct Meanings<'a> {
    sides: &'a Sides,
    closures: Vec<&'a Closure>,
    numbers: HashMap<&'a RepoPath, usize>,
    // Held to look up and to add.
    known: Mutex<HashMap<(String, String), Arc<Meant>>>,
}

impl<'a> Meanings<'a> {
    pub(super) fn new(sides: &'a Sides, graph: &'a ImportGraph) -> Self {
        let closures = graph.closures();
        Self {
            sides,
            numbers: closures.keys().zip(0..).collect(),
            closures: closures.values().map(AsRef::as_ref).collect(),
            known: Mutex::default(),
        }
    }

    /// Returns the meanings of imports to these entry points, which use the file at `path`.
    pub(super) fn to(&'a self, users: &[RepoPath], path: &RepoPath) -> ToUsers<'a> {
        let numbers = users.iter().filter_map(|user| self.numbers.get(user).copied());
        let numbers: Vec<usize> = numbers.collect();
        let imports_it = |number: &usize| {
            self.closures
                .get(*number)
                .is_some_and(|closure| closure.dependencies.contains_key(path))
        };
        ToUsers {
            are_importers: !numbers.is_empty() && numbers.iter().all(imports_it),
            meanings: self,
            numbers,
        }
    }

    fn meant(&self, importer: &str, import: &str) -> Arc<Meant> {
        let key = (importer.to_owned(), import.to_owned());
        let locked = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = locked().get(&key) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.find(importer, import));
        let mut known = locked();
        if known.len() < MEANINGS_MAX {
            known.insert(key, Arc::clone(&found));
        }
        found
    }

    fn find(&self, importer: &str, import: &str) -> Meant {
        let Ok(importer) = RepoPath::parse(importer) else {
            return Meant::One(None);
        };
        let comes_to_it = |closure: &Closure| closure.dependencies.contains_key(&importer);
        let mut those = self.closures.iter().filter(|closure| comes_to_it(closure));
        let Some(first) = those.next() else {
            return Meant::One(None);
        };
        let first = first.meaning(&importer, import);
        if those.all(|closure| closure.meaning(&importer, import) == first) {
            return Meant::One(first);
        }
        let each = self.closures.iter();
        Meant::Each(each.map(|closure| closure.meaning(&importer, import)).collect())
    }
}

/// The meanings of imports to all environments that use the file that is looked at. An import that means another file
/// in another environment is not followed.
pub(super) struct ToUsers<'a> {
    meanings: &'a Meanings<'a>,
    numbers: Vec<usize>,
    /// False where the file is no part of the program of one of them, such as one of a chart.
    are_importers: bool,
}

impl ToUsers<'_> {
    /// Returns why an import of the file means no file to one of them, where that is so.
    pub(super) fn missing(&self, path: &RepoPath, import: &str) -> Option<&Unresolved> {
        let first = Unresolved {
            importer: path.clone(),
            path: import.to_owned(),
            why: String::new(),
        };
        let closures = self
            .numbers
            .iter()
            .filter_map(|number| self.meanings.closures.get(*number));
        let mut found = closures.filter_map(|closure| closure.unresolved.range(&first..).next());
        found.find(|missing| missing.importer == *path && missing.path == import)
    }
}

impl Sources for ToUsers<'_> {
    fn meaning(&self, importer: &str, import: &str) -> Option<String> {
        if !self.are_importers {
            return None;
        }
        let meant = self.meanings.meant(importer, import);
        let meant = match meant.as_ref() {
            Meant::One(meant) => meant.as_ref()?,
            Meant::Each(each) => {
                let mut meanings = self.numbers.iter().map(|number| each.get(*number)?.as_ref());
                let first = meanings.next()??;
                meanings.all(|other| other == Some(first)).then_some(first)?
            }
        };
        Some(meant.to_string())
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        let (sides, path) = (self.meanings.sides, RepoPath::parse(file).ok()?);
        if let Some(guard) = &sides.guard {
            guard.check(sides.workspace.as_ref(), &path).ok()?;
        }
        let version = sides.workspace.read(&path).ok()?;
        Some(std::str::from_utf8(&version.content).ok()?.into())
    }
}
