//! The formatter, compared with that of go-jsonnet: with recorded results, and live with an installed one.

use super::sources::{generate_broken_source, generate_source};
use crate::support::require::component;
use drydock::rendering::jsonnet::format::format;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The number of generated sources that are compared live. The same number of broken sources is added.
const PROGRAMS: u64 = 500;
/// The most files of this machine that are compared live.
const FILES_MAX: usize = 2_000;

/// Inputs that go-jsonnet itself formats differently the second time.
const NOT_IDEMPOTENT: [&str; 3] = [
    "escaped_fields.jsonnet",
    "object_comp_err_elem.jsonnet",
    "object_literal_in_object_comp.jsonnet",
];

/// Returns true if our result is as recorded: the same bytes, or the same error at the same location.
fn equal(source: &str, expected: Result<&str, &str>) -> bool {
    match (format(source), expected) {
        (Ok(text), expected) => expected == Ok(&text),
        (Err(_), Ok(_)) => false,
        (Err(error), Err(said)) => {
            let (place, said) = (format!(":{} ", error.range), said.trim_end());
            said.ends_with(error.message.trim_end()) && said.contains(&place)
        }
    }
}

#[test]
fn the_formatter_matches_recorded_jsonnetfmt_output() {
    let Some(pack) = super::pack::read_pack("go-jsonnet-0.22-fmt.jsonl.gz") else {
        return;
    };
    let (mut same, mut total) = (0, 0);
    let mut changed_again = BTreeSet::new();
    for line in pack.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let text = |key: &str| case[key].as_str().expect("a case is text");
        total += 1;
        let expected = match case["err"] == 0 {
            true => Ok(text("out")),
            false => Err(text("out")),
        };
        if equal(text("src"), expected) {
            same += 1;
        } else {
            eprintln!("{}\n  ours: {:?}", text("path"), format(text("src")));
        }
        if case["err"] == 0 && format(text("out")).as_deref() != Ok(text("out")) {
            changed_again.insert(text("path").rsplit('/').next().unwrap_or_default().to_owned());
        }
    }
    println!("fmt {same}/{total}");
    assert_eq!(same, total);
    assert_eq!(changed_again, NOT_IDEMPOTENT.map(str::to_owned).into());
}

#[test]
fn the_formatter_matches_an_installed_jsonnetfmt() {
    let Some(jsonnetfmt) = component("jsonnetfmt") else {
        return;
    };
    let (mut same, mut total) = (0, 0);
    let generated = (0..PROGRAMS).flat_map(|seed| [generate_source(seed), generate_broken_source(seed)]);
    let files = files_at_hand()
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    for source in generated.chain(files) {
        let (valid, said) = run(jsonnetfmt.command(), &source);
        let expected = match valid {
            true => Ok(said.as_str()),
            false => Err(said.as_str()),
        };
        total += 1;
        // Their internal errors are bugs that we do not copy.
        if said.contains("INTERNAL ERROR") || equal(&source, expected) {
            same += 1;
        } else {
            eprintln!("{source}\n  theirs: {said:?}\n  ours: {:?}", format(&source));
        }
    }
    println!("fmt live {same}/{total}");
    assert_eq!(same, total);
}

fn run(mut command: Command, source: &str) -> (bool, String) {
    let mut child = command
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("jsonnetfmt starts");
    let mut stdin = child.stdin.take().expect("it reads");
    let source = source.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(source.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer
        .join()
        .expect("the writer ends")
        .expect("it takes its input");
    let said = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    (
        output.status.success(),
        String::from_utf8(said).expect("it writes UTF-8"),
    )
}

/// Returns the Jsonnet files of Go modules and crates that are on this machine anyway.
fn files_at_hand() -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut directories: Vec<PathBuf> = ["go/pkg/mod/github.com/google", "go/pkg/mod/github.com/grafana"]
        .iter()
        .map(|below| Path::new(&home).join(below))
        .collect();
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        let Ok(entries) = std::fs::read_dir(directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|end| end == "jsonnet" || end == "libsonnet")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files.truncate(FILES_MAX);
    files
}
