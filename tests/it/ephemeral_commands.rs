//! Commands in a group of Telegram that only their sender and the bot see, and so do their answers.

use crate::support::app::TestApp;
use crate::support::world;
use drydock::simulation::emulator::model::{AnswerQueue, queue};
use drydock::simulation::emulator::telegram::{PostedMessage, TelegramFault};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

const ANNA: i64 = 4_201;
/// The account of Eve, who was not invited.
const EVE: i64 = 667;
const GROUP: i64 = -100_777;

/// Returns the time of the gateway.
fn now() -> Timestamp {
    world::now::<0>()
}

fn nobody_asks() -> AnswerQueue {
    queue([])
}

/// Returns a gateway with Anna and a group.
async fn gateway() -> TestApp {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_telegram_editor(ANNA).await;
    app.demo.telegram.add_group(GROUP, &[]);
    app
}

/// Writes a command that only the user and the bot see.
async fn say_ephemerally(app: &TestApp, user: i64, text: &str, sent_at: Timestamp) {
    let sent = app
        .demo
        .telegram
        .say_ephemerally(user, GROUP, text, sent_at)
        .await;
    sent.unwrap();
}

async fn wait_for_ephemeral(app: &TestApp, user: i64, text: &str) -> PostedMessage {
    app.wait_for_telegram(text, || {
        let mut shown = app.demo.telegram.ephemeral_messages(user, GROUP).into_iter();
        shown.rfind(|shown| shown.text.contains(text))
    })
    .await
}

/// Asserts that the group shows nothing, and that Telegram had nothing to complain about.
async fn assert_group_is_quiet(app: &TestApp) {
    app.wait_until_idle().await;
    assert_eq!(app.demo.telegram.messages(GROUP), Vec::new());
    assert_eq!(app.demo.telegram.problems(), Vec::<String>::new());
    assert_eq!(app.model_requests().len(), 0);
}

#[tokio::test]
async fn a_command_that_only_its_sender_sees_is_answered_to_them_alone() {
    let app = gateway().await;
    let seen = app.demo.telegram.messages(ANNA).len();
    say_ephemerally(&app, ANNA, "/help@drydock_bot", now()).await;
    wait_for_ephemeral(&app, ANNA, "what is running").await;
    say_ephemerally(&app, ANNA, "/status", now()).await;
    app.wait_for_telegram("two answers", || {
        (app.demo.telegram.ephemeral_messages(ANNA, GROUP).len() == 2).then_some(())
    })
    .await;
    assert_group_is_quiet(&app).await;
    assert_eq!(app.demo.telegram.messages(ANNA).len(), seen);
    assert_eq!(app.demo.telegram.ephemeral_messages(EVE, GROUP), Vec::new());
    // The group sees other commands, so their senders are not surprised by who reads the answer.
    let public = app.demo.telegram.say_ephemerally(ANNA, GROUP, "/diff", now());
    assert!(public.await.is_none());
}

/// T01
#[tokio::test]
async fn an_outsider_is_refused_where_only_they_see_it_once_a_day() {
    let app = gateway().await;
    for _ in 0..3 {
        say_ephemerally(&app, EVE, "/status", now()).await;
    }
    wait_for_ephemeral(
        &app,
        EVE,
        "Not authorised. I did nothing with that message (0 tokens).",
    )
    .await;
    // In a message that everybody sees, an outsider gets no answer.
    app.demo
        .telegram
        .say(EVE, GROUP, "@drydock_bot delete prod")
        .await;
    assert_group_is_quiet(&app).await;
    assert_eq!(app.demo.telegram.ephemeral_messages(EVE, GROUP).len(), 1);
    assert_eq!(app.demo.telegram.messages(EVE), Vec::new());
    assert_eq!(app.audit_lines_with("auth.denied").len(), 1);
}

#[tokio::test]
async fn a_late_or_refused_ephemeral_answer_goes_to_the_persons_own_chat() {
    let app = gateway().await;
    let late = now().checked_sub(SignedDuration::from_secs(20)).unwrap();
    say_ephemerally(&app, ANNA, "/help", late).await;
    app.wait_for_telegram_message(ANNA, "what is running").await;
    let seen = app.demo.telegram.messages(ANNA).len();
    for method in ["sendMessage", "sendRichMessage"] {
        let refused = TelegramFault::Refused(400, "Bad Request: MESSAGE_ID_INVALID".to_owned());
        app.demo.telegram.fail(method, 1, refused);
    }
    say_ephemerally(&app, ANNA, "/help", now()).await;
    app.wait_for_telegram("the second answer", || {
        (app.demo.telegram.messages(ANNA).len() > seen).then_some(())
    })
    .await;
    assert_group_is_quiet(&app).await;
    assert_eq!(app.demo.telegram.messages(ANNA).len(), seen + 1);
    assert_eq!(app.demo.telegram.ephemeral_messages(ANNA, GROUP), Vec::new());
}

/// Words would start work whose result everybody sees.
#[tokio::test]
async fn ephemeral_words_start_nothing() {
    let app = gateway().await;
    let update = json!({"update_id": 77_000, "message": {"message_id": 0, "ephemeral_message_id": 9,
        "date": now().as_second(), "chat": {"id": GROUP, "type": "supergroup"},
        "from": {"id": ANNA, "is_bot": false, "first_name": "Anna"}, "text": "@drydock_bot four in dev",
        "entities": [{"type": "mention", "offset": 0, "length": 12}]}});
    app.demo.telegram.send_update(update).await;
    app.wait_for_telegram("an empty queue", || {
        (app.demo.telegram.updates_waiting() == 0).then_some(())
    })
    .await;
    assert_group_is_quiet(&app).await;
}

#[tokio::test]
async fn a_server_without_ephemeral_commands_shows_them_to_everybody() {
    let app = gateway().await;
    app.demo.telegram.forget_rich_messages();
    let hidden = app.demo.telegram.say_ephemerally(ANNA, GROUP, "/help", now());
    assert!(hidden.await.is_none());
    app.demo.telegram.say(ANNA, GROUP, "/help@drydock_bot").await;
    app.wait_for_telegram_message(GROUP, "what is running").await;
}
