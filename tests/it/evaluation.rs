//! Tests of the results of evaluating Jsonnet: values, imports and their records, variables, native functions, errors.

use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, path, snippet_request,
};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, Import, TraceFrame,
};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

fn variables<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(name, code)| (name.to_owned(), code.to_owned()))
        .into()
}

/// Returns Git's hash of the content.
fn blob(text: &str) -> String {
    let hash = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, text.as_bytes());
    hash.expect("a hash").to_string()
}

#[tokio::test]
async fn a_value_is_sorted_compact_json() {
    let evaluator = evaluator(EvalLimits::default());
    let text = "{ b: [1, 0.1, 1e21, -0], a: { x: 'é\\n\"', h:: 1 }, A: null, e: {}, l: [], t: true }";
    let expected = concat!(
        r#"{"A":null,"a":{"x":"é\n\""},"b":[1,0.10000000000000001,1000000000000000000000,-0],"#,
        r#""e":{},"l":[],"t":true}"#
    );
    let mut request = snippet_request(text);
    request.cross_check = CrossCheckMode::On;
    let evaluated = evaluate(&evaluator, request).await.expect("a value");
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
    assert_eq!(evaluated.imports[..], []);
}

/// Checks a text that is parsed on the existing stack, because the sandbox cannot create threads.
#[tokio::test]
async fn a_text_that_is_nested_deeply_is_read_as_the_language_has_it() {
    let evaluator = evaluator(EvalLimits::default());
    let chain: String = (0..150)
        .map(|n| format!("if n == {n} then 'r{n}' else "))
        .collect();
    let text = format!("local n = 149, a = 'outer', xs = [1, 2]; {chain} error 'none' + {{ a: ~2*3 }}");
    let deep = format!(
        "local n = 149, a = 7, b = true, xs = [1, 2]; {{ which: {chain} 'none', each: {chain} [a for x in xs if b] }}.which"
    );
    for text in [text, deep] {
        let mut request = snippet_request(&text);
        request.cross_check = CrossCheckMode::On;
        let evaluated = evaluate(&evaluator, request).await.expect("a value");
        assert_eq!(std::str::from_utf8(&evaluated.json), Ok(r#""r149""#));
        assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
    }
    let last = format!(
        "local n = 200, a = 7, b = true, xs = [1, 2]; {chain} {{ each: [a for x in xs if b], bits: ~2*3, text: 'x' + 0.7 }}"
    );
    let evaluated = evaluate(&evaluator, snippet_request(&last))
        .await
        .expect("a value");
    let expected = r#"{"bits":-9,"each":[7,7],"text":"x0.69999999999999996"}"#;
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
}

/// Checks a text with an ambiguous meaning: one engine parses a part of it differently than the language specifies.
#[tokio::test]
async fn an_ambiguous_text_nested_too_deeply_is_refused() {
    let limits = EvalLimits {
        stack_bytes_max: 8 << 20,
        ..EvalLimits::default()
    };
    let evaluator = evaluator(limits);
    let chain: String = (0..150)
        .map(|n| format!("if n == {n} then 'r{n}' else "))
        .collect();
    let text = format!("local n = 200; {chain} ~2*3");
    let refused = evaluate(&evaluator, snippet_request(&text)).await;
    assert!(matches!(refused, Err(EvalError::Stack(_))), "{refused:?}");
}

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
async fn imports_are_searched_from_the_importer_then_from_the_end_of_the_path() {
    let tree = TestTree::from_texts([
        (
            "environments/dev/main.jsonnet",
            "(import 'app.libsonnet') + (import 'x/lib.libsonnet')",
        ),
        ("environments/dev/app.libsonnet", "{ from: 'base' }"),
        ("lib/app.libsonnet", "{ from: 'lib' }"),
        (
            "vendor/x/lib.libsonnet",
            "{ lib: 'vendor' } + (import './near.libsonnet') + (import '../y.libsonnet')",
        ),
        (
            "lib/x/lib.libsonnet",
            "{ lib: 'lib' } + (import 'near.libsonnet')",
        ),
        ("lib/x/near.libsonnet", "{ near: importstr 'text.txt' }"),
        ("vendor/text.txt", "text"),
    ]);
    let jpath = ["vendor", "environments/dev/vendor", "lib", "environments/dev"];
    let request = EvalRequest {
        jpath: jpath.map(str::to_owned).to_vec(),
        ..file_request(tree, "environments/dev/main.jsonnet")
    };
    let evaluator = evaluator(EvalLimits::default());
    let evaluated = evaluate(&evaluator, request).await.expect("a value");
    let json = r#"{"from":"base","lib":"lib","near":"text"}"#;
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(json));
    let read = |name: &str, text: &str| Import::Read {
        path: path(name),
        blob: blob(text),
    };
    let absent = |name: &str| Import::Absent { path: path(name) };
    assert_eq!(
        evaluated.imports[..],
        [
            read("environments/dev/app.libsonnet", "{ from: 'base' }"),
            read(
                "environments/dev/main.jsonnet",
                "(import 'app.libsonnet') + (import 'x/lib.libsonnet')"
            ),
            read(
                "lib/x/lib.libsonnet",
                "{ lib: 'lib' } + (import 'near.libsonnet')"
            ),
            read("lib/x/near.libsonnet", "{ near: importstr 'text.txt' }"),
            read("vendor/text.txt", "text"),
            absent("environments/dev/text.txt"),
            absent("environments/dev/vendor/text.txt"),
            absent("environments/dev/x/lib.libsonnet"),
            absent("lib/text.txt"),
            absent("lib/x/text.txt"),
        ]
    );
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

#[tokio::test]
async fn a_program_sees_the_variables_it_is_given() {
    let evaluator = evaluator(EvalLimits::default());
    for cross_check in [CrossCheckMode::Off, CrossCheckMode::On] {
        let request = EvalRequest {
            ext_code: variables([
                ("tanka.dev/environment", "{ metadata: { name: 'dev' } }"),
                ("broken", "error 'never used'"),
            ]),
            tla_code: variables([("replicas", "1 + 1")]),
            cross_check,
            ..snippet_request(
                "local tk = import 'tk'; function(replicas, zone='a') { r: replicas, z: zone, n: tk.env.metadata.name }",
            )
        };
        let evaluated = evaluate(&evaluator, request).await.expect("a value");
        assert_eq!(
            std::str::from_utf8(&evaluated.json),
            Ok(r#"{"n":"dev","r":2,"z":"a"}"#)
        );
        let agrees = match cross_check {
            CrossCheckMode::Off | CrossCheckMode::SecondEngineOnly => CrossCheckResult::NotRun,
            CrossCheckMode::On => CrossCheckResult::Agrees,
        };
        assert_eq!(evaluated.cross_check, agrees);
    }
    let error = evaluate_to_json(&evaluator, snippet_request("std.extVar('x')"))
        .await
        .expect_err("no value");
    assert!(matches!(error, EvalError::Runtime { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_knows_its_own_name() {
    let tree = TestTree::from_texts([
        ("a/main.jsonnet", "[std.thisFile, import '../b.jsonnet']"),
        ("b.jsonnet", "std.thisFile"),
    ]);
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..file_request(tree, "a/main.jsonnet")
    };
    let evaluated = evaluate(&evaluator(EvalLimits::default()), request)
        .await
        .expect("a value");
    assert_eq!(
        std::str::from_utf8(&evaluated.json),
        Ok(r#"["a/main.jsonnet","b.jsonnet"]"#)
    );
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
}

#[tokio::test]
async fn natives_of_tanka_are_there_for_both_engines() {
    let evaluator = evaluator(EvalLimits::default());
    let text = "local n = std.native; {
        json: n('parseJson')('{\"a\":[1,null,\"x\"]}'),
        yaml: n('parseYaml')('a: yes\\n---\\nb: 0o17\\n'),
        out: n('manifestJsonFromJson')('{\"b\":1.50}', 2),
        quoted: n('escapeStringRegex')('a.b'),
        match: n('regexMatch')('^a+$', 'aaa'),
        subst: n('regexSubst')('a(x*)b', '-axxb-', '${1}!'),
        sha: std.length(n('sha256')('')),
        none: n('exec'),
    }";
    let expected = concat!(
        r#"{"json":{"a":[1,null,"x"]},"match":true,"none":null,"out":"{\n  \"b\": 1.50\n}\n","#,
        r#""quoted":"a\\.b","sha":64,"subst":"-xx!-","yaml":[{"a":"yes"},{"b":15}]}"#
    );
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(text)
    };
    let evaluated = evaluate(&evaluator, request).await.expect("a value");
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
}

#[tokio::test]
async fn fractions_in_text_have_the_digits_of_go_in_both_engines() {
    let text = "local v = { a: 0.1, b: [1.5, {}], c: 'x' }; {
        line: std.toString(v),
        number: std.toString(0.1),
        text: std.toString('0.1'),
        json: std.manifestJsonMinified(v),
        escaped: std.escapeStringJson(1.42),
    }";
    let expected = concat!(
        r#"{"escaped":"\"1.4199999999999999\"","json":"{\"a\":0.1,\"b\":[1.5,{}],\"c\":\"x\"}","#,
        r#""line":"{\"a\": 0.10000000000000001, \"b\": [1.5, { }], \"c\": \"x\"}","#,
        r#""number":"0.10000000000000001","text":"0.1"}"#
    );
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(text)
    };
    let evaluated = evaluate(&evaluator(EvalLimits::default()), request)
        .await
        .expect("a value");
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
}

#[tokio::test]
async fn what_is_added_to_a_text_has_the_digits_of_go_in_both_engines() {
    let text = "local x = 0.7, f(n) = if n == 0 then '' else 'a' + f(n - 1); {
        number: 'cpu: ' + x + 'm',
        before: x + '',
        list: '' + [x, { a: 1e-7 }],
        product: (x * 3) + 'm',
        deep: std.length(f(300)),
    }";
    let expected = concat!(
        r#"{"before":"0.69999999999999996","deep":300,"list":"[0.69999999999999996, {\"a\": 9.9999999999999995e-08}]","#,
        r#""number":"cpu: 0.69999999999999996m","product":"2.0999999999999996m"}"#
    );
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(text)
    };
    let evaluated = evaluate(&evaluator(EvalLimits::default()), request)
        .await
        .expect("a value");
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
}

/// Checks a list of an outer name, under a condition that uses another one.
#[tokio::test]
async fn a_list_of_a_name_under_a_condition_is_a_list_of_that_name() {
    let text = "local a = { n: 1 }, b = true; [[a for x in [1, 2] if b], [a for x in [1] for y in [b] if y]]";
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(text)
    };
    let evaluated = evaluate(&evaluator(EvalLimits::default()), request)
        .await
        .expect("a value");
    let expected = r#"[[{"n":1},{"n":1}],[{"n":1}]]"#;
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected));
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
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

