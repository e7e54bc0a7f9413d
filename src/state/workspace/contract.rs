//! The contract of [`Tree`], checked with the same assertions for every implementation, and the search of the trees in
//! memory.

use super::lines::{self, MatchWindow};
use super::{Match, Tree, TreeEntry, TreeError};
use crate::base::model::{FileMode, FileVersion, RepoPath};
use bytes::Bytes;

/// The files of a tree that the contract is checked with.
pub(crate) const CONTRACT_FILES: [(&str, &str); 3] = [
    ("a.txt", "one\n"),
    ("lib/b.txt", "two\nthree\n"),
    ("lib/deep/c.txt", "two\n"),
];

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

fn version(content: &'static str) -> FileVersion {
    FileVersion {
        content: Bytes::from(content),
        mode: FileMode::Regular,
    }
}

/// Returns true if every way to read a path says that nothing is there.
fn is_absent(tree: &dyn Tree, name: &str) -> bool {
    let read = tree.read(&path(name));
    matches!(read, Err(TreeError::NotFound { .. }))
        && tree.entry(&path(name)).unwrap().is_none()
        && tree.read_stored(&path(name)).unwrap().is_none()
        && !tree.files().unwrap().contains(&path(name))
}

/// Checks the reading half of the contract with a tree of the [`CONTRACT_FILES`].
pub(crate) fn assert_reads(tree: &dyn Tree) {
    let names = CONTRACT_FILES.map(|(name, _)| path(name));
    assert_eq!(*tree.files().unwrap(), names, "{tree:?}");
    assert_eq!(*tree.all_files().unwrap(), names);
    for (name, content) in CONTRACT_FILES {
        let name = path(name);
        assert_eq!(tree.read(&name).unwrap(), version(content));
        assert_eq!(tree.read_with_blob(&name).unwrap().0, version(content));
        assert_eq!(tree.read_stored(&name).unwrap(), Some(version(content)));
        assert_eq!(tree.entry(&name).unwrap(), Some(TreeEntry::File));
        assert_eq!(tree.real_path(&name).unwrap(), name);
    }
    let directory = tree.read(&path("lib"));
    assert!(
        matches!(
            directory,
            Err(TreeError::WrongKind {
                what: "directory",
                ..
            })
        ),
        "{directory:?} of {tree:?}"
    );
    assert_eq!(tree.entry(&path("lib")).unwrap(), Some(TreeEntry::Directory));
    assert!(is_absent(tree, "missing") && is_absent(tree, "lib/missing"));

    assert_eq!(tree.files_below("").unwrap(), names);
    assert_eq!(tree.files_below("lib").unwrap(), names[1..]);
    assert_eq!(tree.files_below("missing").unwrap(), []);
    let listed = |directory| tree.list_directory(directory).unwrap();
    assert_eq!(
        listed(""),
        [("a.txt".to_owned(), false), ("lib".to_owned(), true)]
    );
    assert_eq!(
        listed("lib"),
        [("b.txt".to_owned(), false), ("deep".to_owned(), true)]
    );
    assert_eq!(listed("missing"), []);

    let found = |offset, limit| {
        let (found, total) = tree.search(&|_| true, "two", offset, limit).unwrap();
        let places: Vec<(String, u64)> = found
            .iter()
            .map(|found| (found.path.to_string(), found.line))
            .collect();
        (places, total)
    };
    let (first, second) = (("lib/b.txt".to_owned(), 1), ("lib/deep/c.txt".to_owned(), 1));
    assert_eq!(found(0, 9), (vec![first.clone(), second.clone()], 2));
    assert_eq!(found(0, 1), (vec![first], 2));
    assert_eq!(found(1, 9), (vec![second], 2));
    let (accepted, total) = tree.search(&|path| path == "a.txt", "two", 0, 9).unwrap();
    assert_eq!((accepted.len(), total), (0, 0));
    assert_eq!(tree.changes().unwrap(), []);
}

