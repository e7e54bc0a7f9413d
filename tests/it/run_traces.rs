//! The files about the steps of runs of a server.

use crate::retention::prune;
use crate::runs::{ALICE, ended_runs, posts, say};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::world::{Host, advance, world};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use drydock::state::store::Prune;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

const KEY: &str = "sk-ant-api03-q7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe";
const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  review:
    triggers: [{chat: {}}]
    permissions: {role: viewer}
    steps:
      - name: look
        agent: {prompt: Look at dev.}
      - name: broken
        on: failure
        agent: {prompt: Say why it broke.}
      - name: tell
        reply: {to: "channel:slack:C0PLATFORM", text: "${steps.look.output}"}
"#;

/// Starts a server whose run of the pipeline reads a file, and ends with one answer.
async fn started(
    answers: impl IntoIterator<Item = ScriptedAnswer>,
    host: Host,
    settings: &[(&str, &str)],
) -> TestApp {
    let replies = [("pipelines.reply_targets", "[\"channel:slack:C0PLATFORM\"]")];
    let settings = [&replies[..], settings].concat();
    let app = TestApp::with_host(queue(answers), host, &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    let file = (".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES);
    commit(&app, &[file]);
    app
}

fn reads() -> ScriptedAnswer {
    calls("file_read", json!({ "path": "environments/dev/main.jsonnet" }))
}

fn directory(app: &TestApp, run: u32) -> PathBuf {
    app.demo.data().join(format!("runs/{run}"))
}

/// Waits until all steps of a run have their files, and its directory has the time of the last end.
async fn traced(app: &TestApp, run: u32) -> PathBuf {
    let directory = directory(app, run);
    let ended = format!(
        "SELECT COALESCE(MAX(at), 0) FROM (SELECT ended_at AS at FROM run WHERE id = {run}
         UNION ALL SELECT ended_at FROM run_step WHERE run = {run})"
    );
    let is_complete = || {
        let ended = u64::try_from(app.count(&ended)).unwrap();
        let at = directory.metadata().and_then(|facts| facts.modified());
        let is_dated = at.is_ok_and(|at| at == UNIX_EPOCH + Duration::from_millis(ended));
        is_dated && directory.join("run.json").exists()
    };
    let began = Instant::now();
    while !is_complete() {
        assert!(began.elapsed() < BOUND, "run {run} is not traced");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    directory
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn value(path: &Path) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// CI-22
#[tokio::test]
async fn each_step_of_a_run_leaves_its_trace_its_result_its_status_and_the_results_of_its_calls() {
    let answers = [reads(), says(format!("The key is {KEY}."))];
    let app = started(answers, world::<0>(), &[]).await;
    say(&app, ALICE, "!run review").await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let run = traced(&app, 1).await;

    let facts = value(&run.join("run.json"));
    assert_eq!(
        (&facts["run"], &facts["pipeline"], &facts["status"]),
        (&json!(1), &json!("review"), &json!("succeeded"))
    );
    let look = run.join("look");
    assert_eq!(text(&look.join("status")), "succeeded");
    let result = text(&look.join("result.txt"));
    assert!(result.starts_with("The key is ⟦secret:"), "{result}");
    let trace = value(&look.join("trace.json"));
    let prompt = trace["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("Look at dev."), "{prompt}");
    assert_eq!(
        (&trace["kind"], &trace["text"], &trace["calls_without_file"]),
        (&json!("agent"), &json!(result), &json!(0))
    );
    assert!(
        trace["model"].is_string() && trace["duration"].is_number(),
        "{trace}"
    );
    let steps = trace["steps"].as_array().unwrap();
    let call = &steps[0]["calls"][0];
    assert_eq!((steps.len(), &call["name"]), (2, &json!("file_read")), "{trace}");
    let tokens = app.count("SELECT SUM(input + output + cache_read + cache_write) FROM usage");
    assert_eq!(trace["tokensUsed"], json!(tokens), "{trace}");
    assert!(text(&look.join("calls/1.stdout")).contains("replicas"));
    assert_eq!(text(&run.join("broken/status")), "skipped");
    assert_eq!(text(&run.join("tell/status")), "succeeded");
    assert_eq!(value(&run.join("tell/trace.json"))["steps"], json!([]));

    for file in [
        "run.json",
        "look/trace.json",
        "look/calls/1.stdout",
        "tell/status",
    ] {
        assert_eq!(mode(&run.join(file)), 0o600, "{file}");
    }
    for directory in [run.parent().unwrap(), &run, &look, &look.join("calls")] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    assert_eq!(app.data_files_with(KEY), Vec::<String>::new());
}

/// CI-22
#[tokio::test]
async fn files_that_a_stopped_server_has_not_written_are_written_at_the_next_start() {
    let mut app = started([reads(), says("It is fine.")], world::<0>(), &[]).await;
    say(&app, ALICE, "!run review").await;
    let run = traced(&app, 1).await;
    app.wait_until_idle().await;
    app.demo.stop().await;
    // A kill leaves what was not written, and a part of a file.
    std::fs::remove_file(run.join("run.json")).unwrap();
    std::fs::remove_dir_all(run.join("look/calls")).unwrap();
    std::fs::rename(run.join("look/status"), run.join("look/status.new")).unwrap();
    let told = text(&run.join("tell/trace.json"));
    std::fs::write(run.join("tell/trace.json"), "kept as it is").unwrap();
    app.demo.start().await.unwrap();
    traced(&app, 1).await;
    assert_eq!(text(&run.join("look/status")), "succeeded");
    assert!(text(&run.join("look/calls/1.stdout")).contains("replicas"));
    assert!(!run.join("look/status.new").exists());
    assert!(told.contains("reply"), "{told}");
    assert_eq!(text(&run.join("tell/trace.json")), "kept as it is");
    assert_eq!(app.model_requests().len(), 2);
}

#[tokio::test]
async fn files_that_cannot_be_written_keep_no_run_from_its_end_and_are_written_later() {
    let mut app = started([reads(), says("It is fine.")], world::<0>(), &[]).await;
    let runs = app.demo.data().join("runs");
    std::fs::write(&runs, "in the way").unwrap();
    say(&app, ALICE, "!run review").await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(posts(&app, SLACK_CHANNEL, "It is fine.").len(), 1);
    assert_eq!(text(&runs), "in the way");
    app.demo.stop().await;
    std::fs::remove_file(&runs).unwrap();
    app.demo.start().await.unwrap();
    let run = traced(&app, 1).await;
    assert_eq!(text(&run.join("look/result.txt")), "It is fine.");
}

/// CI-22, R29
#[tokio::test]
async fn files_about_old_runs_are_removed_and_are_not_written_again() {
    const CLOCK: usize = 16;
    let kept = [
        ("retention.recording_days_kept", "30"),
        ("retention.message_days_kept", "0"),
    ];
    let answers = [reads(), says("It is fine."), says("It is still fine.")];
    let mut app = started(answers, world::<CLOCK>(), &kept).await;
    say(&app, ALICE, "!run review").await;
    traced(&app, 1).await;
    app.wait_until_idle().await;
    assert!(!prune(&app, Prune::Remove).await.contains_key("traces"));
    advance::<CLOCK>(31 * 24 * 3_600);
    assert_eq!(prune(&app, Prune::DryRun).await["traces"], 1);
    assert!(directory(&app, 1).exists());
    assert_eq!(prune(&app, Prune::Remove).await["traces"], 1);
    assert!(!directory(&app, 1).exists());
    app.demo.stop().await;
    app.demo.start().await.unwrap();
    say(&app, ALICE, "!run review").await;
    // The first run is noted before the second one.
    traced(&app, 2).await;
    assert!(!directory(&app, 1).exists());
    assert_eq!(app.count("SELECT count(*) FROM run"), 2);
}
