//! The linter: a program that evaluates has no error, and our messages equal those of go-jsonnet's linter if both find
//! something.

use drydock::rendering::jsonnet::lint::{ImportCache, ImportLookup, LintSeverity, lint, lint_with_imports};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The files of one directory.
struct SiblingSources<'a>(&'a Path);

impl ImportLookup for SiblingSources<'_> {
    fn resolve(&self, _importer: &str, import: &str) -> Option<String> {
        self.0.join(import).is_file().then(|| import.to_owned())
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        Some(std::fs::read_to_string(self.0.join(file)).ok()?.into())
    }
}

/// Programs that evaluate although a part of them never could, because laziness hides that part.
const NEVER_EVALUATED: [&str; 0] = [];

#[test]
fn programs_that_evaluate_get_no_lint_error() {
    let Some(pack) = super::pack::read_pack("gojsonnet-0.22-eval.jsonl.gz") else {
        return;
    };
    let (mut silent, mut total) = (0, 0);
    let mut wrong = Vec::new();
    for line in pack.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        if case["status"] != "OK" {
            continue;
        }
        total += 1;
        let name = case["name"].as_str().expect("a name");
        let findings = lint(name, case["src"].as_str().expect("a source"), &|_| true);
        match findings
            .into_iter()
            .find(|finding| finding.severity == LintSeverity::Error)
        {
            None => silent += 1,
            Some(finding) => wrong.push(format!("{name}:{} {}", finding.range, finding.message)),
        }
    }
    println!("lint {silent}/{total} ({} known)", wrong.len());
    assert_eq!(wrong, NEVER_EVALUATED.map(str::to_owned));
}

/// The number of messages of go-jsonnet's linter that differ from ours.
pub(crate) const DIFFERENT_MESSAGES_COUNT: usize = DIFFERENT_MESSAGES.len();

/// Inputs of go-jsonnet's linter for which our message differs, each with the reason.
const DIFFERENT_MESSAGES: [(&str, &str); 1] = [(
    "min_arity_violated",
    "their check of missing arguments is inverted; this call fails",
)];

#[test]
fn the_linter_finds_what_the_go_jsonnet_linter_finds() {
    let home = std::env::var("HOME").unwrap_or_default();
    let inputs = Path::new(&home).join("go/pkg/mod/github.com/google/go-jsonnet@v0.22.0/linter/testdata");
    let Ok(entries) = std::fs::read_dir(&inputs) else {
        eprintln!(
            "SKIPPED needs the sources of go-jsonnet: go mod download github.com/google/go-jsonnet@v0.22.0"
        );
        return;
    };
    let (mut equal, mut total) = (0, 0);
    let mut otherwise = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".jsonnet"))
        else {
            continue;
        };
        let source = std::fs::read_to_string(&path).expect("an input");
        let golden = std::fs::read_to_string(path.with_extension("linter.golden")).unwrap_or_default();
        let place = format!("testdata/{name}:");
        let mut theirs: Vec<String> = golden
            .lines()
            .filter_map(|line| line.strip_prefix(&place))
            .map(str::to_owned)
            .collect();
        let found = lint_with_imports(
            name,
            &source,
            &|_| true,
            &SiblingSources(&inputs),
            &ImportCache::default(),
        );
        let mut ours: Vec<String> = found
            .iter()
            .map(|finding| format!("{} {}", finding.range, finding.message))
            .collect();
        theirs.sort();
        ours.sort();
        total += 1;
        if ours == theirs {
            equal += 1;
        } else {
            otherwise.push(name.to_owned());
        }
    }
    otherwise.sort();
    println!(
        "lint messages {equal}/{total} ({} known)",
        DIFFERENT_MESSAGES.len()
    );
    assert_eq!(otherwise, DIFFERENT_MESSAGES.map(|(name, _)| name.to_owned()));
}
