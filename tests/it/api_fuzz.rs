//! The HTTP API against schemathesis, which generates requests from the description of the API and compares the answers
//! with it.

use crate::api::{Api, ApiRequest};
use crate::cli_pull::{ALICE, scale};
use crate::runs_api::token;
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::require::{Component, component};
use crate::support::shell::{ProgramOutput, Shell, run_to_end};
use crate::support::source::root;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, says};
use drydock::state::access::TokenScope;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BOB: &str = "U0BOB";
/// The pipelines. Their names are values of the configuration, and `review` is the example of the description.
const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  review:
    triggers: [{api: {}}]
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent: {prompt: Look at the number., params: {number: "${params.number}"}}
  wait:
    triggers: [{api: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Wait for an answer.}}]
"#;
const CONFIG: &str = "tests/strangers/schemathesis.toml";
/// The tokens of two people, who do not see each other's runs and changes. An operation whose requests are all about
/// nothing fails the tests.
const WITH_TOKENS: &str = r#"
[auth.wfc]
path = "tokens.json"
peers = ["alice", "bob"]

[warnings]
fail-on = ["missing_test_data"]
"#;
const REPORT: &str = "report.json";
const START: (&str, &str) = ("/api/runs", "post");
const CANCEL: (&str, &str) = ("/api/runs/{number}/cancel", "post");

/// Answers at once, except to the pipeline that waits.
fn answers(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    if words.starts_with("Wait for an answer.") {
        says("Never said.").with_fault(AnswerFault::Stall)
    } else if words.starts_with("Look at the number.") {
        says("It is odd.")
    } else {
        scale(asked)
    }
}

/// Makes three runs of a person: one that succeeded, one that was cancelled and one that waits.
async fn make_runs(app: &TestApp, token: &str) {
    let api = Api::new(app).await;
    let request = |body| ApiRequest {
        token: Some(token),
        body,
        ..ApiRequest::default()
    };
    for body in [
        r#"{"pipeline":"review","params":{"number":7}}"#,
        r#"{"pipeline":"wait"}"#,
        r#"{"pipeline":"wait"}"#,
    ] {
        let (status, run) = api.send(START, START.0, request(body)).await;
        assert_eq!(status, 201, "{run}");
    }
    let (status, run) = api.send(CANCEL, "/api/runs/2/cancel", request("")).await;
    assert_eq!((status, &run["status"]), (200, &json!("cancelled")));
    wait_for_runs(app, "status = 'succeeded'", 1).await;
}

/// Waits until so many runs fulfil a condition.
async fn wait_for_runs(app: &TestApp, condition: &str, count: i64) {
    let started = Instant::now();
    let query = format!("SELECT count(*) FROM run WHERE {condition}");
    while app.count(&query) != count {
        assert!(started.elapsed() < BOUND, "{condition}: {}", app.count(&query));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs the tests of schemathesis, with an addition to the configuration, while the gateway goes on.
fn fuzz(python: &Component, shell: &Shell, app: &TestApp, addition: &str) -> ProgramOutput {
    let config = std::fs::read_to_string(root().join(CONFIG)).unwrap();
    shell.put("schemathesis.toml", &format!("{config}{addition}"));
    let mut command = python.command();
    shell.prepare(&mut command);
    command
        .env("PYTHONUTF8", "1")
        .args([
            "-m",
            "schemathesis.cli",
            "--config-file",
            "schemathesis.toml",
            "run",
        ])
        .args(["--report", "json", "--report-json-path", REPORT])
        .arg(format!("{}/api/openapi.json", app.demo.url()));
    tokio::task::block_in_place(|| run_to_end(command))
}

/// Asserts that all operations of the description were tested, without a failure.
fn assert_passed(ended: &ProgramOutput, shell: &Shell, operations: usize) {
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&shell.get(REPORT)).unwrap();
    assert_eq!(report["operations"]["tested"], operations, "{}", ended.out);
    for phase in ["examples", "coverage", "fuzzing", "stateful"] {
        assert_eq!(report["phases"][phase]["status"], "success", "{}", ended.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_get_the_answers_that_the_description_has_with_and_without_a_token() {
    let Some(python) = component("schemathesis") else {
        return;
    };
    let app = TestApp::with_settings(answers, &[]).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
    app.ask(ALICE, "four replicas").await;
    let alice = token(&app, ALICE, &TokenScope::ALL).await;
    let bob = token(&app, BOB, &TokenScope::ALL).await;
    make_runs(&app, &alice).await;
    let (_, description) = app.get("/api/openapi.json").await;
    let description: Value = serde_json::from_str(&description).unwrap();
    let methods = description["paths"].as_object().unwrap().values();
    let described: usize = methods.map(|methods| methods.as_object().unwrap().len()).sum();
    // It does not test the address from which it reads the description.
    let tested = described - 1;

    let shell = Shell::new();
    let ended = fuzz(&python, &shell, &app, "");
    assert_passed(&ended, &shell, tested);
    assert_eq!(
        app.count("SELECT count(*) FROM run"),
        3,
        "nothing starts without a token"
    );
    assert!(app.audit_lines_with("change.pulled").is_empty());

    let identity = |(name, token): (&str, &str)| {
        let header = json!({ "name": "Authorization", "value": format!("Bearer {token}") });
        json!({ "name": name, "fixedHeaders": [header] })
    };
    let people = [("alice", alice.as_str()), ("bob", bob.as_str())].map(identity);
    shell.put("tokens.json", &json!({ "auth": people }).to_string());
    let ended = fuzz(&python, &shell, &app, WITH_TOKENS);
    assert_passed(&ended, &shell, tested);
    app.wait_for_audit_line("change.pulled").await;
    for (condition, what) in [
        ("id > 3", "was started"),
        ("id > 3 AND retry_of IS NOT NULL", "was repeated"),
        ("id > 2 AND status = 'cancelled'", "was cancelled"),
    ] {
        let found = app.count(&format!("SELECT count(*) FROM run WHERE {condition}"));
        assert!(found > 0, "no run {what}: {}", ended.out);
    }

    // The runs that wait end with the access of their people.
    app.revoke(ALICE).await;
    app.revoke(BOB).await;
    wait_for_runs(&app, "ended_at IS NULL OR due = 1", 0).await;
    app.wait_until_idle().await;
}
