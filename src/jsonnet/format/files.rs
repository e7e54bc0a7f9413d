//! Many files of a tree, formatted on all cores. Nothing is written here: whoever asked writes all of
//! the changes or none.

use super::format;
use crate::model::{FileVersion, RepoPath};
use crate::parallel;
use crate::workspace::Tree;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all changed files may have together, before and after.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// A file whose text is to change.
#[derive(Clone, Debug)]
pub struct Reformatted {
    /// Where it is.
    pub path: RepoPath,
    /// What it is.
    pub before: FileVersion,
    /// The text in the one style.
    pub after: String,
}

/// The files that are not in the one style, in the order of `paths`. The `Err` names every file that
/// cannot be read or is no Jsonnet; then nothing may be written.
pub fn reformat(tree: &dyn Tree, paths: &[RepoPath]) -> Result<Vec<Reformatted>, Vec<String>> {
    let kept_bytes = AtomicUsize::new(0);
    let mut changes = Vec::new();
    let mut problems = Vec::new();
    let all = paths.iter().collect();
    for one in parallel::map(all, |path| reformat_one(tree, path, &kept_bytes)) {
        match one {
            Ok(None) => {}
            Ok(Some(change)) => changes.push(change),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(changes)
    } else {
        Err(problems)
    }
}

fn reformat_one(
    tree: &dyn Tree,
    path: &RepoPath,
    kept_bytes: &AtomicUsize,
) -> Result<Option<Reformatted>, String> {
    let before = tree.read(path).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&before.content).map_err(|_| format!("{path}: the file is not UTF-8"))?;
    let after = format(text).map_err(|error| format!("{path}:{error}"))?;
    if after == text {
        return Ok(None);
    }
    let bytes = text.len() + after.len();
    if kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
        return Err(format!(
            "{path}: more than {KEPT_BYTES_MAX} bytes would change at once; name fewer files"
        ));
    }
    Ok(Some(Reformatted {
        path: path.clone(),
        before,
        after,
    }))
}
