//! Measures the cost of a private workspace by the number of files: `cargo bench --bench workspace`.
//!
//! Repositories of 1,000, 10,000 and 100,000 files are created without git. If git is installed, `git worktree add` on
//! the same commit, packed, is timed in the same run. Its time includes the process start, as in any tool that calls
//! it. A workspace is compared with the commit before it is timed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use bytes::Bytes;
use drydock::base::model::RepoPath;
use drydock::state::workspace::{Base, Overlay, Repository, Tree, WorkspaceEdits, patch};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Times, header, repository, row, value};

const RUNS: usize = 101;
/// The number of runs of git. Each takes up to several seconds.
const PEER_RUNS: usize = 5;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    header("workspace");
    for files in [1_000, 10_000, 100_000] {
        if quick && files > 10_000 {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("repo.git");
        let commit = repository::of_files(&git, files);
        let base = loading(directory.path(), &git, &commit, files);
        using(&base, files);
        peer(directory.path(), &git, &commit, files);
    }
}

fn loading(directory: &Path, git: &Path, commit: &str, files: usize) -> Arc<Base> {
    let bases = directory.join("bases");
    let open = || Repository::open_local("bench", git, Some("main"), &bases).unwrap();
    once(&format!("{files} files: pack the base, once per commit"), || {
        open().base(commit, &|_| ()).unwrap()
    });
    let resident = support::kib("/proc/self/status", "RssAnon");
    let repository = open();
    let base = once(&format!("{files} files: open the packed base"), || {
        repository.base(commit, &|_| ()).unwrap()
    });
    assert_eq!(base.len(), files);
    let tree = Overlay::new(base.clone(), WorkspaceEdits::new());
    once(&format!("{files} files: list all, the first time"), || {
        tree.files().unwrap()
    });
    let grown = support::kib("/proc/self/status", "RssAnon").saturating_sub(resident);
    value(
        &format!("{files} files: memory of base and list"),
        grown as f64 / 1_024.0,
        "MiB",
        "",
    );
    base
}

fn using(base: &Arc<Base>, files: usize) {
    let new = || Overlay::new(base.clone(), WorkspaceEdits::new());
    let middle = RepoPath::parse(&repository::name(files / 2)).unwrap();
    assert_eq!(
        new().read(&middle).unwrap().content,
        repository::content(files / 2).as_bytes()
    );
    let target = if files == 10_000 { "p99 <= 5 ms" } else { "" };
    many(&format!("{files} files: new workspace"), target, new);
    many(
        &format!("{files} files: new workspace, first read and write"),
        target,
        || {
            let tree = new();
            let content = tree.read(&middle).unwrap().content;
            tree.write(&middle, Bytes::from([&content, &b"// more\n"[..]].concat()))
                .unwrap();
            tree
        },
    );
    let tree = new();
    for number in 0..3 {
        let path = RepoPath::parse(&repository::name(number * files / 3)).unwrap();
        let content = repository::content(number * files / 3).replace("line 5", "changed");
        tree.write(&path, Bytes::from(content)).unwrap();
    }
    assert_eq!(tree.changes().unwrap().len(), 3);
    many(&format!("{files} files: what changed, three edits"), "", || {
        tree.changes().unwrap()
    });
    many(&format!("{files} files: patch of three edits"), "", || {
        patch::write(&tree.changes().unwrap())
    });
    many(&format!("{files} files: list all, with three edits"), "", || {
        tree.files().unwrap()
    });
}

fn peer(directory: &Path, git: &Path, commit: &str, files: usize) {
    if !git_runs(git, &["repack", "-adq"]) {
        println!("SKIPPED: there is no git on this machine");
        return;
    }
    let mut add = Vec::new();
    let mut status = Vec::new();
    for number in 0..PEER_RUNS {
        let tree = directory.join(format!("tree-{number}"));
        let path = tree.to_str().unwrap();
        let started = Instant::now();
        assert!(git_runs(
            git,
            &["worktree", "add", "--quiet", "--detach", path, commit]
        ));
        add.push(started.elapsed());
        let started = Instant::now();
        assert!(git_runs(&tree, &["status", "--porcelain"]));
        status.push(started.elapsed());
        assert!(git_runs(git, &["worktree", "remove", "--force", path]));
    }
    row(
        &format!("{files} files: git worktree add"),
        &Times::new(add),
        "peer",
    );
    row(
        &format!("{files} files: git status in it"),
        &Times::new(status),
        "peer",
    );
}

fn git_runs(directory: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn once<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    row(what, &Times::new(vec![started.elapsed()]), "");
    result
}

fn many<T>(what: &str, target: &str, run: impl Fn() -> T) {
    let times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            black_box(run());
            started.elapsed()
        })
        .collect();
    row(what, &Times::new(times), target);
}
