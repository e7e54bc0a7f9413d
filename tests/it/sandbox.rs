//! The sandbox holds: hostile programs end as errors of their own request, see nothing of the machine, leave nothing
//! behind and do not affect other requests.

use crate::memory::resident_bytes;
use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, path, program, snippet_request,
};
use drydock::base::config::{Config, ConfigSources, SandboxSettings, SourceFile};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluator,
};
use drydock::rendering::sandbox::{
    Confinement, ExitReport, LayerName, ProgramPath, SandboxLayer, SandboxWorker, layers,
};
use drydock::state::workspace::{Directory, Tree};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Returns limits that are small enough for a test.
fn small() -> EvalLimits {
    EvalLimits {
        time_max: Duration::from_secs(5),
        memory_bytes_max: 64 << 20,
        ..EvalLimits::default()
    }
}

/// The most memory by which the server may grow during a hostile evaluation.
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// The least memory that can be configured.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

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

#[test]
fn every_sandbox_layer_is_present_or_reported_missing() {
    let layers = layers(&program()).expect("a sandbox");
    let expected: Vec<SandboxLayer> = LayerName::ALL
        .into_iter()
        .map(|name| SandboxLayer { name, present: true })
        .collect();
    assert_eq!(layers, expected);
}

/// Checks that the configuration accepts exactly the names of the layers.
#[test]
fn every_layer_can_be_named_in_the_configuration() {
    for layer in LayerName::ALL {
        let text = format!("[sandbox]\nlayers_missing = [\"{}\"]\n", layer.name());
        let sources = ConfigSources {
            file: Some(SourceFile {
                path: "drydock.toml".into(),
                text,
            }),
            ..ConfigSources::default()
        };
        // There is no model here, which is a problem. The layer is none.
        let problems = Config::for_terminal(sources).err().map(|error| error.to_string());
        assert!(!problems.unwrap_or_default().contains("sandbox"), "{layer}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_confine_itself_evaluates_nothing() {
    let other = ProgramPath::at("/bin/echo");
    let evaluator = Evaluator::for_program(other, small(), LayerName::ALL.to_vec()).expect("an evaluator");
    let error = evaluate_to_json(&evaluator, snippet_request("1"))
        .await
        .expect_err("no value");
    assert!(matches!(error, EvalError::Sandbox(_)), "{error:?}");
}

/// T45: E7
#[tokio::test]
async fn nothing_outside_of_the_tree_is_readable() {
    let evaluator = evaluator(small());
    for import in [
        "/etc/passwd",
        "../../x",
        "../../../../etc/hostname",
        "/proc/self/environ",
        "a/../../b",
        "//x",
        ".git/config",
        "..\\\\x",
    ] {
        for word in ["import", "importstr", "importbin"] {
            let error = evaluate_to_json(&evaluator, snippet_request(&format!("{word} '{import}'")))
                .await
                .expect_err("no value");
            let shown = import.replace("\\\\", "\\");
            assert!(
                matches!(error, EvalError::ImportDenied { .. }),
                "{word}: {error:?}"
            );
            assert_eq!(
                error.to_string(),
                format!("import outside the repository: {shown} of `main.jsonnet` (at main.jsonnet:1:1)")
            );
        }
    }
}

/// T45: files that exist and must not be read
#[tokio::test]
async fn files_that_hold_secrets_are_not_importable() {
    let tree = TestTree::from_texts([
        (".env", "1"),
        ("a/.env.local", "1"),
        ("secrets/key.txt", "1"),
        ("b/secrets.libsonnet", "1"),
    ]);
    let settings = SandboxSettings {
        imports_denied: vec!["secrets/**".to_owned()],
        ..SandboxSettings::default()
    };
    let evaluator = Evaluator::configured(program(), &settings).expect("an evaluator");
    for import in [".env", "a/.env.local", "secrets/key.txt", "a/../secrets/key.txt"] {
        let request = EvalRequest {
            tree: tree.clone(),
            ..snippet_request(&format!("importstr '{import}'"))
        };
        let error = evaluate_to_json(&evaluator, request).await.expect_err("no value");
        let forbidden = matches!(&error, EvalError::ImportForbidden { path, .. } if path == import);
        assert!(forbidden, "{import}: {error:?}");
    }
    let request = EvalRequest {
        tree,
        ..snippet_request("import 'b/secrets.libsonnet'")
    };
    assert_eq!(evaluate_to_json(&evaluator, request).await, Ok("1".to_owned()));
}

/// T45: the target of a link counts, not the name of the link
#[tokio::test]
async fn a_link_to_a_file_that_holds_secrets_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in [".git", "secrets", "lib"] {
        std::fs::create_dir(directory.path().join(name)).expect("a directory");
    }
    for name in [".env", "secrets/prod.key", "secrets/main.jsonnet", "tls.key"] {
        std::fs::write(directory.path().join(name), "1").expect("a file");
    }
    for (link, target) in [
        ("lib/settings.txt", "../.env"),
        ("lib/shared", "../secrets"),
        ("lib/tls.txt", "../tls.key"),
    ] {
        std::os::unix::fs::symlink(target, directory.path().join(link)).expect("a link");
    }
    let tree: Arc<dyn Tree> = Arc::new(Directory::open(directory.path()).expect("a tree"));
    let evaluator = Evaluator::configured(program(), &SandboxSettings::default()).expect("an evaluator");
    let import = |path: &str| EvalRequest {
        tree: Arc::clone(&tree),
        ..snippet_request(&format!("importstr '{path}'"))
    };
    for path in [
        "lib/settings.txt",
        "lib/shared/prod.key",
        "lib/tls.txt",
        "tls.key",
    ] {
        let error = evaluate_to_json(&evaluator, import(path))
            .await
            .expect_err("no value");
        let forbidden = matches!(&error, EvalError::ImportForbidden { path: named, .. } if named == path);
        assert!(forbidden, "{path}: {error:?}");
    }
    // Jsonnet is code, whatever its directory.
    let code = evaluate_to_json(&evaluator, import("lib/shared/main.jsonnet")).await;
    assert_eq!(code, Ok("\"1\"".to_owned()));
}

/// T45: a symlink of the repository
#[tokio::test]
async fn a_link_that_leaves_the_tree_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join(".git")).expect("a repository");
    std::fs::create_dir(directory.path().join("lib")).expect("a directory");
    std::fs::write(directory.path().join("lib/a.libsonnet"), "1").expect("a file");
    for (name, target) in [
        ("out", "/etc/passwd"),
        ("up", "../../etc/passwd"),
        ("in", "lib/a.libsonnet"),
    ] {
        std::os::unix::fs::symlink(target, directory.path().join(name)).expect("a link");
    }
    let tree: Arc<dyn Tree> = Arc::new(Directory::open(directory.path()).expect("a tree"));
    let evaluator = evaluator(small());
    for name in ["out", "up"] {
        let request = EvalRequest {
            tree: tree.clone(),
            ..snippet_request(&format!("importstr '{name}'"))
        };
        let error = evaluate_to_json(&evaluator, request).await.expect_err("no value");
        assert!(
            matches!(&error, EvalError::ImportDenied { path, .. } if path == name),
            "{error:?}"
        );
    }
    let request = EvalRequest {
        tree,
        ..snippet_request("import 'in'")
    };
    assert_eq!(evaluate_to_json(&evaluator, request).await, Ok("1".to_owned()));
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
    if !is_alone("sandbox::memory_is_bounded") {
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
    if !is_alone("sandbox::output_is_bounded") {
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

/// R27, P5, scaled: hostile programs and honest ones at the same time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_crashes_costs_honest_users_nothing_but_turns() {
    let evaluator = Arc::new(evaluator(EvalLimits {
        time_max: Duration::from_secs(20),
        ..small()
    }));
    let hostile = [
        "'a' * 1e12",
        "std.repeat('a', 1e10)",
        "local f(x) = f(x + 1) + 1; f(0)",
        "importstr '/proc/self/environ'",
        "error 'x'",
        "[[[",
    ];
    let mut tasks = Vec::new();
    for round in 0..30_usize {
        let evaluator = evaluator.clone();
        let text = hostile[round % hostile.len()];
        tasks.push(tokio::spawn(async move {
            assert!(
                evaluate_to_json(&evaluator, snippet_request(text)).await.is_err(),
                "{text}"
            );
        }));
    }
    for number in 0..30_usize {
        let evaluator = evaluator.clone();
        tasks.push(tokio::spawn(async move {
            let request = EvalRequest {
                entry: EntryPoint::Snippet {
                    name: path(&format!("user{number}.jsonnet")),
                    text: format!("{{ n: {number}, f: std.thisFile }}"),
                },
                ..snippet_request("")
            };
            let expected = format!(r#"{{"f":"user{number}.jsonnet","n":{number}}}"#);
            assert_eq!(evaluate_to_json(&evaluator, request).await, Ok(expected));
        }));
    }
    for task in tasks {
        task.await.expect("a user's answer");
    }
}

/// Checks that an idle process first evaluates its own warm-up program, even with the least memory that can be
/// configured.
#[test]
fn a_process_warms_up_within_its_bounds_and_then_waits_for_a_task() {
    for memory_bytes_max in [EvalLimits::default().memory_bytes_max, MEMORY_BYTES_MIN] {
        let confinement = Confinement {
            task: "jsonnet".to_owned(),
            memory_bytes_max,
            stack_bytes_max: EvalLimits::default().stack_bytes_max,
            processor_seconds_max: 30,
            warms_up: true,
        };
        let mut worker = SandboxWorker::start(&program(), &confinement).expect("a process");
        worker.require(&LayerName::ALL).expect("all layers");
        // An invalid task ends the process, because no other task can follow.
        worker.send(99, &[]).expect("it listens");
        let ended = worker.receive(1_024).map_err(|error| error.kind());
        assert_eq!(ended, Err(std::io::ErrorKind::UnexpectedEof));
        let in_order = ExitReport {
            signal: None,
            stderr: String::new(),
        };
        assert_eq!(worker.into_exit_report(), in_order, "{memory_bytes_max} bytes");
    }
}

/// Checks that an embedding program that does not handle its start as a sandbox worker does not start itself endlessly.
#[test]
fn a_process_started_as_a_sandbox_worker_starts_no_other() {
    const NAME: &str = "sandbox::a_process_started_as_a_sandbox_worker_starts_no_other";
    let is_nested = std::env::args().nth(1).is_some_and(|first| first == "__sandbox");
    if is_nested {
        let refused = SandboxWorker::start(&program(), &Confinement::default()).map(drop);
        let refused = refused.expect_err("no process").to_string();
        assert!(
            refused.contains("was itself started for the sandbox"),
            "{refused}"
        );
        return;
    }
    // Such a program parses the hidden arguments as its own. This one parses them as names of tests.
    let this = std::env::current_exe().expect("our own program");
    let nested = std::process::Command::new(this)
        .args(["__sandbox", NAME, "--exact", "--nocapture"])
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&nested.stdout).into_owned();
    assert!(nested.status.success() && said.contains("1 passed"), "{said}");
}
