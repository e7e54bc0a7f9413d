//! The copies of the files of a tree for a program, without those that it must not read.

use super::TaskError;
use crate::base::model::RepoPath;
use crate::rendering::sandbox::{CommandError, Scratch};
use crate::state::workspace::{DeniedFiles, Tree, TreeError};

/// The maximum number of files of a tree.
const FILES_MAX: usize = 20_000;
/// The maximum number of bytes of all of them.
const BYTES_MAX: usize = 256 << 20;

/// Copies the files of a tree. Those that hold secrets by their names are left out, and so are links that lead to no file of
/// the tree, and files that are too large to be read.
pub(super) fn copy_files(
    tree: &dyn Tree,
    denied: &DeniedFiles,
    scratch: &Scratch,
    stopped: &dyn Fn() -> bool,
) -> Result<(), TaskError> {
    let files = tree.files()?;
    let too_large = || TaskError::LargeTree(FILES_MAX, BYTES_MAX);
    if files.len() > FILES_MAX {
        return Err(too_large());
    }
    let mut bytes = 0_usize;
    for path in files.iter() {
        if stopped() {
            return Err(CommandError::Stopped.into());
        }
        if is_denied(tree, denied, path) {
            continue;
        }
        let content = match tree.read(path) {
            Ok(version) => version.content,
            Err(error @ TreeError::Io { .. }) => return Err(error.into()),
            Err(_) => continue,
        };
        bytes = bytes.saturating_add(content.len());
        if bytes > BYTES_MAX {
            return Err(too_large());
        }
        scratch.put(path, &content)?;
    }
    Ok(())
}

/// True for a file that no program reads, by its own name or by that of the file that a link leads to.
fn is_denied(tree: &dyn Tree, denied: &DeniedFiles, path: &RepoPath) -> bool {
    let is_environment = |part: &str| part == ".env" || part.starts_with(".env.");
    let holds =
        |path: &RepoPath| path.as_str().split('/').any(is_environment) || denied.is_denied(path.as_str());
    holds(path) || tree.real_path(path).is_ok_and(|real| holds(&real))
}
