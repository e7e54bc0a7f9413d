//! The project's own source, for the tests that check its contents.

use regex::Regex;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Returns the root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Rust file below a folder of the checkout: its path from the root, and its text.
pub(crate) fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be listed") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("the file is text");
                let name = path.strip_prefix(root()).expect("a path below the root");
                files.push((name.to_string_lossy().into_owned(), text));
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no Rust file below `{folder}`");
    files
}

/// A function of the source tree.
pub(crate) struct Function {
    pub(crate) name: String,
    /// The doc comment, its lines joined.
    pub(crate) comment: String,
    /// True for a test, with any of the attributes that make one.
    pub(crate) is_test: bool,
}

/// Returns every function of the source tree, once for each definition of its name.
pub(crate) fn functions() -> Vec<Function> {
    let folders = ["src", "tests", "benches", "torture/src"];
    let files = folders.iter().flat_map(|folder| rust_files(folder));
    files.flat_map(|(_, text)| functions_of(&text)).collect()
}

static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn (\w+)").expect("a regular expression"));

/// Returns the functions of one file.
pub(crate) fn functions_of(text: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let (mut comment, mut is_test) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("///") {
            comment.push_str(more);
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            if let Some(found) = NAME.captures(line).filter(|_| !line.starts_with("//")) {
                functions.push(Function {
                    name: found[1].to_owned(),
                    comment: std::mem::take(&mut comment),
                    is_test,
                });
            }
            comment.clear();
            is_test = false;
        }
    }
    functions
}

/// Returns a line without its comment. Only a `//` after a space begins a comment, so that addresses stay whole. A
/// string that contains one is cut as well, which is rare.
pub(crate) fn without_comment(line: &str) -> &str {
    let start = line.trim_start();
    if start.starts_with("//") {
        return "";
    }
    line.split(" // ").next().unwrap_or_default()
}
