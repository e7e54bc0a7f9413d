//! The record of the files of a tree that one sandbox worker has received, and of the file values that it may keep
//! between the tasks of a batch.
//!
//! A file's value may be kept if it is the same for every task: nothing in it depends on the variables of a task, and
//! every import below it resolves to the same file. The sandbox worker reports when a file uses a variable. Imports are
//! checked here, each time a task reaches a file whose value may have been kept. If either condition fails, the file is
//! *task-dependent*: it, and every file that imports it, is evaluated again for each task.

use super::path::clean;
use crate::base::model::RepoPath;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One file of a tree.
#[derive(Clone, Debug)]
pub(super) struct SentFile {
    /// Git's hash of the file.
    pub(super) blob: String,
    pub(super) bytes: u64,
    /// The content, until it is sent.
    content: Option<Bytes>,
}

/// The resolved target of an import.
#[derive(Clone, Debug)]
pub(super) struct RecordedImport {
    pub(super) path: RepoPath,
    /// True if the target is in the importer's directory, where every search begins: while it exists, the import
    /// resolves to it.
    pub(super) is_relative: bool,
}

/// The files and imports that one sandbox worker has received.
#[derive(Debug, Default)]
pub(super) struct SentFiles {
    /// `None` for a path without a file.
    files: HashMap<RepoPath, Option<SentFile>>,
    /// The resolved imports, by importing file.
    edges: BTreeMap<String, BTreeMap<String, RecordedImport>>,
    task_dependent: BTreeSet<String>,
}

impl SentFiles {
    /// Returns the recorded result of reading a path.
    pub(super) fn file(&self, path: &RepoPath) -> Option<&Option<SentFile>> {
        self.files.get(path)
    }

    /// Records the result of reading a path.
    pub(super) fn record_file(&mut self, path: &RepoPath, file: Option<(String, Bytes)>) {
        let file = file.map(|(blob, content)| SentFile {
            blob,
            bytes: content.len() as u64,
            content: Some(content),
        });
        self.files.insert(path.clone(), file);
    }

    /// Takes the content of a file that has not been sent to the sandbox worker.
    pub(super) fn take_unsent(&mut self, path: &RepoPath) -> Option<Bytes> {
        self.files.get_mut(path)?.as_mut()?.content.take()
    }

    /// Records the target of an import. An import in an external variable has no importing file and is not recorded.
    pub(super) fn record_import(&mut self, importer: &str, written: &str, path: &RepoPath) {
        if !importer.is_empty() {
            let own = importer.rsplit_once('/').map_or("", |(directory, _)| directory);
            let meaning = RecordedImport {
                path: path.clone(),
                is_relative: clean(own, written).is_some_and(|beside| beside == path.as_str()),
            };
            let imports = self.edges.entry(importer.to_owned()).or_default();
            imports.insert(written.to_owned(), meaning);
        }
    }

    /// Returns the imports of a file whose value may have been kept.
    pub(super) fn imports(&self, file: &RepoPath) -> Vec<(String, RecordedImport)> {
        match self.edges.get(file.as_str()) {
            Some(imports) if !self.task_dependent.contains(file.as_str()) => {
                imports.clone().into_iter().collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    pub(super) fn is_task_dependent(&self, file: &str) -> bool {
        self.task_dependent.contains(file)
    }

    /// Marks a file and all files that import it as task-dependent. Returns the newly marked ones.
    pub(super) fn mark_task_dependent(&mut self, file: &str) -> Vec<String> {
        let mut added = Vec::new();
        let mut waiting = vec![file.to_owned()];
        while let Some(file) = waiting.pop() {
            if !self.task_dependent.insert(file.clone()) {
                continue;
            }
            let imports_it = |imports: &BTreeMap<String, RecordedImport>| {
                imports.values().any(|imported| imported.path.as_str() == file)
            };
            let importers = self.edges.iter().filter(|(_, imports)| imports_it(imports));
            waiting.extend(importers.map(|(importer, _)| importer.clone()));
            added.push(file);
        }
        added
    }

    /// Marks all recorded files as task-dependent.
    pub(super) fn mark_all_task_dependent(&mut self) -> Vec<String> {
        let files = self.files.keys().map(|path| path.as_str().to_owned());
        let added: Vec<String> = files.filter(|path| !self.task_dependent.contains(path)).collect();
        self.task_dependent.extend(added.iter().cloned());
        added
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::SentFiles;
    use crate::base::model::RepoPath;

    #[test]
    fn importers_of_a_task_dependent_file_are_task_dependent() {
        let mut known = SentFiles::default();
        for (importer, path) in [("main", "a"), ("a", "b"), ("b", "c"), ("x", "y"), ("c", "a")] {
            known.record_import(importer, path, &RepoPath::parse(path).unwrap());
        }
        let mut own = known.mark_task_dependent("b");
        own.sort();
        assert_eq!(own, ["a", "b", "c", "main"]);
        assert_eq!(known.mark_task_dependent("b"), [""; 0]);
        assert!(known.is_task_dependent("c") && !known.is_task_dependent("y"));
        assert!(known.imports(&RepoPath::parse("a").unwrap()).is_empty());
        assert_eq!(known.imports(&RepoPath::parse("x").unwrap()).len(), 1);
    }
}
