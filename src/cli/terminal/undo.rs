//! The edits of each turn, stored so that they can be undone.

use crate::base::model::{FileChange, RepoPath};
use crate::state::workspace::Directory;
use std::collections::VecDeque;

/// The number of turns that can be undone.
const TURNS_MAX: usize = 20;

/// The edits of the last turns, newest last. Turns without edits are left out.
#[derive(Debug, Default)]
pub(super) struct UndoStack {
    turns: VecDeque<Vec<FileChange>>,
}

/// The files that an undo restored, and those that it left.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct UndoResult {
    /// Files that are restored to their state before the turn.
    pub(in crate::cli) restored: Vec<RepoPath>,
    /// Files that were edited after the turn and are left as they are.
    pub(in crate::cli) left: Vec<RepoPath>,
    /// The reasons why files could not be restored. The next undo tries these again.
    pub(in crate::cli) failed: Vec<String>,
}

impl UndoStack {
    /// Records the edits of a turn, from the changes before and after it.
    pub(super) fn record_turn(&mut self, before: &[FileChange], after: &[FileChange]) {
        let edits = edits(before, after);
        if edits.is_empty() {
            return;
        }
        self.turns.push_back(edits);
        if self.turns.len() > TURNS_MAX {
            self.turns.pop_front();
        }
    }

    /// Returns the files that the next undo restores; `None` if there is nothing to undo.
    pub(super) fn next_files(&self) -> Option<Vec<RepoPath>> {
        let edits = self.turns.back()?;
        Some(edits.iter().map(|edit| edit.path.clone()).collect())
    }

    /// Undoes the last turn with edits; `None` if there is none.
    pub(super) fn undo(&mut self, directory: &Directory) -> Option<UndoResult> {
        let edits = self.turns.pop_back()?;
        let mut undone = UndoResult {
            restored: Vec::new(),
            left: Vec::new(),
            failed: Vec::new(),
        };
        let mut remaining = Vec::new();
        for edit in edits {
            match directory.put_back(&edit.path, edit.after.as_ref(), edit.before.as_ref()) {
                Ok(true) => undone.restored.push(edit.path),
                Ok(false) => undone.left.push(edit.path),
                Err(error) => {
                    undone.failed.push(error.to_string());
                    remaining.push(edit);
                }
            }
        }
        if !remaining.is_empty() {
            self.turns.push_back(remaining);
        }
        Some(undone)
    }
}

/// Returns the edits between two lists of changes with the same base.
fn edits(before: &[FileChange], after: &[FileChange]) -> Vec<FileChange> {
    let same_path = |list: &[FileChange], path: &RepoPath| -> Option<FileChange> {
        list.iter().find(|change| change.path == *path).cloned()
    };
    let mut edits: Vec<FileChange> = after
        .iter()
        .map(|change| FileChange {
            path: change.path.clone(),
            before: match same_path(before, &change.path) {
                Some(earlier) => earlier.after,
                None => change.before.clone(),
            },
            after: change.after.clone(),
        })
        .collect();
    // A file that the turn restored to the base is not in the list after it.
    let back = before
        .iter()
        .filter(|earlier| same_path(after, &earlier.path).is_none());
    edits.extend(back.map(|earlier| FileChange {
        path: earlier.path.clone(),
        before: earlier.after.clone(),
        after: earlier.before.clone(),
    }));
    edits.retain(|edit| edit.before != edit.after);
    edits
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use super::{UndoStack, edits};
    use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
    use crate::state::workspace::Directory;
    use std::fs;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> FileChange {
        let version = |text: &str| FileVersion {
            content: text.to_owned().into(),
            mode: FileMode::Regular,
        };
        FileChange {
            path: RepoPath::parse(path).unwrap(),
            before: before.map(version),
            after: after.map(version),
        }
    }

    #[test]
    fn the_next_undo_tries_again_what_could_not_be_restored() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        // A file is where the directory of a deleted file was.
        fs::write(root.path().join("d"), "in the way").unwrap();
        let directory = Directory::open(root.path()).unwrap();
        let mut stack = UndoStack::default();
        stack.record_turn(
            &[],
            &[change("d/a", Some("1"), None), change("b", Some("2"), None)],
        );
        let undone = stack.undo(&directory).unwrap();
        assert_eq!((undone.restored.len(), undone.failed.len()), (1, 1), "{undone:?}");
        fs::remove_file(root.path().join("d")).unwrap();
        let undone = stack.undo(&directory).unwrap();
        assert_eq!((undone.restored.len(), undone.failed.len()), (1, 0), "{undone:?}");
        assert_eq!(fs::read_to_string(root.path().join("d/a")).unwrap(), "1");
        assert_eq!(stack.undo(&directory), None);
    }

    #[test]
    fn undo_lists_only_the_edits_of_the_last_turn() {
        let before = [
            change("again", Some("1"), Some("2")),
            change("back", Some("1"), Some("2")),
            change("same", Some("1"), Some("2")),
        ];
        let after = [
            change("again", Some("1"), Some("3")),
            change("new", None, Some("n")),
            change("same", Some("1"), Some("2")),
        ];
        let wanted = [
            change("again", Some("2"), Some("3")),
            change("new", None, Some("n")),
            change("back", Some("2"), Some("1")),
        ];
        assert_eq!(edits(&before, &after), wanted);
        assert_eq!(edits(&after, &after), []);
    }
}
