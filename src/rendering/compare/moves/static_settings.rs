//! The static environments whose settings change, according to their `spec.json` on both sides.

use super::EnvironmentMove;
use crate::base::model::{FileChange, RepoPath};
use crate::rendering::compare::CompareError;
use crate::rendering::compare::request::Sides;
use crate::rendering::tanka::{Listing, environment_of, settings};
use crate::state::workspace::Tree;
use bytes::Bytes;
use std::collections::BTreeSet;

/// The file name suffixes of programs.
const PROGRAMS: [&str; 2] = [".jsonnet", ".libsonnet"];

/// Returns the static environments whose settings differ. Reads files and may block.
pub(in crate::rendering::compare) fn static_moves(
    sides: &Sides,
) -> Result<Vec<EnvironmentMove>, CompareError> {
    // A `spec.json` may be a link to any changed file. Without a base identity every file must be opened for this
    // check, so changes to programs alone are skipped.
    if sides.base_id.is_none() && sides.changes.iter().all(is_edit_of_a_program) {
        return Ok(Vec::new());
    }
    let base = SideTree::of(sides.base.as_ref())?;
    let workspace = SideTree::of(sides.workspace.as_ref())?;
    let written: BTreeSet<&RepoPath> = sides.changes.iter().map(|change| &change.path).collect();
    let files = base.files().iter().chain(written.iter().copied());
    let is_environment = |file: &&RepoPath| {
        let directory = settings::spec_directory(file);
        directory.is_some_and(|directory| base.has_program(directory) || workspace.has_program(directory))
    };
    let files: BTreeSet<&RepoPath> = files.filter(is_environment).collect();
    let mut moved = Vec::new();
    for file in files {
        if sides.base_id.is_some() && is_untouched(file, &base, &workspace, &written) {
            continue;
        }
        let directory = settings::spec_directory(file).unwrap_or_default();
        // Before its program existed, the `spec.json` described no environment.
        let was = match base.has_program(directory) {
            true => base.content(file),
            false => Ok(None),
        };
        let is = workspace.content(file);
        // A file that is unreadable on both sides counts as unchanged unless the change writes it.
        let is_same = match (&was, &is) {
            (Err(_), Err(_)) => !written.contains(file),
            (was, is) => was == is,
        };
        if is_same {
            continue;
        }
        let parsed = |content: Bytes| {
            settings::parse_spec_file(&content, file.as_str()).map_err(|error| error.to_string())
        };
        let parsed = |content: Result<Option<Bytes>, String>| content?.map(parsed).transpose();
        moved.push(EnvironmentMove {
            owner: environment_of(file, base.files()).map(str::to_owned),
            name: if directory.is_empty() { "." } else { directory }.to_owned(),
            before: parsed(was).ok().flatten(),
            after: parsed(is),
        });
    }
    // Files with a different format but equal settings are dropped.
    moved.retain(|moved| moved.after.as_ref() != Ok(&moved.before) || moved.before.is_none());
    Ok(moved)
}

fn is_edit_of_a_program(change: &FileChange) -> bool {
    let is_program = PROGRAMS.iter().any(|end| change.path.as_str().ends_with(end));
    is_program && change.before.is_some() && change.after.is_some()
}

/// True if the `spec.json` resolves to the same file on both sides and that file was not changed. Then it need not
/// be read.
fn is_untouched(
    file: &RepoPath,
    base: &SideTree<'_>,
    workspace: &SideTree<'_>,
    written: &BTreeSet<&RepoPath>,
) -> bool {
    let directory = settings::spec_directory(file).unwrap_or_default();
    if !base.is_file(file) || !workspace.is_file(file) || !base.has_program(directory) {
        return false;
    }
    match (base.tree.real_path(file), workspace.tree.real_path(file)) {
        (Ok(was), Ok(is)) => was == is && !written.contains(&was),
        _ => false,
    }
}

/// The tree of one side, and the files in it.
struct SideTree<'t> {
    tree: &'t dyn Tree,
    listing: Listing,
}

impl<'t> SideTree<'t> {
    fn of(tree: &'t dyn Tree) -> Result<Self, CompareError> {
        let listing = Listing::new(tree.files()?);
        Ok(Self { tree, listing })
    }

    fn files(&self) -> &[RepoPath] {
        self.listing.below("")
    }

    fn is_file(&self, file: &RepoPath) -> bool {
        self.listing.is_file(file.as_str())
    }

    fn has_program(&self, directory: &str) -> bool {
        settings::has_program(&self.listing, directory)
    }

    /// Returns a file of this side, or the reason why it cannot be read.
    fn content(&self, file: &RepoPath) -> Result<Option<Bytes>, String> {
        if !self.is_file(file) {
            return Ok(None);
        }
        let version = self.tree.read(file).map_err(|error| error.to_string())?;
        Ok(Some(version.content))
    }
}
