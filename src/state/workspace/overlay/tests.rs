//! The overlay of a conversation: edits on a base, and attempts to reach files outside it.

use super::{Overlay, WRITTEN_BYTES_MAX, WorkspaceEdits};
use crate::base::model::{FileChange, FileMode, FileVersion, PathError, RepoPath};
use crate::state::workspace::fixture::{Fixture, link, path, text};
use crate::state::workspace::{Base, Tree, TreeEntry, TreeError};
use bytes::Bytes;
use globset::Glob;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn overlay(base: &Arc<Base>) -> Overlay {
    Overlay::new(base.clone(), WorkspaceEdits::new())
}

fn version(content: &str) -> FileVersion {
    FileVersion {
        content: Bytes::copy_from_slice(content.as_bytes()),
        mode: FileMode::Regular,
    }
}

fn bytes(content: &str) -> Bytes {
    Bytes::copy_from_slice(content.as_bytes())
}

fn all(_: &str) -> bool {
    true
}

fn error_text<T: std::fmt::Debug>(result: Result<T, TreeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_written_file_is_read_listed_searched_and_reported_as_changed() {
    let fixture = Fixture::with(&[text("a", "one\ntwo\n"), text("b/c", "two\n"), text("z", "zed\n")]);
    let tree = overlay(&fixture.head_base());
    tree.write(&path("b/new"), bytes("two new\n")).unwrap();
    tree.write(&path("a"), bytes("one\n2\n")).unwrap();
    tree.delete(&path("z")).unwrap();
    assert_eq!(tree.read(&path("b/new")).unwrap(), version("two new\n"));
    assert_eq!(*tree.files().unwrap(), ["a", "b/c", "b/new"].map(path));
    let (found, total) = tree.search(&all, "two", 0, 10).unwrap();
    let shown: Vec<(&str, u64, &str)> = found
        .iter()
        .map(|found| (found.path.as_str(), found.line, found.text.as_str()))
        .collect();
    assert_eq!(
        (shown, total),
        (vec![("b/c", 1, "two"), ("b/new", 1, "two new")], 2)
    );
    let change = |name: &str, before: Option<&str>, after: Option<&str>| FileChange {
        path: path(name),
        before: before.map(version),
        after: after.map(version),
    };
    assert_eq!(
        tree.changes().unwrap(),
        [
            change("a", Some("one\ntwo\n"), Some("one\n2\n")),
            change("b/new", None, Some("two new\n")),
            change("z", Some("zed\n"), None)
        ]
    );
}

#[test]
fn going_back_to_the_base_leaves_no_edit() {
    let fixture = Fixture::with(&[("run", b"x\n", FileMode::Executable)]);
    let tree = overlay(&fixture.head_base());
    tree.write(&path("run"), bytes("y\n")).unwrap();
    assert_eq!(tree.read(&path("run")).unwrap().mode, FileMode::Executable);
    tree.write(&path("run"), bytes("x\n")).unwrap();
    assert_eq!(tree.edits(), WorkspaceEdits::new());
    tree.delete(&path("run")).unwrap();
    assert_eq!(tree.edits(), BTreeMap::from([(path("run"), None)]));
    tree.write(&path("run"), bytes("x\n")).unwrap();
    assert_eq!(tree.edits(), WorkspaceEdits::new());
    tree.write(&path("new"), bytes("n")).unwrap();
    tree.delete(&path("new")).unwrap();
    assert_eq!(
        (tree.edits(), tree.changes().unwrap()),
        (WorkspaceEdits::new(), vec![])
    );
}

#[test]
fn edits_that_were_stored_make_the_same_workspace_again() {
    let fixture = Fixture::with(&[text("a", "1\n"), text("b", "2\n")]);
    let base = fixture.head_base();
    let tree = overlay(&base);
    tree.write(&path("a"), bytes("changed\n")).unwrap();
    tree.delete(&path("b")).unwrap();
    tree.write(&path("c/d"), bytes("new\n")).unwrap();
    let again = Overlay::new(base, tree.edits());
    assert_eq!(again.edits(), tree.edits());
    assert_eq!(again.changes().unwrap(), tree.changes().unwrap());
    assert_eq!(again.files().unwrap(), tree.files().unwrap());
}

/// T26
#[test]
fn two_people_on_one_base_do_not_see_each_other() {
    let fixture = Fixture::with(&[text("shared", "base\n")]);
    let base = fixture.head_base();
    let (ada, ben) = (overlay(&base), overlay(&base));
    ada.write(&path("shared"), bytes("ada secret\n")).unwrap();
    ada.write(&path("only-ada"), bytes("ada secret\n")).unwrap();
    assert_eq!(ben.read(&path("shared")).unwrap(), version("base\n"));
    assert_eq!(error_text(ben.read(&path("only-ada"))), "no file `only-ada`");
    assert_eq!(ben.search(&all, "secret", 0, 10).unwrap(), (vec![], 0));
    assert_eq!(ben.changes().unwrap(), vec![]);
    ben.delete(&path("shared")).unwrap();
    assert_eq!(ada.read(&path("shared")).unwrap(), version("ada secret\n"));
    assert_eq!(base.read(&path("shared")).unwrap(), Some(version("base\n")));
}

/// T26
#[test]
fn another_workspace_cannot_be_named() {
    for name in [
        "../wt-b/secret",
        "/srv/wt-b/secret",
        "/proc/self/cwd/../b",
        "a/../../b/secret",
    ] {
        assert!(
            matches!(RepoPath::parse(name), Err(PathError::Outside(_))),
            "{name}"
        );
    }
    let fixture = Fixture::with(&[link("planted", "../wt-b/secret"), link("root", "/")]);
    let tree = overlay(&fixture.head_base());
    for name in ["planted", "root", "root/etc/passwd"] {
        let said = error_text(tree.read(&path(name)));
        assert_eq!(said, format!("`{name}` is a symlink that leaves the repository"));
    }
}

/// T36
#[test]
fn links_are_followed_inside_and_nowhere_else() {
    let fixture = Fixture::with(&[
        text("real/file", "content\n"),
        text("top", "top\n"),
        link("inside", "real/file"),
        link("real/up", "../top"),
        link("dir", "real"),
        link("twice", "dir/up"),
        link("absolute", "/etc/passwd"),
        link("parent", ".."),
        link("git", ".git"),
        link("dangling", "nothing"),
        link("loop", "loop"),
        link("ping", "pong"),
        link("pong", "ping"),
        link("self", "."),
    ]);
    let tree = overlay(&fixture.head_base());
    for (name, content) in [
        ("inside", "content\n"),
        ("real/up", "top\n"),
        ("dir/file", "content\n"),
        ("twice", "top\n"),
        ("self/self/top", "top\n"),
    ] {
        assert_eq!(tree.read(&path(name)).unwrap(), version(content), "{name}");
    }
    for (name, error) in [
        ("absolute", "`absolute` is a symlink that leaves the repository"),
        ("parent", "`parent` is a symlink that leaves the repository"),
        ("parent/x", "`parent/x` is a symlink that leaves the repository"),
        ("git", "`git` is a symlink that leaves the repository"),
        (
            "git/config",
            "`git/config` is a symlink that leaves the repository",
        ),
        ("self", "`self` is a symlink that leaves the repository"),
        ("dangling", "no file `dangling`"),
        ("loop", "`loop` is a symlink that leads in a circle"),
        ("ping", "`ping` is a symlink that leads in a circle"),
        ("dir", "`dir` is a directory"),
    ] {
        assert!(
            error_text(tree.read(&path(name))).starts_with(error),
            "{name}: {}",
            error_text(tree.read(&path(name)))
        );
    }
    for name in ["dir/new", "git/config", "parent/x", "absolute/x", "dir/file"] {
        let error = format!("`{name}`: it is below a symlink; use the path the symlink points to");
        assert_eq!(error_text(tree.write(&path(name), bytes("x"))), error);
        assert_eq!(error_text(tree.delete(&path(name))), error);
    }
    assert_eq!(
        error_text(tree.write(&path("inside"), bytes("x"))),
        "`inside`: it is a symlink; write to the file it points to"
    );
    assert_eq!(tree.edits(), WorkspaceEdits::new());
    tree.delete(&path("inside")).unwrap();
    tree.write(&path("inside"), bytes("a file now\n")).unwrap();
    assert_eq!(tree.read(&path("inside")).unwrap(), version("a file now\n"));
}

#[test]
fn what_stands_at_a_path_is_told_without_following_it() {
    let fixture = Fixture::with(&[
        text("a/b", "1"),
        link("to", "a/b"),
        link("out", "/etc"),
        text("z", "2"),
    ]);
    let tree = overlay(&fixture.head_base());
    tree.write(&path("new/c"), bytes("3")).unwrap();
    tree.delete(&path("z")).unwrap();
    let target = |target: &str| Some(TreeEntry::Symlink(bytes(target)));
    for (name, expected) in [
        ("a", Some(TreeEntry::Directory)),
        ("a/b", Some(TreeEntry::File)),
        ("a/b/c", None),
        ("to", target("a/b")),
        ("out", target("/etc")),
        ("new", Some(TreeEntry::Directory)),
        ("new/c", Some(TreeEntry::File)),
        ("z", None),
    ] {
        assert_eq!(tree.entry(&path(name)).unwrap(), expected, "{name}");
    }
}

#[test]
fn a_file_is_no_directory_and_a_directory_no_file() {
    let fixture = Fixture::with(&[text("file", "f"), text("dir/inner", "i"), text("dir-b", "x")]);
    let tree = overlay(&fixture.head_base());
    assert_eq!(
        error_text(tree.write(&path("file/x"), bytes("x"))),
        "`file` is a file"
    );
    assert_eq!(error_text(tree.delete(&path("file/x"))), "`file` is a file");
    assert_eq!(
        error_text(tree.write(&path("dir"), bytes("x"))),
        "`dir` is a directory"
    );
    assert_eq!(error_text(tree.read(&path("dir"))), "`dir` is a directory");
    assert_eq!(error_text(tree.delete(&path("dir"))), "`dir` is a directory");
    tree.write(&path("new/deep/x"), bytes("x")).unwrap();
    assert_eq!(
        error_text(tree.read(&path("new/deep"))),
        "`new/deep` is a directory"
    );
    tree.delete(&path("dir/inner")).unwrap();
    assert!(error_text(tree.read(&path("dir"))).starts_with("no file `dir`"));
    tree.write(&path("dir"), bytes("now a file")).unwrap();
    assert_eq!(
        error_text(tree.write(&path("dir/inner"), bytes("x"))),
        "`dir` is a file"
    );
    tree.delete(&path("file")).unwrap();
    tree.write(&path("file/x"), bytes("x")).unwrap();
}

/// T39
#[test]
fn git_metadata_is_read_only() {
    let fixture = Fixture::with(&[text("a", "a"), text(".gitattributes", "* text\n")]);
    let tree = overlay(&fixture.head_base());
    for name in [
        ".git",
        ".GIT",
        ".Git/config",
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git",
        "sub/.GIT/x",
        ".git::$INDEX_ALLOCATION",
        ".git::$INDEX_ALLOCATION/config",
        ".g\u{200c}it",
        ".g\u{200c}it/config",
        ".\u{200d}git",
        ".git\u{feff}",
        "git~1",
        "GIT~1/config",
        "sub/git~1/x",
        ".git ",
        ".git.",
        ".git . .",
        ".git /config",
        "a/b/.git/c",
    ] {
        assert!(
            matches!(RepoPath::parse(name), Err(PathError::GitMetadata(_))),
            "{name}"
        );
    }
    for name in [
        ".gitattributes",
        ".gitmodules",
        "sub/.gitattributes",
        ".GitModules",
        ".gitattributes/x",
    ] {
        let error = format!("`{name}`: git metadata is read-only");
        assert_eq!(error_text(tree.write(&path(name), bytes("x"))), error);
        assert_eq!(error_text(tree.delete(&path(name))), error);
    }
    assert!(tree.read(&path(".gitattributes")).is_ok());
    tree.write(&path(".gitignore"), bytes("target\n")).unwrap();
}

/// T39: no program of this product can put a directory or a link where git reads its settings.
#[test]
fn nothing_is_put_where_git_reads_its_settings() {
    let fixture = Fixture::with(&[text("a", "a")]);
    let tree = overlay(&fixture.head_base());
    let file = |mode| {
        Some(FileVersion {
            content: bytes("x"),
            mode,
        })
    };
    for name in [
        ".gitattributes/jsonnetfile.json",
        ".gitmodules/vendor/x",
        "lib/.GitAttributes/jsonnetfile.json",
        "vendor/.gitattributes/x",
        "a.d/.gitattributes",
        ".gitmodules",
        ".gitmodules. /x",
        ".gitmodules::$DATA",
        ".git\u{200d}attributes/x",
        "GITATT~1/x",
        "gitmod~2",
    ] {
        let error = tree
            .put(&path(name), file(FileMode::Regular))
            .map_err(|error| error.to_string());
        assert_eq!(error, Err(format!("`{name}`: git metadata is read-only")));
    }
    let link = tree.put(&path("vendor/.gitattributes"), file(FileMode::Symlink));
    assert!(link.is_err(), "a link to settings is settings");
    for name in [
        "vendor/x/.gitattributes",
        "lib/gitattributes/x",
        ".gitignore",
        "gitmodules",
    ] {
        tree.put(&path(name), file(FileMode::Regular)).unwrap();
    }
    tree.put(&path("vendor/x/.gitattributes"), None).unwrap();
}

/// T39
#[test]
fn no_directory_can_be_made_to_look_like_a_repository() {
    let fixture = Fixture::with(&[text("a", "a")]);
    let last = ["HEAD", "objects/x", "refs/heads/main"];
    for directory in ["", "sub/", "deep/er/"] {
        for (number, refused) in last.iter().enumerate() {
            let tree = overlay(&fixture.head_base());
            tree.write(&path(&format!("{directory}config")), bytes("[core]\n"))
                .unwrap();
            for (other, name) in last.iter().enumerate() {
                if other != number {
                    tree.write(&path(&format!("{directory}{name}")), bytes("x"))
                        .unwrap();
                }
            }
            let error = tree
                .write(&path(&format!("{directory}{refused}")), bytes("x"))
                .unwrap_err();
            assert!(
                error.to_string().contains("git metadata is read-only"),
                "{directory}{refused}: {error}"
            );
        }
    }
}

/// T38
#[test]
fn what_is_too_large_is_said_and_still_part_of_the_change() {
    let large = "x".repeat(WRITTEN_BYTES_MAX as usize + 1);
    let fixture = Fixture::with(&[text("large", &large)]);
    assert_eq!(
        overlay(&fixture.head_base())
            .read(&path("large"))
            .unwrap()
            .content,
        large
    );
    let repository = fixture.open();
    repository.bound_files(1 << 20);
    let head = repository.head().unwrap().unwrap();
    let tree = overlay(&repository.base(&head, &|_| {}).unwrap());
    assert_eq!(
        error_text(tree.read(&path("large"))),
        "`large` has 1048577 bytes; the limit is 1048576 (`sandbox.file_bytes_max`)"
    );
    assert_eq!(
        error_text(tree.write(&path("new"), bytes(&large))),
        "`new` has 1048577 bytes; the limit is 1048576"
    );
    tree.delete(&path("large")).unwrap();
    assert_eq!(tree.changes().unwrap()[0].before, Some(version(&large)));
}

#[test]
fn a_missing_file_names_what_looks_like_it() {
    let fixture = Fixture::with(&[
        text("environments/dev/main.jsonnet", "d"),
        text("environments/prod/main.jsonnet", "p"),
        text("lib/k.libsonnet", "k"),
    ]);
    let tree = overlay(&fixture.head_base());
    assert_eq!(
        error_text(tree.read(&path("envs/prod/main.jsonnet"))),
        "no file `envs/prod/main.jsonnet`; similar: `environments/prod/main.jsonnet`, \
         `environments/dev/main.jsonnet`"
    );
    assert_eq!(
        error_text(tree.read(&path("lib/k.libsonet"))),
        "no file `lib/k.libsonet`; similar: `lib/k.libsonnet`"
    );
    assert_eq!(
        error_text(tree.delete(&path("nothing/like/it"))),
        "no file `nothing/like/it`"
    );
}

#[test]
fn binary_files_are_read_and_not_searched() {
    let fixture = Fixture::with(&[
        ("blob", b"needle\0needle\n", FileMode::Regular),
        text("text", "needle\n"),
        link("zlink", "needle"),
    ]);
    let tree = overlay(&fixture.head_base());
    assert_eq!(
        tree.read(&path("blob")).unwrap().content,
        &b"needle\0needle\n"[..]
    );
    assert_eq!(tree.search(&all, "needle", 0, 10).unwrap().1, 1);
    tree.write(&path("text"), Bytes::from_static(b"needle\0"))
        .unwrap();
    assert_eq!(tree.search(&all, "needle", 0, 10).unwrap().1, 0);
}

#[test]
fn a_search_shows_its_window_and_counts_all() {
    let many: String = (1..=50)
        .map(|number| format!("hit {number} hit\nmiss\r\n"))
        .collect();
    let long = format!("{}hit\n", "é".repeat(700));
    let fixture = Fixture::with(&[
        text("a.txt", &many),
        text("b.md", "hit\n"),
        text("c.txt", "no end hit"),
        text("d.txt", &long),
        text("e.txt", ""),
        text("f.txt", "hit\r\n\r\nHIT"),
    ]);
    let tree = overlay(&fixture.head_base());
    let text_files = Glob::new("*.txt").unwrap().compile_matcher();
    let (found, total) = tree
        .search(&|path| text_files.is_match(path), "hit", 48, 4)
        .unwrap();
    let shown: Vec<(&str, u64, String)> = found
        .iter()
        .map(|found| {
            (
                found.path.as_str(),
                found.line,
                found.text.chars().take(10).collect(),
            )
        })
        .collect();
    assert_eq!(total, 53);
    let expected: Vec<(&str, u64, String)> = [
        ("a.txt", 97, "hit 49 hit"),
        ("a.txt", 99, "hit 50 hit"),
        ("c.txt", 1, "no end hit"),
    ]
    .into_iter()
    .map(|(name, line, text)| (name, line, text.to_owned()))
    .chain([("d.txt", 1, "é".repeat(10))])
    .collect();
    assert_eq!(shown, expected);
    assert_eq!(found[3].text, "é".repeat(500));
    assert_eq!(tree.search(&all, "hit", 53, 10).unwrap().0[0].text, "hit");
    for needle in ["", "hit\nmiss", "\0", "hitt"] {
        assert_eq!(
            tree.search(&all, needle, 0, 10).unwrap(),
            (vec![], 0),
            "{needle:?}"
        );
    }
}

/// T35, TK-34, REP-4, I4, REP-7
#[test]
fn nothing_outside_can_be_named_by_any_operation() {
    let mut corpus: Vec<String> = Vec::new();
    for prefix in ["", "a/", "a/b/", "./", "environments/dev/"] {
        for tail in [
            "../x",
            "../../etc/passwd",
            "..",
            "../",
            "../repo-evil/x",
            "..\\x",
            "..\\..\\x",
            "%2e%2e/x",
            "%2E%2E%2Fx",
            "..%2fx",
            "%2e%2e%5cx",
            "a\0b",
            "\0",
            "//etc/passwd",
            "/etc/passwd",
            "a/.",
            "a/./b",
            "a//b",
            "x/..",
            "x/../..",
            "..;/x",
            "C:\\x",
        ] {
            corpus.push(format!("{prefix}{tail}"));
        }
    }
    for whole in [
        "",
        ".",
        "/",
        "~",
        "~/x",
        "~root/x",
        "/proc/self/cwd/x",
        "./",
        "././x",
        "/repo-evil/x",
    ] {
        corpus.push(whole.to_owned());
    }
    corpus.push("../".repeat(5_000));
    corpus.push("a/".repeat(5_000));
    corpus.push("a".repeat(5_000));
    assert!(corpus.len() >= 120, "{}", corpus.len());
    let fixture = Fixture::with(&[text("a/b/c", "c")]);
    let tree = overlay(&fixture.head_base());
    for text in corpus {
        // A path that parses names an entry inside the tree, and every operation treats it as one.
        if let Ok(inside) = RepoPath::parse(&text) {
            assert!(
                inside
                    .as_str()
                    .split('/')
                    .all(|part| !matches!(part, "" | "." | "..")),
                "{text:?}"
            );
            assert!(
                matches!(tree.read(&inside), Err(TreeError::NotFound { .. })),
                "{text:?}"
            );
            assert!(
                matches!(tree.delete(&inside), Err(TreeError::NotFound { .. })),
                "{text:?}"
            );
        }
    }
    assert_eq!(tree.edits(), WorkspaceEdits::new());
}

/// Returns the lines that ripgrep would print: every matching line of every text file.
fn plain_search(files: &BTreeMap<String, Vec<u8>>, needle: &[u8]) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for (name, content) in files {
        if content.contains(&0) {
            continue;
        }
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if memchr::memmem::find(line, needle).is_some() {
                found.push((name.clone(), number as u64 + 1));
            }
        }
    }
    found
}

