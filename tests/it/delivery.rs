//! What shows when nobody hears whether a message was posted.

use crate::support::app::TestApp;
use drydock::emulator::model::{Asked, Fault, says};
use drydock::emulator::slack::Fault as SlackFault;
use drydock::emulator::telegram::Fault as TelegramFault;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const BOB: i64 = 7002;

/// R1, R17
#[tokio::test]
async fn a_result_slack_took_without_saying_so_is_found_and_filled() {
    for fault in [SlackFault::ResetAfter, SlackFault::ResetBefore] {
        let app = TestApp::new(|_: &Asked| says("Here.")).await;
        app.slack_editor(ALICE).await;
        app.stage.slack.fail_next("chat.postMessage", 1, fault);
        let thread = app.ask(ALICE, "hello").await.thread;
        app.until_idle().await;
        let said = app.written(&thread);
        assert!(said.len() == 1 && said[0].contains("Here."), "{said:?}");
    }
}

/// R1
#[tokio::test]
async fn a_card_slack_took_without_saying_so_is_found_and_kept_current() {
    let app = TestApp::new(|_: &Asked| says("Here.").but(Fault::Delay(Duration::from_secs(2)))).await;
    app.slack_editor(ALICE).await;
    app.stage
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    let thread = app.ask(ALICE, "hello").await.thread;
    app.until_idle().await;
    let said = app.written(&thread);
    assert!(
        said.len() == 2 && said[0].starts_with("Done in ") && said[1].contains("Here."),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_answer_to_a_command_shows_once_whether_slack_took_it_or_not() {
    for fault in [SlackFault::ResetAfter, SlackFault::ResetBefore] {
        let app = TestApp::new(|_: &Asked| says("Here.")).await;
        app.slack_editor(ALICE).await;
        let thread = app.ask(ALICE, "hello").await.thread;
        app.until_idle().await;
        app.stage.slack.fail_next("chat.postMessage", 1, fault);
        app.command_in(ALICE, &thread, "!help").await;
        app.until_idle().await;
        let said = app.written(&thread);
        assert!(said.len() == 2 && said[1].contains("what is running"), "{said:?}");
    }
}

/// Telegram shows a bot no history: the first line of the result may stay behind, never a second result. R17
#[tokio::test]
async fn a_result_shows_once_in_telegram_when_nobody_can_tell_whether_it_arrived() {
    for (fault, lines) in [(TelegramFault::ResetAfterEffect, 2), (TelegramFault::Reset, 1)] {
        let app = TestApp::new(|_: &Asked| says("Here.")).await;
        app.telegram_editor(BOB).await;
        app.until_idle().await;
        let before = app.stage.telegram.messages(BOB).len();
        app.stage.telegram.fail("sendMessage", 1, fault);
        app.ask_telegram(BOB, "hello").await;
        app.until_idle().await;
        assert_eq!(app.telegram_results(BOB).len(), 1);
        let mut shown = app.stage.telegram.messages(BOB).split_off(before);
        shown.retain(|posted| posted.text.contains("answer") || posted.text.contains("Here."));
        assert_eq!(shown.len(), lines, "{shown:?}");
    }
}
