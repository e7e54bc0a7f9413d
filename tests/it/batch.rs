//! Programs evaluated together have the same values as alone, whatever they share.

use crate::support::evaluation::{TestTree, evaluate, evaluator, file_request, path, snippet_request};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalError, EvalLimits, EvalRequest, Evaluation, Evaluator, Import,
};
use drydock::state::workspace::Tree;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn variable(name: &str) -> BTreeMap<String, String> {
    let environment = format!("{{ metadata: {{ name: '{name}' }} }}");
    BTreeMap::from([("tanka.dev/environment".to_owned(), environment)])
}

/// Returns a request for an environment, with Tanka's library path for it.
pub(crate) fn environment(tree: &Arc<dyn Tree>, name: &str) -> EvalRequest {
    let base = format!("environments/{name}");
    EvalRequest {
        jpath: vec![
            "vendor".to_owned(),
            format!("{base}/vendor"),
            "lib".to_owned(),
            base.clone(),
        ],
        ext_code: variable(name),
        ..file_request(tree.clone(), &format!("{base}/main.jsonnet"))
    }
}

pub(crate) fn value_text(result: &Result<Evaluation, EvalError>) -> Result<String, EvalError> {
    let evaluated = result.as_ref().map_err(Clone::clone)?;
    Ok(String::from_utf8(evaluated.json.to_vec()).expect("JSON is UTF-8"))
}

pub(crate) async fn evaluate_batch(
    evaluator: &Evaluator,
    requests: &[EvalRequest],
) -> Vec<Result<Evaluation, EvalError>> {
    evaluator
        .evaluate_all(requests.to_vec(), &CancellationToken::new())
        .await
}

/// Returns the limits for a single process, so that the programs share as much as possible.
pub(crate) fn one_process() -> EvalLimits {
    EvalLimits {
        workers_max: 1,
        idle_max: 1,
        time_max: Duration::from_secs(60),
        ..EvalLimits::default()
    }
}

