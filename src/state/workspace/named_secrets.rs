//! Files that are secrets because configuration declares them as such. The content alone does not show it, so this
//! module searches for files that mention them.

use super::{SecretGuard, Tree};
use crate::base::model::RepoPath;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Maximum number of names that are searched for in one pass. Each name needs a search of the whole tree.
const LOOKUPS_MAX: usize = 200;

/// Maximum size of a file that can be a secret as a whole, in bytes.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Minimum length of a name that is searched for, in bytes.
const NAME_BYTES_MIN: usize = 3;
/// Maximum number of lines that are checked for a mention of a file.
const LINES_MAX: usize = 2_000;
/// Maximum number of files with such lines.
const FILES_MAX: usize = 256;
/// Extensions that a secret file does not have: configuration and programs refer to secrets by name.
const EXTENSIONS: [&str; 24] = [
    "jsonnet",
    "libsonnet",
    "json",
    "yaml",
    "yml",
    "toml",
    "xml",
    "md",
    "adoc",
    "rst",
    "tpl",
    "html",
    "css",
    "js",
    "ts",
    "go",
    "rs",
    "py",
    "sh",
    "lua",
    "tf",
    "hcl",
    "sql",
    "svg",
];

/// The number of names that may still be searched for, and a check whether the caller was stopped.
pub(super) struct LookupBudget<'a> {
    left: Cell<usize>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> LookupBudget<'a> {
    /// Returns the full budget of one pass.
    pub(super) fn new(is_stopped: &'a dyn Fn() -> bool) -> Self {
        Self {
            left: Cell::new(LOOKUPS_MAX),
            is_stopped,
        }
    }

    /// Returns an empty budget: names that were not searched for yet stay unknown.
    pub(super) fn exhausted() -> Self {
        Self {
            left: Cell::new(0),
            is_stopped: &|| true,
        }
    }

    /// True once the caller no longer waits for the result.
    pub(super) fn is_cancelled(&self) -> bool {
        (self.is_stopped)()
    }

    fn try_take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0 && !self.is_cancelled()
    }
}

/// True if a file that mentions this file declares it a secret. `None` if the search would exceed the budget.
pub(super) fn is_named_secret(
    tree: &dyn Tree,
    guard: &SecretGuard,
    (path, content): (&RepoPath, &Bytes),
    looks: &LookupBudget<'_>,
) -> Option<bool> {
    if !may_be_secret(path, content) {
        return Some(false);
    }
    let is_looked_for = guard.redactor.is_name_searched(path.file_name())
        || (looks.try_take() && learn_mentions(tree, guard, path, looks));
    is_looked_for.then(|| guard.redactor.is_secret_file(path))
}

/// Learns which files mention a file. Concurrent callers each run their own search, because a name counts as
/// searched only once its search has finished. Returns false if the search was stopped.
fn learn_mentions(tree: &dyn Tree, guard: &SecretGuard, path: &RepoPath, looks: &LookupBudget<'_>) -> bool {
    let accepts = |name: &str| name != path.as_str() && !guard.denied.is_denied(name);
    let Ok((mentions, _)) = tree.search(&accepts, path.file_name(), 0, LINES_MAX) else {
        // The readers of the tree report the error.
        return true;
    };
    let files: BTreeSet<RepoPath> = mentions.into_iter().map(|mention| mention.path).collect();
    for file in files.iter().take(FILES_MAX) {
        if looks.is_cancelled() {
            return false;
        }
        if let Ok((version, blob)) = tree.read_with_blob(file) {
            guard.redactor.learn_file(Some(&blob), &version.content);
        }
    }
    guard.redactor.mark_name_searched(path.file_name());
    true
}

