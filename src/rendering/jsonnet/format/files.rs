//! Parallel formatting of many files of a tree. This module writes nothing to disk; the caller writes the changes.

use super::format;
use crate::base::model::{FileVersion, RepoPath};
use crate::base::parallel;
use crate::state::workspace::Tree;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all changed files together, before and after.
const CHANGED_BYTES_MAX: usize = 1 << 30;

/// A file whose text changes.
#[derive(Clone, Debug)]
pub struct FormatChange {
    /// The path of the file.
    pub path: RepoPath,
    /// The current version of the file.
    pub before: FileVersion,
    /// The formatted text.
    pub after: String,
}

/// The result of formatting many files.
#[derive(Debug, Default)]
pub struct FormatReport {
    /// The files whose format differs from the standard style, in the requested order.
    pub changes: Vec<FormatChange>,
    /// The files that cannot be read or are not Jsonnet, each with the reason.
    pub problems: Vec<(RepoPath, String)>,
}

/// Formats files. A file that cannot be formatted does not affect the others.
pub fn reformat(tree: &dyn Tree, paths: &[RepoPath]) -> FormatReport {
    let kept_bytes = AtomicUsize::new(0);
    let mut looked = FormatReport::default();
    let reformatted = |path: &RepoPath| (path.clone(), reformat_one(tree, path, &kept_bytes));
    for (path, one) in parallel::map(paths.iter().collect(), reformatted) {
        match one {
            Ok(None) => {}
            Ok(Some(change)) => looked.changes.push(change),
            Err(problem) => looked.problems.push((path, problem)),
        }
    }
    looked
}

fn reformat_one(
    tree: &dyn Tree,
    path: &RepoPath,
    kept_bytes: &AtomicUsize,
) -> Result<Option<FormatChange>, String> {
    let before = tree.read(path).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&before.content).map_err(|_| format!("{path}: the file is not UTF-8"))?;
    let after = format(text).map_err(|error| format!("{path}:{error}"))?;
    if after == text {
        return Ok(None);
    }
    let bytes = text.len() + after.len();
    if kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > CHANGED_BYTES_MAX {
        return Err(format!(
            "{path}: more than {CHANGED_BYTES_MAX} bytes would change at once; name fewer files"
        ));
    }
    Ok(Some(FormatChange {
        path: path.clone(),
        before,
        after,
    }))
}
