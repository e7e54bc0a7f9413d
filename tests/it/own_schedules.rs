//! The changes that people make to their own schedules in a chat. Nobody else lists, starts, turns off or removes one.

use crate::schedules::{ended_fires, wait_for_schedule, wake};
use crate::support::app::{TestApp, visible_text};
use crate::support::shell::Shell;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, queue, says};
use drydock::state::access::{Grant, Role};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const DIRECT: &str = "DU0ALICE";

/// Returns the messages of the bot in the private chat of a person, without marks of code.
fn private_messages(app: &TestApp, user: &str) -> Vec<String> {
    let channel = format!("D{user}");
    app.demo.slack.with_state(|state| {
        let messages = state.messages.iter();
        let bots = messages.filter(|message| message.channel == channel && !message.request.is_null());
        bots.map(|message| visible_text(message).replace('`', ""))
            .collect()
    })
}

/// Sends a message to the bot, and returns what is posted to the person until nothing is left to do.
async fn told(app: &TestApp, user: &str, message: &str) -> String {
    let seen = private_messages(app, user).len();
    app.demo.slack.dm(user, message).await.unwrap();
    app.wait_until_idle().await;
    private_messages(app, user).split_off(seen).join("\n")
}

/// Adds a schedule of Alice, and returns the question about it.
async fn add(app: &TestApp, name: &str) -> String {
    add_with(app, name, "").await
}

/// Adds a schedule like [`add`], with more words at the end of the message.
async fn add_with(app: &TestApp, name: &str, more: &str) -> String {
    let words =
        format!("!schedule add {name} \"daily 14:00 Europe/Berlin\" \"Which images are old?\" {more}");
    app.demo.slack.dm(ALICE, &words).await.unwrap();
    let question = format!("Schedule {name}: daily 14:00");
    let offer = app.wait_for_slack_message(DIRECT, &question).await;
    app.demo.slack.click(ALICE, &offer.ts, "Create").await.unwrap();
    let created = format!("The schedule {name} is on");
    app.wait_for_slack_message(DIRECT, &created).await;
    app.wait_until_idle().await;
    visible_text(&offer)
}

fn assert_told(answer: &str, words: &str) {
    assert!(answer.contains(words), "{words}: {answer}");
}

