//! The bounds of one evaluation: nesting, recursion, memory, time, output and objects end as errors of its own request.

use crate::memory::resident_bytes;
use crate::sandbox::small;
use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, snippet_request,
};
use drydock::rendering::jsonnet::{CrossCheckMode, CrossCheckResult, EvalError, EvalLimits, EvalRequest};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The most memory by which the server may grow during a hostile evaluation.
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// The variable with the name of the test that has its own process.
const ALONE: &str = "DRYDOCK_TEST_ALONE";

/// Returns true if this test has its own process, so that its measurements are its own. Otherwise the test is run once
/// more in a separate process, and must pass there.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|named| named == test) {
        return true;
    }
    let this = std::env::current_exe().expect("our own program");
    let run = std::process::Command::new(this)
        .args([test, "--exact", "--test-threads=1", "--nocapture"])
        .env(ALONE, test)
        .output()
        .expect("a process of its own");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    false
}

/// T46: E8. Neither engine's parser may crash the server.
#[tokio::test]
async fn deep_nesting_ends_as_an_error() {
    let evaluator = evaluator(small());
    for (open, middle, close) in [
        ("{a:", "1", "}"),
        ("[", "", "]"),
        ("(", "1", ")"),
        ("std.length(", "[]", ")"),
        ("{a:[(", "1", ")]}"),
    ] {
        let text = format!("{}{middle}{}", open.repeat(40_000), close.repeat(40_000));
        let error = evaluate_to_json(&evaluator, snippet_request(&text))
            .await
            .expect_err("no value");
        assert_eq!(error, EvalError::Stack("main.jsonnet".to_owned()), "{open}");
        let tree = TestTree::from_texts([
            ("main.jsonnet", "import 'deep.libsonnet'"),
            ("deep.libsonnet", &text),
        ]);
        let error = evaluate_to_json(&evaluator, file_request(tree, "main.jsonnet"))
            .await
            .expect_err("no value");
        assert_eq!(error, EvalError::Stack("deep.libsonnet".to_owned()), "{open}");
    }
    // Text that is legal and flat, but recursive in a parser, may have a value or an error, but must not cause an
    // unnamed crash.
    for text in [
        format!("{}1", "if true then ".repeat(40_000)),
        format!("{}1", "local a=1;".repeat(40_000)),
        format!("{}1", "-".repeat(40_000)),
        format!("{}1", "1+".repeat(40_000)),
        format!("{}1", "function(x) ".repeat(40_000)),
    ] {
        let request = EvalRequest {
            cross_check: CrossCheckMode::On,
            ..snippet_request(&text)
        };
        match evaluate(&evaluator, request).await {
            Ok(_) => {}
            Err(
                EvalError::Stack(_)
                | EvalError::Runtime { .. }
                | EvalError::Memory { .. }
                | EvalError::Time { .. },
            ) => {}
            Err(error) => panic!("{}: {error:?}", text.chars().take(20).collect::<String>()),
        }
    }
    assert_eq!(
        evaluate_to_json(&evaluator, snippet_request("1 + 1")).await,
        Ok("2".to_owned())
    );
}

/// T46: recursion of the program, not of its text
#[tokio::test]
async fn endless_recursion_ends_as_an_error() {
    let evaluator = evaluator(small());
    for text in [
        "local f(x) = f(x + 1) + 1; f(0)",
        "local a = { b: a }; a",
        "local a = [a]; a",
        "{ a: self.b + 1, b: self.a + 1 }",
        "local f(x) = if x == 0 then 0 else f(x - 1) + 1; f(100000)",
    ] {
        let error = evaluate_to_json(&evaluator, snippet_request(text))
            .await
            .expect_err("no value");
        assert!(
            matches!(error, EvalError::Stack(_) | EvalError::Runtime { .. }),
            "{text}: {error:?}"
        );
    }
    // A request for a larger stack cannot exhaust the server's memory either.
    let request = EvalRequest {
        max_stack: u32::MAX,
        ..snippet_request("local f(x) = f(x + 1) + 1; f(0)")
    };
    let error = evaluate_to_json(&evaluator, request).await.expect_err("no value");
    assert!(
        matches!(
            error,
            EvalError::Stack(_) | EvalError::Memory { .. } | EvalError::Time { .. }
        ),
        "{error:?}"
    );
}

