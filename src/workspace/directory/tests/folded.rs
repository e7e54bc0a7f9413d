//! Another spelling of a name is no way around a rule, where the file system takes it for the same.

use crate::model::RepoPath;
use crate::workspace::directory::handle::{Handle, Way};
use crate::workspace::fixture::path;
use crate::workspace::{Denied, Directory, Tree};
use bytes::Bytes;

fn work() -> (tempfile::TempDir, Directory) {
    let home = tempfile::tempdir().unwrap();
    for (name, content) in [
        (".git/config", "[core]\n"),
        (".env", "TOKEN=1\n"),
        ("secrets/prod.key", "key\n"),
        ("environments/prod/main.jsonnet", "{}\n"),
        ("gr\u{f6}\u{df}e/x", "x\n"),
        ("stra\u{df}e", "x\n"),
    ] {
        let file = home.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }
    let tree = Directory::open_by(|root| Handle::by(Way::Folding, root), home.path()).unwrap();
    (home, tree)
}

const OTHERWISE: [&str; 9] = [
    ".ENV",
    ".Env",
    "Secrets/prod.key",
    "secrets/PROD.KEY",
    "Environments/prod/main.jsonnet",
    "environments/PROD/main.jsonnet",
    "environments/prod/main.jsonnet.",
    "GR\u{d6}\u{df}E/x",
    "strasse",
];

#[test]
fn another_spelling_is_neither_read_nor_written_nor_deleted() {
    let (home, tree) = work();
    for name in OTHERWISE {
        let name = RepoPath::parse(name).unwrap();
        for refused in [
            tree.read(&name).map(|_| ()),
            tree.real(&name).map(|_| ()),
            tree.entry(&name).map(|_| ()),
            tree.stored(&name).map(|_| ()),
            tree.write(&name, Bytes::from_static(b"changed")),
            tree.put(&name, None),
            tree.delete(&name),
            tree.put_back(&name, None, None).map(|_| ()),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("spelled otherwise"), "{name}: {refused}");
        }
    }
    assert!(tree.below("Secrets").is_err());
    assert!(tree.changes().unwrap().is_empty());
    assert_eq!(std::fs::read(home.path().join(".env")).unwrap(), b"TOKEN=1\n");
    assert_eq!(
        std::fs::read_dir(home.path().join("environments"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn nothing_new_goes_where_another_spelling_is() {
    let (_home, tree) = work();
    for name in [
        "environments/PROD/new.jsonnet",
        "ENVIRONMENTS/dev/main.jsonnet",
        "Secrets/new.jsonnet",
    ] {
        let refused = tree.write(&path(name), Bytes::from_static(b"{}")).unwrap_err();
        assert!(
            refused.to_string().contains("spelled otherwise"),
            "{name}: {refused}"
        );
    }
}

#[test]
fn ordinary_work_goes_on_and_both_forms_of_a_letter_are_one_name_to_every_rule() {
    let (_home, tree) = work();
    for name in [
        ".env",
        "secrets/prod.key",
        "gr\u{f6}\u{df}e/x",
        "gro\u{308}\u{df}e/x",
    ] {
        tree.read(&RepoPath::parse(name).unwrap()).unwrap();
    }
    let denied = Denied::new(["gr\u{f6}\u{df}e/**"]).unwrap();
    assert!(denied.holds("gro\u{308}\u{df}e/x"));
    for name in ["environments/prod/main.jsonnet", "environments/dev/main.jsonnet"] {
        tree.write(&path(name), Bytes::from_static(b"{ a: 1 }\n"))
            .unwrap();
    }
    assert_eq!(tree.changes().unwrap().len(), 2);
}

/// A name with `~` may be the short one that some file systems have for each long one.
#[test]
fn a_short_name_is_no_other_name() {
    let (home, tree) = work();
    std::fs::write(home.path().join("main~"), "x").unwrap();
    assert!(tree.read(&path("main~")).is_ok());
}