/// STK-21
#[tokio::test(flavor = "multi_thread")]
async fn a_person_changes_their_own_schedules_in_a_chat_and_those_of_nobody_else() {
    let app = TestApp::with_settings(queue([says("All images are current.")]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    app.admit_slack_user(BOB, Role::Admin, &["**"]).await;
    let question = add(&app, "images").await;
    let times = "in the time zone Europe/Berlin. The next times are Sat 21 Nov 2026 14:00, Sun 22 Nov 2026 14:00, Mon 23 Nov \
                 2026 14:00";
    assert_told(&question, times);
    // It is 13:00 in UTC.
    wait_for_schedule(&app, "due = 1795266000000").await;

    for verb in ["history", "trigger", "disable", "enable", "remove"] {
        let answer = told(&app, BOB, &format!("!schedule {verb} images")).await;
        let absent = told(&app, BOB, &format!("!schedule {verb} absent")).await;
        assert_told(&answer, "You have no schedule images; !schedule list shows all.");
        assert_eq!(answer, absent.replace("absent", "images"), "{verb}");
    }
    assert_told(&told(&app, BOB, "!schedule list").await, "You have no schedule.");
    let state = "SELECT COALESCE(off_why, 'on') FROM schedule";
    assert_eq!(app.column(state), ["on"]);
    assert_eq!(app.count("SELECT count(*) FROM schedule_fire"), 0);

    let own = async |words: &str| told(&app, ALICE, &format!("!schedule {words}")).await;
    assert_told(&own("history images").await, "images has not fired yet");
    let worked = own("trigger images").await;
    assert_told(&worked, "The work of images begins now.");
    assert_told(&worked, "All images are current.");
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    assert_told(&own("history images").await, "done");
    let data = format!("data.directory={}", app.demo.data().display());
    let history = |more: &[&str]| {
        let arguments = [
            &["schedule", "history", "images", "--set", data.as_str()][..],
            more,
        ]
        .concat();
        tokio::task::block_in_place(|| Shell::new().run(&arguments))
    };
    let shown = history(&[]);
    assert!(
        shown.code == Some(0) && shown.out.starts_with("DUE") && shown.out.contains("  done  "),
        "{shown:?}"
    );
    let fires = history(&["--json"]).json()["fires"].clone();
    assert_eq!(
        (&fires[0]["outcome"], &fires[1]),
        (&json!("done"), &json!(null)),
        "{fires}"
    );

    assert_told(&own("disable images").await, "The schedule images is off.");
    assert_eq!(app.column(state), ["turned off by U0ALICE"]);
    assert_told(&own("disable images").await, "images is off already.");
    assert_told(&own("list").await, "off: turned off by U0ALICE");
    assert_told(&own("enable images").await, "The schedule images is on.");
    assert_told(&own("list").await, "next Sat 21 Nov 2026 14:00");
    assert_told(&own("remove images").await, "The schedule images is removed.");
    assert_told(&own("history images").await, "You have no schedule images");
    assert_eq!(app.count("SELECT count(*) FROM schedule"), 0);
}

/// A quiet schedule that found nothing is silent, also for the person who has just started its work.
#[tokio::test]
async fn who_starts_the_work_of_a_quiet_schedule_is_told_that_nothing_may_follow() {
    let app = TestApp::with_settings(queue([says("All images are current.")]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    add_with(&app, "images", "quiet").await;
    let worked = told(&app, ALICE, "!schedule trigger images").await;
    assert_told(
        &worked,
        "The work of images begins now. It is quiet: its result comes only if something changes or fails.",
    );
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    let messages = private_messages(&app, ALICE).join("\n");
    assert!(!messages.contains("All images are current."), "{messages}");
}

#[tokio::test]
async fn a_schedule_whose_person_has_no_grant_any_more_is_off_at_its_next_time_and_says_so_once() {
    let app = TestApp::with_settings(queue([]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    add(&app, "images").await;
    let elsewhere = AdminRequest::Grant {
        which: ALICE.to_owned(),
        grant: Grant {
            role: Role::Viewer,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    let granted = app.send_admin_request(elsewhere).await;
    assert!(matches!(granted, AdminReply::Granted { .. }), "{granted:?}");
    let seen = private_messages(&app, ALICE).len();
    app.alter_database("UPDATE schedule SET due = 1");
    wake(&app);
    wait_for_schedule(&app, "off_why = 'there is no grant for `infra` any more'").await;
    wake(&app);
    app.wait_until_idle().await;
    let off = "The schedule images is off: there is no grant for infra any more.";
    let told = private_messages(&app, ALICE).split_off(seen);
    let notices = told.iter().filter(|message| message.contains(off));
    assert_eq!(notices.count(), 1, "{told:?}");
    assert_eq!(app.count("SELECT count(*) FROM schedule_fire"), 0);
}

#[tokio::test]
async fn the_history_says_why_work_failed_to_a_person_who_may_still_read_the_repository() {
    let refuses = |_: &ModelRequest| {
        says("Never said.").with_fault(AnswerFault::Status {
            status: 400,
            headers: Vec::new(),
            body: "{}".to_owned(),
        })
    };
    let app = TestApp::with_settings(refuses, &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    add(&app, "images").await;
    told(&app, ALICE, "!schedule trigger images").await;
    assert_eq!(ended_fires(&app, 1).await, ["failed"]);
    let history = told(&app, ALICE, "!schedule history images").await;
    assert_told(&history, "failed: No answer: ");
    let request = AdminRequest::Grant {
        which: ALICE.to_owned(),
        grant: Grant {
            role: Role::Viewer,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    app.send_admin_request(request).await;
    let history = told(&app, ALICE, "!schedule history images").await;
    assert!(
        history.contains("failed") && !history.contains("No answer"),
        "{history}"
    );
}
