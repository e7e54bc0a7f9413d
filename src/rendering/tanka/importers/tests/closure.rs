//! Tests of the closure of an environment.

use super::{graph, importers, texts};
use crate::rendering::tanka::importers::{Closure, DependencyRole, PathState};
use crate::rendering::tanka::testing::{ReadOnlyTree, path};

fn closure(files: &ReadOnlyTree, entrypoint: &str) -> Closure {
    graph(files).closures()[&path(entrypoint)].as_ref().clone()
}

/// Returns the existing paths and the missing paths of a closure.
fn found_and_absent(closure: &Closure) -> (Vec<&str>, Vec<&str>) {
    let of = |is_absent: bool| {
        let paths = closure.dependencies.iter();
        texts(
            paths
                .filter(|(_, dependency)| (dependency.state == PathState::Absent) == is_absent)
                .map(|(path, _)| path),
        )
    };
    (of(false), of(true))
}

#[test]
fn imports_are_searched_beside_the_file_and_then_from_the_end_of_the_path() {
    let files = ReadOnlyTree::new(&[
        ("jsonnetfile.json", ""),
        (
            "e/main.jsonnet",
            "(import 'a.libsonnet') + import 'p/p.libsonnet'",
        ),
        ("e/vendor/p/p.libsonnet", ""),
        ("vendor/p/p.libsonnet", ""),
        ("lib/a.libsonnet", "import 'b.libsonnet'"),
        ("lib/b.libsonnet", "importstr 'text'"),
        ("vendor/text", "import 'never'"),
        ("other.libsonnet", ""),
    ]);
    let closure = closure(&files, "e/main.jsonnet");
    let (found, absent) = found_and_absent(&closure);
    assert_eq!(
        found,
        [
            "e/main.jsonnet",
            "e/vendor/p/p.libsonnet",
            "lib/a.libsonnet",
            "lib/b.libsonnet",
            "vendor/text"
        ]
    );
    let looked_at_in_vain = [
        "e/a.libsonnet",
        "e/jsonnetfile.lock.json",
        "e/p/p.libsonnet",
        "e/spec.json",
        "e/text",
        "e/vendor/text",
        "jsonnetfile.lock.json",
        "lib/p/p.libsonnet",
        "lib/text",
    ];
    assert_eq!(absent, looked_at_in_vain);
    assert_eq!(
        texts(&closure.chain(&path("vendor/text"))),
        [
            "e/main.jsonnet",
            "lib/a.libsonnet",
            "lib/b.libsonnet",
            "vendor/text"
        ]
    );
    assert!(closure.unresolved.is_empty());
}

#[test]
fn import_cycles_end_and_missing_imports_are_reported() {
    let files = ReadOnlyTree::new(&[
        ("tkrc.yaml", ""),
        (
            "e/main.jsonnet",
            "(import 'a') + (import 'tk') + import '/etc/passwd'",
        ),
        (
            "e/a",
            "(import './main.jsonnet') + (import '../../x') + (import 'gone') + import '../e'",
        ),
    ]);
    let closure = closure(&files, "e/main.jsonnet");
    let unresolved: Vec<(&str, &str)> = closure
        .unresolved
        .iter()
        .map(|import| (import.path.as_str(), import.why.as_str()))
        .collect();
    let no_match = "no match locally or in the Jsonnet library paths";
    assert_eq!(
        unresolved,
        [
            (
                "../../x",
                "no match locally or in the Jsonnet library paths; looked for `x`",
            ),
            ("../e", "it is a directory"),
            (
                "gone",
                "no match locally or in the Jsonnet library paths; looked for `e/gone`, `lib/gone`, `e/vendor/gone`, \
                 `vendor/gone`",
            ),
            ("/etc/passwd", no_match),
        ]
    );
    let roles = |wanted| {
        closure
            .dependencies
            .iter()
            .filter(move |(_, found)| found.role == wanted)
    };
    assert_eq!(
        texts(roles(DependencyRole::Lock).map(|(path, _)| path)),
        ["e/jsonnetfile.lock.json", "jsonnetfile.lock.json"]
    );
}

#[test]
fn settings_charts_and_the_lock_belong_to_an_environment() {
    let files = ReadOnlyTree::new(&[
        ("jsonnetfile.json", ""),
        ("jsonnetfile.lock.json", ""),
        ("a/main.jsonnet", "import 'ship.libsonnet'"),
        ("a/spec.json", "{}"),
        ("b/main.jsonnet", "import 'pkg/x.libsonnet'"),
        ("lib/ship.libsonnet", "helm.template('x', './charts/x', {})"),
        ("lib/charts/x/Chart.yaml", "name: x"),
        ("lib/charts/x/templates/a.yaml", ""),
        ("lib/charts/y/Chart.yaml", ""),
        ("vendor/pkg/x.libsonnet", ""),
    ]);
    for (of, expected) in [
        ("a/spec.json", vec!["a/main.jsonnet"]),
        ("lib/charts/x/templates/a.yaml", vec!["a/main.jsonnet"]),
        ("lib/charts/x", vec!["a/main.jsonnet"]),
        ("lib/charts/y/Chart.yaml", vec![]),
        ("jsonnetfile.lock.json", vec!["b/main.jsonnet"]),
        ("lib", vec!["a/main.jsonnet"]),
        ("vendor/pkg", vec!["b/main.jsonnet"]),
        ("b/spec.json", vec!["b/main.jsonnet"]),
        ("README.md", vec![]),
    ] {
        assert_eq!(importers(&files, of), expected, "{of}");
    }
}

/// Only real imports count: not names in comments or strings, and not a file that only happens to be beside it.
#[test]
fn only_files_that_imports_resolve_to_are_dependencies() {
    let files = ReadOnlyTree::new(&[
        ("jsonnetfile.json", ""),
        (
            "commented/main.jsonnet",
            "// import 'k.libsonnet'\n'import \"k.libsonnet\"'",
        ),
        ("own/main.jsonnet", "import 'k.libsonnet'"),
        ("own/k.libsonnet", ""),
        ("real/main.jsonnet", "import 'k.libsonnet'"),
        ("text/main.jsonnet", "(importbin @'k.libsonnet')"),
        ("beside/main.jsonnet", ""),
        ("beside/unused.libsonnet", ""),
        ("lib/k.libsonnet", ""),
        ("library/main.jsonnet", "import '../lib/k.libsonnet'"),
        ("x/xmain.jsonnet", "import 'k.libsonnet'"),
        ("vendor/v/main.jsonnet", "import 'k.libsonnet'"),
    ]);
    assert_eq!(
        importers(&files, "lib/k.libsonnet"),
        ["library/main.jsonnet", "real/main.jsonnet", "text/main.jsonnet"]
    );
    assert_eq!(importers(&files, "beside/unused.libsonnet"), Vec::<String>::new());
    assert_eq!(importers(&files, "own/k.libsonnet"), ["own/main.jsonnet"]);
}

#[test]
fn a_repository_without_a_project_has_no_entry_points() {
    assert!(
        graph(&ReadOnlyTree::new(&[("a/main.jsonnet", "")]))
            .closures()
            .is_empty()
    );
    let two = ReadOnlyTree::new(&[
        ("a/main.jsonnet", ""),
        ("p/tkrc.yaml", ""),
        ("p/e/main.jsonnet", ""),
        ("p/e/vendor/x/main.jsonnet", ""),
    ]);
    assert_eq!(texts(graph(&two).closures().keys()), ["p/e/main.jsonnet"]);
}