/// Checks that a block comment ends at its first `*/`, whatever the number of stars before it, and a line comment at
/// the end of its line.
#[tokio::test]
async fn no_comment_swallows_code_and_none_becomes_code() {
    let evaluator = evaluator(EvalLimits::default());
    for (text, expected) in [
        ("{ /* x **/ a: 1, /* y */ b: 2 }", r#"{"a":1,"b":2}"#),
        ("/***/ 1 /***/", "1"),
        ("/****\n * banner\n ****/\n{ a: 1 } /* end */", r#"{"a":1}"#),
        ("/** x **/ 1", "1"),
        ("1 // a\r + 1\n + 2", "3"),
        ("1 # a\r + 1", "1"),
        ("'/***/' + @'/* **/'", r#""/***//* **/""#),
        ("|||\n  /***/ x\n||| + /***/ 'y'", r#""/***/ x\ny""#),
    ] {
        let mut request = snippet_request(text);
        request.cross_check = CrossCheckMode::On;
        let evaluated = evaluate(&evaluator, request).await.expect(text);
        assert_eq!(std::str::from_utf8(&evaluated.json), Ok(expected), "{text}");
        assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees, "{text}");
    }
}

/// Checks that blanking a text for a parser does not change the text that a program imports.
#[tokio::test]
async fn the_text_of_a_file_is_the_same_whatever_its_comments_are() {
    let evaluator = evaluator(EvalLimits::default());
    let program = "{ value: (import 'code.libsonnet').a, text: (import 'text.libsonnet') }";
    let tree = |text: &str| {
        TestTree::from_texts([
            ("main.jsonnet", program),
            ("code.libsonnet", "/***/ { a: 1 } /* */"),
            ("text.libsonnet", text),
        ])
    };
    for text in [
        "importstr 'code.libsonnet'",
        "local code = import 'code.libsonnet'; if code.a == 1 then importstr 'code.libsonnet'",
    ] {
        let evaluated = evaluate_to_json(&evaluator, file_request(tree(text), "main.jsonnet")).await;
        assert_eq!(
            evaluated.expect(text),
            r#"{"text":"/***/ { a: 1 } /* */","value":1}"#,
            "{text}"
        );
    }
}

/// Checks that imported text is not parsed as Jsonnet, whatever the name of its file.
#[tokio::test]
async fn a_text_that_looks_like_a_wrong_program_is_read_as_text() {
    let evaluator = evaluator(EvalLimits::default());
    let tree = TestTree::from_texts([
        ("main.jsonnet", "importstr 'template.libsonnet'"),
        ("template.libsonnet", "{ %s for %s }"),
    ]);
    let text = evaluate_to_json(&evaluator, file_request(tree, "main.jsonnet")).await;
    assert_eq!(text.expect("a text"), r#""{ %s for %s }""#);
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
