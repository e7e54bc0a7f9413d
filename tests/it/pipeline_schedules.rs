//! Pipelines that start at set times, through the whole gateway: the times are those of the trusted branch.

use crate::cli_check;
use crate::runs::{ended_runs, posts};
use crate::schedules::{ended_fires, wait_for_schedule, wake};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::log::LogCapture;
use crate::support::shell::{Shell, commit_changes};
use crate::support::world::{advance, world};
use drydock::engine::admin::{AdminReply, AdminRequest, ScheduleOrder};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use gix::objs::tree::EntryKind;
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const FILE: &str = ".drydock/pipelines.yaml";
/// 13:00 on the day on which the time of a test begins.
const FIRST: i64 = 1_795_266_000_000;
const DAY_MILLIS: i64 = 86_400_000;
const HOUR_MILLIS: i64 = 3_600_000;

/// Returns the settings that start the pipelines of the repository, with others.
pub(crate) fn nightly(others: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let settings = [
        ("schedules.nightly.pipelines", "true"),
        ("schedules.nightly.repository", "infra"),
        ("schedules.nightly.post_to.channel", "slack"),
        ("schedules.nightly.post_to.chat", SLACK_CHANNEL),
        ("schedules.nightly.grants.role", "viewer"),
    ];
    [&settings, others].concat()
}

