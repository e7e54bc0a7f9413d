//! External programs as Linux confines them: the error of each attempt, and the processes that remain.

use crate::charts::{asks, settings, tried, with};
use crate::support::evaluation::{evaluate_to_json, snippet_request};
use crate::support::hostile::{compiled, hostile_helm};
use drydock::base::config::ProgramSettings;
use drydock::rendering::jsonnet::EvalError;
use serde_json::json;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// T50
#[tokio::test]
async fn an_external_program_sees_only_its_copies() {
    let expected = json!({
        "chart": "worked",
        "siblings": "charts",
        "secret": "No such file or directory (os error 2)",
        "passwd": "Permission denied (os error 13)",
        "around": "Permission denied (os error 13)",
        "root": "Permission denied (os error 13)",
        "process": "Permission denied (os error 13)",
        "link": "Operation not permitted (os error 1)",
        "environment": "GOMEMLIMIT HOME KUBECONFIG KUSTOMIZE_PLUGIN_HOME TMPDIR",
    });
    let mut seen = tried(hostile_helm(), "look", "{}").await;
    let names = seen["environment"].as_str().expect("names");
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    let sorted = names.join(" ");
    seen["environment"] = sorted.into();
    assert_eq!(seen, expected);
}

/// T50, T51
#[tokio::test]
async fn an_external_program_cannot_connect_or_start_processes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let seen = tried(
        hostile_helm(),
        "connect",
        &format!("{{ values: {{ port: {port} }} }}"),
    )
    .await;
    let refused = "Operation not permitted (os error 1)";
    assert_eq!(seen, json!({ "tcp": refused, "udp": refused, "unix": refused }));
    assert!(listener.accept().is_err(), "a connection was made");
    let seen = tried(hostile_helm(), "start", "{}").await;
    assert_eq!(seen["thread"], "worked");
    for what in ["child", "itself"] {
        assert_eq!(seen[what], refused, "{what}");
    }
    assert_eq!(seen["become"], "Permission denied (os error 13)");
    // A read-only file is not executable.
    assert_ne!(seen["library"], "none");
    assert_eq!(seen["library"], "Permission denied (os error 13)");
}

/// T50: signals and limits affect only the program itself
#[tokio::test]
async fn an_external_program_reaches_no_other_process() {
    let refused = "Operation not permitted (os error 1)";
    let expected = json!({
        "kill": refused,
        "tgkill": refused,
        "priority": refused,
        "bounds": refused,
        "owner": refused,
        "itself": "worked",
    });
    assert_eq!(tried(&compiled("reaching_helm"), "reach", "{}").await, expected);
}

/// T50
#[tokio::test]
async fn an_external_program_cannot_write_files() {
    let seen = tried(hostile_helm(), "write", "{}").await;
    let denied = "Permission denied (os error 13)";
    assert_eq!(seen["chart"], denied);
    assert_eq!(seen["home"], denied);
    assert_eq!(seen["tmp"], denied);
}

/// Returns the message of an evaluation whose helm misbehaves.
async fn complaint(deed: &str, change: impl Fn(&mut ProgramSettings)) -> String {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut settings = settings(hostile_helm(), scratch.path());
    change(&mut settings);
    let error = evaluate_to_json(&with(&settings), asks(deed, "{}"))
        .await
        .expect_err("no value");
    let EvalError::Runtime { message, .. } = error else {
        panic!("{deed}: {error:?}");
    };
    assert_eq!(processes(&scratch), 0, "{deed}");
    let left = std::fs::read_dir(scratch.path()).expect("the directory").count();
    assert_eq!(left, 0, "{deed}: a directory of a run stays");
    message
}

/// Counts the processes that work in a scratch directory.
fn processes(scratch: &tempfile::TempDir) -> usize {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let works_there = |entry: std::io::Result<std::fs::DirEntry>| {
        let place = std::fs::read_link(entry.ok()?.path().join("cwd")).ok()?;
        place.starts_with(scratch.path()).then_some(())
    };
    processes.filter_map(works_there).count()
}

/// T50
#[tokio::test]
async fn time_memory_and_output_of_an_external_program_are_bounded() {
    let second = |settings: &mut ProgramSettings| settings.time_max = Duration::from_secs(1);
    for deed in ["hang", "spin"] {
        let said = complaint(deed, second).await;
        let in_time = "helmTemplate: `charts/web`: helm: it took more than 1 s";
        let ended = said.contains("it was ended by signal");
        assert!(said == in_time || ended, "{said}");
    }
    let said = complaint("flood", |settings| settings.output_bytes_max = 1 << 20).await;
    assert_eq!(said, "helmTemplate: `charts/web`: helm: it wrote more than 1 MiB");
    let said = complaint("eat", |settings| settings.memory_bytes_max = 64 << 20).await;
    assert!(said.contains("it was ended by signal 6"), "{said}");
    let said = complaint("fail", |_| {}).await;
    assert_eq!(
        said,
        "helmTemplate: `charts/web`: Error: charts/web/templates/a.yaml:1: it is hostile"
    );
    let said = complaint("look", |settings| {
        settings.helm = Some("/nonexistent/helm".into())
    })
    .await;
    assert!(said.contains("the sandbox did not start: No such file"), "{said}");
}

/// T50
#[tokio::test]
async fn a_cancelled_evaluation_ends_the_program_it_waits_for() {
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(hostile_helm(), scratch.path()));
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let started = Instant::now();
    let (result, ()) = tokio::join!(evaluator.evaluate(asks("hang", "{}"), &cancel), async {
        while processes(&scratch) == 0 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    });
    assert_eq!(result, Err(EvalError::Cancelled));
    // The only sandbox is free after its conversation has ended, and then the program is gone.
    assert_eq!(
        evaluate_to_json(&evaluator, snippet_request("1")).await,
        Ok("1".to_owned())
    );
    assert_eq!(processes(&scratch), 0);
    assert!(started.elapsed() < Duration::from_secs(20));
}
