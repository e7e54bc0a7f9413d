//! Commands in channels without the app. Slack allows commands everywhere.

use crate::support::app::{TestApp, visible_text};
use crate::support::log::LogCapture;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerQueue, ModelRequest, queue, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::store::DeadLetterFilter;

const ALICE: &str = "U0ALICE";
const EVE: &str = "U0EVE";
/// A private channel without the app, and a direct chat of two people.
const ELSEWHERE: [&str; 2] = ["C0PRIVATE", "D0TWO"];

fn nobody_asks() -> AnswerQueue {
    queue([])
}

async fn app() -> TestApp {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_slack_editor(ALICE).await;
    app.add_slack_account(EVE);
    for place in ELSEWHERE {
        app.demo.slack.add_channel_without_bot(place, &[ALICE, EVE]);
    }
    app
}

/// Waits for an ephemeral message to a person in a channel.
async fn wait_for_ephemeral(app: &TestApp, user: &str, place: &str, says: &str) -> String {
    app.wait_for_slack(&format!("{says} in {place}"), |state| {
        let ephemerals = state.ephemerals.iter();
        let mut here = ephemerals.filter(|message| message.channel == place && message.user == user);
        here.find_map(|message| Some(visible_text(message)).filter(|text| text.contains(says)))
    })
    .await
}

#[tokio::test]
async fn a_command_in_a_channel_without_the_app_is_answered_to_its_sender_alone() {
    let log = LogCapture::capture();
    let app = app().await;
    for place in ELSEWHERE {
        app.demo.slack.slash(ALICE, place, "help").await.unwrap();
        wait_for_ephemeral(&app, ALICE, place, "what is running").await;
        app.demo.slack.slash(ALICE, place, "status").await.unwrap();
        wait_for_ephemeral(&app, ALICE, place, "Delivery").await;
    }
    app.wait_until_idle().await;
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
    assert_eq!(
        app.count("SELECT count(*) FROM outbox WHERE state <> 'delivered'"),
        0
    );
    // The address is a credential. It is deleted after its use.
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
    assert!(!log.text().contains("/commands/"), "the address is in the log");
    let held =
        app.column("SELECT inbound || coalesce((SELECT group_concat(body) FROM outbox), '') FROM inbox");
    assert!(held.iter().all(|text| !text.contains("/commands/")), "{held:?}");
}

/// T01, T94
#[tokio::test]
async fn unknown_senders_and_invites_are_answered_in_channels_without_the_app() {
    let app = app().await;
    app.demo.slack.slash(EVE, "C0PRIVATE", "status").await.unwrap();
    wait_for_ephemeral(&app, EVE, "C0PRIVATE", "Not authorised").await;
    let token = app
        .invite("bob", drydock::state::access::Role::Editor, &["**"])
        .await;
    app.add_slack_account("U0BOB");
    app.demo.slack.add_channel_without_bot("D0BOB", &["U0BOB", ALICE]);
    app.demo
        .slack
        .slash("U0BOB", "D0BOB", &format!("join {token}"))
        .await
        .unwrap();
    wait_for_ephemeral(&app, "U0BOB", "D0BOB", "You're in, bob.").await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
    assert_eq!(app.model_requests().len(), 0);
}

/// R17
#[tokio::test]
async fn an_answer_that_waits_for_slack_goes_out_after_a_restart_where_it_was_asked_for() {
    let mut app = app().await;
    let down = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.demo.slack.fail_all("response_url", down);
    app.demo.slack.slash(ALICE, "C0PRIVATE", "help").await.unwrap();
    app.wait_for_slack("a try", |state| {
        let calls = state.calls.iter();
        let mut refused = calls.filter(|call| call.refused.as_deref() == Some("not_in_channel"));
        refused.next().map(|_| ())
    })
    .await;
    app.restart().await;
    app.demo.slack.recover("response_url");
    wait_for_ephemeral(&app, ALICE, "C0PRIVATE", "what is running").await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
}

/// Checks that an undelivered answer is reported once, to the person who missed it, and only in the place where it was
/// missed.
#[tokio::test]
async fn a_status_reports_undelivered_messages_once_where_it_is_asked() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "hello").await.thread;
    let other = app.ask(ALICE, "hello again").await.thread;
    app.wait_until_idle().await;
    let gone = SlackFault::Refuse("is_archived".to_owned());
    app.demo.slack.fail_next("chat.postMessage", 2, gone);
    app.say_in(ALICE, &thread, "!help").await;
    app.wait_until_idle().await;
    let elsewhere = app.run_command_in(ALICE, &other, "!status").await;
    assert!(elsewhere.contains("everything is sent"), "{elsewhere}");
    let reported = app.run_command_in(ALICE, &thread, "!status").await;
    assert!(
        reported
            .contains("not delivered here: an answer; the operator of this server can send it again until "),
        "{reported}"
    );
    assert!(!reported.contains("drydock outbox"), "{reported}");
    let again = app.run_command_in(ALICE, &thread, "!status").await;
    assert!(again.contains("everything is sent"), "{again}");
    let which = DeadLetterFilter::Channel("slack".to_owned());
    app.send_admin_request(drydock::engine::admin::AdminRequest::OutboxRetry { which })
        .await;
    app.wait_for_slack_message(SLACK_CHANNEL, "what is running").await;
    app.wait_until_idle().await;
}