/// Returns a file with one pipeline.
fn drift(triggers: &str) -> String {
    format!(
        "defaults: {{model: anthropic/demo}}
pipelines:
  drift:
    triggers: [{triggers}]
    params: {{environment: {{type: text, default: prod}}}}
    permissions: {{role: viewer}}
    steps:
      - name: look
        agent: {{prompt: Look for drift., params: {{environment: \"${{params.environment}}\"}}}}
"
    )
}

fn at(when: &str) -> String {
    drift(&format!(
        "{{schedule: {{cron: '{when}', params: {{environment: dev}}}}}}"
    ))
}

fn publish(app: &TestApp, text: &str) {
    commit(app, &[(FILE, EntryKind::Blob, text)]);
}

/// Makes the server see the newest commit: somebody asks for the pipelines.
pub(crate) async fn look(app: &TestApp) {
    app.demo.slack.dm(ALICE, "!run").await.unwrap();
    app.wait_until_idle().await;
}

pub(crate) async fn order(app: &TestApp, name: &str, order: ScheduleOrder) -> AdminReply {
    let which = format!("nightly/{name}");
    app.send_admin_request(AdminRequest::Schedule { which, order })
        .await
}

async fn until_no_schedule(app: &TestApp) {
    let started = std::time::Instant::now();
    while app.count("SELECT count(*) FROM schedule") > 0 {
        assert!(started.elapsed() < BOUND, "there are schedules");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// STK-5, STK-8
#[tokio::test]
async fn a_pipeline_starts_at_the_times_that_the_trusted_branch_gives_it() {
    const CLOCK: usize = 27;
    let edit = json!({"path": FILE, "old": "daily 13:00", "new": "daily 12:30"});
    let answers = [
        says("No drift."),
        says("Never said.").with_fault(AnswerFault::Stall),
        says("Drift in dev."),
        calls("file_edit", edit),
        says("Prepared."),
    ];
    let settings = nightly(&[("schedules.nightly.quiet", "false")]);
    let mut app = TestApp::with_host(queue(answers), world::<CLOCK>(), &settings).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app, &at("daily 13:00"));
    look(&app).await;
    wait_for_schedule(&app, &format!("name = 'nightly/drift' AND due = {FIRST}")).await;

    advance::<CLOCK>(3_600);
    wake(&app);
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    assert_eq!(
        app.column("SELECT started_by FROM run"),
        ["schedule nightly/drift"]
    );
    let shown = posts(&app, SLACK_CHANNEL, "Run 1 of drift on infra: succeeded");
    assert!(shown.len() == 1 && shown[0].contains("No drift."), "{shown:?}");
    let requests = app.model_requests();
    let asked = requests[0].last_user_text();
    assert!(
        asked.starts_with("Look for drift.") && asked.contains("environment") && asked.contains("dev"),
        "{asked}"
    );

    // The server ends in the middle of the run of the next day.
    advance::<CLOCK>(86_400);
    wake(&app);
    app.wait_for_model_requests(2).await;
    app.wait_for_slack_message(SLACK_CHANNEL, "Run 2 of drift on infra: running")
        .await;
    app.demo.stop().await;
    app.demo.start().await.unwrap();
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "succeeded"]);
    assert_eq!(ended_fires(&app, 2).await, ["done", "done"]);
    let shown = posts(&app, SLACK_CHANNEL, "Run 2 of drift on infra: succeeded");
    assert!(
        shown.len() == 1 && shown[0].contains("Drift in dev."),
        "{shown:?}"
    );

    // An edit in a conversation is shown, and changes no times.
    app.ask(ALICE, "Look for drift at 12:30.").await;
    look(&app).await;
    let third = FIRST + 2 * DAY_MILLIS;
    let unchanged = format!("SELECT count(*) FROM schedule WHERE due = {third}");
    assert_eq!(app.count(&unchanged), 1);
    // One on the trusted branch does, once the commit is seen.
    publish(&app, &at("daily 14:00"));
    look(&app).await;
    let next = FIRST + DAY_MILLIS + HOUR_MILLIS;
    wait_for_schedule(&app, &format!("due = {next}")).await;
    assert_eq!(app.count("SELECT count(*) FROM schedule"), 1);

    // Definitions that cannot be used change nothing, and that is said once.
    publish(&app, "pipelines: {drift: {}}\n");
    let log = LogCapture::capture();
    look(&app).await;
    let unusable = "The pipelines of infra cannot be used as they are, so their times stay as they were.";
    app.wait_for_slack_message(SLACK_CHANNEL, unusable).await;
    let text = log.text();
    drop(log);
    let is_meant = |line: &&str| line.contains(" WARN ") && line.contains("schedules::follow");
    let logged: Vec<&str> = text.lines().filter(is_meant).collect();
    let problem = |key: &str| format!(".drydock/pipelines.yaml:1:pipelines.drift.{key}: is required");
    let line = format!(
        "The pipelines of `infra` cannot be used as they are, so their times stay as they were: {}; {}",
        problem("steps"),
        problem("triggers")
    );
    assert!(
        matches!(logged.as_slice(), [only] if only.contains(&line)),
        "{text}"
    );
    look(&app).await;
    assert_eq!(posts(&app, SLACK_CHANNEL, unusable).len(), 1);
    assert_eq!(
        app.count(&format!("SELECT count(*) FROM schedule WHERE due = {next}")),
        1
    );
    publish(&app, &drift("{chat: {}}"));
    look(&app).await;
    until_no_schedule(&app).await;
    assert_eq!(app.model_requests().len(), 5);
}

/// STK-19, STK-20
#[tokio::test]
async fn the_times_of_a_pipeline_stay_off_after_a_restart_and_an_edit_and_end_with_the_access_of_its_service()
{
    let mut app = TestApp::with_settings(queue([says("No drift.")]), &nightly(&[])).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app, &at("daily 13:00"));
    look(&app).await;
    wait_for_schedule(&app, "name = 'nightly/drift'").await;
    let AdminReply::ScheduleChanged { done, .. } = order(&app, "drift", ScheduleOrder::Disable).await else {
        panic!("not turned off");
    };
    assert_eq!(done, "off");
    app.demo.stop().await;
    app.demo.start().await.unwrap();
    publish(&app, &at("daily 14:00"));
    look(&app).await;
    let is_edited = "json_extract(definition, '$.when') = 'daily 14:00'";
    wait_for_schedule(&app, is_edited).await;
    assert_eq!(
        app.column("SELECT off_why FROM schedule"),
        ["turned off by the operator"]
    );

    // An operator can start it beside its times, and removes it where it is defined.
    let started = order(&app, "drift", ScheduleOrder::Trigger).await;
    assert!(
        matches!(started, AdminReply::ScheduleChanged { .. }),
        "{started:?}"
    );
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    let AdminReply::Failed { why } = order(&app, "drift", ScheduleOrder::Remove).await else {
        panic!("removed");
    };
    assert_eq!(
        why,
        "`nightly/drift` is a trigger of a pipeline of `infra`; remove it there"
    );

    app.revoke("schedule:nightly").await;
    let AdminReply::Failed { why } = order(&app, "drift", ScheduleOrder::Trigger).await else {
        panic!("started");
    };
    assert_eq!(
        why,
        "nothing was started: the owner of `nightly/drift` has no access here"
    );
    app.alter_database("UPDATE schedule SET off_why = NULL, due = 1");
    wake(&app);
    wait_for_schedule(&app, "off_why = 'access was revoked'").await;
    let off = "The schedule nightly/drift is off: access was revoked.";
    app.wait_for_slack_message(SLACK_CHANNEL, off).await;
    // Nothing is said about its definitions any more.
    publish(&app, "pipelines: {drift: {}}\n");
    look(&app).await;
    publish(&app, &drift("{chat: {}}"));
    look(&app).await;
    until_no_schedule(&app).await;
    app.wait_until_idle().await;
    let unusable = "cannot be used as they are";
    assert_eq!(posts(&app, SLACK_CHANNEL, unusable), Vec::<String>::new());
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
}

const WITHOUT_RUNS: &str = "
defaults: {model: anthropic/demo}
pipelines:
  never:
    triggers: [{when: params.on == true, schedule: {cron: 'daily 13:00', params: {on: false}}}]
    params: {on: {type: boolean}}
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look around.}}]
  promote:
    triggers: [{schedule: {cron: 'daily 13:00'}}]
    steps: [{name: promote, agent: {prompt: Promote web to 1.9.0.}}]
