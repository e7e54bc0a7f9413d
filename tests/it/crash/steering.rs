//! A message that a running turn took, when the program is killed before the model answers it.

use super::fixture::{ALICE, CHANNEL, CrashFixture, NO_STEP, REQUEST};
use super::posts::{results, texts};

const LATER: &str = "add the third note as well";

/// R1, R3: the message is in the request after the restart once, and is answered once.
#[tokio::test]
async fn a_taken_message_is_answered_once_when_the_program_is_killed_before_the_next_model_call_ends() {
    let mut world = CrashFixture::build().await;
    // The first answer takes long enough for the message.
    let said = world.say(&format!("{REQUEST} slowly")).await;
    world.wait_for_model_request().await;
    world.hold_at(1);
    let answer = world.slack.reply_in_thread(ALICE, CHANNEL, &said, LATER).await;
    assert_eq!(answer.expect("an answer").answers[0].status, 200);
    world.wait_until_model_holds(1).await;
    world.kill();
    world.hold_at(NO_STEP);
    world.start().await;
    let thread_results = world.wait_for("a result", |state| (!results(state).is_empty()).then_some(()));
    thread_results.await;
    let answer = world
        .slack
        .reply_in_thread(ALICE, CHANNEL, &said, "!status")
        .await;
    assert_eq!(answer.expect("an answer").answers[0].status, 200);
    world
        .wait_for_message(|message| message.visible().join("\n").contains("Delivery"))
        .await;
    assert_eq!(world.slack.with_state(|state| results(state).len()), 1);
    assert!(!world.slack.with_state(texts).contains("Queued"));
    let asked = world.model.requests();
    let last = asked.last().expect("a request");
    let said: Vec<&str> = last
        .messages
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    assert_eq!(said.concat().matches(LATER).count(), 1, "{said:?}");
    world.assert_database_sound().await;
}