fn files() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let content = prop_oneof![
        8 => "[ab\n]{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::btree_map("[a-c]{1,2}\\.[xy]", content, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_reading_every_file_finds(
        base in files(),
        edits in prop::collection::btree_map("[a-c]{1,2}\\.[xy]", prop::option::of("[ab\n]{0,20}"), 0..5),
        needle in "[ab]{1,3}",
        offset in 0_usize..5,
        limit in 0_usize..20,
    ) {
        let listed: Vec<_> = base.iter().map(|(name, content)| (name.as_str(), &content[..], FileMode::Regular)).collect();
        let fixture = Fixture::with(&listed);
        let tree = overlay(&fixture.head_base());
        let mut expected = base.clone();
        for (name, edit) in &edits {
            match edit {
                Some(content) => {
                    tree.write(&path(name), bytes(content)).unwrap();
                    expected.insert(name.clone(), content.clone().into_bytes());
                }
                None => {
                    let was = expected.remove(name).is_some();
                    prop_assert_eq!(tree.delete(&path(name)).is_ok(), was);
                }
            }
        }
        let (found, total) = tree.search(&all, &needle, offset, limit).unwrap();
        let found: Vec<_> = found.into_iter().map(|found| (found.path.to_string(), found.line)).collect();
        let all = plain_search(&expected, needle.as_bytes());
        prop_assert_eq!(total, all.len());
        let window: Vec<_> = all.into_iter().skip(offset).take(limit).collect();
        prop_assert_eq!(found, window);
        let listed: Vec<_> = tree.files().unwrap().iter().map(ToString::to_string).collect();
        prop_assert_eq!(listed, expected.keys().cloned().collect::<Vec<_>>());
        for change in tree.changes().unwrap() {
            let name = change.path.to_string();
            prop_assert_eq!(change.before.map(|version| version.content.to_vec()), base.get(&name).cloned());
            prop_assert_eq!(change.after.map(|version| version.content.to_vec()), expected.get(&name).cloned());
        }
    }
}

