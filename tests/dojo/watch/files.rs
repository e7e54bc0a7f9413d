//! The watch over files: those opened outside the repository, and those changed.

use crate::touches::FileWatch;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory beside the repository whose files must not be opened.
pub(crate) struct OutsideFiles {
    pub(crate) directory: PathBuf,
    watch: FileWatch,
}

impl OutsideFiles {
    pub(crate) fn new(directory: PathBuf) -> Self {
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["canary.txt", "main.jsonnet", "config"] {
            std::fs::write(directory.join(name), format!("CANARY-OUTSIDE {name}\n")).unwrap();
        }
        let watch = FileWatch::of(&directory);
        Self { directory, watch }
    }

    /// Returns the path of a file in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("canary.txt")
    }

    /// Returns the accesses to its files since the last call.
    pub(crate) fn take_accesses(&self) -> Vec<String> {
        self.watch.since_the_last_look()
    }
}

/// Returns the paths and digests of all files below a directory.
pub(crate) fn digests(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let digest = Sha256::digest(std::fs::read(&path).unwrap()).to_vec();
                files.insert(path, digest);
            }
        }
    }
    files
}

/// Returns the paths in which two states differ.
pub(crate) fn differences(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<String> {
    let all = before.keys().chain(after.keys());
    let mut differ: Vec<String> = all
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| path.display().to_string())
        .collect();
    differ.sort();
    differ.dedup();
    differ
}
