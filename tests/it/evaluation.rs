//! Tests of the results of evaluating Jsonnet: values, imports and their records, variables and native functions.

use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, path, snippet_request,
};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalError, EvalLimits, EvalRequest, Import,
};
use std::collections::BTreeMap;

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
