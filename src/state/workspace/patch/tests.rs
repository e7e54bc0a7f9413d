//! Patches, compared with the results of git.

use super::{Patch, write};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use gix::hash::Kind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

fn version(content: &[u8], mode: FileMode) -> FileVersion {
    FileVersion {
        content: Bytes::copy_from_slice(content),
        mode,
    }
}

fn change(path: &str, before: Option<FileVersion>, after: Option<FileVersion>) -> FileChange {
    FileChange {
        path: RepoPath::parse(path).unwrap(),
        before,
        after,
    }
}

fn text(content: &str) -> Option<FileVersion> {
    Some(version(content.as_bytes(), FileMode::Regular))
}

fn shown(changes: &[FileChange]) -> String {
    String::from_utf8(write(changes).text.to_vec()).unwrap()
}

#[test]
fn a_small_edit_reads_like_git_wrote_it() {
    let before = text("1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let after = text("1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    let changes = [change("a/b.jsonnet", before, after)];
    assert_eq!(
        shown(&changes),
        "diff --git a/a/b.jsonnet b/a/b.jsonnet\n\
         index 0719398930eb3fb1ee4dc8ff1fa6f5bba0a3d6ce..a5aee0db4b3aff2a26ca0ae12a2ca2e83ac36b5a 100644\n\
         --- a/a/b.jsonnet\n+++ b/a/b.jsonnet\n\
         @@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
            .replace(
                "0719398930eb3fb1ee4dc8ff1fa6f5bba0a3d6ce",
                &id("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
            )
            .replace(
                "a5aee0db4b3aff2a26ca0ae12a2ca2e83ac36b5a",
                &id("1\n2\n3\n4\nfive\n6\n7\n8\n9\n")
            )
    );
    let Patch { stats, .. } = write(&changes);
    assert_eq!((stats[0].added, stats[0].removed, stats[0].binary), (1, 1, false));
}

fn id(content: &str) -> String {
    gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, content.as_bytes())
        .unwrap()
        .to_string()
}

#[test]
fn names_are_quoted_as_git_quotes_them() {
    let changes = [
        change("ü \"x\".txt", None, text("")),
        change("with space", None, text("x\n")),
    ];
    let shown = shown(&changes);
    assert!(
        shown.starts_with("diff --git \"a/\\303\\274 \\\"x\\\".txt\" \"b/\\303\\274 \\\"x\\\".txt\"\n"),
        "{shown}"
    );
    assert!(shown.contains("+++ b/with space\t\n"), "{shown}");
}

#[test]
fn what_did_not_change_is_left_out() {
    assert_eq!(write(&[change("a", text("x"), text("x"))]), Patch::default());
}

#[test]
fn a_file_made_to_be_slow_to_compare_is_bounded() {
    let line = |number: usize, salt: usize| format!("{}\n", number.wrapping_mul(2_654_435_761 + salt) % 97);
    let side = |salt| (0..60_000).map(|number| line(number, salt)).collect::<String>();
    let changes = [change("slow", text(&side(0)), text(&side(8_191)))];
    let started = std::time::Instant::now();
    let patch = write(&changes);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    applies_exactly(&changes, &patch);
}

/// Applies the patch with git and compares every file with the change.
fn applies_exactly(changes: &[FileChange], patch: &Patch) {
    if Command::new("git")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("SKIPPED needs git: apt-get install git");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "core.autocrlf=false", "-c", "core.symlinks=true"])
            .args(arguments)
            .current_dir(root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", root)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&patch.text)
        );
    };
    git(&["init", "-q"]);
    for change in changes {
        if let Some(version) = &change.before {
            put(&root.join(change.path.as_str()), version);
        }
    }
    let patch_file = root.join(".git/patch");
    std::fs::write(&patch_file, &patch.text).unwrap();
    if !patch.text.is_empty() {
        git(&["apply", "--check", ".git/patch"]);
        git(&["apply", ".git/patch"]);
    }
    let mut expected: BTreeMap<String, FileVersion> = BTreeMap::new();
    for change in changes {
        if let Some(version) = &change.after {
            expected.insert(change.path.to_string(), version.clone());
        }
    }
    assert_eq!(take(root), expected);
}

fn put(file: &Path, version: &FileVersion) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    if version.mode == FileMode::Symlink {
        let target = String::from_utf8(version.content.to_vec()).unwrap();
        std::os::unix::fs::symlink(target, file).unwrap();
        return;
    }
    std::fs::write(file, &version.content).unwrap();
    let mode = if version.mode == FileMode::Executable {
        0o755
    } else {
        0o644
    };
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn take(root: &Path) -> BTreeMap<String, FileVersion> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let file = entry.unwrap().path();
            let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let metadata = file.symlink_metadata().unwrap();
            if metadata.is_dir() {
                if name != ".git" {
                    open.push(file);
                }
            } else if metadata.is_symlink() {
                let target = std::fs::read_link(&file).unwrap();
                files.insert(
                    name,
                    version(target.to_str().unwrap().as_bytes(), FileMode::Symlink),
                );
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let mode = if executable {
                    FileMode::Executable
                } else {
                    FileMode::Regular
                };
                files.insert(name, version(&std::fs::read(&file).unwrap(), mode));
            }
        }
    }
    files
}

