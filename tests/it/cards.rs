//! The card of a turn, which exists while there is something to wait for.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackState;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const ALICE: &str = "U0ALICE";

#[tokio::test]
async fn a_turn_that_is_over_in_a_moment_is_answered_with_its_result_alone() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "hello").await;
    app.wait_until_idle().await;
    let said = app.thread_messages(&result.thread);
    assert!(said.len() == 1 && said[0].contains("Here."), "{said:?}");
}

#[tokio::test]
async fn a_turn_that_lasts_has_a_card_with_a_stop_that_says_when_it_is_done() {
    let app =
        TestApp::new(|_: &ModelRequest| says("Here.").with_fault(AnswerFault::Delay(Duration::from_secs(2))))
            .await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    let said = app.say(ALICE, "hello").await;
    let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    let buttons: Vec<String> = card.buttons().into_iter().map(|button| button.label).collect();
    assert_eq!(buttons, ["Stop"]);
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let said = app.thread_messages(&said.ts);
    assert!(
        said.len() == 2 && said[0].starts_with("Done in ") && said[1].contains("Here."),
        "{said:?}"
    );
}

/// The answer stalls before its end, so only the card can contain its words.
#[tokio::test]
async fn a_card_shows_the_words_that_the_model_is_writing() {
    let text = format!("I read **three** environments. {}", "One more word. ".repeat(100));
    let app =
        TestApp::new(move |_: &ModelRequest| says(text.clone()).with_fault(AnswerFault::StallAfter(2_000)));
    let app = app.await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    let said = app.say(ALICE, "hello").await;
    let card = app.wait_for_slack_reply(&said.ts, "One more word.").await;
    let shown = visible_text(&card);
    assert!(shown.contains("Working, step 1"), "{shown}");
    app.say_in(ALICE, &said.ts, "stop").await;
    app.wait_until_idle().await;
    let shown = app.thread_messages(&said.ts).concat();
    assert!(!shown.contains("One more word."), "{shown}");
}

/// The workspace forgets plans between two turns, which say the same.
#[tokio::test]
async fn the_calls_of_a_turn_are_a_plan_in_its_card_or_lines_where_there_are_no_plans() {
    let app = TestApp::new(|asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_read", json!({"path": "environments/dev/main.jsonnet"})),
        _ => says("Here.").with_fault(AnswerFault::Delay(Duration::from_secs(2))),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    let line = "✓ file_read environments/dev/main.jsonnet";
    for kinds in [
        ["plan", "actions"].as_slice(),
        &["section", "rich_text", "actions"],
    ] {
        let said = app.say(ALICE, "hello").await;
        let card = app.wait_for_slack_reply(&said.ts, line).await;
        let blocks = card.request["blocks"].as_array().unwrap().iter();
        assert_eq!(
            blocks.map(|block| block["type"].clone()).collect::<Vec<_>>(),
            kinds
        );
        assert!(
            visible_text(&card).contains("Working, step 2"),
            "{}",
            visible_text(&card)
        );
        app.wait_for_result(&said.ts, 1).await;
        app.wait_until_idle().await;
        app.demo.slack.forget_block("plan");
    }
    let refused = app.demo.slack.with_state(|state| {
        let refused = state.calls.iter().filter(|call| call.refused.is_some());
        refused
            .map(|call| call.refused.clone().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(refused, ["unknown_method", "invalid_blocks"]);
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
}

/// Asserts that the card of a turn in Telegram shows its call as this line.
async fn assert_call_is_shown_as(app: &TestApp, line: &str) {
    app.admit_telegram_editor(4_201).await;
    let chat = -100_777;
    app.demo.telegram.add_group(chat, &[]);
    app.demo.telegram.say(4_201, chat, "@drydock_bot hello").await;
    let card = app.wait_for_telegram_message(chat, line).await;
    let expected = format!("Working, step 2\n{line} environments/dev/main.jsonnet");
    assert_eq!(card.text, expected);
    app.demo.model.release();
    app.wait_for_telegram_message(chat, "Here.").await;
}

fn reads_and_waits(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_read", json!({"path": "environments/dev/main.jsonnet"})),
        _ => says("Here.").with_fault(AnswerFault::Held),
    }
}

#[tokio::test]
async fn the_calls_of_a_turn_are_boxes_in_its_card_in_telegram() {
    let app = TestApp::new(reads_and_waits).await;
    assert_call_is_shown_as(&app, "☑ file_read").await;
}

#[tokio::test]
async fn the_calls_of_a_turn_are_lines_in_its_card_in_telegram() {
    let app = TestApp::new(reads_and_waits).await;
    app.demo.telegram.forget_rich_messages();
    assert_call_is_shown_as(&app, "✓ file_read").await;
}

#[tokio::test]
async fn a_message_that_waits_has_a_card_and_a_receipt_that_say_so_and_how_it_went() {
    let slowly = AnswerFault::Delay(Duration::from_secs(2));
    let app = TestApp::new(
        move |asked: &ModelRequest| match asked.last_user_text().contains("first") {
            true => says("Here.").with_fault(slowly.clone()),
            false => says("There."),
        },
    );
    let app = app.await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.say(ALICE, "first").await.ts;
    let second = app.say_in(ALICE, &thread, "queue: second").await.ts;
    let receipts = |state: &SlackState| state.message(SLACK_CHANNEL, &second).unwrap().reactions.clone();
    let waits = |state: &SlackState| receipts(state).contains("hourglass_flowing_sand").then_some(());
    app.wait_for_slack("a receipt that says it waits", waits).await;
    let card = app.wait_for_slack_reply(&thread, "Queued (1 ahead).").await;
    app.wait_for_result(&thread, 2).await;
    app.wait_until_idle().await;
    let works = |state: &SlackState| (receipts(state) == BTreeSet::from(["eyes".to_owned()])).then_some(());
    app.wait_for_slack("a receipt that says it was seen", works).await;
    let card = app
        .demo
        .slack
        .with_state(|state| state.message(SLACK_CHANNEL, &card.ts).unwrap().clone());
    assert!(
        visible_text(&card).starts_with("Done in "),
        "{}",
        visible_text(&card)
    );
}
