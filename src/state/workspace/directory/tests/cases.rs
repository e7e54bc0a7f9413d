//! The working directory as a tree.

use super::open;
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use crate::state::workspace::fixture::{path, snapshot};
use crate::state::workspace::{Directory, RepositoryError, Tree, TreeEntry, TreeError};
use bytes::Bytes;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct WorkTreeFixture {
    // Contains the work tree and, beside it, files that must never be reached.
    home: tempfile::TempDir,
}

impl WorkTreeFixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("repo/.git/hooks")).unwrap();
        std::fs::write(home.path().join("repo/.git/config"), "[core]\n").unwrap();
        std::fs::create_dir(home.path().join("outside")).unwrap();
        std::fs::create_dir(home.path().join("repo-evil")).unwrap();
        std::fs::write(home.path().join("outside/secret"), "secret\n").unwrap();
        std::fs::write(home.path().join("repo-evil/secret"), "secret\n").unwrap();
        Self { home }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join("repo").join(name)
    }

    fn put(&self, name: &str, content: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), content).unwrap();
    }

    fn open(&self) -> Directory {
        open(&self.at("")).unwrap()
    }
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

fn pipe(place: &Path) {
    let made = std::process::Command::new("mkfifo").arg(place).status();
    assert!(made.unwrap().success());
}

fn all(_: &str) -> bool {
    true
}

