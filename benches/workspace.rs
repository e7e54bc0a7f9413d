//! What a workspace costs on a repository of 10,000 files: `cargo bench --bench workspace`. It makes the
//! repository itself and needs no git. It prints a table and judges nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "a benchmark makes its own repository")]

use bytes::Bytes;
use drydock::model::RepoPath;
use drydock::workspace::{Edits, Overlay, Repository, Tree, patch};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use std::hint::black_box;
use std::time::{Duration, Instant};

const FILES: usize = 10_000;
const FILE_BYTES: usize = 2_500;

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let git = directory.path().join("repo.git");
    let bases = directory.path().join("bases");
    let commit = make(&git);
    let repository = Repository::local("bench", &git, Some("main"), &bases).unwrap();
    once("base: build and store", || {
        repository.base(&commit, &|_| ()).unwrap()
    });

    let resident = resident_kib();
    let repository = Repository::local("bench", &git, Some("main"), &bases).unwrap();
    let base = once("base: open the stored one", || {
        repository.base(&commit, &|_| ()).unwrap()
    });
    println!(
        "{:<44} {:>10} KiB",
        "base: memory to open it",
        resident_kib().saturating_sub(resident)
    );

    let all = globset::Glob::new("**").unwrap().compile_matcher();
    let tree = Overlay::new(base.clone(), Edits::new());
    once("B2 list all files, the first time", || tree.files().unwrap());
    many("B2 list all files", || tree.files().unwrap());
    many("B5 new workspace", || Overlay::new(base.clone(), Edits::new()));
    many("B1 search, found once", || {
        tree.search(&all, "needle-7777 ", 0, 100).unwrap()
    });
    many("B1 search, found nowhere", || {
        tree.search(&all, "no such text", 0, 100).unwrap()
    });
    many("B1 search, found in every file", || {
        tree.search(&all, "needle-", 0, 100).unwrap()
    });

    for number in 0..3 {
        let path = RepoPath::parse(&name(number * 1_000)).unwrap();
        tree.write(
            &path,
            Bytes::from(content(number * 1_000).replace("line 5", "changed")),
        )
        .unwrap();
    }
    many("B1 search with three edits, found once", || {
        tree.search(&all, "needle-7777 ", 0, 100).unwrap()
    });
    many("B6 what changed, three edits", || tree.changes().unwrap());
    many("patch of three edits", || patch::write(&tree.changes().unwrap()));
    let path = RepoPath::parse(&name(4_321)).unwrap();
    many("read a file", || tree.read(&path).unwrap());
}

fn name(number: usize) -> String {
    format!(
        "environments/team-{}/app-{}/file-{number}.jsonnet",
        number % 40,
        number % 500
    )
}

fn content(number: usize) -> String {
    let mut text = format!("// needle-{number} here\n");
    let mut line = 0;
    while text.len() < FILE_BYTES {
        line += 1;
        text.push_str(&format!(
            "local value_{line} = {{ key: 'line {line} of {number}' }};\n"
        ));
    }
    text
}

fn make(git: &std::path::Path) -> String {
    let objects: gix::Repository = gix::ThreadSafeRepository::init_opts(
        git,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        gix::open::Options::isolated(),
    )
    .unwrap()
    .into();
    objects.write_object(gix::objs::Tree::empty()).unwrap();
    let mut editor = objects
        .edit_tree(ObjectId::empty_tree(gix::hash::Kind::Sha1))
        .unwrap();
    for number in 0..FILES {
        let blob = objects.write_blob(content(number)).unwrap().detach();
        editor
            .upsert(name(number).as_str(), EntryKind::Blob, blob)
            .unwrap();
    }
    let author = gix::actor::Signature {
        name: "bench".into(),
        email: "bench@example.com".into(),
        time: gix::date::Time {
            seconds: 0,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: [].into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "bench".into(),
        extra_headers: Vec::new(),
    };
    let commit = objects.write_object(&commit).unwrap().detach().to_string();
    std::fs::write(git.join("refs/heads/main"), format!("{commit}\n")).unwrap();
    commit
}

fn once<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    show(what, started.elapsed());
    result
}

/// Prints the median of 51 runs.
fn many<T>(what: &str, run: impl Fn() -> T) {
    let mut times: Vec<Duration> = (0..51)
        .map(|_| {
            let started = Instant::now();
            black_box(run());
            started.elapsed()
        })
        .collect();
    times.sort();
    show(what, times[25]);
}

fn show(what: &str, time: Duration) {
    println!("{what:<44} {:>10.3} ms", time.as_secs_f64() * 1e3);
}

/// Resident memory of this process, from the kernel.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}
