//! Tests of the search for similar names, and of its cost.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::{DIRECTORIES_MAX, Likeness, NAMES_MAX, likeness, similar};
use crate::base::model::{FileChange, FileVersion, RepoPath};
use crate::state::workspace::{Match, Tree, TreeError};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn names_are_similar_where_few_of_their_letters_differ() {
    for (asked, file, expected) in [
        ("lib/k.libsonnet", "lib/m.libsonnet", None),
        ("lib/k.libsonnet", "lib/k.jsonnet", Some(Likeness::Letters(0))),
        ("lib/k.libsonnet", "vendor/k.libsonnet", Some(Likeness::Name(2))),
        (
            "lib/util.libsonnet",
            "lib/utils.libsonnet",
            Some(Likeness::Letters(1)),
        ),
        (
            "lib/knwon.libsonnet",
            "lib/known.libsonnet",
            Some(Likeness::Letters(1)),
        ),
        ("lib/util.libsonnet", "lib/until.jsonnet", None),
        (
            "a/deploymnet.libsonnet",
            "lib/x/deployment.libsonnet",
            Some(Likeness::NameLetters(1)),
        ),
        (
            "lib/abc/x.libsonnet",
            "lib/abd/x.libsonnet",
            Some(Likeness::Name(2)),
        ),
        ("a/none.libsonnet", "a/main.libsonnet", None),
    ] {
        assert_eq!(likeness(asked, file), expected, "{asked} {file}");
    }
}

/// Children of each directory of [`Endless`].
const CHILDREN: usize = 50;

/// An endless tree of which only single directories can be listed. Each directory has as many subdirectories as files.
#[derive(Debug, Default)]
struct Endless {
    listed: AtomicUsize,
}

impl Tree for Endless {
    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        if directory.contains("none") {
            return Ok(Vec::new());
        }
        let directories = (0..CHILDREN).map(|number| (format!("d{number}"), true));
        let files = (0..CHILDREN).map(|number| (format!("part-{number:03}.libsonnet"), false));
        Ok(directories.chain(files).collect())
    }

    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        panic!("a hint reads `{path}`")
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        panic!("a hint lists all files")
    }

    fn write(&self, path: &RepoPath, _: Bytes) -> Result<(), TreeError> {
        panic!("a hint writes `{path}`")
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        panic!("a hint deletes `{path}`")
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        panic!("a hint lists all files below `{directory}`")
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        panic!("a hint looks at `{path}`")
    }

    fn put(&self, path: &RepoPath, _: Option<FileVersion>) -> Result<(), TreeError> {
        panic!("a hint puts `{path}`")
    }

    fn search(
        &self,
        _: &dyn Fn(&str) -> bool,
        _: &str,
        _: usize,
        _: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        panic!("a hint searches")
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        panic!("a hint asks what has changed")
    }
}

#[test]
fn a_hint_costs_the_same_in_a_repository_without_an_end() {
    // Files beside and above the searched path come first, regardless of how many others exist.
    for (searched, expected) in [
        ("e/d1/d2/d3/prt-007.libsonnet", "e/d1/d2/d3/part-007.libsonnet"),
        ("lib/none/part-008.libsonnet", "lib/part-008.libsonnet"),
    ] {
        let tree = Endless::default();
        let found = similar(&tree, &["e", "lib", ""], &[searched.to_owned()]);
        assert_eq!(found.first().unwrap(), expected);
        let listed = tree.listed.into_inner();
        assert!(listed <= NAMES_MAX / (2 * CHILDREN) + 5, "{listed}");
        assert!(listed <= DIRECTORIES_MAX, "{listed}");
    }
}
