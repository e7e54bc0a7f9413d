//! A message to another person, when the program is killed around the step that sends it.

use super::fixture::{CrashFixture, NO_STEP};

const BOB: &str = "U0BOB";

/// R1: it is sent once, whether the program is killed before the step that sends it or after it.
#[tokio::test]
async fn a_message_to_another_person_is_sent_once_when_the_program_is_killed() {
    for held_step in [0, 1] {
        let mut world = CrashFixture::build().await;
        world.slack.add_user(BOB);
        world.invite("bob", BOB).await;
        let accepted = world.slack.dm(BOB, "!accept alice").await;
        assert_eq!(accepted.expect("an answer").answers[0].status, 200);
        world
            .wait_for_message(|message| message.visible().join("\n").contains("Accepted: "))
            .await;
        world.hold_at(held_step);
        world.say("@drydock tell bob about the freeze").await;
        world.wait_until_model_holds(1).await;
        if held_step == 1 {
            world
                .wait_for_message(|message| message.visible().join("\n").contains("Message from alice:"))
                .await;
        }
        world.kill();
        world.hold_at(NO_STEP);
        world.start().await;
        world
            .wait_for_message(|message| message.visible().join("\n").contains("I told bob."))
            .await;
        world.assert_one_message_with("Message from alice:").await;
        world.assert_database_sound().await;
    }
}
