//! The gateway with telegram-test-api, a Bot API of another author, behind a proxy that adds what it lacks.

use crate::support::app::TestApp;
use crate::support::telegram_proxy::{BotMessage, ProxyFailure, TelegramProxy};
use drydock::simulation::emulator::model::{AnswerFault, AnswerQueue, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::Duration;

const ALICE: i64 = 77;
/// The account of Eve, who was not invited.
const EVE: i64 = 667;
/// The calls that Drydock makes in every run.
const CALLED: [&str; 11] = [
    "answerCallbackQuery",
    "deleteWebhook",
    "editMessageText",
    "getMe",
    "getUpdates",
    "sendDocument",
    "sendMessage",
    // Unknown there, so the turn has a card, and its result is a text.
    "sendMessageDraft",
    "sendRichMessageDraft",
    "setMessageReaction",
    "setMyCommands",
];
/// The end of every result.
const FOOTER: &str = " tokens · ";
const REFUSED: &str = "Not authorised. I did nothing with that message (0 tokens).";

/// Returns the answers for a change, in a turn that is long enough to have a card.
fn replicas() -> AnswerQueue {
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3',\n    replicas: 2,",
        "new": "web:1.8.3',\n    replicas: 4,"});
    let slow = AnswerFault::Delay(Duration::from_secs(2));
    queue([
        calls("file_edit", edit),
        says("Four replicas of web in dev.").with_fault(slow),
    ])
}

async fn gateway(telegram: &TelegramProxy, settings: &[(&str, &str)]) -> TestApp {
    let here = [("channels.telegram.api_base_url", telegram.address.as_str())];
    TestApp::with_settings(replicas(), &[&here, settings].concat()).await
}

/// Admits Alice.
async fn join(app: &TestApp, telegram: &TelegramProxy) {
    let token = app.invite("alice", Role::Editor, &["dev"]).await;
    telegram.say(ALICE, &format!("/start {token}")).await;
    telegram.wait_for_message(ALICE, "You're in").await;
}

/// Requests a change, and returns the result.
async fn change(telegram: &TelegramProxy) -> BotMessage {
    telegram.say(ALICE, "four replicas of web in dev").await;
    telegram.wait_for_message(ALICE, FOOTER).await
}

/// Waits until `count` files were sent.
async fn documents(telegram: &TelegramProxy, count: usize) {
    let is_there = |_: &[BotMessage]| (telegram.documents().len() >= count).then_some(());
    telegram.wait_for("a file", ALICE, is_there).await;
}

fn is_the_patch(content: &str) -> bool {
    content.contains("-    replicas: 2,\n") && content.contains("+    replicas: 4,\n")
}

/// T01
#[tokio::test]
async fn a_bot_api_of_another_author_plays_the_whole_story() {
    let Some(telegram) = TelegramProxy::start().await else {
        return;
    };
    let app = gateway(&telegram, &[]).await;
    for _ in 0..2 {
        telegram.say(EVE, "delete prod").await;
    }
    telegram.wait_for_message(EVE, REFUSED).await;
    join(&app, &telegram).await;
    assert_eq!(app.model_requests().len(), 0);

    let result = change(&telegram).await;
    assert!(
        result.text.contains("CHG-1 is ready: dev, 1 file, +1 −1"),
        "{result:?}"
    );
    telegram.say(ALICE, "/patch").await;
    documents(&telegram, 1).await;
    telegram.press(ALICE, &result, "Get patch").await;
    documents(&telegram, 2).await;
    app.wait_until_idle().await;
    for document in telegram.documents() {
        assert_eq!((document.chat, document.name.as_str()), (ALICE, "CHG-1.patch"));
        assert!(is_the_patch(&document.content), "{document:?}");
    }
    telegram.press(ALICE, &result, "Discard").await;
    telegram
        .wait_for("two answers", ALICE, |_| {
            (telegram.calls_of("answerCallbackQuery").len() == 2).then_some(())
        })
        .await;
    app.wait_until_idle().await;

    assert_eq!(telegram.methods(), CALLED);
    assert_eq!(telegram.messages(EVE).await.len(), 1);
    assert_eq!(app.model_requests().len(), 2);
    assert_eq!(app.audit_lines_with("auth.denied").len(), 1);
}

