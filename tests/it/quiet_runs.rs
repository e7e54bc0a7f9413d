//! Runs of schedules that are quiet, through the whole gateway: nothing is posted about one before there is something to say,
//! and then its message is the same as that of every run.

use crate::runs::{ALICE, DIRECT, ended_runs, posts, say};
use crate::schedules::wait_for_schedule;
use crate::secrets::commit;
use crate::support::app::{TestApp, visible_text};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder, ScheduleOrder};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, calls, queue, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::store::DeadLetterFilter;
use gix::objs::tree::EntryKind;
use serde_json::json;

const TOLD: &str = "C0TOLD";
const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  look:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look for drift.}}]
  decide:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    steps:
      - name: approve
        ask: {to: {group: editors}, question: Go on?, choices: ["yes", "no"], deadline: 10m, default: "no"}
  promote:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    steps:
      - {name: promote, agent: {prompt: Promote web to 1.9.0 in dev.}}
      - {name: look, agent: {prompt: Look at it., permissions: {role: viewer}}}
  tell:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    steps: [{name: tell, reply: {to: "channel:slack:C0TOLD", text: All is well.}}]
"#;

/// Starts a gateway whose schedule starts the pipelines, and is quiet because nothing else is configured.
async fn started(answers: impl IntoIterator<Item = ScriptedAnswer>) -> TestApp {
    let settings = [
        ("schedules.nightly.pipelines", "true"),
        ("schedules.nightly.repository", "infra"),
        ("schedules.nightly.post_to.channel", "slack"),
        ("schedules.nightly.post_to.chat", SLACK_CHANNEL),
        ("pipelines.reply_targets", "[\"channel:slack:C0TOLD\"]"),
    ];
    let app = TestApp::with_settings(queue(answers), &settings).await;
    app.demo.slack.add_channel(TOLD, &[]);
    app.admit_slack_editor(ALICE).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
    // Somebody uses the repository, so its newest commit is seen.
    say(&app, ALICE, "!run").await;
    app.wait_until_idle().await;
    app
}

/// Starts the run of a pipeline in the name of its schedule.
async fn trigger(app: &TestApp, pipeline: &str) {
    let which = format!("nightly/{pipeline}");
    wait_for_schedule(app, &format!("name = '{which}'")).await;
    let order = ScheduleOrder::Trigger;
    let answer = app
        .send_admin_request(AdminRequest::Schedule { which, order })
        .await;
    assert!(matches!(answer, AdminReply::ScheduleChanged { .. }), "{answer:?}");
}

async fn order(app: &TestApp, run: i64, order: RunOrder) {
    let request = AdminRequest::Run {
        id: RunId(run),
        order,
    };
    let answer = app.send_admin_request(request).await;
    assert!(matches!(answer, AdminReply::RunChanged { .. }), "{answer:?}");
}

fn stalls() -> ScriptedAnswer {
    says("Never said.").with_fault(AnswerFault::Stall)
}

/// Returns the only message of a run in the chat of its schedule.
fn message(app: &TestApp, run: &str) -> String {
    let mut shown = posts(app, SLACK_CHANNEL, &format!("Run {run} on infra"));
    assert_eq!(shown.len(), 1, "{shown:?}");
    shown.remove(0)
}

#[tokio::test]
async fn a_quiet_run_without_news_leaves_no_message_and_its_failure_and_its_repetition_have_one() {
    let verdict = json!({ "verdict": "fail", "summary": "It cannot be compared." });
    let answers = [
        says("No drift."),
        calls("conclude", verdict),
        says("Still no drift."),
    ];
    let app = started(answers).await;
    trigger(&app, "look").await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let operations = "SELECT count(*) FROM outbox WHERE op LIKE 'run-%'";
    assert_eq!(app.count(operations), 0);
    say(&app, ALICE, "!runs show 1").await;
    app.wait_for_slack_message(DIRECT, "No drift.").await;
    // As if a later version had stored it, and this one took its place again.
    app.alter_database(
        "UPDATE run_step SET status = 'resting' WHERE run = 1; UPDATE run SET due = 1 WHERE id = 1;",
    );
    app.demo.app.as_ref().unwrap().gateway.runs.wake();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(app.count(operations), 0);

    trigger(&app, "look").await;
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "failed"]);
    assert!(message(&app, "2 of look").contains("failed: the step"));
    // Whoever repeats it waits for its end.
    order(&app, 2, RunOrder::Retry).await;
    assert_eq!(ended_runs(&app, 3).await, ["succeeded", "failed", "succeeded"]);
    assert!(message(&app, "3 of look").contains("succeeded"));
    assert_eq!(posts(&app, SLACK_CHANNEL, "Run 1"), Vec::<String>::new());
}