#[test]
fn every_kind_of_change_applies() {
    let long = format!("{}\nshort\n", "x".repeat(20_000));
    let binary: Vec<u8> = (0..100_000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let other: Vec<u8> = binary.iter().rev().copied().collect();
    let executable = |content: &str| Some(version(content.as_bytes(), FileMode::Executable));
    let link = |target: &str| Some(version(target.as_bytes(), FileMode::Symlink));
    let bytes = |content: &[u8]| Some(version(content, FileMode::Regular));
    let changes = [
        change("binary/changed", bytes(&binary), bytes(&other)),
        change("binary/deleted", bytes(&binary), None),
        change(
            "binary/mode",
            bytes(&binary),
            Some(version(&other, FileMode::Executable)),
        ),
        change("binary/new", None, bytes(&binary)),
        change("binary/one-byte", None, bytes(b"\0")),
        change("binary/to-text", bytes(b"\0"), text("text\n")),
        change("crlf", text("a\r\nb\r\nc"), text("a\r\nB\r\nc\r\n")),
        change("deleted", text("gone\n"), None),
        change("deleted-empty", text(""), None),
        change("emptied", text("gone\n"), text("")),
        change("filled", text(""), text("here\n")),
        change("latin", bytes(b"caf\xe9\n"), bytes(b"th\xe9\n")),
        change("link/changed", link("one"), link("two")),
        change("link/deleted", link("one"), None),
        change("link/from-file", text("file\n"), link("two")),
        change("link/new", None, link("somewhere")),
        change("link/to-file", link("one"), text("file\n")),
        change("long", text("x\n"), text(&long)),
        change("mode", text("x\n"), executable("x\n")),
        change("mode-and-text", executable("x\n"), text("y\n")),
        change("name with space", text("1\n"), text("2\n")),
        change("näme \"q\"", text("1"), text("2")),
        change("new", None, text("new\n")),
        change("new-empty", None, text("")),
        change("new-executable", None, executable("#!/bin/sh\n")),
        change("no-newline/added", text("a"), text("a\n")),
        change("no-newline/kept", text("a\nb"), text("A\nb")),
        change("no-newline/removed", text("a\n"), text("a")),
        change(
            "patchlike",
            text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n"),
            text("-- \n--- a/x\n@@ -0,0 +1 @@\n"),
        ),
        change("was-file", text("x\n"), None),
        change("was-file/now-directory", None, text("y\n")),
    ];
    applies_exactly(&changes, &write(&changes));
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[abc]{0,3}",
        1 => "[ -~]{0,12}",
        1 => Just("\\ No newline at end of file".to_owned()),
        1 => Just("é\r".to_owned()),
    ];
    let text = (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, ended)| {
        let mut text = lines.join("\n");
        if ended && !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    });
    prop_oneof![6 => text, 1 => prop::collection::vec(any::<u8>(), 0..300)]
}

fn side() -> impl Strategy<Value = Option<FileVersion>> {
    let file = (content(), any::<bool>()).prop_map(|(content, executable)| {
        version(
            &content,
            if executable {
                FileMode::Executable
            } else {
                FileMode::Regular
            },
        )
    });
    let link = "[a-z]{1,8}".prop_map(|target| version(target.as_bytes(), FileMode::Symlink));
    prop_oneof![1 => Just(None), 6 => file.prop_map(Some), 1 => link.prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn git_makes_exactly_the_workspace_out_of_the_patch(
        files in prop::collection::btree_map("[a-z é\"]{1,6}(/[a-z]{1,4})?", (side(), side()), 1..8)
    ) {
        let mut changes: Vec<FileChange> = Vec::new();
        for (name, (before, after)) in files {
            // A name cannot be a file and a directory at once.
            let clash = changes.iter().any(|other| name.starts_with(&format!("{}/", other.path)));
            if let Ok(path) = RepoPath::parse(&name)
                && !clash
                && (before.is_some() || after.is_some())
            {
                changes.push(FileChange { path, before, after });
            }
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        applies_exactly(&changes, &write(&changes));
    }
}

/// A binary patch applies only with full object names of the repository.
#[test]
fn a_patch_for_a_repository_in_sha_256_format_applies_there() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", root)
            .output();
        output.is_ok_and(|output| {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "git {arguments:?}: {said}");
            true
        })
    };
    if !git(&["init", "-q", "--object-format=sha256"]) {
        eprintln!("SKIPPED needs git: apt-get install git");
        return;
    }
    std::fs::write(root.join("a"), b"\0one").unwrap();
    let binary = |content: &[u8]| Some(version(content, FileMode::Regular));
    let changes = [
        change("a", binary(b"\0one"), binary(b"\0two")),
        change("b", None, text("new\n")),
    ];
    let base = Kind::Sha256.empty_tree().to_string();
    std::fs::write(root.join(".git/patch"), super::write_onto(&base, &changes).text).unwrap();
    git(&["apply", ".git/patch"]);
    assert_eq!(std::fs::read(root.join("a")).unwrap(), b"\0two");
    assert_eq!(std::fs::read(root.join("b")).unwrap(), b"new\n");
}
