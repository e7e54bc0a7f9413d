//! The rules of the code that tools check: the manifest enables them, and the checks make them errors.

use crate::support::source::{root, rust_files};

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect("a file of the project")
}

/// STK-59, STK-60, STK-61
#[test]
fn the_manifest_asks_for_the_edition_the_kinds_of_errors_and_the_lints() {
    let manifest: toml::Table = toml::from_str(&file("Cargo.toml")).expect("a manifest");
    assert_eq!(manifest["package"]["edition"].as_str(), Some("2024"));
    let lints = &manifest["lints"]["clippy"];
    for lint in ["unwrap_used", "expect_used", "string_slice"] {
        assert_eq!(lints[lint].as_str(), Some("warn"), "{lint}");
    }
    assert_eq!(manifest["lints"]["rust"]["unsafe_code"].as_str(), Some("deny"));
    for errors in ["anyhow", "thiserror"] {
        assert!(manifest["dependencies"].get(errors).is_some(), "{errors}");
    }
}

/// STK-59, STK-62, STK-65
#[test]
fn one_command_checks_format_lints_documentation_and_tests() {
    let run = file(".ci/run");
    for step in [
        "step 'format' cargo fmt --all -- --check",
        "step 'clippy' cargo clippy --workspace --all-targets --locked -- -D warnings",
        "step 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --locked",
        "step 'tests' cargo test --locked",
        "step 'demo' cargo run --release --locked -- demo --headless --json",
    ] {
        assert!(run.lines().any(|line| line == step), "{step}");
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let folders = ["src", "tests", "benches", "torture"];
    let files = folders.iter().flat_map(|folder| rust_files(folder));
    let silent: Vec<String> = files
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "no `//!` at the top:\n{}", silent.join("\n"));
}

/// The words that open a question instead of a description.
const QUESTIONS: [&str; 8] = ["What", "How", "Whether", "Who", "Where", "Which", "When", "Why"];

/// Returns the kind of documentation in a line, and its text.
fn documentation(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind))?;
    let text = line.get(kind.len()..)?;
    // A line with four slashes is a comment and no documentation.
    (!text.starts_with('/')).then(|| (kind, text.trim()))
}

/// Checks the first sentence, which rustdoc lists: it describes the item.
#[test]
fn documentation_opens_with_a_verb_or_a_noun() {
    let folders = ["src", "tests", "benches", "torture"];
    let mut questions = Vec::new();
    for (path, text) in folders.iter().flat_map(|folder| rust_files(folder)) {
        let mut before = None;
        for (number, line) in text.lines().enumerate() {
            let found = documentation(line);
            let kind = found.map(|(kind, _)| kind);
            let first = found.map_or("", |(_, text)| text.split(' ').next().unwrap_or_default());
            if kind != before && QUESTIONS.contains(&first) {
                questions.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
            before = kind;
        }
    }
    assert!(questions.is_empty(), "\n{}", questions.join("\n"));
}