/// T47: E9
#[tokio::test]
async fn memory_is_bounded() {
    if !is_alone("sandbox_bounds::memory_is_bounded") {
        return;
    }
    let evaluator = evaluator(small());
    let before = resident_bytes();
    for text in [
        "'a' * 1e12",
        "std.repeat('a', 1e10)",
        "local f(s, n) = if n == 0 then s else f(s + s, n - 1); std.length(std.toString(f('aaaaaaaa', 40)))",
        "std.length(std.join('', std.makeArray(1e9, function(i) 'abc')))",
        "std.foldl(function(a, i) a + [a], std.range(1, 1e6), [])",
        "std.length(std.manifestJson(std.makeArray(1e8, function(i) i)))",
        "std.length(std.parseYaml('a: &a [x,x,x,x,x,x,x,x,x]\\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\\n'))",
    ] {
        let error = evaluate_to_json(&evaluator, snippet_request(text))
            .await
            .expect_err("no value");
        assert!(
            matches!(
                error,
                EvalError::Memory { .. }
                    | EvalError::Stack(_)
                    | EvalError::Time { .. }
                    | EvalError::Runtime { .. }
            ),
            "{text}: {error:?}"
        );
    }
    let error = evaluate_to_json(&evaluator, snippet_request("std.length(std.repeat('a', 1e9))")).await;
    assert_eq!(error, Err(EvalError::Memory { bytes: 64 << 20 }));
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= GROWTH_BYTES_MAX, "the server has grown by {grown} bytes");
}

/// T48
#[tokio::test]
async fn evaluation_time_is_bounded_and_leaves_no_process() {
    let limits = EvalLimits {
        time_max: Duration::from_secs(2),
        workers_max: 1,
        ..small()
    };
    let evaluator = evaluator(limits);
    for text in [
        "local f(x) = f(x + 1) tailstrict; f(0)",
        "std.foldl(function(a, i) a + i, std.range(0, 1e9), 0)",
    ] {
        let started = Instant::now();
        let error = evaluate_to_json(&evaluator, snippet_request(text))
            .await
            .expect_err("no value");
        let stopped = matches!(
            error,
            EvalError::Time { seconds: 2 } | EvalError::Stack(_) | EvalError::Memory { .. }
        );
        assert!(stopped, "{text}: {error:?}");
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "{text}: {:?}",
            started.elapsed()
        );
    }
    // A sandbox is free after its process has ended and was reaped, so the only one did not leave a process.
    assert_eq!(
        evaluate_to_json(&evaluator, snippet_request("1")).await,
        Ok("1".to_owned())
    );
}

/// T48: a caller can stop waiting
#[tokio::test]
async fn a_cancelled_evaluation_ends_its_process() {
    let evaluator = evaluator(EvalLimits {
        idle_max: 0,
        workers_max: 1,
        ..EvalLimits::default()
    });
    let cancel = CancellationToken::new();
    let endless = snippet_request("std.foldl(function(a, i) a + i, std.range(0, 1e9), 0)");
    let started = Instant::now();
    let stop = cancel.clone();
    let (result, ()) = tokio::join!(evaluator.evaluate(endless.clone(), &cancel), async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    });
    assert_eq!(result, Err(EvalError::Cancelled));
    assert!(started.elapsed() < Duration::from_secs(5));
    // The only sandbox is free again, so its process has ended.
    assert_eq!(
        evaluate_to_json(&evaluator, snippet_request("1")).await,
        Ok("1".to_owned())
    );
    cancel.cancel();
    assert_eq!(
        evaluator.evaluate(endless, &cancel).await,
        Err(EvalError::Cancelled)
    );
}

