//! The sandbox holds: hostile programs end as errors of their own request, see nothing of the machine, leave nothing
//! behind and do not affect other requests.

use crate::support::evaluation::{TestTree, evaluate_to_json, evaluator, path, program, snippet_request};
use drydock::base::config::{Config, ConfigSources, SandboxSettings, SourceFile};
use drydock::rendering::jsonnet::{EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluator};
use drydock::rendering::sandbox::{
    Confinement, ExitReport, LayerName, ProgramPath, SandboxLayer, SandboxWorker, layers,
};
use drydock::state::workspace::{Directory, Tree};
use std::sync::Arc;
use std::time::Duration;

/// Returns limits that are small enough for a test.
pub(crate) fn small() -> EvalLimits {
    EvalLimits {
        time_max: Duration::from_secs(5),
        memory_bytes_max: 64 << 20,
        ..EvalLimits::default()
    }
}

/// The least memory that can be configured.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

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
