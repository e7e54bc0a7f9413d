//! The check that `docs/dependencies.md` names every direct dependency once, with a file that uses it, and lists the
//! requested packages that the product does not use yet.

use crate::support::source::{root, rust_files};
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;

/// The packages that were requested for the product.
const REQUIRED: [&str; 13] = [
    "tokio",
    "axum",
    "teloxide",
    "slack-morphism",
    "reqwest",
    "serde",
    "rusqlite",
    "gix",
    "jrsonnet-evaluator",
    "kube",
    "hmac",
    "sha2",
    "tracing",
];
/// The text in place of a file for a package that is not used yet.
const NOT_YET: &str = "not yet";

/// A line of a table: a package, and the file that shows its use.
#[derive(Debug)]
struct DependencyRow {
    package: String,
    place: String,
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the rows of the table below a heading.
fn table_rows(heading: &str) -> Vec<DependencyRow> {
    let document = text("docs/dependencies.md");
    let (_, section) = document.split_once(heading).expect("the heading");
    let section = section
        .split_once("\n## ")
        .map_or(section, |(section, _)| section);
    let lines = section.lines().filter(|line| line.starts_with("| "));
    let rows = lines.skip(1).map(|line| {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let [package, used_for, place] = cells[..] else {
            panic!("three cells: {line}");
        };
        assert!(!used_for.is_empty(), "{package}: what it is used for");
        DependencyRow {
            package: package.to_owned(),
            place: place.to_owned(),
        }
    });
    rows.collect()
}

/// Returns the direct dependencies of the manifest.
fn direct() -> BTreeSet<String> {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let names = |table: &toml::Value| -> Vec<String> {
        let dependencies = ["dependencies", "dev-dependencies"].map(|key| table.get(key));
        let tables = dependencies
            .into_iter()
            .flatten()
            .filter_map(toml::Value::as_table);
        tables.flat_map(|table| table.keys().cloned()).collect()
    };
    let systems = manifest.get("target").and_then(toml::Value::as_table);
    let systems = systems.into_iter().flat_map(toml::Table::values);
    let whole = toml::Value::Table(manifest.clone());
    systems.chain([&whole]).flat_map(names).collect()
}

/// Returns the path of a link.
fn linked(row: &DependencyRow) -> String {
    let link = Regex::new(r"^\[([^\]]+)\]\(\.\./([^)]+)\)$").expect("a pattern");
    let found = link
        .captures(&row.place)
        .unwrap_or_else(|| panic!("a link: {row:?}"));
    assert_eq!(found[1], found[2], "{row:?}");
    found[2].to_owned()
}

/// Returns true if a file uses a package, or the manifest pins it.
fn is_used(package: &str, path: &str) -> bool {
    let names = [package.replace('-', "_"), package.to_owned()];
    let file = text(path);
    names.iter().any(|name| {
        let word = Regex::new(&format!(r"\b{}\b", regex::escape(name))).expect("a pattern");
        word.is_match(&file)
    })
}

/// TK-89
#[test]
fn every_direct_dependency_stands_in_the_document_once_with_a_file_that_uses_it() {
    let rows = table_rows("## All of them");
    let named: BTreeSet<String> = rows.iter().map(|row| row.package.clone()).collect();
    assert_eq!(named, direct());
    assert_eq!(rows.len(), named.len(), "each is named once");
    for row in &rows {
        let path = linked(row);
        assert!(
            is_used(&row.package, &path),
            "{path} does not use {}",
            row.package
        );
    }
}

#[test]
fn required_dependencies_are_used_or_listed_as_missing() {
    let rows = table_rows("## The packages the product is built on");
    let named: Vec<&str> = rows.iter().map(|row| row.package.as_str()).collect();
    assert_eq!(named, REQUIRED);
    let direct = direct();
    for row in &rows {
        let is_there = direct.iter().any(|name| name.starts_with(&row.package));
        match row.place == NOT_YET {
            true => assert!(!is_there, "{} is used by now", row.package),
            false => assert!(is_there && is_used(&row.package, &linked(row)), "{row:?}"),
        }
    }
}

/// The router is all that the listener uses of axum: its extractors read bodies before a signature is verified, and its
/// server has no bounds.
#[test]
fn nothing_of_axum_but_its_router_is_built() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let axum = &manifest["dependencies"]["axum"];
    assert_eq!(axum["default-features"].as_bool(), Some(false));
    assert_eq!(axum.get("features"), None);
    let lock: toml::Table = text("Cargo.lock").parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    let built = packages
        .iter()
        .find(|package| package["name"].as_str() == Some("axum"));
    let of_axum = built.expect("axum")["dependencies"].as_array().expect("a list");
    let uses = regex::Regex::new(r"\baxum::[\w:]*(?:\{[^}]*\})?").expect("a pattern");
    let allowed = [
        "axum::Router",
        "axum::extract::State",
        "axum::routing::{MethodRouter, get, post}",
        "axum::response::IntoResponse",
        "axum::response::Response",
        "axum::body::Body",
        "axum::extract::{Request, State}",
    ];
    let files = rust_files("src/server/http").into_iter();
    let used: BTreeSet<String> = files
        .flat_map(|(_, text)| {
            uses.find_iter(&text)
                .map(|used| used.as_str().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(used, allowed.map(str::to_owned).into());
    for server in ["hyper", "hyper-util", "tokio", "serde_json", "tracing"] {
        assert!(
            of_axum.iter().all(|name| name.as_str() != Some(server)),
            "{server}"
        );
    }
}
