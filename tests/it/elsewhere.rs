//! Commands typed where the app is not: Slack lets people type them everywhere.

use crate::support::app::{TestApp, visible};
use crate::support::log::Log;
use drydock::demo::stage::SLACK_CHANNEL;
use drydock::emulator::model::{Asked, Queue, queue, says};
use drydock::emulator::slack::Fault;
use drydock::store::Letters;

const ALICE: &str = "U0ALICE";
const EVE: &str = "U0EVE";
/// A private channel without the app, and a chat of two people.
const ELSEWHERE: [&str; 2] = ["C0PRIVATE", "D0TWO"];

fn nobody_asks() -> Queue {
    queue([])
}

async fn app() -> TestApp {
    let app = TestApp::new(nobody_asks()).await;
    app.slack_editor(ALICE).await;
    app.slack_stranger(EVE);
    for place in ELSEWHERE {
        app.stage.slack.add_channel_without_bot(place, &[ALICE, EVE]);
    }
    app
}

/// Waits for a text that somebody alone is shown in a place.
async fn whisper(app: &TestApp, user: &str, place: &str, says: &str) -> String {
    app.slack(&format!("{says} in {place}"), |state| {
        let whispers = state.ephemerals.iter();
        let mut here = whispers.filter(|message| message.channel == place && message.user == user);
        here.find_map(|message| Some(visible(message)).filter(|text| text.contains(says)))
    })
    .await
}

#[tokio::test]
async fn a_command_typed_where_the_app_is_not_is_answered_there_to_its_person_alone() {
    let log = Log::capture();
    let app = app().await;
    for place in ELSEWHERE {
        app.stage.slack.slash(ALICE, place, "help").await.unwrap();
        whisper(&app, ALICE, place, "what is running").await;
        app.stage.slack.slash(ALICE, place, "status").await.unwrap();
        whisper(&app, ALICE, place, "Delivery").await;
    }
    app.until_idle().await;
    assert_eq!(app.stage.slack.problems(), Vec::<String>::new());
    assert_eq!(
        app.count("SELECT count(*) FROM outbox WHERE state <> 'delivered'"),
        0
    );
    // The address is a credential: it is nowhere once it was used.
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
    assert!(!log.text().contains("/commands/"), "the address is in the log");
    let held =
        app.column("SELECT inbound || coalesce((SELECT group_concat(body) FROM outbox), '') FROM inbox");
    assert!(held.iter().all(|text| !text.contains("/commands/")), "{held:?}");
}

/// T01, T94
#[tokio::test]
async fn a_stranger_and_an_invite_are_answered_where_the_app_is_not() {
    let app = app().await;
    app.stage.slack.slash(EVE, "C0PRIVATE", "status").await.unwrap();
    whisper(&app, EVE, "C0PRIVATE", "Not authorised").await;
    let token = app.invite("bob", drydock::access::Role::Editor, &["**"]).await;
    app.slack_stranger("U0BOB");
    app.stage
        .slack
        .add_channel_without_bot("D0BOB", &["U0BOB", ALICE]);
    app.stage
        .slack
        .slash("U0BOB", "D0BOB", &format!("join {token}"))
        .await
        .unwrap();
    whisper(&app, "U0BOB", "D0BOB", "You're in, bob.").await;
    app.until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
    assert_eq!(app.asked().len(), 0);
}

/// R17
#[tokio::test]
async fn an_answer_that_waits_for_slack_goes_out_after_a_restart_where_it_was_asked_for() {
    let mut app = app().await;
    let down = Fault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.stage.slack.fail_all("response_url", down);
    app.stage.slack.slash(ALICE, "C0PRIVATE", "help").await.unwrap();
    app.slack("a try", |state| {
        let calls = state.calls.iter();
        let mut refused = calls.filter(|call| call.refused.as_deref() == Some("not_in_channel"));
        refused.next().map(|_| ())
    })
    .await;
    app.restart().await;
    app.stage.slack.recover("response_url");
    whisper(&app, ALICE, "C0PRIVATE", "what is running").await;
    app.until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM response_url"), 0);
}

/// A letter that was given up is told of once, in words of whoever missed it, and only where it was missed.
#[tokio::test]
async fn a_status_tells_once_what_was_not_delivered_where_it_is_asked() {
    let app = TestApp::new(|_: &Asked| says("Here.")).await;
    app.slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "hello").await.thread;
    let other = app.ask(ALICE, "hello again").await.thread;
    app.until_idle().await;
    let gone = Fault::Refuse("is_archived".to_owned());
    app.stage.slack.fail_next("chat.postMessage", 2, gone);
    app.say_in(ALICE, &thread, "!help").await;
    app.until_idle().await;
    let elsewhere = app.command_in(ALICE, &other, "!status").await;
    assert!(elsewhere.contains("everything is sent"), "{elsewhere}");
    let told = app.command_in(ALICE, &thread, "!status").await;
    assert!(
        told.contains(
            "not delivered here: an answer; whoever runs this server can have it sent again until "
        ),
        "{told}"
    );
    assert!(!told.contains("drydock outbox"), "{told}");
    let again = app.command_in(ALICE, &thread, "!status").await;
    assert!(again.contains("everything is sent"), "{again}");
    let which = Letters::Channel("slack".to_owned());
    app.operator(drydock::admin::Request::OutboxRetry { which }).await;
    app.slack_message(SLACK_CHANNEL, "what is running").await;
    app.until_idle().await;
}
