//! The differences between a tree of files and a commit. Files are compared by their git hashes, so that only the
//! content of files that differ is read from the repository.

use super::RepositoryError;
use super::walk::{CommitFile, CommitListing};
use crate::base::model::{FileChange, FileVersion, RepoPath};
use crate::state::workspace::{Tree, TreeError, hash};
use bytes::Bytes;
use gix::Repository;
use gix::hash::Kind;

/// Maximum number of files in one comparison.
const CHANGES_MAX: usize = 20_000;

pub(super) fn changes(
    repository: &Repository,
    listing: &CommitListing,
    tree: &dyn Tree,
) -> Result<Vec<FileChange>, RepositoryError> {
    let mut changes = Vec::new();
    let known = |path: &RepoPath| {
        listing
            .entries
            .binary_search_by(|entry| entry.path.cmp(path))
            .is_ok()
    };
    for entry in &listing.entries {
        let after = stored(tree, &entry.path)?;
        if !is_same(entry, repository.object_hash(), after.as_ref())? {
            let before = Some(read(repository, entry)?);
            let path = entry.path.clone();
            changes.push(FileChange { path, before, after });
        }
        bound(&changes)?;
    }
    let files = tree.files().map_err(|err| unreadable(&err))?;
    for path in files.iter().filter(|path| !known(path)) {
        if let Some(after) = stored(tree, path)? {
            changes.push(FileChange {
                path: path.clone(),
                before: None,
                after: Some(after),
            });
        }
        bound(&changes)?;
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

fn bound(changes: &[FileChange]) -> Result<(), RepositoryError> {
    match changes.len() > CHANGES_MAX {
        true => Err(RepositoryError::Unreadable(format!(
            "more than {CHANGES_MAX} files differ from the commit"
        ))),
        false => Ok(()),
    }
}

/// Returns the current file. A file that is too large to compare is an error, because an environment that imports
/// it would otherwise count as unchanged.
fn stored(tree: &dyn Tree, path: &RepoPath) -> Result<Option<FileVersion>, RepositoryError> {
    match tree.read_stored(path) {
        Ok(version) => Ok(version),
        // A directory or another entry, or another spelling of the name, is there. The file itself is gone.
        Err(TreeError::WrongKind { .. } | TreeError::NotFound { .. } | TreeError::OtherSpelling { .. }) => {
            Ok(None)
        }
        Err(err @ TreeError::TooLarge { .. }) => Err(RepositoryError::Unreadable(format!(
            "{err}; it cannot be compared with the commit: move it out of the repository, or have git ignore it"
        ))),
        Err(err) => Err(unreadable(&err)),
    }
}

fn is_same(entry: &CommitFile, format: Kind, after: Option<&FileVersion>) -> Result<bool, RepositoryError> {
    let Some(after) = after else { return Ok(false) };
    if after.mode != entry.mode || after.content.len() as u64 != entry.size {
        return Ok(false);
    }
    let id = gix::objs::compute_hash(format, gix::objs::Kind::Blob, &after.content)
        .map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
    Ok(hash::object_name(&id) == entry.blob)
}

fn read(repository: &Repository, entry: &CommitFile) -> Result<FileVersion, RepositoryError> {
    let blob = repository
        .find_blob(hash::object_id(&entry.blob, repository.object_hash()))
        .map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
    Ok(FileVersion {
        content: Bytes::from(blob.detach().data),
        mode: entry.mode,
    })
}

fn unreadable(err: &TreeError) -> RepositoryError {
    RepositoryError::Unreadable(err.to_string())
}
