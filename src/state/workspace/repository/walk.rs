//! Walks the trees of commits: all files of one, or the differences between two. Names in a tree are untrusted,
//! because anyone with push access can write any bytes.

use super::RepositoryError;
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath, short_line};
use crate::state::workspace::{Skipped, hash};
use bytes::Bytes;
use gix::objs::tree::EntryKind;
use gix::{ObjectId, Repository};
use std::collections::BTreeMap;

/// Maximum number of files in one tree.
const FILES_MAX: usize = 1_000_000;
/// Maximum number of files in one comparison.
const CHANGES_MAX: usize = 20_000;
/// Maximum number of bytes of content in one comparison.
const CHANGES_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of characters of a file name in a message.
const NAME_CHARS_MAX: usize = 200;
/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::state::workspace) struct CommitFile {
    pub path: RepoPath,
    pub blob: hash::ObjectName,
    pub mode: FileMode,
    pub size: u64,
}

/// All files of a commit, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::state::workspace) struct CommitListing {
    pub entries: Vec<CommitFile>,
    pub skipped: Skipped,
}

/// Returns all files below `tree`.
pub(super) fn list(repository: &Repository, tree: ObjectId) -> Result<CommitListing, RepositoryError> {
    let mut listing = CommitListing::default();
    let mut open = vec![(String::new(), tree, 0)];
    while let Some((prefix, tree, depth)) = open.pop() {
        for (name, side) in children(repository, &prefix, tree, depth)? {
            match side {
                TreeSide::Tree(id) => open.push((format!("{name}/"), id, depth + 1)),
                TreeSide::Blob(mode, id) => {
                    let Ok(path) = RepoPath::parse(&name) else {
                        listing.skipped.names = listing.skipped.names.saturating_add(1);
                        continue;
                    };
                    let size = repository.find_header(id).map_err(|err| unreadable(&err))?.size();
                    listing.entries.push(CommitFile {
                        path,
                        blob: hash::object_name(&id),
                        mode,
                        size,
                    });
                }
                TreeSide::Submodule => {
                    listing.skipped.submodules = listing.skipped.submodules.saturating_add(1);
                }
                TreeSide::Unnamed => listing.skipped.names = listing.skipped.names.saturating_add(1),
            }
            if listing.entries.len() > FILES_MAX || open.len() > FILES_MAX {
                return Err(RepositoryError::Unreadable(format!(
                    "it has more than {FILES_MAX} files"
                )));
            }
        }
    }
    listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
    listing.entries.dedup_by(|one, other| one.path == other.path);
    Ok(listing)
}