fn error_text<T: std::fmt::Debug>(result: Result<T, TreeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_stands_at_a_path_is_told_without_following_it() {
    let work = WorkTreeFixture::new();
    work.put("a/b", "1");
    symlink("a/b", work.at("to")).unwrap();
    symlink("/etc", work.at("out")).unwrap();
    let tree = work.open();
    let target = |target: &str| Some(TreeEntry::Symlink(bytes(target)));
    for (name, expected) in [
        ("a", Some(TreeEntry::Directory)),
        ("a/b", Some(TreeEntry::File)),
        ("a/b/c", None),
        ("to", target("a/b")),
        ("out", target("/etc")),
        ("gone", None),
    ] {
        assert_eq!(tree.entry(&path(name)).unwrap(), expected, "{name}");
    }
    assert!(tree.entry(&path("out/passwd")).is_err());
}

/// TK-2
#[test]
fn paths_start_at_the_root_of_the_repository_wherever_it_is_opened() {
    let work = WorkTreeFixture::new();
    work.put("deep/er/file", "content\n");
    let tree = open(&work.at("deep/er")).unwrap();
    assert_eq!(tree.root(), work.at("").canonicalize().unwrap());
    assert_eq!(tree.read(&path("deep/er/file")).unwrap(), version("content\n"));
}

/// TK-4
#[test]
fn outside_a_repository_it_says_so_at_once() {
    let home = tempfile::tempdir().unwrap();
    let Err(RepositoryError::Refused(why)) = open(home.path()) else {
        panic!("opened")
    };
    assert_eq!(
        why,
        format!(
            "`{}` is not inside a git repository; change to one, or create one with `git init`",
            home.path().display()
        )
    );
}

#[test]
fn a_bare_repository_is_distinguished_from_no_repository() {
    let home = tempfile::tempdir().unwrap();
    gix::init_bare(home.path()).unwrap();
    for start in [home.path().to_owned(), home.path().join("objects")] {
        let Err(RepositoryError::Refused(why)) = open(&start) else {
            panic!("opened")
        };
        assert!(why.contains("is in a bare repository"), "{why}");
    }
}

#[test]
fn changes_are_those_of_this_session() {
    let work = WorkTreeFixture::new();
    work.put("a", "1\n");
    work.put("b", "2\n");
    work.put("run", "#!/bin/sh\n");
    std::fs::set_permissions(work.at("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tree = work.open();
    assert_eq!(tree.changes().unwrap(), vec![]);
    tree.write(&path("a"), bytes("changed\n")).unwrap();
    tree.write(&path("a"), bytes("changed again\n")).unwrap();
    tree.delete(&path("b")).unwrap();
    tree.write(&path("new/file"), bytes("new\n")).unwrap();
    tree.write(&path("run"), bytes("#!/bin/bash\n")).unwrap();
    tree.write(&path("gone"), bytes("x")).unwrap();
    tree.delete(&path("gone")).unwrap();
    assert_eq!(
        work.at("run").metadata().unwrap().permissions().mode() & 0o777,
        0o755
    );
    let executable = |content| FileVersion {
        mode: FileMode::Executable,
        ..version(content)
    };
    let change = |name: &str, before, after| FileChange {
        path: path(name),
        before,
        after,
    };
    assert_eq!(
        tree.changes().unwrap(),
        [
            change("a", Some(version("1\n")), Some(version("changed again\n"))),
            change("b", Some(version("2\n")), None),
            change("new/file", None, Some(version("new\n"))),
            change(
                "run",
                Some(executable("#!/bin/sh\n")),
                Some(executable("#!/bin/bash\n"))
            ),
        ]
    );
    tree.write(&path("a"), bytes("1\n")).unwrap();
    assert_eq!(tree.changes().unwrap().len(), 3);
    let left: Vec<_> = std::fs::read_dir(work.at(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().contains("drydock")),
        "{left:?}"
    );
}

#[test]
fn ignored_files_and_git_are_not_listed_and_hidden_ones_are() {
    let work = WorkTreeFixture::new();
    work.put(".gitignore", "target/\n*.log\n");
    work.put(".hidden/file", "needle\n");
    work.put("target/out", "needle\n");
    work.put("x.log", "needle\n");
    work.put("sub/.gitignore", "local\n");
    work.put("sub/local", "needle\n");
    work.put("sub/kept", "a needle here\n");
    work.put("binary", "needle\0");
    symlink("sub/kept", work.at("link")).unwrap();
    let tree = work.open();
    let listed: Vec<String> = tree.files().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        listed,
        [
            ".gitignore",
            ".hidden/file",
            "binary",
            "link",
            "sub/.gitignore",
            "sub/kept"
        ]
    );
    let (found, total) = tree.search(&all, "needle", 1, 5).unwrap();
    assert_eq!(
        (found[0].path.as_str(), found[0].text.as_str(), found.len()),
        ("sub/kept", "a needle here", 1)
    );
    assert_eq!(total, 2);
}

/// T36
#[test]
fn links_lead_nowhere_but_inside() {
    let work = WorkTreeFixture::new();
    work.put("real/file", "content\n");
    let absolute = work.home.path().join("outside/secret");
    for (name, target) in [
        ("inside", Path::new("real/file")),
        ("dir", Path::new("real")),
        ("absolute", absolute.as_path()),
        ("parent", Path::new("..")),
        ("sibling", Path::new("../repo-evil/secret")),
        ("git", Path::new(".git")),
        ("dangling", Path::new("nothing")),
        ("loop", Path::new("loop")),
        ("proc", Path::new("/proc/self/cwd")),
    ] {
        symlink(target, work.at(name)).unwrap();
    }
    let before = snapshot(work.home.path());
    let tree = work.open();
    assert_eq!(tree.read(&path("inside")).unwrap(), version("content\n"));
    assert_eq!(tree.read(&path("dir/file")).unwrap(), version("content\n"));
    for name in [
        "absolute",
        "parent",
        "parent/outside/secret",
        "sibling",
        "git",
        "git/config",
        "proc/Cargo.toml",
    ] {
        assert_eq!(
            error_text(tree.read(&path(name))),
            format!("`{name}` is a symlink that leaves the repository")
        );
    }
    assert!(error_text(tree.read(&path("dangling"))).starts_with("no file `dangling`"));
    assert_eq!(
        error_text(tree.read(&path("loop"))),
        "`loop` is a symlink that leads in a circle"
    );
    for name in [
        "git/config",
        "parent/outside/new",
        "dir/file",
        "dir/new",
        "proc/x",
    ] {
        let error = format!("`{name}`: it is below a symlink; use the path the symlink points to");
        assert_eq!(error_text(tree.write(&path(name), bytes("x"))), error);
        assert_eq!(error_text(tree.delete(&path(name))), error);
    }
    for name in ["inside", "absolute", "dangling", "loop", "git"] {
        assert_eq!(
            error_text(tree.write(&path(name), bytes("x"))),
            format!("`{name}`: it is a symlink; write to the file it points to")
        );
    }
    assert_eq!(snapshot(work.home.path()), before);
    tree.delete(&path("absolute")).unwrap();
    assert!(absolute.exists() && work.at("absolute").symlink_metadata().is_err());
    let change = &tree.changes().unwrap()[0];
    assert_eq!(change.before.as_ref().unwrap().mode, FileMode::Symlink);
}

/// T38
#[test]
fn pipes_devices_sockets_and_huge_files_are_refused_without_waiting() {
    let work = WorkTreeFixture::new();
    pipe(&work.at("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(work.at("socket")).unwrap();
    std::fs::File::create(work.at("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let inside = work.at("linked");
    std::fs::hard_link(work.home.path().join("outside/secret"), &inside).unwrap();
    let tree = work.open();
    let started = Instant::now();
    for name in ["pipe", "socket"] {
        let error = format!("`{name}` is not a regular file");
        assert_eq!(error_text(tree.read(&path(name))), error);
        assert_eq!(error_text(tree.write(&path(name), bytes("x"))), error);
        assert_eq!(error_text(tree.delete(&path(name))), error);
    }
    assert!(matches!(
        tree.read(&path("sparse")),
        Err(TreeError::TooLarge {
            bytes: 1_099_511_627_776,
            ..
        })
    ));
    assert!(matches!(
        tree.write(&path("sparse"), bytes("x")),
        Err(TreeError::TooLarge { .. })
    ));
    assert_eq!(tree.search(&all, "x", 0, 1).unwrap().1, 0);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    tree.write(&path("linked"), bytes("mine\n")).unwrap();
    assert_eq!(
        std::fs::read_to_string(work.home.path().join("outside/secret")).unwrap(),
        "secret\n"
    );
    // A pipe in place of an ignore file must not block either.
    std::fs::create_dir(work.at("trap")).unwrap();
    work.put("trap/file", "x");
    pipe(&work.at("trap/.gitignore"));
    assert!(!tree.files().unwrap().contains(&path("trap/file")));
}

/// T39, I4
#[test]
fn git_is_unreachable_and_nothing_new_passes_for_it() {
    let work = WorkTreeFixture::new();
    let tree = work.open();
    for name in [".gitattributes", "sub/.gitmodules"] {
        assert_eq!(
            error_text(tree.write(&path(name), bytes("x"))),
            format!("`{name}`: git metadata is read-only")
        );
    }
    for name in [".gitattributes/jsonnetfile.json", "lib/.gitmodules/x"] {
        let file = FileVersion {
            content: bytes("x"),
            mode: FileMode::Regular,
        };
        let error = error_text(tree.put(&path(name), Some(file)));
        assert_eq!(error, format!("`{name}`: git metadata is read-only"));
    }
    assert!(!work.at(".gitattributes").exists() && !work.at("lib").exists());
    for name in [".git", ".git/config", "sub/.GIT/config", "git~1/config"] {
        assert!(RepoPath::parse(name).is_err(), "{name}");
    }
    for name in ["config", "HEAD", "objects/x"] {
        tree.write(&path(&format!("sub/{name}")), bytes("x")).unwrap();
    }
    assert!(error_text(tree.write(&path("sub/refs/x"), bytes("x"))).contains("git metadata is read-only"));
    assert!(!work.at("sub/refs").exists());
}

#[test]
fn kinds_do_not_mix() {
    let work = WorkTreeFixture::new();
    work.put("file", "f");
    work.put("dir/inner", "i");
    let tree = work.open();
    assert_eq!(
        error_text(tree.write(&path("file/x"), bytes("x"))),
        "`file` is a file"
    );
    for result in [tree.write(&path("dir"), bytes("x")), tree.delete(&path("dir"))] {
        assert_eq!(error_text(result), "`dir` is a directory");
    }
    assert_eq!(error_text(tree.read(&path("dir"))), "`dir` is a directory");
    assert!(error_text(tree.read(&path("file/x"))).starts_with("no file `file/x`"));
    assert!(error_text(tree.read(&path("dri/inner"))).contains("similar: `dir/inner`"));
}

/// T37
#[test]
fn a_directory_swapped_for_a_link_while_writing_lets_nothing_out() {
    let work = WorkTreeFixture::new();
    std::fs::create_dir(work.at("d")).unwrap();
    let outside = work.home.path().join("outside");
    let before = snapshot(&outside);
    let tree = work.open();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = std::fs::rename(work.at("d"), work.at("d-real"));
                let _ = symlink(&outside, work.at("d"));
                let _ = std::fs::remove_file(work.at("d"));
                let _ = std::fs::rename(work.at("d-real"), work.at("d"));
            }
        });
        let mut written = 0;
        for number in 0..100_000 {
            // The other thread may have been suspended while the link exists.
            if number >= 1_500 {
                match written {
                    0 => std::thread::yield_now(),
                    _ => break,
                }
            }
            let name = path(&format!("d/f{}", number % 10));
            written += usize::from(tree.write(&name, bytes("x")).is_ok());
            if let Ok(version) = tree.read(&path("d/secret")) {
                assert_ne!(version.content, &b"secret\n"[..]);
            }
            let _ = tree.delete(&name);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(written > 0);
    });
    assert_eq!(snapshot(&outside), before);
}

#[test]
fn what_was_changed_is_put_back_with_its_bytes_and_permissions() {
    let work = WorkTreeFixture::new();
    work.put("run", "#!/bin/sh\n");
    work.put("private", "\0\u{1}bytes");
    let mode = |bits| std::fs::Permissions::from_mode(bits);
    std::fs::set_permissions(work.at("run"), mode(0o751)).unwrap();
    std::fs::set_permissions(work.at("private"), mode(0o600)).unwrap();
    symlink("run", work.at("link")).unwrap();
    let directory = work.open();
    for name in ["run", "private", "link"] {
        directory.delete(&path(name)).unwrap();
    }
    directory.write(&path("run"), bytes("other\n")).unwrap();
    directory.write(&path("new/file"), bytes("new\n")).unwrap();

    for change in directory.changes().unwrap() {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        assert!(directory.put_back(&change.path, after, before).unwrap());
    }
    assert_eq!(directory.changes().unwrap(), Vec::new());
    let bits = |name| work.at(name).symlink_metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((bits("run"), bits("private")), (0o751, 0o600));
    assert_eq!(std::fs::read(work.at("private")).unwrap(), b"\0\x01bytes");
    assert_eq!(std::fs::read_link(work.at("link")).unwrap(), PathBuf::from("run"));
    assert!(!work.at("new/file").exists());
}

#[test]
fn what_somebody_changed_since_is_not_put_back() {
    let work = WorkTreeFixture::new();
    work.put("a", "mine\n");
    let directory = work.open();
    let done = directory.put_back(&path("a"), Some(&version("other\n")), None);
    assert!(!done.unwrap());
    assert_eq!(std::fs::read_to_string(work.at("a")).unwrap(), "mine\n");
    assert!(!directory.put_back(&path("b"), Some(&version("x")), None).unwrap());
}