/// True if a text can be a secret as a whole.
fn may_be_secret(path: &RepoPath, content: &Bytes) -> bool {
    let extension = path
        .file_name()
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension);
    content.len() <= FILE_BYTES_MAX
        && path.file_name().len() >= NAME_BYTES_MIN
        && !EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str())
        && !content.is_empty()
        && std::str::from_utf8(content).is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::LOOKUPS_MAX;
    use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
    use crate::base::redact::Redactor;
    use crate::state::workspace::fixture::{Fixture, path, text};
    use crate::state::workspace::{Overlay, SecretGuard, WorkspaceEdits};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Returns `count` changed files with new names, each with two versions.
    fn changes(count: usize) -> Vec<FileChange> {
        let version = |content: String| {
            Some(FileVersion {
                content: content.into(),
                mode: FileMode::Regular,
            })
        };
        let change = |number: usize| FileChange {
            path: path(&format!("keys/key{number:04}")),
            before: version(format!("kept to ourselves {number}\n")),
            after: version(format!("kept to nobody {number}\n")),
        };
        (0..count).map(change).collect()
    }

    fn paths(changes: &[FileChange]) -> Vec<&RepoPath> {
        changes.iter().map(|change| &change.path).collect()
    }

    #[test]
    fn a_bounded_number_of_names_is_searched_at_a_time_and_the_rest_is_not_shown() {
        let fixture = Fixture::with(&[text("main.jsonnet", "{ password: importstr 'keys/key0001' }\n")]);
        let tree = Overlay::new(fixture.head_base(), WorkspaceEdits::new());
        let guard = SecretGuard {
            redactor: Arc::new(Redactor::new([])),
            ..SecretGuard::default()
        };
        let changes = changes(2 * LOOKUPS_MAX + 50);
        let learn = || guard.learn(&changes, &tree, &|| false).unwrap();
        let unknown = learn();
        assert_eq!(Vec::from_iter(&unknown), paths(&changes[LOOKUPS_MAX..]));
        assert_eq!(
            guard.redactor.redact("kept to ourselves 1"),
            "⟦secret:1⟧",
            "what is named was learnt"
        );
        // The names of the earlier passes are known, and the next ones are searched.
        assert_eq!(Vec::from_iter(&learn()), paths(&changes[2 * LOOKUPS_MAX..]));
        assert!(learn().is_empty());
    }

    /// T87
    #[test]
    fn every_secret_is_known_before_a_whole_change_is_shown_and_what_is_not_is_taken_for_one() {
        let main = "{ password: importstr 'keys/key0449' }\n";
        let fixture = Fixture::with(&[text("main.jsonnet", main)]);
        let tree = Overlay::new(fixture.head_base(), WorkspaceEdits::new());
        let changes = changes(2 * LOOKUPS_MAX + 50);
        for (is_stopped, is_shown) in [(false, true), (true, false)] {
            let guard = SecretGuard {
                redactor: Arc::new(Redactor::new([])),
                ..SecretGuard::default()
            };
            guard.learn_all(&changes, &tree, &|| is_stopped);
            for secret in ["kept to ourselves 449", "kept to nobody 449"] {
                assert_ne!(guard.redactor.redact(secret), secret);
            }
            let (looked_for, not) = ("kept to ourselves 2", "kept to ourselves 447");
            assert_eq!(guard.redactor.redact(looked_for), looked_for);
            assert_eq!(guard.redactor.redact(not) == not, is_shown);
        }
    }

    #[test]
    fn the_search_for_names_ends_when_it_is_cancelled() {
        let fixture = Fixture::with(&[text("main.jsonnet", "{}\n")]);
        let tree = Overlay::new(fixture.head_base(), WorkspaceEdits::new());
        let changes = changes(100);
        // `is_stopped` is called once for each content and once for each name.
        for asked_max in [0, 10, 210] {
            let (guard, asked) = (SecretGuard::default(), Cell::new(0));
            let is_stopped = || {
                asked.set(asked.get() + 1);
                asked.get() > asked_max
            };
            assert_eq!(guard.learn(&changes, &tree, &is_stopped), None);
            assert!(asked.get() <= asked_max + 3, "{} of {asked_max}", asked.get());
            assert!(!guard.redactor.is_name_searched("key0099"));
        }
    }
}
