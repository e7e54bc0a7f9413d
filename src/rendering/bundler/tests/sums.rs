//! Checksums of packages.

use super::{COMMIT, snapshot};

/// Compares with the checksums that jsonnet-bundler wrote to lock files for these files.
#[test]
fn a_checksum_covers_file_contents_in_walk_order_following_links() {
    let sum = |files: &[(&str, &str)]| snapshot(COMMIT, files).sum();
    assert_eq!(
        sum(&[("README.md", "x"), ("c.libsonnet", "{c:1}")]),
        "Z+qsD4Z7OEswwoREIMbvI40m09rJR63BQYhY71G3zr4="
    );
    // `lib/x` is visited before `lib-2/y`, although `lib-2/y` is less as a whole text.
    let whole = sum(&[("all", "12345")]);
    assert_eq!(
        sum(&[
            ("lib/x", "3"),
            ("lib-2/y", "4"),
            ("lib.a", "5"),
            ("a", "1"),
            ("b/c", "2")
        ]),
        whole,
    );
    assert_eq!(
        sum(&[("a", "12"), ("b", "->c/d"), ("c/d", "3"), ("e", "->b")]),
        sum(&[("all", "12333")])
    );
    // A link to a directory, to a missing file or in a cycle ends the walk.
    for target in ["c", "missing", "c/missing", "b", "./c/.."] {
        let link = format!("->{target}");
        let files = [("a", "12345"), ("b", link.as_str()), ("c/d", "never")];
        assert_eq!(sum(&files), whole, "{target}");
    }
}