#[tokio::test]
async fn each_program_of_a_batch_has_its_own_value_or_its_own_failure() {
    let tree = TestTree::from_texts([
        (
            "lib/app.libsonnet",
            "local k = import 'k.libsonnet'; { replicas:: 1, out: k.f(self.replicas), near: import 'near.libsonnet' }",
        ),
        ("lib/k.libsonnet", "{ f(n): { n: n, file: std.thisFile } }"),
        ("lib/near.libsonnet", "'lib'"),
        ("lib/name.libsonnet", "(import 'tk').env.metadata.name"),
        (
            "lib/zone.libsonnet",
            "{ zone: 'zone of ' + import 'name.libsonnet' }",
        ),
        (
            "environments/a/main.jsonnet",
            "(import 'app.libsonnet') + (import 'zone.libsonnet')",
        ),
        (
            "environments/b/main.jsonnet",
            "(import 'app.libsonnet') + { replicas: 3 } + (import 'zone.libsonnet')",
        ),
        (
            "environments/c/main.jsonnet",
            "(import 'app.libsonnet') + { x: error 'no' }",
        ),
        // The same import path resolves to another file here.
        (
            "environments/d/main.jsonnet",
            "(import 'app.libsonnet') + (import 'zone.libsonnet')",
        ),
        ("environments/d/k.libsonnet", "{ f(n): 'mine' }"),
        ("environments/e/main.jsonnet", "local f(x) = f(x + 1) + 1; f(0)"),
        (
            "environments/f/main.jsonnet",
            "(import 'app.libsonnet') + { v: std.map(std.extVar, ['tanka.dev/environment']) }",
        ),
    ]);
    let names = ["a", "b", "c", "d", "e", "a", "f", "b"];
    let requests: Vec<EvalRequest> = names.iter().map(|name| environment(&tree, name)).collect();
    let evaluator = evaluator(one_process());
    let together = evaluate_batch(&evaluator, &requests).await;
    let app = |n: u32, zone: &str| {
        let out = format!(r#"{{"file":"lib/k.libsonnet","n":{n}}}"#);
        Ok(format!(r#"{{"near":"lib","out":{out},"zone":"zone of {zone}"}}"#))
    };
    let values: Vec<_> = together.iter().map(value_text).collect();
    assert_eq!(values[0], app(1, "a"));
    assert_eq!(values[1], app(3, "b"));
    let message = values[2].as_ref().expect_err("no value").to_string();
    assert!(message.starts_with("no"), "{message}");
    // Files beside the importing file come first, so an environment does not shadow a library.
    assert_eq!(values[3], app(1, "d"));
    assert!(matches!(values[4], Err(EvalError::Stack(_))), "{:?}", values[4]);
    assert_eq!(values[5], app(1, "a"));
    assert_eq!(values[7], app(3, "b"));
    for (request, result) in requests.iter().zip(&together) {
        let alone = evaluate(&evaluator, request.clone()).await;
        assert_eq!(value_text(result), value_text(&alone));
    }
}

/// Returns the imports an evaluation read or missed.
fn dependences(evaluated: &Evaluation) -> BTreeSet<Import> {
    evaluated.imports.iter().cloned().collect()
}

/// Returns the files of a tree in which libraries import each other, shadow each other and use variables, and the
/// environments that use them.
pub(crate) fn file_sets() -> impl Strategy<Value = BTreeMap<String, String>> {
    let places = [
        "lib",
        "vendor",
        "environments/a",
        "environments/b/vendor",
        "environments/c",
    ];
    let import = (0..6_usize).prop_map(|number| format!("import 'm{number}.libsonnet'"));
    let expression = prop_oneof![
        3 => import.clone().prop_map(|import| format!("({import}).v")),
        1 => Just("std.extVar('tanka.dev/environment').metadata.name".to_owned()),
        1 => Just("(import 'tk').env.metadata.name".to_owned()),
        1 => Just("[std.extVar][0]('tanka.dev/environment').metadata.name".to_owned()),
        1 => Just("(local s = std; s['ext' + 'Var'])('tanka.dev/environment').metadata.name".to_owned()),
        2 => Just("std.thisFile".to_owned()),
        1 => Just("error 'never'".to_owned()),
    ];
    let module =
        (expression.clone(), expression.clone(), any::<bool>()).prop_map(|(v, w, lazy)| match lazy {
            true => format!("local w = {w}; {{ v: {v}, w:: w, f():: w }}"),
            false => format!("{{ v: '<' + {v} + '>', w:: {w}, f():: {w} }}"),
        });
    let place = proptest::sample::select(places.to_vec());
    let modules = proptest::collection::btree_map(
        (place, 0..6_usize).prop_map(|(place, number)| format!("{place}/m{number}.libsonnet")),
        module,
        3..14,
    );
    let use_of = proptest::sample::select(vec!["v", "w", "f()"]);
    let main = (import.clone(), use_of.clone(), import, use_of)
        .prop_map(|(one, first, other, second)| format!("[({one}).{first}, ({other}).{second}]"));
    (modules, proptest::collection::vec(main, 3)).prop_map(|(mut files, mains)| {
        for (name, main) in ["a", "b", "c"].into_iter().zip(mains) {
            files.insert(format!("environments/{name}/main.jsonnet"), main);
        }
        files
    })
}

#[test]
fn sharing_a_process_never_changes_the_values_of_programs() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let evaluator = evaluator(one_process());
    let mut runner = TestRunner::new(Config {
        cases: 48,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&file_sets(), |files| {
        let tree = TestTree::from_pairs(files.iter().map(|(name, text)| (path(name), text.as_str())));
        let requests: Vec<EvalRequest> = ["a", "b", "c", "b", "a"]
            .into_iter()
            .map(|name| EvalRequest {
                cross_check: CrossCheckMode::On,
                ..environment(&tree, name)
            })
            .collect();
        let together = runtime.block_on(evaluate_batch(&evaluator, &requests));
        for (request, result) in requests.into_iter().zip(together) {
            let alone = runtime.block_on(evaluate(&evaluator, request));
            prop_assert_eq!(value_text(&result), value_text(&alone));
            if let (Ok(together), Ok(alone)) = (result, alone) {
                // The second engine also shares files, and gets the same values as alone.
                prop_assert_eq!(&together.cross_check, &CrossCheckResult::Agrees);
                prop_assert_eq!(&alone.cross_check, &CrossCheckResult::Agrees);
                prop_assert!(dependences(&together).is_superset(&dependences(&alone)));
            }
        }
        Ok(())
    });
    result.expect("equal values");
}

/// T46
#[tokio::test]
async fn a_program_that_kills_its_process_costs_the_others_nothing() {
    let tree = TestTree::from_texts([
        ("lib/big.libsonnet", "std.repeat('a', 1e9)"),
        (
            "environments/a/main.jsonnet",
            "std.length(import 'big.libsonnet')",
        ),
        ("environments/b/main.jsonnet", "1"),
        (
            "environments/c/main.jsonnet",
            "local f(x) = f(x + 1) tailstrict; std.foldl(function(a, i) a + i, std.range(0, 1e9), 0)",
        ),
    ]);
    let limits = EvalLimits {
        memory_bytes_max: 64 << 20,
        time_max: Duration::from_secs(2),
        ..one_process()
    };
    let names = ["b", "a", "b", "c", "b"];
    let requests: Vec<EvalRequest> = names.iter().map(|name| environment(&tree, name)).collect();
    let values: Vec<_> = evaluate_batch(&evaluator(limits), &requests)
        .await
        .iter()
        .map(value_text)
        .collect();
    for place in [0, 2, 4] {
        assert_eq!(values[place], Ok("1".to_owned()));
    }
    assert_eq!(values[1], Err(EvalError::Memory { bytes: 64 << 20 }));
    let stopped = matches!(
        values[3],
        Err(EvalError::Time { seconds: 2 } | EvalError::Memory { .. })
    );
    assert!(stopped, "{:?}", values[3]);
}

#[tokio::test]
async fn a_cancelled_batch_answers_each_program() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let answers = evaluator(one_process())
        .evaluate_all(vec![snippet_request("1"), snippet_request("2")], &cancel)
        .await;
    assert_eq!(answers, [Err(EvalError::Cancelled), Err(EvalError::Cancelled)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_environments_on_one_library_are_evaluated_together() {
    let mut files: Vec<(String, String)> = (0..40)
        .map(|number| {
            let fields: String = (0..40)
                .map(|field| format!("f{field}(x):: x + {field}, "))
                .collect();
            (
                format!("lib/m{number}.libsonnet"),
                format!("{{ {fields} v: {number} }}"),
            )
        })
        .collect();
    let imports: String = (0..40)
        .map(|number| format!("m{number}: import 'm{number}.libsonnet', "))
        .collect();
    files.push(("lib/all.libsonnet".to_owned(), format!("{{ {imports} }}")));
    let names: Vec<String> = (0..60).map(|number| format!("e{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let main = format!(
            "local all = import 'all.libsonnet'; {{ v: [all[m].v for m in std.objectFields(all)], n: all.m3.f7({number}) }}"
        );
        files.push((format!("environments/{name}/main.jsonnet"), main));
    }
    let tree = TestTree::from_pairs(files.iter().map(|(name, text)| (path(name), text.as_str())));
    let mut requests: Vec<EvalRequest> = names.iter().map(|name| environment(&tree, name)).collect();
    requests[0].cross_check = CrossCheckMode::On;
    // A process that may use no memory serves one program, so the second run takes as many processes as programs.
    for (recycle_bytes, taken) in [(256 << 20, names.len()), (0, 4)] {
        let requests = &requests[..taken];
        let evaluator = evaluator(EvalLimits {
            recycle_bytes,
            time_max: Duration::from_secs(60),
            ..EvalLimits::default()
        });
        let answers = evaluate_batch(&evaluator, requests).await;
        for (number, answer) in answers.iter().enumerate() {
            let value: serde_json::Value =
                serde_json::from_str(&value_text(answer).expect("a value")).expect("JSON");
            assert_eq!(value["n"], number + 7);
            let read = answer.as_ref().expect("a value").imports.iter();
            let read = read
                .filter(|import| matches!(import, Import::Read { .. }))
                .count();
            assert_eq!(read, 42, "the program, the library and its parts");
        }
    }
}
