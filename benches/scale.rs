//! Measures the time `drydock tanka` takes in large repositories: `cargo bench --bench scale`.
//!
//! The repositories are generated on disk: many Jsonnet files, many files without importers, and one library of several
//! megabytes. The release binary is timed from its start to its end, including the processes it starts. If a `tk` is
//! installed (`DRYDOCK_BENCH_TK`, or `tk` on the path), it renders, lists and lints the same files. Both must render
//! the same bytes. `tk lint` reads only texts. Ours also renders every environment.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::tanka::parts;
use support::{Times, header, repository, row, tanka};

const ENVIRONMENTS: usize = 100;
/// The numbers of Jsonnet files that are linted, without those of `vendor`.
const LINTED: [usize; 2] = [625, 1_250];
/// The number of files of the wide repository.
const WIDE: usize = 15_664;
const LARGE_BYTES: usize = 4_100_000;
/// The environment that is shown, and the directory that is listed.
const SHOWN: &str = "environments/team-17/env-42";
const LISTED: &str = "environments/team-17";

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 3 } else { 15 };
    header("scale");
    let tk = tk();
    if tk.is_none() {
        println!("SKIPPED: there is no `tk`; DRYDOCK_BENCH_TK names one");
    }
    let peer = tk.as_deref();
    for (linted, target) in LINTED.into_iter().zip(["", "<= 60 s"]) {
        let files = parts::with_parts(tanka::files(ENVIRONMENTS), 0);
        let is_linted =
            |(path, _): &&(String, String)| path.ends_with("sonnet") && !path.starts_with("vendor/");
        let missing = linted - files.iter().filter(is_linted).count();
        let files = parts::with_parts(tanka::files(ENVIRONMENTS), missing);
        let repository = Repository::of(files);
        let (output, time) = repository.ours(&["tanka", "lint", "."]);
        let reported = String::from_utf8(output.stderr).unwrap();
        let last = reported.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            format!(
                "{linted} files checked; environments that use them: {ENVIRONMENTS} of {ENVIRONMENTS} rendered"
            )
        );
        row(
            &format!("lint of {linted} files, {ENVIRONMENTS} environments"),
            &Times::new(vec![time]),
            target,
        );
        if let Some(peer) = peer {
            // A warning makes it fail.
            let (_, time) = repository.timed(peer, &["lint", "."]);
            row(
                &format!("tk lint of {linted} files"),
                &Times::new(vec![time]),
                "peer",
            );
        }
    }
    let files = parts::with_parts(tanka::files(ENVIRONMENTS), LINTED[1] / 2);
    let count = files.iter().filter(|(path, _)| is_own(path)).count();
    let edited = Repository::edited(files);
    let (output, time) = edited.ours(&["tanka", "env", "diff"]);
    let reported = String::from_utf8(output.stdout).unwrap();
    assert!(
        reported.contains("every affected environment renders: ok"),
        "{reported}"
    );
    row(
        &format!("env diff, all {count} Jsonnet files edited, {ENVIRONMENTS} environments"),
        &Times::new(vec![time]),
        "<= 60 s",
    );
    let small = Repository::of(tanka::files(ENVIRONMENTS));
    let around = WIDE - tanka::files(ENVIRONMENTS).len();
    let wide = Repository::of(
        tanka::files(ENVIRONMENTS)
            .into_iter()
            .chain(parts::around(around)),
    );
    for (what, repository, target) in [("alone", &small, ""), ("among 15,664 files", &wide, "<= 300 ms")] {
        repository.compare(what, peer, rounds, target);
    }
    let large = Repository::of([
        ("jsonnetfile.json".to_owned(), "{}".to_owned()),
        ("lib/large.libsonnet".to_owned(), parts::large(LARGE_BYTES)),
        (
            format!("{SHOWN}/main.jsonnet"),
            "local k = import 'large.libsonnet'; { a: k.kind1.new('a') + k.kind1.mixin.spec.withReplicas(2) }\n".to_owned(),
        ),
        (
            format!("{SHOWN}/spec.json"),
            "{\"apiVersion\":\"tanka.dev/v1alpha1\",\"kind\":\"Environment\",\"spec\":{\"namespace\":\"a\"}}".to_owned(),
        ),
    ]);
    large.compare("with a library of 4.1 MB", peer, rounds, "");
}

/// Returns the path of the installed `tk`.
fn tk() -> Option<PathBuf> {
    let named = std::env::var_os("DRYDOCK_BENCH_TK").map_or_else(|| PathBuf::from("tk"), PathBuf::from);
    let found = Command::new(&named)
        .arg("--version")
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    found.is_ok().then_some(named)
}

struct Repository {
    directory: tempfile::TempDir,
}

fn is_own(path: &str) -> bool {
    path.ends_with("sonnet") && !path.starts_with("vendor/")
}

impl Repository {
    fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".git")).unwrap();
        for (path, content) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Self { directory }
    }

    /// Creates a repository whose files are committed, then changes a comment in each Jsonnet file.
    fn edited(files: Vec<(String, String)>) -> Self {
        let edited = files.iter().map(|(path, content)| {
            let content = if is_own(path) {
                format!("// Edited.\n{content}")
            } else {
                content.clone()
            };
            (path.clone(), content)
        });
        let written = Self::of(edited);
        let git = written.directory.path().join(".git");
        std::fs::remove_dir(&git).unwrap();
        repository::of(&git, files.into_iter());
        written
    }

    fn ours(&self, arguments: &[&str]) -> (Output, Duration) {
        self.run(&support::program(), arguments)
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> (Output, Duration) {
        let (output, time) = self.timed(program, arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (output, time)
    }

    /// Times a program, whatever its exit code.
    fn timed(&self, program: &Path, arguments: &[&str]) -> (Output, Duration) {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        let started = Instant::now();
        let output = command.output().unwrap();
        (output, started.elapsed())
    }

    /// Times `show` and `list`, alternating with the peer.
    fn compare(&self, what: &str, peer: Option<&Path>, rounds: usize, target: &str) {
        let show = ["tanka", "env", "show", SHOWN];
        let list = ["tanka", "env", "list", LISTED];
        let their_show = ["show", SHOWN, "--dangerous-allow-redirect"];
        let their_list = ["env", "list", LISTED];
        if let Some(peer) = peer {
            assert_eq!(
                self.ours(&show).0.stdout,
                self.run(peer, &their_show).0.stdout,
                "{what}"
            );
        }
        for (name, ours, theirs) in [
            ("show", &show[..], &their_show[..]),
            ("list", &list[..], &their_list[..]),
        ] {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                own.push(self.ours(ours).1);
                others.extend(peer.map(|peer| self.run(peer, theirs).1));
            }
            row(&format!("env {name}, {what}"), &Times::new(own), target);
            if peer.is_some() {
                row(&format!("tk {name}, {what}"), &Times::new(others), "peer");
            }
        }
    }
}
