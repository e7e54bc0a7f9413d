//! The results of `tk tool importers`, correct and incorrect ones.

use crate::rendering::tanka::importers::{Depth, tk_importers, tk_importers_count};
use crate::rendering::tanka::testing::ReadOnlyTree;

fn found(files: &[(&str, &str)], asked: &[&str]) -> Vec<String> {
    let found = tk_importers(ReadOnlyTree::new(files).as_ref(), "", "", asked).unwrap();
    found.iter().map(|path| path.as_str().to_owned()).collect()
}

const PROJECT: &[(&str, &str)] = &[
    ("jsonnetfile.json", ""),
    (
        "e/a/main.jsonnet",
        "(import 'lib1/main.libsonnet') + import './own.libsonnet'",
    ),
    ("e/a/own.libsonnet", "import 'pkg/x.libsonnet'"),
    ("e/a/unused.libsonnet", ""),
    (
        "e/b/main.jsonnet",
        "(import '../../lib/lib1/main.libsonnet') + import 'pkg/x.libsonnet'",
    ),
    ("e/b/vendor/pkg/x.libsonnet", ""),
    ("e/c/main.jsonnet", "// import 'lib1/main.libsonnet'"),
    (
        "e/d/main.jsonnet",
        "(import @'lib1/main.libsonnet') + importbin 'lib1/main.libsonnet'",
    ),
    ("e/up/main.jsonnet", "import '../../a/own.libsonnet'"),
    ("e/string/main.jsonnet", "importstr  \"lib1/main.libsonnet\""),
    ("lib/lib1/main.libsonnet", "import 'lib2.libsonnet'"),
    ("lib/lib2.libsonnet", "import 'lib1/main.libsonnet'"),
    ("library/note.libsonnet", ""),
    ("vendor/pkg/x.libsonnet", ""),
    ("x/xmain.jsonnet", "import 'lib2.libsonnet'"),
];

#[test]
fn importers_are_found_by_the_names_in_imports() {
    for (asked, expected) in [
        // Imports in comments count, verbatim strings and `importbin` do not, and `xmain.jsonnet` counts as an
        // entry point.
        (
            "lib/lib1/main.libsonnet",
            vec![
                "e/a/main.jsonnet",
                "e/b/main.jsonnet",
                "e/c/main.jsonnet",
                "e/string/main.jsonnet",
                "x/xmain.jsonnet",
            ],
        ),
        (
            "lib/lib2.libsonnet",
            vec![
                "e/a/main.jsonnet",
                "e/b/main.jsonnet",
                "e/c/main.jsonnet",
                "e/string/main.jsonnet",
                "x/xmain.jsonnet",
            ],
        ),
        // An import with one `..` too many matches. The entry point of the directory around a file always does.
        ("e/a/own.libsonnet", vec!["e/a/main.jsonnet", "e/up/main.jsonnet"]),
        ("e/a/unused.libsonnet", vec!["e/a/main.jsonnet"]),
        ("e/a/main.jsonnet", vec!["e/a/main.jsonnet"]),
        // An environment with its own copy of a package does not import the copy of the project.
        (
            "vendor/pkg/x.libsonnet",
            vec!["e/a/main.jsonnet", "e/up/main.jsonnet"],
        ),
        ("e/b/vendor/pkg/x.libsonnet", vec!["e/b/main.jsonnet"]),
        // `library/` counts as `lib`, so no surrounding entry point is found.
        ("library/note.libsonnet", vec![]),
        // Without an entry point above, all entry points below count.
        (
            "e/README.md",
            vec![
                "e/a/main.jsonnet",
                "e/b/main.jsonnet",
                "e/c/main.jsonnet",
                "e/d/main.jsonnet",
                "e/string/main.jsonnet",
                "e/up/main.jsonnet",
            ],
        ),
        ("deleted:e/a/gone.libsonnet", vec!["e/a/main.jsonnet"]),
        ("deleted:e/a/gone/deep.libsonnet", vec!["e/a/main.jsonnet"]),
        ("deleted:lib/gone.libsonnet", vec![]),
        ("deleted:/e/a/gone.libsonnet", vec![]),
    ] {
        assert_eq!(found(PROJECT, &[asked]), expected, "{asked}");
    }
    assert_eq!(
        found(
            PROJECT,
            &["e/c/main.jsonnet", "e/a/unused.libsonnet", "e/c/main.jsonnet"]
        ),
        ["e/a/main.jsonnet", "e/c/main.jsonnet"]
    );
}

#[test]
fn a_deleted_file_may_still_be_imported() {
    let mut files = PROJECT.to_vec();
    files.push(("e/f/main.jsonnet", "import 'gone.libsonnet'"));
    assert_eq!(
        found(&files, &["deleted:lib/gone.libsonnet"]),
        ["e/f/main.jsonnet"]
    );
    assert_eq!(
        found(&files, &["deleted:vendor/gone.libsonnet"]),
        ["e/f/main.jsonnet"]
    );
}

#[test]
fn files_are_looked_for_under_every_name_they_have() {
    let files = [
        ("jsonnetfile.json", ""),
        ("e/main.jsonnet", "import 'p/x.libsonnet'"),
        ("other/main.jsonnet", "import 'q/x.libsonnet'"),
        ("vendor/p", "-> ../packages/p"),
        ("vendor/gone", "-> nowhere"),
        ("packages/p/x.libsonnet", ""),
    ];
    for asked in ["packages/p/x.libsonnet", "vendor/p/x.libsonnet"] {
        assert_eq!(found(&files, &[asked]), ["e/main.jsonnet"], "{asked}");
    }
}

#[test]
fn paths_are_relative_to_where_tanka_is_started() {
    let files = ReadOnlyTree::new(PROJECT);
    let found = |root: &str, here: &str, asked: &str| {
        let found = tk_importers(files.as_ref(), root, here, &[asked]).unwrap();
        found.len()
    };
    assert_eq!(found("", "e/a", "../../lib/lib2.libsonnet"), 5);
    assert_eq!(found("e/a", "e/a", "../../lib/lib2.libsonnet"), 0);
    // A deleted file is also searched below the root, where every entry point surrounds it.
    assert_eq!(found("", "e/a", "deleted:own.libsonnet"), 6);
    assert_eq!(found("", "", "../outside.libsonnet"), 0);
}

#[test]
fn importers_are_counted_most_first() {
    let files = ReadOnlyTree::new(PROJECT);
    let counts = |depth| {
        let counts = tk_importers_count(files.as_ref(), "", "lib", depth).unwrap();
        let lines = counts.into_iter().map(|(path, count)| format!("{path}: {count}"));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(counts(Depth::Direct), ["lib/lib2.libsonnet: 5"]);
    assert_eq!(
        counts(Depth::Recursive),
        ["lib/lib1/main.libsonnet: 5", "lib/lib2.libsonnet: 5"]
    );
}

#[test]
fn a_chain_without_an_end_is_an_error() {
    let names: Vec<(String, String)> = (0..300)
        .map(|number| {
            (
                format!("lib/f{number}.libsonnet"),
                format!("import 'f{}.libsonnet'", number + 1),
            )
        })
        .collect();
    let mut files: Vec<(&str, &str)> = names
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    files.push(("jsonnetfile.json", ""));
    let refused = tk_importers(
        ReadOnlyTree::new(&files).as_ref(),
        "",
        "",
        &["lib/f299.libsonnet"],
    );
    assert!(refused.unwrap_err().to_string().contains("more than 200 files"));
}
