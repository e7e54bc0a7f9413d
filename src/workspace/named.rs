//! Files that are secrets because configuration says so, and not by what they hold: whoever reads one without the
//! configuration finds it here.

use super::{Guard, Tree};
use crate::model::RepoPath;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Names that are looked for at a time: each takes a search of the whole tree.
const LOOKS_MAX: usize = 200;

/// Bytes of a file that may be a secret as a whole.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the shortest name that is looked for.
const NAME_BYTES_MIN: usize = 3;
/// Lines that name a file which are looked at.
const LINES_MAX: usize = 2_000;
/// Files with them.
const FILES_MAX: usize = 256;
/// Extensions that such a file does not have: configuration and programs have names for the secrets they hold.
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

/// The names that may still be looked for, and whoever says that nobody waits for it any more.
pub(super) struct Looks<'a> {
    left: Cell<usize>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> Looks<'a> {
    /// Returns as many looks as there may be at a time.
    pub(super) fn until(is_stopped: &'a dyn Fn() -> bool) -> Self {
        Self {
            left: Cell::new(LOOKS_MAX),
            is_stopped,
        }
    }

    /// Returns no looks: what was not looked for is not known.
    pub(super) fn none() -> Self {
        Self {
            left: Cell::new(0),
            is_stopped: &|| true,
        }
    }

    /// True once nobody waits any more.
    pub(super) fn are_stopped(&self) -> bool {
        (self.is_stopped)()
    }

    fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0 && !self.are_stopped()
    }
}

/// True if a file that mentions this one says that it is a secret. Nothing where that is not known, because it takes one
/// look too many.
pub(super) fn is_named(
    tree: &dyn Tree,
    guard: &Guard,
    (path, content): (&RepoPath, &Bytes),
    looks: &Looks<'_>,
) -> Option<bool> {
    if !may_be(path, content) {
        return Some(false);
    }
    let is_looked_for =
        guard.redactor.is_looked_for(path.file_name()) || (looks.take() && look(tree, guard, path, looks));
    is_looked_for.then(|| guard.redactor.is_named(path))
}

/// Learns what names a file. Whoever looks at the same time looks as well: only what was learnt counts as looked for.
/// False if it was stopped.
fn look(tree: &dyn Tree, guard: &Guard, path: &RepoPath, looks: &Looks<'_>) -> bool {
    let accepts = |name: &str| name != path.as_str() && !guard.denied.holds(name);
    let Ok((mentions, _)) = tree.search(&accepts, path.file_name(), 0, LINES_MAX) else {
        // Whoever reads its files is told what is wrong with the tree.
        return true;
    };
    let files: BTreeSet<RepoPath> = mentions.into_iter().map(|mention| mention.path).collect();
    for file in files.iter().take(FILES_MAX) {
        if looks.are_stopped() {
            return false;
        }
        if let Ok((version, blob)) = tree.identified(file) {
            guard.redactor.learn_file(Some(&blob), &version.content);
        }
    }
    guard.redactor.set_looked_for(path.file_name());
    true
}

/// True for a text that may be a secret as a whole.
fn may_be(path: &RepoPath, content: &Bytes) -> bool {
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
    use super::LOOKS_MAX;
    use crate::model::{FileChange, FileVersion, Mode, RepoPath};
    use crate::redact::Redactor;
    use crate::workspace::fixture::{Fixture, path, text};
    use crate::workspace::{Edits, Guard, Overlay};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Returns so many files of names that nobody looked for, each on both sides of a change.
    fn changes(count: usize) -> Vec<FileChange> {
        let version = |content: String| {
            Some(FileVersion {
                content: content.into(),
                mode: Mode::Regular,
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
    fn so_many_names_are_looked_for_at_a_time_and_the_rest_is_not_shown() {
        let fixture = Fixture::with(&[text("main.jsonnet", "{ password: importstr 'keys/key0001' }\n")]);
        let tree = Overlay::new(fixture.base(), Edits::new());
        let guard = Guard {
            redactor: Arc::new(Redactor::new([])),
            ..Guard::default()
        };
        let changes = changes(2 * LOOKS_MAX + 50);
        let learn = || guard.learn(&changes, &tree, &|| false).unwrap();
        let unknown = learn();
        assert_eq!(Vec::from_iter(&unknown), paths(&changes[LOOKS_MAX..]));
        assert_eq!(
            guard.redactor.redact("kept to ourselves 1"),
            "⟦secret:1⟧",
            "what is named was learnt"
        );
        // What was looked for is known, and the next ones are.
        assert_eq!(Vec::from_iter(&learn()), paths(&changes[2 * LOOKS_MAX..]));
        assert!(learn().is_empty());
    }

    /// T87
    #[test]
    fn every_secret_is_known_before_a_whole_change_is_shown_and_what_is_not_is_taken_for_one() {
        let main = "{ password: importstr 'keys/key0449' }\n";
        let fixture = Fixture::with(&[text("main.jsonnet", main)]);
        let tree = Overlay::new(fixture.base(), Edits::new());
        let changes = changes(2 * LOOKS_MAX + 50);
        for (is_stopped, is_shown) in [(false, true), (true, false)] {
            let guard = Guard {
                redactor: Arc::new(Redactor::new([])),
                ..Guard::default()
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
    fn nothing_is_looked_for_once_nobody_waits() {
        let fixture = Fixture::with(&[text("main.jsonnet", "{}\n")]);
        let tree = Overlay::new(fixture.base(), Edits::new());
        let changes = changes(100);
        // Asked for each content, and for each name.
        for asked_max in [0, 10, 210] {
            let (guard, asked) = (Guard::default(), Cell::new(0));
            let is_stopped = || {
                asked.set(asked.get() + 1);
                asked.get() > asked_max
            };
            assert_eq!(guard.learn(&changes, &tree, &is_stopped), None);
            assert!(asked.get() <= asked_max + 3, "{} of {asked_max}", asked.get());
            assert!(!guard.redactor.is_looked_for("key0099"));
        }
    }
}