";

#[tokio::test]
async fn a_time_at_which_no_run_starts_is_recorded_with_its_reason() {
    let settings = nightly(&[("schedules.nightly.missed", "skip")]);
    let app = TestApp::with_settings(queue([]), &settings).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app, WITHOUT_RUNS);
    look(&app).await;
    wait_for_schedule(&app, "name = 'nightly/promote'").await;
    order(&app, "never", ScheduleOrder::Trigger).await;
    assert_eq!(ended_fires(&app, 1).await, ["skipped"]);
    // The service has the role of a viewer.
    order(&app, "promote", ScheduleOrder::Trigger).await;
    let refused = "promote was not started: it may change files, and the role in infra is viewer";
    app.wait_for_slack_message(SLACK_CHANNEL, refused).await;
    assert_eq!(ended_fires(&app, 2).await, ["skipped", "failed"]);
    let why = newest_reason(&app, "promote").await;
    assert!(
        why.starts_with("`promote` was not started: it may change files, "),
        "{why}"
    );
    app.alter_database("UPDATE schedule SET due = due - 864000000 WHERE name = 'nightly/never'");
    wake(&app);
    assert_eq!(ended_fires(&app, 3).await, ["missed", "skipped", "failed"]);
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
    assert!(app.model_requests().is_empty());
}

