//! The real program, ended at critical moments and started again. Slack and the model live in this process, so they
//! keep their state across restarts.

mod commands;
mod messages;
mod steering;
mod storage;
pub(crate) mod fixture;
pub(crate) mod posts;

use drydock::simulation::emulator::slack::{SlackFault, SlackState};
use fixture::{ALICE, CHANNEL, CrashFixture, NO_STEP, REQUEST};
use posts::{is_result, results, texts};

/// The last thing that happens before the program is killed.
#[derive(Clone, Copy, Debug)]
enum LastEvent {
    /// The message is acknowledged.
    Acknowledgement,
    /// The model has a request, and holds it.
    ModelRequest,
    /// The card is shown, while the model holds its request.
    Card,
    /// The result is shown.
    Result,
}

/// A moment at which the program is killed, and what is shown after the next start.
struct KillPoint {
    /// The number of posts whose answers are lost on the way back.
    answers_lost: usize,
    /// The step at which the model holds its answer.
    held_step: usize,
    last_event: LastEvent,
    /// The number of further kills: while the program starts, and one more after it listens.
    kills_in_recovery: usize,
    /// Words of exactly one message in the end.
    shown_once: &'static [&'static str],
}

impl KillPoint {
    const fn after(last_event: LastEvent, held_step: usize) -> Self {
        Self {
            answers_lost: 0,
            held_step,
            last_event,
            kills_in_recovery: 0,
            shown_once: &[],
        }
    }
}

const KILL_POINTS: [KillPoint; 6] = [
    KillPoint::after(LastEvent::Acknowledgement, 0),
    KillPoint::after(LastEvent::Card, 0),
    KillPoint {
        answers_lost: 1,
        shown_once: &["Done in"],
        ..KillPoint::after(LastEvent::Card, 0)
    },
    KillPoint {
        kills_in_recovery: 3,
        ..KillPoint::after(LastEvent::ModelRequest, 1)
    },
    KillPoint::after(LastEvent::Result, NO_STEP),
    KillPoint {
        answers_lost: 1,
        shown_once: &["is ready"],
        ..KillPoint::after(LastEvent::Result, NO_STEP)
    },
];

/// A message is answered once, whenever the program is killed, and also if it is unknown whether Slack took a post. R1,
/// R3, P3
#[tokio::test]
async fn a_message_is_answered_once_whenever_the_program_is_killed() {
    for point in KILL_POINTS {
        let mut world = CrashFixture::build().await;
        world
            .slack
            .fail_next("chat.postMessage", point.answers_lost, SlackFault::ResetAfter);
        world.hold_at(point.held_step);
        let said = world.say(REQUEST).await;
        if let LastEvent::ModelRequest | LastEvent::Card = point.last_event {
            world.wait_until_model_holds(1).await;
        }
        match point.last_event {
            LastEvent::Acknowledgement | LastEvent::ModelRequest => {}
            LastEvent::Card => {
                world
                    .wait_for_message(|message| message.text.contains("Working"))
                    .await;
            }
            LastEvent::Result => {
                world.wait_for_message(is_result).await;
            }
        }
        world.kill();
        for _ in 0..point.kills_in_recovery {
            world.spawn();
            world.kill();
        }
        if point.kills_in_recovery > 0 {
            world.launch().await;
            world.kill();
        }
        world.hold_at(NO_STEP);
        world.start().await;
        world.assert_answered_once(&said).await;
        for words in point.shown_once {
            world.assert_one_message_with(words).await;
        }
        let shows_no_work = |state: &SlackState| {
            let mut sessions = state.sessions.values();
            sessions
                .all(|session| session.status() != "processing")
                .then_some(())
        };
        let ended = world.slack.wait_until(shows_no_work).await;
        assert_eq!(ended, Some(()), "{:?}", point.last_event);
        assert!(
            !world.slack.with_state(texts).contains("Working"),
            "{:?}",
            point.last_event
        );
    }
}

/// R1: two files were written and recorded.
#[tokio::test]
async fn edits_survive_when_the_program_is_killed_at_the_third_step() {
    let mut world = CrashFixture::build().await;
    world.hold_at(2);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    world.kill();
    // The model starts again from its first request, and sees its earlier edits.
    world.start().await;
    world.wait_until_model_holds(2).await;
    let asked = world.model.requests();
    let last = asked.last().expect("a request");
    let before: usize = last.messages.iter().map(|message| message.results.len()).sum();
    assert_eq!(before, 4, "two results before the crash and two after it");
    world.kill();
    world.hold_at(NO_STEP);
    world.start().await;
    world.assert_answered_once(&said).await;
}

/// R3: a message that ends the program again and again is given up with a notice.
#[tokio::test]
async fn a_message_interrupted_three_times_is_given_up_with_a_notice() {
    let mut world = CrashFixture::build().await;
    world.hold_at(0);
    world.say(REQUEST).await;
    for attempt in 1..=3 {
        world.wait_until_model_holds(attempt).await;
        world.kill();
        world.start().await;
    }
    let gave_up = world
        .wait_for_message(|message| message.text.contains("(ref "))
        .await;
    assert!(
        gave_up.text.starts_with("I failed with an internal error"),
        "{}",
        gave_up.text
    );
    assert_eq!(world.model.requests().len(), 3);
    world.hold_at(NO_STEP);
    let other = world.say("@drydock add the two notes again").await;
    world.assert_answered_once(&other).await;
}

/// R23, B28: a deployment does not lose a request.
#[tokio::test]
async fn a_running_request_outlives_an_orderly_restart() {
    let mut world = CrashFixture::build().await;
    world.hold_at(1);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    world.terminate().await;
    let stopped = world.slack.with_state(|state| texts(state).contains("Stopped"));
    assert!(!stopped, "no stop was requested");
    world.start().await;
    world.wait_until_model_holds(2).await;
    world.assert_restarted_and_answered(&said).await;
}

/// Checks a restart that claims its work before the platform answers again: the turn runs, and its earlier card is
/// updated from then on.
#[tokio::test]
async fn a_request_claimed_before_slack_connects_updates_its_card() {
    let mut world = CrashFixture::build().await;
    world.hold_at(1);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    world
        .wait_for_message(|message| message.text.contains("Working"))
        .await;
    world.wait_until_card_is_stored(&said).await;
    world.kill();
    let unreachable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    world.slack.fail_next("auth.test", 1_000, unreachable);
    let address = world.launch().await;
    world.wait_until_model_holds(2).await;
    world.slack.recover("auth.test");
    world.wait_until_ready(&address).await;
    world.assert_restarted_and_answered(&said).await;
}

/// P2: messages that wait behind another one are not lost with it.
#[tokio::test]
async fn messages_that_wait_are_answered_after_a_kill_each_on_its_own_card() {
    let mut world = CrashFixture::build().await;
    world.hold_at(0);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    let follow_up = "queue: add the two notes once more";
    let answer = world
        .slack
        .reply_in_thread(ALICE, CHANNEL, &said, follow_up)
        .await;
    assert_eq!(answer.expect("an answer").answers[0].status, 200);
    world
        .wait_for_message(|message| message.text.contains("Queued (1 ahead)."))
        .await;
    world.wait_until_card_is_stored(&said).await;
    world.kill();
    world.hold_at(NO_STEP);
    world.start().await;
    world
        .wait_for("two results", |state| (results(state).len() == 2).then_some(()))
        .await;
    world
        .wait_for("no card that still waits", |state| {
            (!texts(state).contains("Queued")).then_some(())
        })
        .await;
    world.assert_database_sound().await;
}
