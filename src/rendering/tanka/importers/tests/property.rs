//! Property test of incremental reading: after any edit it has the same result as a full read, and entry points
//! outside the result have the same inputs.

use super::graph;
use crate::base::model::RepoPath;
use crate::rendering::tanka::testing::{ReadOnlyTree, path};
use proptest::prelude::{Strategy, prop};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeSet;

/// Possible file paths. Some are directories of others, so that an edit can replace a file by a directory.
const PLACES: [&str; 18] = [
    "jsonnetfile.json",
    "tkrc.yaml",
    "a/main.jsonnet",
    "a/spec.json",
    "a/x.libsonnet",
    "a/vendor/p/x.libsonnet",
    "a/jsonnetfile.json",
    "b/main.jsonnet",
    "b/c/main.jsonnet",
    "b/x.libsonnet",
    "lib",
    "lib/x.libsonnet",
    "lib/p",
    "lib/p/x.libsonnet",
    "vendor/p",
    "vendor/p/x.libsonnet",
    "vendor/q/x.libsonnet",
    "jsonnetfile.lock.json",
];
const CONTENTS: [&str; 14] = [
    "1",
    "2",
    "import 'x.libsonnet'",
    "import 'p/x.libsonnet'",
    "(import '../lib/x.libsonnet') + importstr 'p/x.libsonnet'",
    "import './x.libsonnet'",
    "importstr 'q/x.libsonnet'",
    "import '../../../x'",
    "helm.template('n', '../vendor/p')",
    "kustomize.build('p') + import 'p'",
    "-> q",
    "-> ../lib",
    "-> p",
    "-> x.libsonnet",
];

type Edit = (&'static str, Option<&'static str>);

fn edits(count: usize) -> impl Strategy<Value = Vec<Edit>> {
    let content = prop::option::weighted(0.8, prop::sample::select(CONTENTS.to_vec()));
    prop::collection::vec((prop::sample::select(PLACES.to_vec()), content), 1..count)
}

/// Applies edits. A new file replaces a file above it, because a tree has no file below a file.
fn apply(files: ReadOnlyTree, edits: &[Edit]) -> (ReadOnlyTree, BTreeSet<RepoPath>) {
    let mut changed = BTreeSet::new();
    let mut files = files;
    for (name, content) in edits {
        if content.is_some() {
            for other in PLACES {
                let is_nested =
                    other.starts_with(&format!("{name}/")) || name.starts_with(&format!("{other}/"));
                if is_nested {
                    files = files.with(other, None);
                    changed.insert(path(other));
                }
            }
        }
        files = files.with(name, *content);
        changed.insert(path(name));
    }
    (files, changed)
}

#[test]
fn what_is_read_again_is_what_a_cold_reading_finds() {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = (edits(24), prop::collection::vec(edits(4), 1..4));
    let result = runner.run(&strategy, |(start, rounds)| {
        let (mut files, _) = apply(ReadOnlyTree::new(&[]).as_ref().clone(), &start);
        let mut graph_now = graph(&files);
        for round in rounds {
            let (after, changed) = apply(files, &round);
            let changed: Vec<RepoPath> = changed.into_iter().collect();
            let head = graph_now.with_changes(&after, &changed).unwrap();
            let cold = graph(&after);
            proptest::prop_assert_eq!(head.closures(), cold.closures());
            let affected = graph_now.affected(&head);
            for (entrypoint, closure) in cold.closures() {
                let is_affected = affected.iter().any(|affected| affected.entrypoint == *entrypoint);
                let was = graph_now.closures().get(entrypoint).map(|closure| closure.id());
                proptest::prop_assert_eq!(is_affected, was != Some(closure.id()), "{}", entrypoint);
            }
            (files, graph_now) = (after, head);
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}
