//! The files after packing charts with helm, and their differences from before.

use super::archive::has_same_files;
use super::beneath;
use super::lock::LOCKS;
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::external_program::Copies;
use crate::rendering::sandbox::{Scratch, ScratchError};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Maximum number of files after packing.
const FILES_MAX: usize = 200;
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The directory of packed charts.
pub(super) const CHARTS: &str = "charts";

/// The changed files; `None` for a deleted file.
pub(super) type Changes = BTreeMap<RepoPath, Option<Bytes>>;

/// Returns the changes in the copies: the lock file and the packed charts.
pub(super) fn changes(
    directory: &RepoPath,
    copies: &Copies,
    scratch: &Scratch,
) -> Result<Changes, ScratchError> {
    let mut after = charts(directory, scratch)?;
    for name in LOCKS {
        let path = beneath(directory, name).map_err(|_| odd(name))?;
        if let Some(content) = scratch.read_file(&path, FILE_BYTES_MAX)? {
            after.insert(path, Bytes::from(content));
        }
    }
    let gone = copies
        .keys()
        .filter(|path| is_packed(path, directory) && !after.contains_key(*path))
        .map(|path| (path.clone(), None));
    let mut changes: Changes = gone.collect();
    changes.extend(changed_files(copies, after));
    Ok(changes)
}

/// Returns the packed charts after the run.
pub(super) fn charts(directory: &RepoPath, scratch: &Scratch) -> Result<Copies, ScratchError> {
    let mut packed = Copies::new();
    let charts = beneath(directory, CHARTS).map_err(|_| odd(CHARTS))?;
    for (name, kind) in scratch.names(&charts, FILES_MAX)? {
        let path = beneath(&charts, &name).map_err(|_| odd(&name))?;
        // A directory is an unpacked chart, which helm does not change.
        if !kind.is_dir()
            && let Some(content) = scratch.read_file(&path, FILE_BYTES_MAX)?
        {
            packed.insert(path, Bytes::from(content));
        }
    }
    Ok(packed)
}

/// Returns the changed files. An archive with the same files as before counts as unchanged.
pub(super) fn changed_files(before: &Copies, mut after: Copies) -> Changes {
    after.retain(|path, content| {
        let before = before.get(path);
        let is_archive = path.as_str().ends_with(".tgz");
        !before.is_some_and(|before| before == content || is_archive && has_same_files(before, content))
    });
    after
        .into_iter()
        .map(|(path, content)| (path, Some(content)))
        .collect()
}

/// True if the path is a file directly in the `charts/` directory of a chart.
pub(super) fn is_in_charts(path: &RepoPath, directory: &RepoPath) -> bool {
    let parent = path.parent().and_then(|parent| parent.strip_suffix(CHARTS));
    parent.and_then(|parent| parent.strip_suffix('/')) == Some(directory.as_str())
}

fn is_packed(path: &RepoPath, directory: &RepoPath) -> bool {
    is_in_charts(path, directory) && path.as_str().ends_with(".tgz")
}

fn odd(name: &str) -> ScratchError {
    ScratchError::NotRegularFile(name.to_owned())
}
