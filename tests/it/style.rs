//! The rules of the code that tools check: the manifest enables them, and the checks make them errors.

use crate::support::source::{root, rust_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

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

/// Words that name nothing in this field. Each had a meaning here that its reader could not know.
const PRIVATE_WORDS: [&str; 14] = [
    "belt",
    "desk",
    "doubtful",
    "errand",
    "household",
    "inmate",
    "jail",
    "nursery",
    "opinion",
    "settle",
    "settled",
    "shelf",
    "stranger",
    "whisper",
];

/// Names of configuration keys, of columns and tables of the database, and of a directory, which hold such a word.
const PUBLIC_NAMES: [&str; 10] = [
    "jails_max",
    "strangers_remembered_max",
    "tests/strangers",
    "`stranger`",
    "\"doubtful\"",
    "'doubtful'",
    "FROM stranger",
    "INTO stranger",
    "UPDATE stranger",
    "TABLE stranger",
];

/// Returns the words of a line in lower case and singular: `WorkerPool` and `worker_pools` are `worker` and `pool`.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for character in line.chars().chain([' ']) {
        if (!character.is_alphabetic() || character.is_uppercase()) && !word.is_empty() {
            words.push(word.trim_end_matches('s').to_owned());
            word.clear();
        }
        if character.is_alphabetic() {
            word.extend(character.to_lowercase());
        }
    }
    words
}

#[test]
fn words_are_those_of_identifiers_and_of_prose() {
    assert_eq!(
        words("fn WorkerPools(worker_pool)"),
        ["fn", "worker", "pool", "worker", "pool"]
    );
}

/// The glossary of ARCHITECTURE.md and the terms of the field are enough.
#[test]
fn no_private_word_is_written_in_code_or_documents() {
    let mut texts = Vec::new();
    for folder in ["src", "tests", "benches", "torture"] {
        texts.extend(rust_files(folder));
    }
    for folder in ["", "docs", "docs/acceptance"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).expect("a document");
                texts.push((path.display().to_string(), text));
            }
        }
    }
    assert!(texts.len() > 500, "the files were read: {}", texts.len());
    let mut found = Vec::new();
    for (path, text) in texts
        .iter()
        .filter(|(path, _)| !path.ends_with("tests/it/style.rs"))
    {
        for (number, line) in text.lines().enumerate() {
            let line = PUBLIC_NAMES
                .iter()
                .fold(line.to_owned(), |line, name| line.replace(name, ""));
            let private = words(&line)
                .into_iter()
                .find(|word| PRIVATE_WORDS.contains(&word.as_str()));
            found.extend(private.map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A type that other modules see has a name of its own in the whole library. The files of two systems define the same names.
#[test]
fn a_visible_type_name_is_defined_once() {
    let definition = Regex::new(r"^\s*pub(?:\([^)]*\))? (?:unsafe )?(?:struct|enum|trait|type) ([A-Z]\w*)")
        .expect("a pattern");
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let files = rust_files("src").into_iter().filter(|(path, _)| {
        let is_test = |part: &str| part == "tests" || part == "tests.rs" || part.contains("test");
        !path.split('/').any(is_test)
    });
    for (path, text) in files {
        let path = path
            .replace("src/base/system/linux/", "src/base/system/*/")
            .replace("src/base/system/macos/", "src/base/system/*/");
        for name in text.lines().filter_map(|line| definition.captures(line)) {
            let is_new = places.entry(name[1].to_owned()).or_default().insert(path.clone());
            assert!(
                is_new || path.starts_with("src/base/system/*/"),
                "{path} defines {} twice",
                &name[1]
            );
        }
    }
    assert!(places.len() > 900, "the types were read: {}", places.len());
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "{places:#?}");
}

/// A secret that is fetched is redacted. A secret of the configuration that was made elsewhere would not be.
#[test]
fn the_configuration_gets_its_secrets_from_one_place() {
    let makes = |text: &str| {
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        code.contains("Secret::new(")
    };
    let files = rust_files("src/base/config").into_iter();
    let files = files.filter(|(path, text)| !path.contains("/tests/") && makes(text));
    let paths: Vec<String> = files.map(|(path, _)| path).collect();
    // `value.rs` converts a variable, which `secrets.rs` then fetches and checks.
    assert_eq!(paths, ["src/base/config/secrets.rs", "src/base/config/value.rs"]);
}

/// Functions of `src` with a boolean parameter, and the reason. Elsewhere the caller passes an enum, which can be read
/// at the call, or calls one of two functions.
const BOOLEAN_PARAMETERS: [(&str, &str, &str); 11] = [
    ("src/rendering/bundler/file.rs", "is_false", "serde calls it"),
    (
        "src/simulation/demo/transcript.rs",
        "expect",
        "the fact that must hold",
    ),
    (
        "src/simulation/demo/transcript.rs",
        "push",
        "the fact that must hold",
    ),
    (
        "src/engine/gateway/delivery/rate_limit.rs",
        "from_setting",
        "makes the enum",
    ),
    (
        "src/rendering/jsonnet/canonical.rs",
        "boolean",
        "writes the boolean",
    ),
    (
        "src/rendering/jsonnet/engine/library.rs",
        "layout",
        "makes the enums",
    ),
    (
        "src/rendering/jsonnet/engine/library.rs",
        "manifest_yaml_doc",
        "the language's",
    ),
    (
        "src/rendering/jsonnet/engine/library.rs",
        "manifest_yaml_stream",
        "the language's",
    ),
    ("src/state/store/privacy.rs", "from_setting", "makes the enum"),
    ("src/rendering/tanka/settings.rs", "visit_bool", "serde calls it"),
    ("src/rendering/tanka/spec.rs", "boolean", "reads the boolean"),
];

/// Returns the names of functions with a boolean parameter.
fn functions_with_boolean_parameters(text: &str) -> Vec<String> {
    let signature = Regex::new(r"(?s)\bfn (\w+)(.*?)(?: \{|;\n|$)").expect("a pattern");
    let boolean = Regex::new(r"\w: &?(?:'\w+ )?(?:mut )?bool\s*[,)]").expect("a pattern");
    let functions = signature.captures_iter(text);
    functions
        .filter(|function| boolean.is_match(&function[2]))
        .map(|function| function[1].to_owned())
        .collect()
}

#[test]
fn boolean_parameters_are_found_in_signatures() {
    let text = "fn one(a: u8, b: bool) {}\nfn two(\n    #[default] a: &mut bool,\n    b: [u8; 2],\n);\n\
                fn three(a: impl Fn(u8) -> bool) -> bool {\n    let b: bool = a(1);\n}\nfn four(_: bool) {}\n";
    assert_eq!(functions_with_boolean_parameters(text), ["one", "two", "four"]);
}

#[test]
fn a_boolean_parameter_has_a_reason() {
    let found: BTreeSet<(String, String)> = rust_files("src")
        .into_iter()
        .flat_map(|(path, text)| {
            let names = functions_with_boolean_parameters(&text);
            names.into_iter().map(move |name| (path.clone(), name))
        })
        .collect();
    let accepted: BTreeSet<(String, String)> = BOOLEAN_PARAMETERS
        .iter()
        .map(|(path, name, _)| ((*path).to_owned(), (*name).to_owned()))
        .collect();
    assert_eq!(found, accepted);
}
