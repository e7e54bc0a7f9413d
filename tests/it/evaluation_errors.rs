//! Errors of evaluated programs: their messages, their places, and differences between the engines.

use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, path, snippet_request,
};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, TraceFrame,
};
use tokio_util::sync::CancellationToken;

/// Checks an error whose location takes too long to find: the second engine provides the location, and builds lists
/// slowly.
#[tokio::test]
async fn a_failure_is_reported_even_if_locating_it_takes_too_long() {
    let limits = EvalLimits {
        time_max: std::time::Duration::from_secs(3),
        ..EvalLimits::default()
    };
    let text = "if std.length(std.range(1, 3000000)) > 0 then error 'replicas missing' else {}";
    let failed = evaluate(&evaluator(limits), snippet_request(text)).await;
    let Err(EvalError::Runtime { message, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(message.contains("replicas missing"), "{message}");
}

#[tokio::test]
async fn an_import_that_is_not_there_says_where_it_was_searched() {
    let tree = TestTree::from_texts([("a/main.jsonnet", "import 'x.libsonnet'"), ("d/y", "")]);
    let evaluator = evaluator(EvalLimits::default());
    let request = EvalRequest {
        jpath: vec!["vendor".to_owned(), String::new()],
        ..file_request(tree.clone(), "a/main.jsonnet")
    };
    let error = evaluate(&evaluator, request).await.expect_err("no value");
    let searched = ["a/x.libsonnet", "x.libsonnet", "vendor/x.libsonnet"];
    assert_eq!(
        error,
        EvalError::ImportNotFound {
            path: "x.libsonnet".to_owned(),
            importer: "a/main.jsonnet".to_owned(),
            searched: searched.map(str::to_owned).to_vec(),
            similar: Vec::new(),
            trace: vec![TraceFrame {
                at: "a/main.jsonnet:1:1".to_owned(),
                what: "expression".to_owned(),
            }],
        }
    );
    let expected = "couldn't open import \"x.libsonnet\" of `a/main.jsonnet`: \
                    no match locally or in the Jsonnet library paths; \
                    looked for `a/x.libsonnet`, `x.libsonnet`, `vendor/x.libsonnet` (at a/main.jsonnet:1:1)";
    assert_eq!(error.to_string(), expected);
    // One of the search directories is outside the repository. The file is still reported as missing.
    let climbing = TestTree::from_texts([("a/main.jsonnet", "import '../lib/none.libsonnet'")]);
    let request = EvalRequest {
        jpath: vec!["lib".to_owned(), String::new()],
        ..file_request(climbing, "a/main.jsonnet")
    };
    let error = evaluate(&evaluator, request).await.expect_err("no value");
    assert_eq!(
        error.to_string(),
        "couldn't open import \"../lib/none.libsonnet\" of `a/main.jsonnet`: \
         no match locally or in the Jsonnet library paths; looked for `lib/none.libsonnet` (at a/main.jsonnet:1:1)"
    );
    let request = EvalRequest {
        tree,
        ..snippet_request("importstr 'd'")
    };
    let error = evaluate(&evaluator, request).await.expect_err("no value");
    assert_eq!(
        error.to_string(),
        "import \"d\" of `main.jsonnet`: is a directory (at main.jsonnet:1:1)"
    );
}

#[tokio::test]
async fn an_import_that_is_not_there_names_what_is_similar_wherever_it_is_searched() {
    let tree = TestTree::from_texts([
        (
            "e/main.jsonnet",
            "{ a: import 'utl.libsonnet', b: import 'k.libsonnet', c: (import 'x/app.libsonnet').y }",
        ),
        ("lib/util.libsonnet", "{}"),
        ("lib/m.libsonnet", "{}"),
        ("vendor/github.com/y/app.libsonnet", "{}"),
        ("other/utl.libsonnet", "{}"),
    ]);
    let evaluator = evaluator(EvalLimits::default());
    let mut reported = Vec::new();
    for field in ["a", "b", "c"] {
        let request = EvalRequest {
            jpath: vec!["vendor".to_owned(), "lib".to_owned(), "e".to_owned()],
            tree: tree.clone(),
            entry: EntryPoint::Snippet {
                name: path("e/other.jsonnet"),
                text: format!("(import 'main.jsonnet').{field}"),
            },
            ..snippet_request("")
        };
        let error = evaluate(&evaluator, request).await.expect_err("no value");
        let EvalError::ImportNotFound { similar, trace, .. } = error else {
            panic!("{error:?}");
        };
        let places: Vec<String> = trace.iter().map(|frame| frame.at.clone()).collect();
        assert_eq!(
            places.last().map(String::as_str),
            Some("e/other.jsonnet:1:1"),
            "{places:?}"
        );
        reported.push((similar.join(" "), places.first().cloned().unwrap_or_default()));
    }
    let expected = [
        ("lib/util.libsonnet", "e/main.jsonnet:1:6"),
        ("", "e/main.jsonnet:1:33"),
        ("vendor/github.com/y/app.libsonnet", "e/main.jsonnet:1:59"),
    ];
    assert_eq!(
        reported,
        expected.map(|(similar, at)| (similar.to_owned(), at.to_owned()))
    );
}

/// T50, T51
#[tokio::test]
async fn what_needs_a_program_says_which_and_for_what() {
    let evaluator = evaluator(EvalLimits::default());
    let tree = TestTree::from_texts([(
        "environments/dev/main.jsonnet",
        "{ a: std.native('helmTemplate')('--post-renderer=./x', './charts/web', { calledFrom: std.thisFile }) }",
    )]);
    let error = evaluate(&evaluator, file_request(tree, "environments/dev/main.jsonnet"))
        .await
        .expect_err("no value");
    let chart = "environments/dev/charts/web".to_owned();
    assert_eq!(error, EvalError::NeedsHelm { tool: "helm", chart });
    let text = "std.native('kustomizeBuild')('https://evil.example', { calledFrom: std.thisFile })";
    let error = evaluate(&evaluator, snippet_request(text))
        .await
        .expect_err("no value");
    assert!(
        matches!(
            error,
            EvalError::NeedsHelm {
                tool: "kustomize",
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_error_of_the_program_has_its_message_and_its_place() {
    let evaluator = evaluator(EvalLimits::default());
    let tree = TestTree::from_texts([
        (
            "main.jsonnet",
            "local lib = import 'lib.libsonnet';\n{ a: lib.f(1) }",
        ),
        ("lib.libsonnet", "{\n  f(x): error 'no ' + x,\n}"),
    ]);
    let error = evaluate(&evaluator, file_request(tree, "main.jsonnet"))
        .await
        .expect_err("no value");
    let EvalError::Runtime { message, trace } = error else {
        panic!("{error:?}")
    };
    assert_eq!(message, "no 1");
    let places: Vec<&str> = trace.iter().map(|frame| frame.at.as_str()).collect();
    assert!(places.contains(&"lib.libsonnet:2:9"), "{trace:?}");
    assert!(
        places.iter().any(|at| at.starts_with("main.jsonnet:2:")),
        "{trace:?}"
    );
}

#[tokio::test]
async fn a_file_that_is_not_jsonnet_says_where() {
    let evaluator = evaluator(EvalLimits::default());
    let tree = TestTree::from_texts([
        ("main.jsonnet", "import 'ü.libsonnet'"),
        ("ü.libsonnet", "{\n  'é': ]\n}"),
    ]);
    let error = evaluate(&evaluator, file_request(tree, "main.jsonnet"))
        .await
        .expect_err("no value");
    let EvalError::Syntax {
        path, line, column, ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!((path.as_str(), line, column), ("ü.libsonnet", 2, 8));
    let error = evaluate_to_json(&evaluator, snippet_request("local a = 1; b"))
        .await
        .expect_err("no value");
    assert!(
        matches!(
            error,
            EvalError::Syntax {
                line: 1,
                column: 14,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_difference_between_the_engines_is_shown_with_its_field() {
    // The engines compare numbers differently: one allows for a tiny difference.
    let asked = |cross_check| EvalRequest {
        cross_check,
        ..snippet_request("{ a: { b: std.member([0.1 + 0.2], 0.3) } }")
    };
    let evaluator = evaluator(EvalLimits::default());
    let evaluated = evaluate(&evaluator, asked(CrossCheckMode::On))
        .await
        .expect("a value");
    assert_eq!(
        evaluated.cross_check,
        CrossCheckResult::Differs {
            path: "$.a.b".to_owned(),
            first: "true".to_owned(),
            second: "false".to_owned(),
            known: None,
        }
    );
    // The second engine's value can be requested without the first one's, and is not taken for it.
    for (wanted, expected) in [
        (CrossCheckMode::SecondEngineOnly, "false"),
        (CrossCheckMode::Off, "true"),
        (CrossCheckMode::SecondEngineOnly, "false"),
    ] {
        let evaluated = evaluator
            .evaluate_all(vec![asked(wanted)], &CancellationToken::new())
            .await;
        let [Ok(evaluated)] = evaluated.as_slice() else {
            panic!("{evaluated:?}")
        };
        assert_eq!(evaluated.json, format!("{{\"a\":{{\"b\":{expected}}}}}"));
        assert_eq!(evaluated.cross_check, CrossCheckResult::NotRun);
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_import_that_is_not_found() {
    let error = evaluate(
        &evaluator(EvalLimits::default()),
        file_request(TestTree::from_texts([]), "a.jsonnet"),
    )
    .await;
    assert!(
        matches!(error, Err(EvalError::ImportNotFound { .. })),
        "{error:?}"
    );
}

/// Checks an object comprehension whose field is not computed. Go refuses it.
#[tokio::test]
async fn a_comprehension_of_a_named_field_is_refused_with_its_place() {
    let evaluator = evaluator(EvalLimits::default());
    for text in ["{ \"x\": 42 for _ in [1] }", "[\n  { x: 42 for _ in [1] },\n]"] {
        let refused = evaluate(&evaluator, snippet_request(text))
            .await
            .expect_err(text)
            .to_string();
        assert!(
            refused.contains("Object comprehensions can only have [e] fields"),
            "{text}: {refused}"
        );
    }
}
