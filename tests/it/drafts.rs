//! The draft of a running turn in a private chat of Telegram: the words as they are written, with Telegram's own button
//! to stop them, and no message that is left over.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::telegram::ShownDraft;
use serde_json::json;

const ANNA: i64 = 4_201;

/// Holds the answers to "slowly" back.
fn held(asked: &ModelRequest) -> ScriptedAnswer {
    let fault = asked
        .last_user_text()
        .contains("slowly")
        .then_some(AnswerFault::Held);
    ScriptedAnswer {
        fault,
        ..says("Here.")
    }
}

async fn wait_for_draft(app: &TestApp, words: &str) -> ShownDraft {
    app.wait_for_telegram(words, || {
        app.demo
            .telegram
            .draft(ANNA)
            .filter(|draft| draft.text.contains(words))
    })
    .await
}

/// Returns the number of calls of a method.
fn sent(app: &TestApp, method: &str) -> usize {
    let calls = app.demo.telegram.calls();
    calls.iter().filter(|(called, _)| called == method).count()
}

#[tokio::test]
async fn a_draft_shows_the_words_that_the_model_writes_and_its_button_stops_the_turn() {
    let text = format!("I read **three** environments. {}", "One more word. ".repeat(100));
    let app =
        TestApp::new(move |_: &ModelRequest| says(text.clone()).with_fault(AnswerFault::StallAfter(2_000)))
            .await;
    app.admit_telegram_editor(ANNA).await;
    let seen = app.demo.telegram.messages(ANNA).len();
    app.demo.telegram.say(ANNA, ANNA, "hello").await;
    let draft = wait_for_draft(&app, "One more word.").await;
    assert!(draft.text.starts_with("Working, step 1"), "{draft:?}");
    assert!(draft.can_stop);
    assert_eq!(app.demo.telegram.messages(ANNA).len(), seen);
    app.demo.telegram.stop_draft(ANNA).await.unwrap();
    app.wait_for_telegram_message(ANNA, "Stopped at step 1.").await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
    assert_eq!(app.demo.telegram.draft(ANNA), None);
    let texts: Vec<String> = app
        .demo
        .telegram
        .messages(ANNA)
        .into_iter()
        .map(|posted| posted.text)
        .collect();
    let left: Vec<&String> = texts.iter().filter(|text| text.contains("Working")).collect();
    assert!(left.is_empty(), "{texts:?}");
    assert_eq!(app.demo.telegram.problems(), Vec::<String>::new());
}

/// Reads a file, and is slow to say so.
fn reads_and_waits(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_read", json!({"path": "environments/dev/main.jsonnet"})),
        _ => says("Here.").with_fault(AnswerFault::Held),
    }
}

#[tokio::test]
async fn a_draft_shows_the_calls_of_a_turn_as_boxes_or_as_lines_on_an_older_server() {
    for (is_older, line) in [(false, "☑ file_read"), (true, "✓ file_read")] {
        let app = TestApp::new(reads_and_waits).await;
        app.admit_telegram_editor(ANNA).await;
        if is_older {
            app.demo.telegram.forget_rich_messages();
        }
        app.demo.telegram.say(ANNA, ANNA, "hello").await;
        let draft = wait_for_draft(&app, line).await;
        assert_eq!(
            (draft.can_stop, draft.rich.is_none()),
            (true, is_older),
            "{draft:?}"
        );
        app.demo.model.release();
        app.wait_for_telegram("a result", || app.telegram_results(ANNA).pop())
            .await;
        app.wait_until_idle().await;
        assert_eq!(app.demo.telegram.draft(ANNA), None);
        assert_eq!(app.demo.telegram.problems(), Vec::<String>::new());
    }
}

/// The press of a button on an old draft may arrive late.
#[tokio::test]
async fn the_button_of_a_draft_stops_no_later_turn() {
    let app = TestApp::new(held).await;
    app.admit_telegram_editor(ANNA).await;
    app.demo.telegram.say(ANNA, ANNA, "slowly, the first").await;
    let first = wait_for_draft(&app, "Working").await;
    app.demo.model.release();
    app.wait_for_telegram("a result", || app.telegram_results(ANNA).pop())
        .await;
    app.wait_until_idle().await;
    let stop = json!({"update_id": 77_000, "stopped_message_generation":
        {"chat": {"id": ANNA, "type": "private"}, "draft_id": first.id}});
    app.demo.telegram.send_update(stop).await;
    app.wait_for_telegram_message(ANNA, "That turn has ended.").await;
    app.ask_telegram(ANNA, "the second").await;
    app.wait_until_idle().await;
    assert_eq!(app.telegram_results(ANNA).len(), 2);
}

#[tokio::test]
async fn a_server_without_drafts_is_asked_once_and_gets_cards() {
    let app = TestApp::new(held).await;
    app.admit_telegram_editor(ANNA).await;
    app.demo.telegram.forget_drafts();
    for turn in 1..=2 {
        app.demo.telegram.say(ANNA, ANNA, "slowly").await;
        app.wait_for_telegram_message(ANNA, "Working").await;
        app.run_telegram_command(ANNA, "/stop").await;
        app.wait_until_idle().await;
        assert_eq!(sent(&app, "sendMessageDraft"), 1, "turn {turn}");
    }
    assert_eq!(app.demo.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_group_has_cards_and_no_drafts() {
    let app = TestApp::new(held).await;
    app.admit_telegram_editor(ANNA).await;
    let chat = -100_777;
    app.demo.telegram.add_group(chat, &[]);
    app.demo.telegram.say(ANNA, chat, "@drydock_bot slowly").await;
    app.wait_for_telegram_message(chat, "Working").await;
    app.demo.model.release();
    app.wait_for_telegram("a result", || app.telegram_results(chat).pop())
        .await;
    app.wait_until_idle().await;
    for method in ["sendMessageDraft", "sendRichMessageDraft"] {
        assert_eq!(sent(&app, method), 0);
    }
}

/// T01
#[tokio::test]
async fn an_unknown_sender_stops_nothing() {
    let app = TestApp::new(held).await;
    app.admit_telegram_editor(ANNA).await;
    app.demo.telegram.say(ANNA, ANNA, "slowly").await;
    let draft = wait_for_draft(&app, "Working").await;
    app.demo.telegram.say(666, 666, "hello").await;
    let stop = json!({"update_id": 77_000, "stopped_message_generation":
        {"chat": {"id": 666, "type": "private"}, "draft_id": draft.id}});
    app.demo.telegram.send_update(stop).await;
    app.wait_for_audit_line("telegram:").await;
    app.demo.model.release();
    let result = app
        .wait_for_telegram("a result", || app.telegram_results(ANNA).pop())
        .await;
    assert!(result.text.contains("Here."), "{result:?}");
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
}
