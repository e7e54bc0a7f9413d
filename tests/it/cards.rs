//! The card of a turn, which exists while there is something to wait for.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use drydock::simulation::emulator::slack::SlackState;
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
    let said = app.say(ALICE, "hello").await;
    let card = app.wait_for_slack_reply(&said.ts, "One more word.").await;
    let shown = visible_text(&card);
    assert!(shown.contains("Working, step 1"), "{shown}");
    app.say_in(ALICE, &said.ts, "stop").await;
    app.wait_until_idle().await;
    let shown = app.thread_messages(&said.ts).concat();
    assert!(!shown.contains("One more word."), "{shown}");
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