/// Checks the writing half of the contract with a tree of the [`CONTRACT_FILES`], which is changed.
pub(crate) fn assert_writes(tree: &dyn Tree) {
    tree.write(&path("new/d.txt"), Bytes::from("four\n")).unwrap();
    tree.write(&path("a.txt"), Bytes::from("1\n")).unwrap();
    tree.delete(&path("lib/b.txt")).unwrap();
    assert_eq!(tree.read(&path("new/d.txt")).unwrap(), version("four\n"));
    assert_eq!(tree.entry(&path("new")).unwrap(), Some(TreeEntry::Directory));
    assert_eq!(tree.read(&path("a.txt")).unwrap(), version("1\n"));
    assert!(is_absent(tree, "lib/b.txt"));
    assert!(matches!(
        tree.delete(&path("missing")),
        Err(TreeError::NotFound { .. })
    ));
    let names = ["a.txt", "lib/deep/c.txt", "new/d.txt"].map(path);
    assert_eq!(*tree.files().unwrap(), names, "{tree:?}");
    let changes = |tree: &dyn Tree| {
        let changes = tree.changes().unwrap().into_iter();
        changes
            .map(|change| (change.path.to_string(), change.before, change.after))
            .collect::<Vec<_>>()
    };
    let edited = ("a.txt".to_owned(), Some(version("one\n")), Some(version("1\n")));
    assert_eq!(
        changes(tree),
        [
            edited.clone(),
            ("lib/b.txt".to_owned(), Some(version("two\nthree\n")), None),
            ("new/d.txt".to_owned(), None, Some(version("four\n"))),
        ]
    );

    // What is put as it was before is no change.
    tree.put(&path("lib/b.txt"), Some(version("two\nthree\n")))
        .unwrap();
    tree.put(&path("new/d.txt"), None).unwrap();
    tree.put(&path("missing"), None).unwrap();
    assert!(is_absent(tree, "new/d.txt") && is_absent(tree, "missing"));
    assert_eq!(changes(tree), [edited]);
    tree.write(&path("a.txt"), Bytes::from("one\n")).unwrap();
    assert_reads(tree);
}

/// Searches files in memory as every [`Tree`] does.
pub(crate) fn search_files<'a>(
    files: impl Iterator<Item = (&'a RepoPath, &'a [u8])>,
    needle: &str,
    offset: usize,
    limit: usize,
) -> (Vec<Match>, usize) {
    let mut found = MatchWindow::new(offset, limit);
    let finder = memchr::memmem::Finder::new(needle.as_bytes());
    for (path, content) in files.filter(|_| lines::fits_a_line(needle)) {
        lines::search_text(content, &finder, path.as_str(), &mut found);
    }
    found.finish()
}

mod tests {
    use super::{CONTRACT_FILES, assert_reads, assert_writes, path, version};
    use crate::base::redact::Redactor;
    use crate::state::workspace::fixture::{Fixture, text};
    use crate::state::workspace::{
        DeniedFiles, Directory, GuardedTree, Overlay, RevertedTree, SecretGuard, Tree, WorkspaceEdits,
    };
    use bytes::Bytes;
    use std::sync::Arc;

    fn fixture() -> Fixture {
        Fixture::with(&CONTRACT_FILES.map(|(name, content)| text(name, content)))
    }

    fn overlay(fixture: &Fixture) -> Arc<dyn Tree> {
        Arc::new(Overlay::new(fixture.head_base(), WorkspaceEdits::new()))
    }

    #[test]
    fn an_overlay_and_a_guarded_tree_keep_the_contract_of_trees() {
        let guard = SecretGuard {
            denied: Arc::new(DeniedFiles::default()),
            redactor: Arc::new(Redactor::new([])),
        };
        let fixture = fixture();
        let guarded = Arc::new(GuardedTree::new(overlay(&fixture), guard));
        for tree in [overlay(&fixture), guarded] {
            assert_reads(tree.as_ref());
            assert_writes(tree.as_ref());
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test builds its own files")]
    fn a_directory_keeps_the_contract_of_trees() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(".git")).unwrap();
        std::fs::create_dir_all(root.path().join("lib/deep")).unwrap();
        for (name, content) in CONTRACT_FILES {
            std::fs::write(root.path().join(name), content).unwrap();
        }
        let tree = Directory::open(root.path()).unwrap();
        assert_reads(&tree);
        assert_writes(&tree);
    }

    #[test]
    fn a_tree_before_its_edits_keeps_the_reading_half_of_the_contract() {
        let fixture = fixture();
        let now = overlay(&fixture);
        now.write(&path("a.txt"), Bytes::from("1\n")).unwrap();
        now.delete(&path("lib/deep/c.txt")).unwrap();
        now.put(&path("new/d.txt"), Some(version("four\n"))).unwrap();
        let changes = now.changes().unwrap();
        assert_reads(&RevertedTree::new(now, &changes).unwrap());
    }
}
