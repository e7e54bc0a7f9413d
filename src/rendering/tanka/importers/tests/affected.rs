//! Tests of the entry points that an edit affects, and of the reasons.

use super::{edited, graph, lines};
use crate::rendering::tanka::importers::{ImportGraph, OutlineCache};
use crate::rendering::tanka::testing::{ReadOnlyTree, path};
use std::sync::Arc;

fn project() -> Arc<ReadOnlyTree> {
    ReadOnlyTree::new(&[
        ("jsonnetfile.json", ""),
        ("dev/main.jsonnet", "import 'app.libsonnet'"),
        (
            "prod/main.jsonnet",
            "(import 'app.libsonnet') + import 'p/x.libsonnet'",
        ),
        ("lib/app.libsonnet", "import 'k.libsonnet'"),
        ("vendor/k.libsonnet", ""),
        ("vendor/p", "-> github.com/org/p"),
        ("vendor/github.com/org/p/x.libsonnet", "1"),
        ("vendor/github.com/org/p/y.libsonnet", "2"),
        ("README.md", ""),
    ])
}

#[test]
fn an_edited_file_affects_what_imports_it() {
    assert_eq!(
        lines(&edited(&project(), "vendor/k.libsonnet", Some("{}"))),
        [
            "dev/main.jsonnet: Edited Import vendor/k.libsonnet by dev/main.jsonnet > lib/app.libsonnet > vendor/k.libsonnet",
            "prod/main.jsonnet: Edited Import vendor/k.libsonnet by prod/main.jsonnet > lib/app.libsonnet > vendor/k.libsonnet",
        ]
    );
    assert_eq!(
        lines(&edited(&project(), "dev/main.jsonnet", Some("1"))),
        ["dev/main.jsonnet: Edited Import dev/main.jsonnet by dev/main.jsonnet"]
    );
    assert!(edited(&project(), "README.md", Some("x")).is_empty());
    assert!(edited(&project(), "vendor/k.libsonnet", Some("")).is_empty());
}

#[test]
fn a_file_that_appears_first_on_the_path_affects_what_looked_there() {
    assert_eq!(
        lines(&edited(&project(), "dev/app.libsonnet", Some("{}"))),
        ["dev/main.jsonnet: Added Import dev/app.libsonnet by dev/main.jsonnet > dev/app.libsonnet"]
    );
    assert_eq!(lines(&edited(&project(), "lib/k.libsonnet", Some("{}"))).len(), 2);
    assert!(edited(&project(), "vendor/app.libsonnet", Some("{}")).is_empty());
}

#[test]
fn a_deleted_file_affects_what_imported_it() {
    assert_eq!(
        lines(&edited(&project(), "lib/app.libsonnet", None)),
        [
            "dev/main.jsonnet: Deleted Import lib/app.libsonnet by dev/main.jsonnet > lib/app.libsonnet",
            "prod/main.jsonnet: Deleted Import lib/app.libsonnet by prod/main.jsonnet > lib/app.libsonnet",
        ]
    );
}

#[test]
fn what_lies_behind_a_symlink_counts_under_both_names() {
    assert_eq!(
        lines(&edited(
            &project(),
            "vendor/github.com/org/p/x.libsonnet",
            Some("{}")
        )),
        [
            "prod/main.jsonnet: Edited Import vendor/p/x.libsonnet = vendor/github.com/org/p/x.libsonnet by prod/main.jsonnet > vendor/p/x.libsonnet"
        ]
    );
    assert_eq!(
        lines(&edited(&project(), "vendor/p", Some("-> github.com/org/gone"))),
        [
            "prod/main.jsonnet: Deleted Import vendor/p/x.libsonnet = vendor/github.com/org/p/x.libsonnet by prod/main.jsonnet > vendor/p/x.libsonnet"
        ]
    );
    for link in ["-> /etc", "-> ../../x", "-> p"] {
        assert_eq!(edited(&project(), "vendor/p", Some(link)).len(), 1, "{link}");
    }
    assert!(edited(&project(), "vendor/github.com/org/p/y.libsonnet", Some("{}")).is_empty());
}

#[test]
fn entry_points_come_and_go_and_move() {
    assert_eq!(
        lines(&edited(&project(), "new/main.jsonnet", Some(""))),
        ["new/main.jsonnet: New"]
    );
    assert_eq!(
        lines(&edited(&project(), "dev/main.jsonnet", None)),
        ["dev/main.jsonnet: Removed"]
    );
    assert_eq!(
        lines(&edited(&project(), "dev/jsonnetfile.json", Some("{}"))),
        ["dev/main.jsonnet: ProjectRoot"]
    );
    assert_eq!(
        lines(&edited(&project(), "tkrc.yaml", Some(""))),
        Vec::<String>::new()
    );
    assert_eq!(edited(&project(), "jsonnetfile.json", None).len(), 2);
}

#[test]
fn settings_and_charts_are_reasons_too() {
    assert_eq!(
        lines(&edited(&project(), "dev/spec.json", Some("{}"))),
        ["dev/main.jsonnet: Added Settings dev/spec.json by dev/spec.json"]
    );
    let files = project().with("prod/main.jsonnet", Some("kustomize.build('./base')"));
    for (name, content, change) in [
        ("prod/base/kustomization.yaml", Some("a"), "Added"),
        ("prod/base", Some("-> ../lib"), "Added"),
    ] {
        assert_eq!(
            lines(&edited(&files, name, content)),
            [format!(
                "prod/main.jsonnet: {change} Chart prod/base{} by prod/main.jsonnet > prod/base",
                if name == "prod/base" { " = lib" } else { "" }
            )]
        );
    }
    let linked = files.with("prod/base/values.yaml", Some("-> ../../README.md"));
    assert_eq!(
        lines(&edited(&linked, "README.md", Some("x"))),
        ["prod/main.jsonnet: Edited Chart prod/base by prod/main.jsonnet > prod/base"]
    );
}

#[test]
fn what_is_not_touched_is_the_same_closure() {
    let files = project();
    let base = graph(&files);
    let after = files.with("dev/main.jsonnet", Some("2"));
    let head = base.with_changes(&after, &[path("dev/main.jsonnet")]).unwrap();
    let of = |graph: &ImportGraph, name: &str| Arc::clone(&graph.closures()[&path(name)]);
    assert!(Arc::ptr_eq(
        &of(&base, "prod/main.jsonnet"),
        &of(&head, "prod/main.jsonnet")
    ));
    assert_ne!(
        of(&base, "dev/main.jsonnet").id(),
        of(&head, "dev/main.jsonnet").id()
    );
    let again = ImportGraph::build(files.as_ref(), Arc::new(OutlineCache::default())).unwrap();
    assert_eq!(
        of(&base, "dev/main.jsonnet").id(),
        of(&again, "dev/main.jsonnet").id()
    );
}