/// Checks the case that two names are the same on the file system where a patch is applied.
#[test]
fn no_new_file_is_another_spelling_of_one_that_is_there() {
    let fixture = Fixture::with(&[
        text("environments/prod/main.jsonnet", "{}\n"),
        text("lib/a-b/x", "x\n"),
        text("lib/a/x", "x\n"),
    ]);
    let tree = overlay(&fixture.head_base());
    tree.write(&path("docs/Plan.md"), bytes("x\n")).unwrap();
    for name in [
        "environments/Prod/main.jsonnet",
        "Environments/prod/spec.json",
        "environments/prod/MAIN.jsonnet",
        "lib/A/y",
        "docs/plan.md",
        "DOCS/other.md",
    ] {
        for refused in [
            error_text(tree.write(&path(name), bytes("x\n"))),
            error_text(tree.put(&path(name), Some(version("x\n")))),
        ] {
            assert!(
                refused.contains("under a name with another spelling"),
                "{name}: {refused}"
            );
        }
    }
    // Packages keep the names of their author below the one `vendor` directory.
    tree.put(&path("vendor/k/README"), Some(version("x\n"))).unwrap();
    tree.put(&path("vendor/k/readme"), Some(version("x\n"))).unwrap();
    let refused = error_text(tree.put(&path("Vendor/k/x"), Some(version("x\n"))));
    assert!(refused.contains("with another spelling"), "{refused}");
    tree.delete(&path("docs/Plan.md")).unwrap();
    for name in [
        "docs/plan.md",
        "lib/a/y",
        "environments/prod/main.jsonnet",
        "lib/A-c",
    ] {
        tree.write(&path(name), bytes("{}\n")).unwrap();
    }
}

#[test]
fn no_spelling_makes_a_directory_a_repository_of_git() {
    let fixture = Fixture::with(&[text("a/Objects/x", "x\n"), text("a/refs/x", "x\n")]);
    let tree = overlay(&fixture.head_base());
    for name in ["a/HEAD", "a/head", "a/Config"] {
        let refused = tree.write(&path(name), bytes("x\n"));
        assert_eq!(refused.is_err(), name != "a/Config", "{name}");
    }
}