/// T49
#[tokio::test]
async fn output_is_bounded() {
    if !is_alone("sandbox_bounds::output_is_bounded") {
        return;
    }
    // A build without optimisation may be slow on a busy machine.
    let evaluator = evaluator(EvalLimits {
        time_max: Duration::from_secs(120),
        ..EvalLimits::default()
    });
    let before = resident_bytes();
    let text = "local s = std.repeat('x', 1000); std.makeArray(20000, function(i) s)";
    let error = evaluate_to_json(&evaluator, snippet_request(text))
        .await
        .expect_err("no value");
    assert_eq!(error, EvalError::Output { bytes: 8 << 20 });
    assert_eq!(
        error.to_string(),
        "output exceeded 8 MiB (`sandbox.output_bytes_max`)"
    );
    // A small text can be many values, each of which takes more memory than its text.
    let objects = "std.makeArray(60000, function(i) { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c%d' % i } })";
    let values = "std.makeArray(600000, function(i) 1)";
    for cross_check in [CrossCheckMode::Off, CrossCheckMode::SecondEngineOnly] {
        for (text, error, said) in [
            (
                objects,
                EvalError::Objects { count: 10_000 },
                "output exceeded 10000 Kubernetes objects (`sandbox.objects_max`)",
            ),
            (
                values,
                EvalError::Values { count: 500_000 },
                "output exceeded 500000 values within each other (`sandbox.values_max`)",
            ),
        ] {
            let request = EvalRequest {
                cross_check,
                ..snippet_request(text)
            };
            let refused = evaluate_to_json(&evaluator, request).await.expect_err("no value");
            assert_eq!(refused, error, "{cross_check:?}");
            assert_eq!(refused.to_string(), said);
        }
    }
    let error = evaluate_to_json(&evaluator, snippet_request("std.repeat('x', 4e9)"))
        .await
        .expect_err("no value");
    assert_eq!(
        error.to_string(),
        "evaluation exceeded 512 MiB of memory (`sandbox.memory_bytes_max`)"
    );
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= GROWTH_BYTES_MAX, "the server has grown by {grown} bytes");
}

/// T54
#[tokio::test]
async fn an_alias_bomb_in_a_value_is_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..=8 {
        let above = format!("*a{}", level - 1);
        bomb.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            [above.as_str(); 9].join(",")
        ));
    }
    let deep = "[".repeat(100_000);
    let tree = TestTree::from_texts([("bomb.yaml", &bomb), ("deep.json", &deep)]);
    let evaluator = evaluator(small());
    let request = |text: &str| EvalRequest {
        tree: tree.clone(),
        ..snippet_request(text)
    };
    let error = evaluate_to_json(
        &evaluator,
        request("std.native('parseYaml')(importstr 'bomb.yaml')"),
    )
    .await
    .expect_err("no value");
    assert!(error.to_string().contains("yaml: too many aliases"), "{error}");
    for text in [
        "std.native('parseJson')(importstr 'deep.json')",
        "std.native('parseYaml')(importstr 'deep.json')",
        "std.parseJson(std.repeat('[', 100000))",
        "std.parseYaml(std.repeat('[', 100000))",
    ] {
        let error = evaluate_to_json(&evaluator, request(text))
            .await
            .expect_err("no value");
        assert!(
            matches!(error, EvalError::Runtime { .. } | EvalError::Stack(_)),
            "{text}: {error:?}"
        );
    }
}

#[tokio::test]
async fn the_second_engine_cannot_cost_the_first_ones_value() {
    // Endless for the second engine only: it evaluates parts that the first never needs.
    let evaluator = evaluator(EvalLimits {
        time_max: Duration::from_secs(2),
        ..small()
    });
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(
            "{ a: std.member([0.1 + 0.2], 0.3) || std.foldl(function(a, i) a + i, std.range(0, 1e9), 0) > 0 }",
        )
    };
    let evaluated = evaluate(&evaluator, request).await.expect("a value");
    assert_eq!(std::str::from_utf8(&evaluated.json), Ok(r#"{"a":true}"#));
    let CrossCheckResult::Failed(error) = evaluated.cross_check else {
        panic!("{:?}", evaluated.cross_check)
    };
    assert!(
        matches!(*error, EvalError::Time { .. } | EvalError::Memory { .. }),
        "{error:?}"
    );
}
