//! Schedules of the configuration and of people, through the whole gateway.

use crate::support::app::{BOUND, TestApp, visible_text};
use crate::support::world::{advance, world};
use drydock::base::model::FireOutcome;
use drydock::engine::admin::{AdminReply, AdminRequest, ScheduleOrder};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::state::access::Role;
use drydock::state::store::ScheduleFire;
use serde_json::json;
use std::time::Duration;

/// Returns the settings of a schedule that is due an hour after the time of a test begins, with others.
fn nightly(others: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let settings = [
        ("schedules.nightly.when", "daily 13:00"),
        ("schedules.nightly.words", "Promote web to 1.9.0 in dev."),
        ("schedules.nightly.repository", "infra"),
        ("schedules.nightly.post_to.channel", "slack"),
        ("schedules.nightly.post_to.chat", SLACK_CHANNEL),
    ];
    [&settings, others].concat()
}

/// Makes the gateway see that the clock was moved.
pub(crate) fn wake(app: &TestApp) {
    app.demo.app.as_ref().unwrap().gateway.schedules.wake();
}

/// Waits until so many fires have ended, and returns their outcomes, the oldest first.
pub(crate) async fn ended_fires(app: &TestApp, count: usize) -> Vec<String> {
    let started = std::time::Instant::now();
    loop {
        let outcomes = app.column("SELECT outcome FROM schedule_fire WHERE outcome IS NOT NULL ORDER BY due");
        if outcomes.len() >= count {
            app.wait_until_idle().await;
            return outcomes;
        }
        assert!(started.elapsed() < BOUND, "only these have ended: {outcomes:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn posts(app: &TestApp, channel: &str) -> Vec<String> {
    app.demo.slack.with_state(|state| {
        let messages = state.messages.iter();
        let bots = messages.filter(|message| message.channel == channel && !message.request.is_null());
        bots.map(visible_text).collect()
    })
}

async fn order(app: &TestApp, order: ScheduleOrder) -> AdminReply {
    let which = "nightly".to_owned();
    app.send_admin_request(AdminRequest::Schedule { which, order })
        .await
}

/// STK-5, STK-8
#[tokio::test]
async fn a_configured_schedule_posts_its_change_once_and_is_quiet_without_one() {
    const CLOCK: usize = 12;
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3", "new": "web:1.9.0"});
    let answers = [
        calls("file_edit", edit),
        says("Prepared."),
        says("Nothing to do."),
        says("Nothing to do again."),
    ];
    let mut app = TestApp::with_host(queue(answers), world::<CLOCK>(), &nightly(&[])).await;
    wake(&app);
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM schedule_fire"), 0);

    advance::<CLOCK>(3_600);
    wake(&app);
    let post = app.wait_for_slack_message(SLACK_CHANNEL, "is ready").await;
    let text = visible_text(&post);
    assert!(text.contains("Started by the schedule nightly."), "{text}");
    let requests = app.model_requests();
    let asked = requests[0].last_user_text();
    assert!(asked.contains("Promote web to 1.9.0 in dev."), "{asked}");
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    wake(&app);
    app.wait_until_idle().await;
    let before = posts(&app, SLACK_CHANNEL);
    assert_eq!(before.iter().filter(|post| post.contains("is ready")).count(), 1);

    // The next day nothing changes. Then three days pass without a server, which are made up for once.
    advance::<CLOCK>(86_400);
    wake(&app);
    assert_eq!(ended_fires(&app, 2).await, ["done", "done"]);
    app.demo.stop().await;
    advance::<CLOCK>(3 * 86_400);
    app.demo.start().await.unwrap();
    assert_eq!(ended_fires(&app, 3).await, ["done", "done", "done"]);
    assert_eq!(posts(&app, SLACK_CHANNEL), before);
    let AdminReply::Schedules { schedules } = app.send_admin_request(AdminRequest::Schedules).await else {
        panic!("no list");
    };
    let [listed] = schedules.as_slice() else {
        panic!("{schedules:?}");
    };
    assert_eq!(listed.owner_name.as_deref(), Some("schedule:nightly"));
    assert!(
        listed.last.is_some() && listed.due.to_string().ends_with("T13:00:00Z"),
        "{listed:?}"
    );
}

/// STK-5
#[tokio::test]
async fn a_persons_schedule_begins_with_a_confirmation_and_ends_with_their_access() {
    const CLOCK: usize = 13;
    const ALICE: &str = "U0ALICE";
    const DIRECT: &str = "DU0ALICE";
    let app = TestApp::with_host(queue([says("All images are current.")]), world::<CLOCK>(), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    let slack = &app.demo.slack;
    slack
        .dm(
            ALICE,
            "!schedule add images \"every 1m\" \"Which images are old?\"",
        )
        .await
        .unwrap();
    app.wait_for_slack_message(DIRECT, "at least 5 minutes are between two times")
        .await;
    // A slash command may come from a chat to which nothing can be posted.
    let words = "schedule add images \"daily 13:00\" \"Which images are old?\"";
    slack.slash(ALICE, DIRECT, words).await.unwrap();
    app.wait_for_slack_message(DIRECT, "Write !schedule add … as a message to me here")
        .await;
    slack
        .dm(
            ALICE,
            "!schedule add images \"daily 13:00\" \"Which images are old?\"",
        )
        .await
        .unwrap();
    let offer = app
        .wait_for_slack_message(DIRECT, "Nothing is created yet.")
        .await;
    let text = visible_text(&offer);
    assert!(
        text.contains("The next times are Sat 21 Nov 2026 13:00, Sun 22 Nov 2026 13:00"),
        "{text}"
    );
    assert_eq!(app.count("SELECT count(*) FROM schedule"), 0);
    slack.click(ALICE, &offer.ts, "Create").await.unwrap();
    app.wait_for_slack_message(DIRECT, "The schedule images is on")
        .await;

    advance::<CLOCK>(3_600);
    wake(&app);
    let answer = app
        .wait_for_slack_message(DIRECT, "All images are current.")
        .await;
    assert!(
        visible_text(&answer).contains("Started by the schedule images."),
        "{answer:?}"
    );
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    slack.dm(ALICE, "!schedule list").await.unwrap();
    app.wait_for_slack_message(DIRECT, "last done").await;

    // A revoked person's schedule is off at once. Nothing is said about it.
    app.wait_until_idle().await;
    let told = posts(&app, DIRECT);
    app.revoke(ALICE).await;
    assert_eq!(app.column("SELECT off_why FROM schedule"), ["access was revoked"]);
    advance::<CLOCK>(86_400);
    wake(&app);
    app.wait_until_idle().await;
    assert_eq!(posts(&app, DIRECT), told);
    assert_eq!(app.count("SELECT count(*) FROM schedule_fire"), 1);
    assert_eq!(app.model_requests().len(), 1);
}

/// STK-19, STK-20, STK-21
#[tokio::test]
async fn three_failures_in_a_row_pause_a_schedule_until_it_is_turned_on() {
    let fails = |_: &ModelRequest| {
        says("Never said.").with_fault(AnswerFault::Status {
            status: 400,
            headers: Vec::new(),
            body: "{}".to_owned(),
        })
    };
    let app = TestApp::with_settings(fails, &nightly(&[])).await;
    for count in 1..=3 {
        let started = order(&app, ScheduleOrder::Trigger).await;
        assert!(
            matches!(started, AdminReply::ScheduleChanged { .. }),
            "{started:?}"
        );
        assert_eq!(ended_fires(&app, count).await, vec!["failed"; count]);
    }
    let paused = "The schedule nightly is paused: 3 fires in a row failed. drydock schedule enable nightly";
    app.wait_for_slack_message(SLACK_CHANNEL, paused).await;
    assert_eq!(
        app.column("SELECT off_why FROM schedule"),
        ["3 fires in a row failed"]
    );
    let AdminReply::ScheduleFires { fires, .. } = order(&app, ScheduleOrder::History).await else {
        panic!("no fires");
    };
    assert!(
        fires.is_sorted_by(|newer, older| newer.due > older.due),
        "{fires:?}"
    );
    let ended = |fire: &ScheduleFire| fire.outcome == Some(FireOutcome::Failed) && fire.ended_at.is_some();
    assert!(fires.len() == 3 && fires.iter().all(ended), "{fires:?}");
    let is_told = |fire: &ScheduleFire| {
        fire.why
            .as_ref()
            .is_some_and(|why| why.starts_with("No answer: "))
    };
    assert!(fires.iter().all(is_told), "{fires:?}");
    let AdminReply::ScheduleChanged { done, .. } = order(&app, ScheduleOrder::Enable).await else {
        panic!("not turned on");
    };
    assert_eq!(done, "on");
    assert_eq!(
        app.count("SELECT count(*) FROM schedule WHERE off_why IS NULL AND failures = 0"),
        1
    );
}

/// Waits until there is a schedule of which this is true.
pub(crate) async fn wait_for_schedule(app: &TestApp, is_true: &str) {
    let started = std::time::Instant::now();
    while app.count(&format!("SELECT count(*) FROM schedule WHERE {is_true}")) == 0 {
        assert!(started.elapsed() < BOUND, "no schedule with {is_true}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_delays_no_schedule_and_one_without_its_channel_is_off() {
    const CLOCK: usize = 15;
    const AHEAD: i64 = 40 * 86_400;
    // 13:00 on the day on which the time of a test begins, and on the next one.
    let (first, second) = ("due = 1795266000000", "due = 1795352400000");
    let answers = [says("Nothing to do."), says("Nothing to do again.")];
    let mut app = TestApp::with_host(queue(answers), world::<CLOCK>(), &nightly(&[])).await;
    advance::<CLOCK>(AHEAD);
    wake(&app);
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    advance::<CLOCK>(-AHEAD);
    wake(&app);
    wait_for_schedule(&app, first).await;
    // The first time has fired while the clock was ahead.
    advance::<CLOCK>(3_600);
    wake(&app);
    wait_for_schedule(&app, second).await;

    // The same with a restart in between.
    advance::<CLOCK>(AHEAD);
    wake(&app);
    assert_eq!(ended_fires(&app, 2).await, ["done", "done"]);
    app.demo.stop().await;
    advance::<CLOCK>(-AHEAD);
    app.demo.start().await.unwrap();
    wait_for_schedule(&app, second).await;
    assert_eq!(app.model_requests().len(), 2);

    app.alter_database("UPDATE schedule SET definition = json_set(definition, '$.channel', 'gone')");
    advance::<CLOCK>(86_400);
    wake(&app);
    wait_for_schedule(&app, "off_why = 'its channel is not configured any more'").await;
    app.alter_database("UPDATE schedule SET off_why = NULL");
    let AdminReply::Failed { why } = order(&app, ScheduleOrder::Trigger).await else {
        panic!("started");
    };
    assert_eq!(
        why,
        "nothing was started: `nightly` is off, because its channel is not configured any more"
    );
    wait_for_schedule(&app, "off_why = 'its channel is not configured any more'").await;
    assert_eq!(app.count("SELECT count(*) FROM schedule_fire"), 2);
}

#[tokio::test]
async fn a_schedule_that_is_turned_off_stops_its_work() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let app = TestApp::with_settings(stalls, &nightly(&[])).await;
    order(&app, ScheduleOrder::Trigger).await;
    app.wait_for_model_requests(1).await;
    let AdminReply::ScheduleChanged { done, .. } = order(&app, ScheduleOrder::Disable).await else {
        panic!("not turned off");
    };
    assert_eq!(done, "off, and its work stops");
    assert_eq!(ended_fires(&app, 1).await, ["stopped"]);
    assert_eq!(
        app.column("SELECT off_why FROM schedule"),
        ["turned off by the operator"]
    );
}

#[tokio::test]
async fn times_without_a_server_are_left_out_if_the_schedule_says_so() {
    const CLOCK: usize = 14;
    let settings = nightly(&[("schedules.nightly.missed", "skip")]);
    let mut app = TestApp::with_host(queue([]), world::<CLOCK>(), &settings).await;
    app.demo.stop().await;
    advance::<CLOCK>(2 * 86_400);
    app.demo.start().await.unwrap();
    assert_eq!(ended_fires(&app, 1).await, ["missed"]);
    assert_eq!(app.model_requests().len(), 0);
}
