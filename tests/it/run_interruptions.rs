//! Runs of pipelines that somebody or something interrupts: an operator at the socket of the running server, a stop of the
//! server, a revocation, and a row that cannot be used.

use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::shell::Shell;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use gix::objs::tree::EntryKind;
use serde_json::json;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const VERA: &str = "U0VERA";
const PHONE: i64 = 4_201;
const FILE: &str = ".drydock/pipelines.yaml";
const PROGRAM: &str = ".drydock/pipelines.jsonnet";
const PIPELINES: &str = "
defaults: {model: anthropic/demo}
pipelines:
  slow:
    triggers: [{chat: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look for ever.}}]
  quick:
    triggers: [{chat: {}}]
    concurrency: {group: one, on_conflict: serial}
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look once.}}]
";

/// Returns the answers of the model: none to a step that looks for ever, and one that is held back to a person who waits.
fn by_words(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    match (words.contains("Look for ever"), words.contains("wait for me")) {
        (true, _) => says("Never said.").with_fault(AnswerFault::Stall),
        (false, true) => says("Here.").with_fault(AnswerFault::Held),
        (false, false) => says("All is well."),
    }
}

async fn app(settings: &[(&str, &str)]) -> TestApp {
    let app = TestApp::with_settings(by_words, settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    commit(&app, &[(FILE, EntryKind::Blob, PIPELINES)]);
    app
}

async fn say(app: &TestApp, user: &str, words: &str) {
    app.demo.slack.dm(user, words).await.unwrap();
}

/// Waits until a query has this result.
async fn wait_for(app: &TestApp, query: &str, expected: &[&str]) {
    let started = Instant::now();
    loop {
        let found = app.column(query);
        if found == expected {
            return;
        }
        assert!(started.elapsed() < BOUND, "{query}: {found:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the runs have ended like this, the oldest first, and nothing is left to do.
async fn wait_for_ends(app: &TestApp, expected: &[&str]) {
    let ended = "SELECT status FROM run WHERE ended_at IS NOT NULL AND due = 0 ORDER BY id";
    wait_for(app, ended, expected).await;
    app.wait_until_idle().await;
}

/// The commands use the socket of the server: the work of the run stops, and what is repeated begins at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cancels_and_repeats_a_run_of_the_running_server() {
    let app = app(&[]).await;
    let shell = Shell::new();
    let data = format!("data.directory={}", app.demo.data().display());
    let runs = |arguments: &[&str]| {
        let arguments = [&["runs"][..], arguments, &["--set", data.as_str()]].concat();
        tokio::task::block_in_place(|| shell.run(&arguments))
    };
    say(&app, ALICE, "!run slow").await;
    app.wait_for_model_requests(1).await;
    let listed = runs(&["list", "--status", "running", "--json"]).json();
    assert_eq!(listed["runs"][0]["id"], 1, "{listed}");
    let cancelled = runs(&["cancel", "1"]);
    assert_eq!(
        cancelled.out, "run 1 is cancelled, and its work stops\n",
        "{cancelled:?}"
    );
    wait_for_ends(&app, &["cancelled"]).await;
    app.wait_for_slack_message("DU0ALICE", "cancelled by the operator")
        .await;

    let repeated = runs(&["retry", "1"]);
    assert_eq!(
        repeated.out, "run 2 is started, and repeats run 1\n",
        "{repeated:?}"
    );
    app.wait_for_model_requests(2).await;
    let cancelled = runs(&["cancel", "2"]);
    assert_eq!(
        cancelled.out, "run 2 is cancelled, and its work stops\n",
        "{cancelled:?}"
    );
    wait_for_ends(&app, &["cancelled", "cancelled"]).await;
    let ended = runs(&["cancel", "2"]);
    assert_eq!(
        ended.out, "run 2 is not changed: it has ended already\n",
        "{ended:?}"
    );
    assert_eq!(app.model_requests().len(), 2);
}

const ENDLESS: &str = "{ pipelines: std.foldl(function(a, i) a + i, std.range(0, 1e9), 0) }\n";
const QUICK: &str = "{
  defaults: { model: 'anthropic/demo' },
  pipelines: { quick: {
    triggers: [{ chat: {} }],
    permissions: { role: 'viewer' },
    steps: [{ name: 'look', agent: { prompt: 'Look once.' } }],
  } },
}
";

/// Waits until a slow command of a person runs.
async fn wait_until_reading(app: &TestApp) {
    let started = Instant::now();
    loop {
        let status = app.run_telegram_command(PHONE, "/status").await;
        if status.contains("a query about environments; stop ends it") {
            return;
        }
        assert!(started.elapsed() < BOUND, "{status}");
    }
}

#[tokio::test]
async fn a_run_whose_definition_is_read_when_the_server_stops_starts_once_after_the_next_start() {
    let settings = [("sandbox.seconds_max", "100")];
    let mut app = TestApp::with_settings(by_words, &settings).await;
    app.admit_telegram_editor(PHONE).await;
    commit(&app, &[(PROGRAM, EntryKind::Blob, ENDLESS)]);
    app.demo.telegram.say(PHONE, PHONE, "/run quick").await;
    wait_until_reading(&app).await;
    let stopped = Instant::now();
    app.demo.stop().await;
    assert!(
        stopped.elapsed() < Duration::from_secs(30),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(app.count("SELECT count(*) FROM inbox WHERE done_at IS NULL"), 1);
    commit(&app, &[(PROGRAM, EntryKind::Blob, QUICK)]);
    app.demo.start().await.unwrap();
    wait_for_ends(&app, &["succeeded"]).await;
    app.wait_for_telegram_message(PHONE, "quick on infra: succeeded")
        .await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
    assert_eq!(app.model_requests().len(), 1);
}

/// Only the revocation itself can make the driver look at the runs here: no turn ends, and no time comes.
#[tokio::test]
async fn after_a_revocation_the_next_run_of_the_group_begins_at_once() {
    let app = app(&[("limits.turns_at_once_max", "1")]).await;
    for user in [BOB, VERA] {
        app.admit_slack_user(user, Role::Viewer, &[]).await;
    }
    say(&app, VERA, "wait for me").await;
    app.wait_for_model_requests(1).await;
    let steps = "SELECT status FROM run_step ORDER BY run";
    say(&app, ALICE, "!run quick").await;
    wait_for(&app, steps, &["running"]).await;
    say(&app, BOB, "!run quick").await;
    app.wait_for_slack_message("DU0BOB", "Run 2 of").await;
    wait_for(&app, steps, &["running", "waiting"]).await;
    app.revoke(ALICE).await;
    wait_for(&app, steps, &["cancelled", "running"]).await;
    app.demo.model.release();
    wait_for_ends(&app, &["cancelled", "succeeded"]).await;
    app.wait_for_slack_message("DU0BOB", "quick on infra: succeeded")
        .await;
    assert_eq!(app.model_requests().len(), 2);
}

#[tokio::test]
async fn a_run_that_can_never_go_on_ends_with_its_reason_and_the_driver_goes_on() {
    let mut app = app(&[]).await;
    say(&app, ALICE, "!run slow").await;
    app.wait_for_model_requests(1).await;
    app.demo.stop().await;
    app.alter_database(
        "UPDATE run SET place = '{', due = 1;
         CREATE TRIGGER unstartable BEFORE UPDATE OF status ON run_step WHEN NEW.status = 'running'
           BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    app.demo.start().await.unwrap();
    wait_for_ends(&app, &["failed"]).await;
    say(&app, ALICE, "!run quick").await;
    wait_for_ends(&app, &["failed", "failed"]).await;
    assert_eq!(
        app.column("SELECT why FROM run ORDER BY id"),
        [
            "it cannot be read by this version; start it again",
            "an internal error ended it; the log has the reason"
        ]
    );
    app.alter_database("DROP TRIGGER unstartable");
    say(&app, ALICE, "!run quick").await;
    wait_for_ends(&app, &["failed", "failed", "succeeded"]).await;
}

const EDITS: &str = "
defaults: {model: anthropic/demo}
pipelines:
  bump:
    triggers: [{chat: {}}]
    steps: [{name: bump, agent: {prompt: Bump the image.}}]
";

/// The model of the second attempt sees neither the calls of the first one nor its edits, so it makes the edit itself.
#[tokio::test]
async fn an_agent_step_that_a_stop_interrupts_begins_again_without_its_history_and_its_edits() {
    let edit = |image: &str| {
        let path = "environments/dev/main.jsonnet";
        calls(
            "file_edit",
            json!({"path": path, "old": "web:1.8.3", "new": image}),
        )
    };
    let stalls = says("Never said.").with_fault(AnswerFault::Stall);
    let answers = [edit("web:1.9.0"), stalls, edit("web:1.9.1"), says("Prepared.")];
    let mut app = TestApp::new(queue(answers)).await;
    app.admit_slack_editor(ALICE).await;
    commit(&app, &[(FILE, EntryKind::Blob, EDITS)]);
    say(&app, ALICE, "!run bump").await;
    app.wait_for_model_requests(2).await;
    app.restart().await;
    wait_for_ends(&app, &["succeeded"]).await;
    let requests = app.model_requests();
    let [_, _, again, last] = requests.as_slice() else {
        panic!("{} requests", requests.len());
    };
    assert_eq!(again.messages.len(), 1);
    let edited = &last.last_results()[0];
    assert!(!edited.is_error, "{}", edited.content);
    assert_eq!(app.column("SELECT 'CHG-' || number FROM change"), ["CHG-1"]);
}