/// Returns the reason of the newest fire of a schedule.
async fn newest_reason(app: &TestApp, name: &str) -> String {
    match order(app, name, ScheduleOrder::History).await {
        AdminReply::ScheduleFires { fires, .. } => fires[0].why.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_pipeline_says_why_its_run_failed_or_did_not_start() {
    let fails = calls(
        "conclude",
        json!({"verdict": "fail", "summary": "There is drift."}),
    );
    let app = TestApp::with_settings(queue([fails]), &nightly(&[])).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app, &at("daily 13:00"));
    look(&app).await;
    wait_for_schedule(&app, "name = 'nightly/drift'").await;
    order(&app, "drift", ScheduleOrder::Trigger).await;
    assert_eq!(ended_fires(&app, 1).await, ["failed"]);
    assert_eq!(newest_reason(&app, "drift").await, "the step `look` failed");

    // The schedule stays, and the definitions of the newest commit cannot be used.
    publish(&app, "pipelines: {drift: {}}\n");
    order(&app, "drift", ScheduleOrder::Trigger).await;
    assert_eq!(ended_fires(&app, 2).await, ["failed", "failed"]);
    let why = newest_reason(&app, "drift").await;
    let begin = "The pipelines of `infra` cannot be used as they are, so their times stay as they were: \
                 .drydock/pipelines.yaml:1:pipelines.drift.steps: is required; ";
    assert!(why.starts_with(begin) && !why.contains('\n'), "{why}");
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);

    let data = format!("data.directory={}", app.demo.data().display());
    let arguments = ["schedule", "history", "nightly/drift", "--set", data.as_str()];
    let shown = tokio::task::block_in_place(|| Shell::new().run(&arguments));
    let last = shown.out.lines().last().unwrap_or_default();
    assert!(
        last.contains(" failed ") && last.ends_with("the step `look` failed"),
        "{shown:?}"
    );
}

#[test]
fn the_next_times_of_pipelines_are_shown_by_commands() {
    let file = drift("{chat: {}}, {schedule: {cron: 'daily 13:00', time_zone: Europe/Berlin}}");
    let shell = Shell::with_repository(&[(FILE, &file)]);
    let listed = shell.run(&["pipeline", "list"]);
    let shown = "chat; schedule daily 13:00 in Europe/Berlin, next ";
    assert!(listed.out.contains(shown), "{listed:?}");
    let listed = shell.run(&["pipeline", "list", "--json"]).json();
    let next = listed["pipelines"][0]["next_times"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(next.ends_with(" 13:00 Europe/Berlin"), "{next}");
    let explained = shell.run(&["pipeline", "explain", "drift", "--json"]).json();
    let rows = explained["values"].as_array().unwrap();
    let times = rows.iter().find(|row| row["setting"] == "triggers[1].next_times");
    let times = times.unwrap()["value"].as_str().unwrap();
    assert_eq!(times.matches(" 13:00").count(), 3, "{times}");

    let shell = cli_check::shell("prompts/release.md", "main");
    let configuration = format!(
        "{}\n[schedules.nightly]\npipelines = true\nrepository = \"infra\"\npost_to = {{ channel = \"bot\", chat = \"1\" }}\n",
        shell.get("drydock.toml")
    );
    shell.put("drydock.toml", &configuration);
    let found = |shell: &Shell| {
        let checked = shell.run(&["check", "--json"]).json();
        let findings = checked["findings"].as_array().unwrap();
        let of_schedule = findings
            .iter()
            .find(|finding| finding["what"] == "schedule nightly");
        let finding = of_schedule.unwrap();
        (
            finding["ok"].as_bool().unwrap(),
            finding["detail"].as_str().unwrap().to_owned(),
        )
    };
    let none = found(&shell);
    assert!(none.0 && none.1.contains("is not on the branch"), "{none:?}");
    let infra = shell.home().join("infra");
    let write = |text: &str| {
        commit_changes(&infra, &[(FILE, Some((EntryKind::Blob, text.as_bytes())))]);
    };
    write(&file);
    let (is_ok, detail) = found(&shell);
    assert!(is_ok && detail.starts_with("drift next "), "{detail}");
    assert!(detail.ends_with(" 13:00 Europe/Berlin"), "{detail}");
    write(&file.replace("daily 13:00", "daily 25:00"));
    let (is_ok, detail) = found(&shell);
    let key = format!("{FILE}:4:pipelines.drift.triggers[1].schedule.cron");
    assert!(!is_ok && detail.starts_with(&key), "{detail}");
}
