//! Another spelling of a name must not bypass a rule on a file system that treats both as the same name.

use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::state::workspace::directory::handle::{Handle, PathResolution};
use crate::state::workspace::fixture::path;
use crate::state::workspace::{DeniedFiles, Directory, Tree};
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
        ("\u{6a5f}\u{5bc6}/key", "key\n"),
        ("42", "x\n"),
        ("caf\u{e9}", "x\n"),
    ] {
        let file = home.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }
    let tree = Directory::open_by(
        |root| Handle::open_with(PathResolution::Folding, root),
        home.path(),
    )
    .unwrap();
    (home, tree)
}

const OTHERWISE: [&str; 15] = [
    // Names without upper and lower case also have other spellings.
    "\u{6a5f}\u{200d}\u{5bc6}/key",
    "\u{6a5f}\u{5bc6}\u{200b}/key",
    "42.",
    "42\u{feff}",
    // Each Unicode form.
    "cafe\u{301}",
    "gro\u{308}\u{df}e/x",
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
            tree.real_path(&name).map(|_| ()),
            tree.entry(&name).map(|_| ()),
            tree.write(&name, Bytes::from_static(b"changed")),
            tree.put(&name, None),
            tree.delete(&name),
            tree.put_back(&name, None, None).map(|_| ()),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("with another spelling"), "{name}: {refused}");
        }
        // A comparison with a commit does not treat it as a file.
        assert_eq!(tree.read_stored(&name).unwrap(), None, "{name}");
    }
    assert!(tree.files_below("Secrets").is_err());
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
        "caf\u{c9}",
        "\u{6a5f}\u{200d}\u{5bc6}/new",
    ] {
        let content = Bytes::from_static(b"{}");
        let version = FileVersion {
            content: content.clone(),
            mode: FileMode::Regular,
        };
        let name = RepoPath::parse(name).unwrap();
        for refused in [tree.write(&name, content), tree.put(&name, Some(version))] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("with another spelling"), "{name}: {refused}");
        }
    }
    assert!(tree.changes().unwrap().is_empty());
}

/// If an editor changes the case of a file name, that file counts as removed. All others are compared and searched
/// as before.
#[test]
fn a_file_that_is_renamed_by_its_case_fails_nothing_else() {
    let (home, tree) = work();
    tree.write(&path(".env"), Bytes::from_static(b"TOKEN=2\n"))
        .unwrap();
    tree.write(&path("42"), Bytes::from_static(b"y\n")).unwrap();
    let at = |name: &str| home.path().join(name);
    std::fs::rename(at(".env"), at(".Env")).unwrap();
    let changes = tree.changes().unwrap();
    let after = changes
        .iter()
        .map(|change| (change.path.as_str(), change.after.is_some()));
    assert_eq!(after.collect::<Vec<_>>(), [(".env", false), ("42", true)]);
    let (found, _) = tree.search(&|_| true, "TOKEN", 0, 10).unwrap();
    let found = found.iter().map(|found| found.path.as_str());
    assert_eq!(found.collect::<Vec<_>>(), [".Env"]);
}

#[test]
fn ordinary_work_goes_on_and_both_forms_of_a_letter_are_one_name_to_every_rule() {
    let (_home, tree) = work();
    for name in [
        ".env",
        "secrets/prod.key",
        "gr\u{f6}\u{df}e/x",
        "\u{6a5f}\u{5bc6}/key",
        "42",
    ] {
        tree.read(&RepoPath::parse(name).unwrap()).unwrap();
    }
    let denied = DeniedFiles::new(["gr\u{f6}\u{df}e/**"]).unwrap();
    assert!(denied.is_denied("gro\u{308}\u{df}e/x"));
    for name in ["environments/prod/main.jsonnet", "environments/dev/main.jsonnet"] {
        tree.write(&path(name), Bytes::from_static(b"{ a: 1 }\n"))
            .unwrap();
    }
    assert_eq!(tree.changes().unwrap().len(), 2);
}

/// A name with `~` may be the short alias of a long name on some file systems.
#[test]
fn a_short_name_is_no_other_name() {
    let (home, tree) = work();
    std::fs::write(home.path().join("main~"), "x").unwrap();
    assert!(tree.read(&path("main~")).is_ok());
}
