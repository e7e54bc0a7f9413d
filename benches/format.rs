//! Compares the formatter with go-jsonnet's `jsonnetfmt`: `cargo bench --bench format`.
//!
//! The input is 5 MB of generated Jsonnet. Half of it is not in the standard style. Both formatters must produce the
//! same bytes for every file before anything is timed. Then both read and format all files. Ours runs in this process,
//! through the function that `drydock tanka fmt` calls, on all cores. The peer runs in one process of its own, whose
//! start takes a few milliseconds of its time. A single thread is measured as well. The peer is
//! `DRYDOCK_BENCH_JSONNETFMT` or `jsonnetfmt`. Without one, only ours is timed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::base::model::RepoPath;
use drydock::rendering::jsonnet::format::{FormatChange, format, reformat};
use drydock::state::workspace::Directory;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use support::{Times, header, millis, row, tanka, value};

const COPIES: usize = 4;
const ROUNDS: usize = 5;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 1 } else { ROUNDS };
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path());
    header("format");
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    value("Jsonnet to be formatted", bytes as f64 / 1e6, "MB", "");
    value("... in files", files.len() as f64, "files", "");
    let tree = Directory::open(directory.path()).unwrap();
    let paths: Vec<RepoPath> = files
        .iter()
        .map(|file| {
            let inside = file.strip_prefix(directory.path()).unwrap();
            RepoPath::parse(inside.to_str().unwrap()).unwrap()
        })
        .collect();
    let all = || reformat(&tree, &paths).changes;
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let ours = formatted(&texts, &paths, all());
    let peer = peer();
    match &peer {
        Some(peer) => assert_same(peer, directory.path(), &files, &ours),
        None => println!("SKIPPED: there is no `jsonnetfmt`; DRYDOCK_BENCH_JSONNETFMT names one"),
    }
    let mut times = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        black_box(all());
        times.0.push(started.elapsed());
        let started = Instant::now();
        texts.iter().for_each(|text| drop(black_box(format(text))));
        times.2.push(started.elapsed());
        if let Some(peer) = &peer {
            let started = Instant::now();
            // It formats all files and writes none. Its exit code reports that some files would change.
            let code = quiet(Command::new(peer).arg("--test").args(&files));
            times.1.push(started.elapsed());
            assert_eq!(code, Some(2));
        }
    }
    let ours = Times::new(times.0);
    row("all files", &ours, "");
    row("texts in memory, one thread", &Times::new(times.2), "");
    value(
        "per second",
        bytes as f64 / 1e6 / ours.p50().as_secs_f64(),
        "MB/s",
        "",
    );
    if peer.is_some() {
        let theirs = Times::new(times.1);
        row("jsonnetfmt, all files", &theirs, "peer");
        let ratio = millis(theirs.p50()) / millis(ours.p50());
        value("jsonnetfmt / ours, medians", ratio, "times", ">= 20");
    }
}

/// Returns all texts with the changes applied.
fn formatted(texts: &[String], paths: &[RepoPath], changes: Vec<FormatChange>) -> Vec<String> {
    let mut changes = changes.into_iter().peekable();
    let texts =
        texts.iter().zip(paths).map(
            |(text, path)| match changes.next_if(|change| change.path == *path) {
                Some(change) => change.after,
                None => text.clone(),
            },
        );
    texts.collect()
}

/// Writes the files of a generated repository several times. Every other copy is badly formatted.
fn write(directory: &Path) -> Vec<PathBuf> {
    std::fs::create_dir(directory.join(".git")).unwrap();
    let mut files = Vec::new();
    for copy in 0..COPIES {
        for (path, content) in tanka::files(60) {
            if !path.ends_with("sonnet") {
                continue;
            }
            let content = match copy % 2 {
                0 => content,
                _ => content
                    .replace("  ", " ")
                    .replace("(name=", "( name = ")
                    .replace(" + ", "+"),
            };
            let file = directory.join(format!("copy-{copy}")).join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            files.push(file);
        }
    }
    files
}

fn peer() -> Option<PathBuf> {
    let peer = std::env::var_os("DRYDOCK_BENCH_JSONNETFMT").unwrap_or_else(|| "jsonnetfmt".into());
    quiet(Command::new(&peer).arg("--version"))?;
    Some(peer.into())
}

/// Lets the peer format a copy of the files, and compares the results.
fn assert_same(peer: &Path, directory: &Path, files: &[PathBuf], ours: &[String]) {
    let theirs = tempfile::tempdir().unwrap();
    let copies: Vec<PathBuf> = files
        .iter()
        .map(|file| {
            let copy = theirs.path().join(file.strip_prefix(directory).unwrap());
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            std::fs::copy(file, &copy).unwrap();
            copy
        })
        .collect();
    assert_eq!(quiet(Command::new(peer).arg("-i").args(&copies)), Some(0));
    for (copy, ours) in copies.iter().zip(ours) {
        assert_eq!(
            &std::fs::read_to_string(copy).unwrap(),
            ours,
            "{}",
            copy.display()
        );
    }
}

fn quiet(command: &mut Command) -> Option<i32> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    status.status().ok()?.code()
}
