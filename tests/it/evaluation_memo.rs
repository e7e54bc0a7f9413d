//! Tests that a result is reused as long as none of its dependencies has changed.

use crate::batch::{environment, evaluate_batch, file_sets, one_process, value_text};
use crate::support::evaluation::{TestTree, evaluate, evaluator, path};
use drydock::rendering::jsonnet::{EvalLimits, EvalRequest, Evaluator};
use drydock::state::workspace::Tree;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::sync::Arc;

fn tree(files: &BTreeMap<String, String>) -> Arc<dyn Tree> {
    TestTree::from_pairs(files.iter().map(|(name, text)| (path(name), text.as_str())))
}

#[test]
fn memoized_evaluations_never_change_a_result() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let (experienced, anew) = (evaluator(one_process()), evaluator(one_process()));
    let mut runner = TestRunner::new(Config {
        cases: 6,
        failure_persistence: None,
        ..Config::default()
    });
    let edits = (file_sets(), file_sets(), any::<prop::sample::Index>());
    let result = runner.run(&edits, |(before, other, place)| {
        // One file is deleted, or is added and may shadow another one.
        let mut after = before.clone();
        match other.iter().nth(place.index(2 * other.len())) {
            Some((name, text)) => drop(after.insert(name.clone(), text.clone())),
            None => {
                let modules = after.keys().filter(|name| !name.ends_with("main.jsonnet"));
                let modules: Vec<String> = modules.cloned().collect();
                after.remove(&modules[place.index(modules.len())]);
            }
        }
        for files in [&before, &after, &before] {
            let tree = tree(files);
            let requests: Vec<EvalRequest> = ["a", "b", "c"]
                .into_iter()
                .map(|name| environment(&tree, name))
                .collect();
            let answers = runtime.block_on(evaluate_batch(&experienced, &requests));
            for (request, answer) in requests.into_iter().zip(answers) {
                let alone = runtime.block_on(evaluate(&anew, request));
                prop_assert_eq!(value_text(&answer), value_text(&alone));
            }
        }
        Ok(())
    });
    result.expect("equal values");
}

/// Returns the values of both environments, from one evaluator.
async fn values(evaluator: &Evaluator, tree: &Arc<dyn Tree>) -> Vec<Option<String>> {
    let requests = ["a", "b"].map(|name| environment(tree, name));
    let answers = evaluate_batch(evaluator, &requests).await;
    answers.iter().map(|answer| value_text(answer).ok()).collect()
}

#[tokio::test]
async fn only_what_changed_is_evaluated_again() {
    let files = |shared: &str, own: &str| -> BTreeMap<String, String> {
        let files = [
            ("lib/shared.libsonnet", shared),
            (
                "environments/a/main.jsonnet",
                "{ a: import 'shared.libsonnet', t: std.thisFile }",
            ),
            ("environments/b/main.jsonnet", own),
        ];
        let owned = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        owned.into()
    };
    let evaluator = evaluator(EvalLimits::default());
    let a = |n: u32| Some(format!(r#"{{"a":{n},"t":"environments/a/main.jsonnet"}}"#));
    let b = |n: u32| Some(n.to_string());
    assert_eq!(values(&evaluator, &tree(&files("1", "2"))).await, [a(1), b(2)]);
    assert_eq!(values(&evaluator, &tree(&files("1", "3"))).await, [a(1), b(3)]);
    assert_eq!(values(&evaluator, &tree(&files("4", "3"))).await, [a(4), b(3)]);
    // A file that is found before the other one.
    let mut shadowed = files("4", "3");
    shadowed.insert("environments/a/shared.libsonnet".to_owned(), "5".to_owned());
    assert_eq!(values(&evaluator, &tree(&shadowed)).await, [a(5), b(3)]);
    assert_eq!(values(&evaluator, &tree(&files("4", "3"))).await, [a(4), b(3)]);
    shadowed.remove("lib/shared.libsonnet");
    assert_eq!(values(&evaluator, &tree(&shadowed)).await, [a(5), b(3)]);
}
