//! The ends of runs in a chat: one that cannot be read any more, and one that is repeated.

use crate::runs::{ALICE, DIRECT, ended_runs, posts, say};
use crate::secrets::commit;
use crate::support::app::TestApp;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use gix::objs::tree::EntryKind;
use serde_json::json;

const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  review:
    triggers: [{chat: {}}]
    params: {number: {type: integer, default: 7}}
    permissions: {role: viewer}
    steps:
      - name: big
        when: params.number > 10
        agent: {prompt: Say how big it is.}
      - name: look
        agent: {prompt: Look at the number.}
      - name: odd
        when: steps.look.output.contains('odd')
        agent: {prompt: Say why it is odd.}
      - name: even
        when: steps.look.output.contains('even')
        agent: {prompt: Say why it is even.}
  look:
    triggers: [{slash_command: {command: /look}}]
    permissions: {role: viewer}
    steps:
      - name: first
        agent: {prompt: Look at it.}
      - name: second
        agent: {prompt: Look again.}
"#;

async fn started(answers: impl IntoIterator<Item = ScriptedAnswer>) -> TestApp {
    let app = TestApp::new(queue(answers)).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    let file = (".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES);
    commit(&app, &[file]);
    say(&app, ALICE, "!run review").await;
    app
}

fn steps(app: &TestApp, run: u32) -> Vec<String> {
    app.column(&format!(
        "SELECT name || ' ' || status FROM run_step WHERE run = {run} ORDER BY step"
    ))
}

#[tokio::test]
async fn the_message_of_a_run_that_cannot_be_read_any_more_shows_that_it_has_ended() {
    let app = started([says("Never said.").with_fault(AnswerFault::Stall)]).await;
    app.wait_for_model_requests(1).await;
    app.wait_for_slack_message(DIRECT, "Run 1 of review on infra: running")
        .await;
    // As if a later version had stored it, and this one took its place again.
    app.alter_database(
        "UPDATE run_step SET status = 'resting' WHERE run = 1 AND step = 3; UPDATE run SET due = 1 WHERE id = 1;",
    );
    app.demo.app.as_ref().unwrap().gateway.runs.wake();
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    let end = "Run 1 of review on infra: failed: it cannot be read by this version; start it again";
    app.wait_for_slack_message(DIRECT, end).await;
    assert_eq!(posts(&app, DIRECT, "Run 1 of").len(), 1);
    assert_eq!(
        app.count("SELECT count(*) FROM run_step WHERE ended_at IS NULL"),
        0
    );
}

#[tokio::test]
async fn the_run_of_a_slash_command_that_cannot_be_read_any_more_tells_its_person_alone() {
    let settings = [("channels.slack.slash_commands", "[\"/look\"]")];
    let stalls = queue([says("Never said.").with_fault(AnswerFault::Stall)]);
    let app = TestApp::with_settings(stalls, &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
    let typed = app.demo.slack.slash_command(ALICE, SLACK_CHANNEL, ("/look", ""));
    typed.await.unwrap();
    app.wait_for_model_requests(1).await;
    app.alter_database(
        "UPDATE run_step SET status = 'resting' WHERE run = 1 AND step = 1; UPDATE run SET due = 1 WHERE id = 1;",
    );
    app.demo.app.as_ref().unwrap().gateway.runs.wake();
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    let told = app.ephemeral_messages(ALICE).join("\n");
    let end = "Run 1 of look on infra: failed: it cannot be read by this version; start it again";
    assert!(told.contains(end), "{told}");
    for channel in [SLACK_CHANNEL, DIRECT] {
        assert_eq!(posts(&app, channel, "Run 1"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_repeated_run_evaluates_the_conditions_of_the_steps_that_it_runs() {
    let verdict = json!({ "verdict": "fail", "summary": "It is not readable." });
    let answers = [
        calls("conclude", verdict),
        says("The number is odd."),
        says("Its last digit is."),
    ];
    let app = started(answers).await;
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    assert_eq!(
        steps(&app, 1),
        ["big skipped", "look failed", "odd skipped", "even skipped"]
    );
    say(&app, ALICE, "!runs retry 1").await;
    assert_eq!(ended_runs(&app, 2).await, ["failed", "succeeded"]);
    assert_eq!(
        steps(&app, 2),
        ["big skipped", "look succeeded", "odd succeeded", "even skipped"]
    );
    assert_eq!(app.model_requests().len(), 3);
}
