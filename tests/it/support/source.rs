//! The project's own source, for the tests that check what is and is not in it.

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the checkout: its path from the root, and its text.
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

/// A line without its comment. A `//` inside a string is rare enough to be cut with it only when a
/// blank comes before it, so that addresses stay whole.
pub(crate) fn without_comment(line: &str) -> &str {
    let start = line.trim_start();
    if start.starts_with("//") {
        return "";
    }
    line.split(" // ").next().unwrap_or_default()
}
