//! The rules of the code that a machine holds: the manifest asks for them, and the checks make them errors.

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