/// Runs all actions with each call failing once. A refused call is made later, and a repeatable call is repeated. If it
/// is unknown whether people have seen a message, one line says that it may be missing.
async fn the_story_goes_on_after(failure: ProxyFailure) {
    let Some(telegram) = TelegramProxy::start().await else {
        return;
    };
    // The number of copies of each unrepeatable message, and the number of lines that say it may be missing.
    let (seen, missing) = match failure {
        ProxyFailure::TooMany(_) => (1, 0),
        ProxyFailure::Malformed | ProxyFailure::CutAfter => (1, 1),
        ProxyFailure::Unavailable | ProxyFailure::CutBefore => (0, 1),
    };
    for method in ["getMe", "deleteWebhook", "setMyCommands"] {
        telegram.fail_next(method, failure);
    }
    let app = gateway(&telegram, &[]).await;
    join(&app, &telegram).await;

    telegram.fail_next("sendMessage", failure);
    telegram.say(ALICE, "/help").await;
    telegram.wait_for_all_failures(ALICE).await;
    app.wait_until_idle().await;
    assert_eq!(
        telegram.count(ALICE, "what is running").await,
        seen,
        "{failure:?}"
    );
    assert_eq!(
        telegram.count(ALICE, "An answer may be missing here").await,
        missing,
        "{failure:?}"
    );

    for method in ["getUpdates", "editMessageText", "setMessageReaction"] {
        telegram.fail_next(method, failure);
    }
    let result = change(&telegram).await;
    telegram.wait_for_all_failures(ALICE).await;
    app.wait_until_idle().await;
    assert_eq!(telegram.count(ALICE, FOOTER).await, 1, "{failure:?}");
    assert_eq!(telegram.count(ALICE, "Done in ").await, 1, "{failure:?}");

    for method in ["answerCallbackQuery", "sendDocument"] {
        telegram.fail_next(method, failure);
    }
    telegram.press(ALICE, &result, "Get patch").await;
    telegram.wait_for_all_failures(ALICE).await;
    app.wait_until_idle().await;
    assert_eq!(telegram.documents().len(), seen, "{failure:?}");
    let line = "The file CHG-1.patch may be missing here";
    assert_eq!(telegram.count(ALICE, line).await, missing, "{failure:?}");
    telegram.say(ALICE, "/patch").await;
    documents(&telegram, seen + 1).await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 2);
}

/// R17: the runs are concurrent, because each mostly waits.
#[tokio::test]
async fn the_story_goes_on_after_each_failure_of_each_call() {
    let failures = [
        ProxyFailure::Unavailable,
        ProxyFailure::TooMany(1),
        ProxyFailure::Malformed,
        ProxyFailure::CutBefore,
        ProxyFailure::CutAfter,
    ];
    let stories = failures.map(|failure| Box::pin(the_story_goes_on_after(failure)));
    futures_util::future::join_all(stories).await;
}

/// Checks that updates with the secret token are accepted, and no others, once `setWebhook` succeeded. A failure of it
/// comes first.
async fn what_is_pushed_needs_the_secret_token(failure: Option<ProxyFailure>) {
    let Some(telegram) = TelegramProxy::start().await else {
        return;
    };
    let settings = [
        ("channels.telegram.mode", "webhook"),
        ("channels.telegram.secret_token.env", "STAGE_HOOK_SECRET"),
        ("server.public_url", "https://drydock.example.com"),
    ];
    if let Some(failure) = failure {
        telegram.fail_next("setWebhook", failure);
    }
    let app = gateway(&telegram, &settings).await;
    telegram.push_to(&app.demo.url());
    let calls = 1 + usize::from(failure.is_some());
    join(&app, &telegram).await;
    change(&telegram).await;
    app.wait_until_idle().await;
    assert_eq!(telegram.pushes(), [200, 200], "{failure:?}");
    assert_eq!(telegram.calls_of("setWebhook").len(), calls, "{failure:?}");
    assert_eq!(telegram.calls_of("getUpdates").len(), 0);
    // In the form in which the emulator pushes it.
    let update = json!({"update_id": 9, "message": {"message_id": 9, "date": 1, "text": "delete prod",
        "chat": {"id": ALICE, "type": "private"}, "from": {"id": ALICE, "is_bot": false, "first_name": "Test"}}});
    let (status, _) = app
        .post(
            "/in/telegram",
            &[("content-type", "application/json")],
            update.to_string().as_bytes(),
        )
        .await;
    assert_eq!(status, 401);
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 2);
}

/// R17
#[tokio::test]
async fn what_a_bot_api_of_another_author_pushes_needs_the_secret_token() {
    let failures = [
        None,
        Some(ProxyFailure::Unavailable),
        Some(ProxyFailure::TooMany(1)),
        Some(ProxyFailure::Malformed),
        Some(ProxyFailure::CutBefore),
        Some(ProxyFailure::CutAfter),
    ];
    let stories = failures.map(|failure| Box::pin(what_is_pushed_needs_the_secret_token(failure)));
    futures_util::future::join_all(stories).await;
}