/// Returns the differences between two trees, sorted by path. `None` is the empty tree.
pub(super) fn changes(
    repository: &Repository,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<FileChange>, RepositoryError> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    let mut open = vec![(String::new(), before, after, 0)];
    while let Some((prefix, before, after, depth)) = open.pop() {
        let mut pairs: BTreeMap<String, (Option<TreeSide>, Option<TreeSide>)> = BTreeMap::new();
        if let Some(tree) = before {
            for (name, side) in children(repository, &prefix, tree, depth)? {
                pairs.entry(name).or_default().0 = Some(side);
            }
        }
        if let Some(tree) = after {
            for (name, side) in children(repository, &prefix, tree, depth)? {
                pairs.entry(name).or_default().1 = Some(side);
            }
        }
        for (name, (old, new)) in pairs {
            if old == new {
                continue;
            }
            if is_stopped() {
                return Err(RepositoryError::Stopped);
            }
            let trees = (tree_of(old), tree_of(new));
            if trees != (None, None) {
                open.push((format!("{name}/"), trees.0, trees.1, depth + 1));
            }
            let before = version(repository, &name, old, &mut bytes)?;
            let after = version(repository, &name, new, &mut bytes)?;
            let Ok(path) = RepoPath::parse(&name) else {
                continue;
            };
            if before.is_some() || after.is_some() {
                found.insert(path.clone(), FileChange { path, before, after });
            }
            if found.len() > CHANGES_MAX || open.len() > FILES_MAX {
                return Err(RepositoryError::Unreadable(format!(
                    "more than {CHANGES_MAX} files differ; that is too much to show"
                )));
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the file at `path` below `tree`.
pub(super) fn file(
    repository: &Repository,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Option<FileVersion>, RepositoryError> {
    let mut bytes = 0;
    let mut tree = tree;
    let mut prefix = String::new();
    for (depth, component) in path.as_str().split('/').enumerate() {
        let name = format!("{prefix}{component}");
        let child = children(repository, &prefix, tree, depth)?
            .into_iter()
            .find(|(found, _)| *found == name);
        match child.map(|(_, side)| side) {
            Some(TreeSide::Tree(id)) => tree = id,
            Some(blob @ TreeSide::Blob(..)) if name == path.as_str() => {
                return version(repository, &name, Some(blob), &mut bytes);
            }
            Some(TreeSide::Blob(..) | TreeSide::Submodule | TreeSide::Unnamed) | None => return Ok(None),
        }
        prefix = format!("{name}/");
    }
    Ok(None)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreeSide {
    Blob(FileMode, ObjectId),
    Tree(ObjectId),
    Submodule,
    /// A name that is not UTF-8.
    Unnamed,
}

fn tree_of(side: Option<TreeSide>) -> Option<ObjectId> {
    match side {
        Some(TreeSide::Tree(id)) => Some(id),
        Some(TreeSide::Blob(..) | TreeSide::Submodule | TreeSide::Unnamed) | None => None,
    }
}

/// Returns the entries of one tree with their full names.
fn children(
    repository: &Repository,
    prefix: &str,
    tree: ObjectId,
    depth: usize,
) -> Result<Vec<(String, TreeSide)>, RepositoryError> {
    if depth > DEPTH_MAX {
        return Err(RepositoryError::Refused(format!(
            "directories are nested deeper than {DEPTH_MAX}"
        )));
    }
    let tree = repository.find_tree(tree).map_err(|err| unreadable(&err))?;
    let decoded = tree.decode().map_err(|err| unreadable(&err))?;
    let mut children = Vec::with_capacity(decoded.entries.len());
    for entry in &decoded.entries {
        vet_name(entry.filename)?;
        let id = entry.oid.to_owned();
        let Ok(name) = std::str::from_utf8(entry.filename) else {
            children.push((format!("{prefix}\0{}", entry.filename), TreeSide::Unnamed));
            continue;
        };
        let side = match entry.mode.kind() {
            EntryKind::Tree => TreeSide::Tree(id),
            EntryKind::Blob => TreeSide::Blob(FileMode::Regular, id),
            EntryKind::BlobExecutable => TreeSide::Blob(FileMode::Executable, id),
            EntryKind::Link => TreeSide::Blob(FileMode::Symlink, id),
            EntryKind::Commit => TreeSide::Submodule,
        };
        children.push((format!("{prefix}{name}"), side));
    }
    Ok(children)
}

/// Refuses names that would leave the tree or that git could read as its own directory.
fn vet_name(name: &gix::bstr::BStr) -> Result<(), RepositoryError> {
    use gix_validate::path::component::{Error, Options};
    let options = Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: true,
    };
    let own = matches!(
        gix_validate::path::component(name, None, options),
        Err(Error::DotGitDir)
    );
    let leaves = name.is_empty() || *name == "." || *name == ".." || name.contains(&b'/');
    if own || leaves {
        let name: String = name.to_string().chars().take(100).collect();
        return Err(RepositoryError::Refused(format!(
            "refused: tree entry '{}'",
            name.escape_debug()
        )));
    }
    Ok(())
}

fn version(
    repository: &Repository,
    name: &str,
    side: Option<TreeSide>,
    bytes: &mut u64,
) -> Result<Option<FileVersion>, RepositoryError> {
    let Some(TreeSide::Blob(mode, id)) = side else {
        return Ok(None);
    };
    *bytes = bytes.saturating_add(repository.find_header(id).map_err(|err| unreadable(&err))?.size());
    if *bytes > CHANGES_BYTES_MAX {
        return Err(RepositoryError::Unreadable(format!(
            "`{}` and other changed files have more than {CHANGES_BYTES_MAX} bytes together; that is too much to show",
            short_line(name, NAME_CHARS_MAX)
        )));
    }
    let object = repository
        .find_object(id)
        .map_err(|err| unreadable(&err))?
        .detach();
    Ok(Some(FileVersion {
        content: Bytes::from(object.data),
        mode,
    }))
}

fn unreadable(err: &gix::Error) -> RepositoryError {
    RepositoryError::Unreadable(err.to_string())
}