#[tokio::test]
async fn a_quiet_run_goes_on_silently_after_a_restart_and_its_cancellation_is_posted_once() {
    let mut app = started([stalls(), stalls()]).await;
    trigger(&app, "look").await;
    app.wait_for_model_requests(1).await;
    app.restart().await;
    app.wait_for_model_requests(2).await;
    assert_eq!(posts(&app, SLACK_CHANNEL, ""), Vec::<String>::new());
    order(&app, 1, RunOrder::Cancel).await;
    assert_eq!(ended_runs(&app, 1).await, ["cancelled"]);
    app.restart().await;
    app.wait_until_idle().await;
    assert!(message(&app, "1 of look").contains("cancelled"));
}

#[tokio::test]
async fn a_quiet_run_that_asks_has_a_message_from_its_question_to_its_end() {
    let mut app = started([]).await;
    trigger(&app, "decide").await;
    let asked = app
        .wait_for_slack_message(SLACK_CHANNEL, "needs a decision")
        .await;
    app.wait_for_slack_message(SLACK_CHANNEL, "Run 1 of decide on infra: running")
        .await;
    assert!(message(&app, "1 of decide").contains("waits for an answer"));
    app.restart().await;
    app.demo.slack.click(ALICE, &asked.ts, "yes").await.unwrap();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert!(message(&app, "1 of decide").contains("succeeded · yes"));
    assert_eq!(
        posts(&app, SLACK_CHANNEL, "needs a decision"),
        Vec::<String>::new()
    );
    assert_eq!(posts(&app, SLACK_CHANNEL, "asked for a decision").len(), 1);
}

#[tokio::test]
async fn a_quiet_run_that_prepares_a_change_has_a_message_from_then_on() {
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3", "new": "web:1.9.0"});
    let answers = [
        calls("file_edit", edit),
        says("Prepared."),
        stalls(),
        says("It is fine."),
    ];
    let mut app = started(answers).await;
    trigger(&app, "promote").await;
    app.wait_for_slack_message(SLACK_CHANNEL, "Run 1 of promote on infra: running")
        .await;
    assert!(message(&app, "1 of promote").contains("CHG-1"));
    app.wait_for_model_requests(3).await;
    app.restart().await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let ended = message(&app, "1 of promote");
    assert!(
        ended.contains("succeeded") && ended.contains("It is fine."),
        "{ended}"
    );
}

/// The run has ended by then.
#[tokio::test]
async fn a_quiet_run_whose_reply_is_not_delivered_gets_its_message_then() {
    const WHY: &str = "not delivered: is_archived";
    let mut app = started([]).await;
    let archived = SlackFault::Refuse("is_archived".to_owned());
    app.demo.slack.fail_next("chat.postMessage", 1, archived);
    trigger(&app, "tell").await;
    app.wait_for_slack_message(SLACK_CHANNEL, WHY).await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert!(message(&app, "1 of tell").contains("succeeded"));

    // A reply that was sent again is shown by the same message.
    app.restart().await;
    let which = DeadLetterFilter::Op("run-1-0/reply-1".to_owned());
    let answer = app.send_admin_request(AdminRequest::OutboxRetry { which }).await;
    assert!(
        matches!(answer, AdminReply::Letters { count: 1, .. }),
        "{answer:?}"
    );
    app.wait_for_slack_message(TOLD, "All is well.").await;
    app.wait_for_slack("the message of the run without the refusal", |state| {
        let mut messages = state.messages.iter();
        let is_shown = messages.any(|message| visible_text(message).contains(WHY));
        (!is_shown).then_some(())
    })
    .await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert!(!message(&app, "1 of tell").contains(WHY));

    // A reply that arrives is all that is posted.
    trigger(&app, "tell").await;
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "succeeded"]);
    assert_eq!(posts(&app, TOLD, "All is well.").len(), 2);
    assert_eq!(posts(&app, SLACK_CHANNEL, "Run 2"), Vec::<String>::new());
}
