//! Events of a hook and times of a schedule that come while their service has as many open runs as it may have.

use crate::hooks::{deliver, release};
use crate::pipeline_schedules::{look, nightly, order};
use crate::runs::{ended_runs, posts};
use crate::schedules::{ended_fires, wait_for_schedule};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::world::{advance, world};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder, ScheduleOrder};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{queue, says};
use drydock::state::store::OPEN_RUNS_OF_OWNER_MAX;
use gix::objs::tree::EntryKind;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const FILE: &str = ".drydock/pipelines.yaml";
/// The first run asks, and those after it wait for it.
const ASKS: &str = r#"
pipelines:
  approve:
    triggers:
      - hook: {name: release, events: [release.published, release.edited], params: {tag: /release/tag_name}}
    params: {tag: {type: text}}
    concurrency: {group: releases, on_conflict: serial}
    permissions: {role: viewer}
    steps:
      - name: ask
        ask: {to: {group: viewers}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  record:
    triggers: [{hook: {name: release, events: [release.edited]}}]
    concurrency: {group: records, on_conflict: serial}
    permissions: {role: viewer}
    steps:
      - name: ask
        ask: {to: {group: viewers}, question: Record it?, choices: ["yes", "no"], deadline: 10m}
"#;
const DRIFT: &str = "
defaults: {model: anthropic/demo}
pipelines:
  drift:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look for drift.}}]
";
const WAITING: &str = "SELECT count(*) FROM inbox WHERE lane = 'turn' AND done_at IS NULL";

/// Delivers event number `number` with this action, and returns the status.
async fn event(app: &TestApp, number: u32, action: &str) -> u16 {
    let mut payload = release("Faster.");
    payload["action"] = action.into();
    payload["release"]["tag_name"] = format!("v{number}").into();
    let id = format!("72d3162e-cc78-11e3-81ab-{number:012}");
    deliver(app, "release", &id, &payload).await.0
}

/// Waits until there are so many runs, and so many messages wait.
async fn until(app: &TestApp, runs: u32, waiting: i64) {
    let started = Instant::now();
    loop {
        let found = (app.count("SELECT count(*) FROM run"), app.count(WAITING));
        if found == (i64::from(runs), waiting) {
            return;
        }
        assert!(started.elapsed() < BOUND, "{found:?}, not {runs} and {waiting}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn cancel(app: &TestApp, run: i64) {
    let request = AdminRequest::Run {
        id: RunId(run),
        order: RunOrder::Cancel,
    };
    let answer = app.send_admin_request(request).await;
    assert!(!matches!(answer, AdminReply::Failed { .. }), "{answer:?}");
}

fn started(app: &TestApp, run: u32) -> String {
    let of_run = format!(
        "SELECT pipeline || ' ' || COALESCE(json_extract(inputs, '$.params.tag'), '') FROM run WHERE id = {run}"
    );
    app.column(&of_run).remove(0)
}

/// I10
#[tokio::test]
async fn events_beyond_the_open_runs_of_a_hook_wait_in_order_and_start_when_a_run_has_ended() {
    let settings = [
        ("hooks.release.pipelines", "true"),
        ("hooks.release.events", "[\"release\"]"),
        ("limits.waiting_events_max", "3"),
    ];
    let mut app = TestApp::with_settings(queue([]), &settings).await;
    commit(&app, &[(FILE, EntryKind::Blob, ASKS)]);
    let last = OPEN_RUNS_OF_OWNER_MAX;
    for number in 1..last {
        assert_eq!(event(&app, number, "published").await, 200, "{number}");
        until(&app, number, 0).await;
    }
    // The next event starts two runs. There is room for the first of them.
    assert_eq!(event(&app, last, "edited").await, 200);
    until(&app, last, 1).await;
    assert_eq!(started(&app, last), format!("approve v{last}"));
    for number in [last + 1, last + 2] {
        assert_eq!(event(&app, number, "published").await, 200);
    }
    until(&app, last, 3).await;
    // As many wait as may wait, and one of them comes again.
    assert_eq!(event(&app, last + 3, "published").await, 503);
    assert_eq!(event(&app, last + 1, "published").await, 200);
    app.restart().await;
    until(&app, last, 3).await;

    for (ended, left) in [(1, 2), (2, 1), (3, 0)] {
        cancel(&app, ended).await;
        until(&app, last + u32::try_from(ended).unwrap(), left).await;
    }
    let later = [last + 1, last + 2, last + 3].map(|run| started(&app, run));
    let expected = [
        "record ".to_owned(),
        format!("approve v{}", last + 1),
        format!("approve v{}", last + 2),
    ];
    assert_eq!(later, expected);
    assert_eq!(event(&app, last, "edited").await, 200);
    until(&app, last + 3, 0).await;
    assert_eq!(
        posts(&app, SLACK_CHANNEL, "was not started"),
        Vec::<String>::new()
    );
}

/// Adds open runs of the service that has started run 1, as many as it may have.
fn add_open_runs(app: &TestApp) {
    let numbers = format!(
        "WITH RECURSIVE number (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM number WHERE n <= {OPEN_RUNS_OF_OWNER_MAX})"
    );
    app.alter_database(&format!(
        "INSERT INTO run (id, pipeline, repository, owner, started_by, status, created_at, on_conflict, seconds_max, due, base,
             plan, inputs)
         {numbers} SELECT n, pipeline, repository, owner, started_by, 'queued', created_at, on_conflict, seconds_max, 0, base,
             plan, inputs FROM run, number WHERE id = 1;
         INSERT INTO run_step (run, step, name, kind, status)
         {numbers} SELECT n, step, name, kind, 'waiting' FROM run_step, number WHERE run = 1;"
    ));
}

/// I10
#[tokio::test]
async fn a_time_of_a_pipeline_beyond_the_open_runs_of_its_schedule_waits_and_is_no_failure() {
    const CLOCK: usize = 31;
    let answers = [says("No drift."), says("Drift in dev.")];
    let app = TestApp::with_host(queue(answers), world::<CLOCK>(), &nightly(&[])).await;
    app.admit_slack_editor(ALICE).await;
    commit(&app, &[(FILE, EntryKind::Blob, DRIFT)]);
    look(&app).await;
    wait_for_schedule(&app, "name = 'nightly/drift'").await;
    order(&app, "drift", ScheduleOrder::Trigger).await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(ended_fires(&app, 1).await, ["done"]);

    add_open_runs(&app);
    advance::<CLOCK>(60);
    order(&app, "drift", ScheduleOrder::Trigger).await;
    until(&app, OPEN_RUNS_OF_OWNER_MAX + 1, 1).await;
    // The next time finds that the work of this one has not ended.
    advance::<CLOCK>(60);
    order(&app, "drift", ScheduleOrder::Trigger).await;
    let fires = "SELECT COALESCE(outcome, 'waits') FROM schedule_fire ORDER BY due";
    assert_eq!(app.column(fires), ["done", "waits", "overlapped"]);
    cancel(&app, 2).await;
    assert_eq!(ended_runs(&app, 3).await, ["succeeded", "cancelled", "succeeded"]);
    assert_eq!(app.column(fires), ["done", "done", "overlapped"]);
    assert_eq!(app.count("SELECT failures FROM schedule"), 0);
    assert_eq!(
        posts(&app, SLACK_CHANNEL, "was not started"),
        Vec::<String>::new()
    );
}
