//! The document of a change for a person's machine: its patch, and for each file the differences from the base. Lines that
//! did not change are not in it, so it shows nothing that the patch does not show. Earlier revisions are named by the
//! object names of their files only.

use crate::base::model::{
    Change, FileChange, FileVersion, PulledBytes, PulledChange, PulledFile, PulledSide,
};
use crate::state::store::EarlierVersions;
use crate::state::workspace::{Overlay, Tree, patch};
use anyhow::Context;

/// Returns the document of a change whose edits are in a tree.
pub(super) fn document(
    change: &Change,
    tree: &Overlay,
    earlier: &EarlierVersions,
    warning: Option<String>,
) -> anyhow::Result<String> {
    let mut files = tree.changes()?;
    for path in earlier.keys() {
        if !files.iter().any(|file| file.path == *path) {
            let base = tree.read_stored(path)?;
            files.push(FileChange {
                path: path.clone(),
                before: base.clone(),
                after: base,
            });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let pulled_files = files.iter().map(|file| {
        let earlier = earlier.get(&file.path).map_or(&[][..], Vec::as_slice);
        pulled_file(file, earlier, &change.base)
    });
    let pulled = PulledChange {
        change: change.number,
        revision: change.revision,
        repository: change.repository.clone(),
        base: change.base.clone(),
        warning,
        checks: change.checks.clone(),
        files: pulled_files.collect::<anyhow::Result<_>>()?,
        patch: PulledBytes::from(change.patch.clone()),
    };
    Ok(serde_json::to_string(&pulled)?)
}

fn pulled_file(file: &FileChange, earlier: &[Option<FileVersion>], base: &str) -> anyhow::Result<PulledFile> {
    let side = |version: &Option<FileVersion>| -> anyhow::Result<Option<PulledSide>> {
        let side = version.as_ref().map(|version| {
            let blob = patch::blob_name(&version.content, base);
            let blob = blob.with_context(|| format!("`{}` has no object name", file.path))?;
            anyhow::Ok(PulledSide {
                mode: version.mode,
                blob,
            })
        });
        side.transpose()
    };
    let content = |version: &Option<FileVersion>| {
        let content = version.as_ref().map(|version| version.content.clone());
        content.unwrap_or_default()
    };
    let edits = match file.after.is_some() {
        true => patch::line_edits(&content(&file.before), &content(&file.after)),
        false => Vec::new(),
    };
    let earlier = earlier.iter().filter(|version| **version != file.after);
    Ok(PulledFile {
        path: file.path.clone(),
        before: side(&file.before)?,
        after: side(&file.after)?,
        earlier: earlier.map(side).collect::<anyhow::Result<_>>()?,
        edits,
    })
}
