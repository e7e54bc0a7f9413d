//! The real program, ended at the moments that matter and started again. Slack and the model live in
//! this process, so they remember what was said before.

mod commands;
mod storage;
mod world;

use drydock::emulator::slack::Fault as SlackFault;
use world::{ALICE, CHANNEL, NONE, REQUEST, World, is_result, results, texts};

/// R1: the message was acknowledged, and nothing else happened.
#[tokio::test]
async fn a_message_is_answered_when_the_program_is_killed_right_after_the_acknowledgement() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1: the model was asked and had not answered.
#[tokio::test]
async fn a_message_is_answered_when_the_program_is_killed_while_the_model_thinks() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1: two files were written and recorded.
#[tokio::test]
async fn edits_survive_when_the_program_is_killed_at_the_third_step() {
    let mut world = World::build().await;
    world.hold_at(2);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.kill();
    // The model is asked again from the start, and sees what it did before.
    world.start().await;
    world.model_holds(2).await;
    let asked = world.model.asked();
    let last = asked.last().expect("a request");
    let before: usize = last.messages.iter().map(|message| message.results.len()).sum();
    assert_eq!(before, 4, "two results before the crash and two after it");
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1, P3: the placeholder of the card was shown, and nobody heard that it was.
#[tokio::test]
async fn a_message_is_answered_once_when_the_card_was_lost_on_the_way_back() {
    let mut world = World::build().await;
    world
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
    world.has_one("Done in").await;
    assert!(!world.slack.look(texts).contains("Working"));
}

/// R1, P3: the result was shown, and nobody heard that it was.
#[tokio::test]
async fn a_result_is_shown_once_when_word_of_it_was_lost_on_the_way_back() {
    let mut world = World::build().await;
    world
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    let said = world.says(REQUEST).await;
    world.shows(|message| message.text.contains("is ready")).await;
    world.kill();
    world.start().await;
    world.is_answered_once(&said).await;
    world.has_one("is ready").await;
}

/// R3: the program ends again while it begins again, before and after it listens.
#[tokio::test]
async fn a_message_is_answered_once_however_often_the_program_is_killed_while_it_recovers() {
    let mut world = World::build().await;
    world.hold_at(1);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.kill();
    for _ in 0..3 {
        world.spawn();
        world.kill();
    }
    world.launch().await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1: everything was done.
#[tokio::test]
async fn nothing_is_said_twice_when_the_program_is_killed_after_the_result() {
    let mut world = World::build().await;
    let said = world.says(REQUEST).await;
    world.shows(is_result).await;
    world.kill();
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R3: a message that ends the program again and again is given up, and says so.
#[tokio::test]
async fn a_message_that_is_cut_short_three_times_is_given_up_aloud() {
    let mut world = World::build().await;
    world.hold_at(0);
    world.says(REQUEST).await;
    for attempt in 1..=3 {
        world.model_holds(attempt).await;
        world.kill();
        world.start().await;
    }
    let gave_up = world.shows(|message| message.text.contains("(ref ")).await;
    assert!(
        gave_up.text.starts_with("Something of mine failed"),
        "{}",
        gave_up.text
    );
    assert_eq!(world.model.asked().len(), 3);
    world.hold_at(NONE);
    let other = world.says("@drydock add the two notes again").await;
    world.is_answered_once(&other).await;
}

/// R23, B28: a deployment is no reason to lose a request.
#[tokio::test]
async fn a_running_request_outlives_an_orderly_restart() {
    let mut world = World::build().await;
    world.hold_at(1);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.terminate().await;
    let stopped = world.slack.look(|state| texts(state).contains("Stopped"));
    assert!(!stopped, "nobody said stop");
    world.start().await;
    world.model_holds(2).await;
    world.says_that_it_was_restarted_and_answers(&said).await;
}

/// A restart finds its work before the platform answers again: the turn runs, and its card, posted
/// before, is kept current from then on.
#[tokio::test]
async fn a_request_taken_up_before_slack_is_connected_shows_on_its_card() {
    let mut world = World::build().await;
    world.hold_at(1);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.knows_its_card(&said).await;
    world.kill();
    let unreachable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    world.slack.fail_next("auth.test", 1_000, unreachable);
    let address = world.launch().await;
    world.model_holds(2).await;
    world.slack.recover("auth.test");
    world.is_ready(&address).await;
    world.says_that_it_was_restarted_and_answers(&said).await;
}

/// P2: messages that wait behind another are not lost with it.
#[tokio::test]
async fn messages_that_wait_are_answered_after_a_kill_each_on_its_own_card() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    let follow_up = "add the two notes once more";
    let answer = world
        .slack
        .reply_in_thread(ALICE, CHANNEL, &said, follow_up)
        .await;
    assert_eq!(answer.expect("an answer").answers[0].status, 200);
    world
        .shows(|message| message.text.contains("Queued (1 ahead)."))
        .await;
    world.knows_its_card(&said).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world
        .waits("two results", |state| (results(state).len() == 2).then_some(()))
        .await;
    world
        .waits("no card that still waits", |state| {
            (!texts(state).contains("Queued")).then_some(())
        })
        .await;
    world.is_sound().await;
}
