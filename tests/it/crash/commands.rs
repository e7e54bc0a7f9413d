//! Commands and buttons whose program ends between the acknowledgement and the answer.

use super::fixture::{ALICE, CHANNEL, CrashFixture, NO_STEP, REQUEST, bounded, poll};
use super::posts::results;
use drydock::simulation::emulator::slack::SlackState;
use rusqlite::{Connection, OpenFlags};

const AGAIN: &str = "add the third note";

impl CrashFixture {
    /// Sends another request in a thread, and waits for the `count`th result there.
    async fn asks_again(&self, thread: &str, count: usize) {
        let said = self.slack.reply_in_thread(ALICE, CHANNEL, thread, AGAIN).await;
        assert_eq!(said.expect("an answer").answers[0].status, 200);
        let enough = |state: &SlackState| (results(state).len() == count).then_some(());
        self.wait_for("another result", enough).await;
    }

    /// Sends a command in a thread, and checks that it is acknowledged.
    async fn commands(&self, thread: &str, command: &str) {
        let said = self.slack.reply_in_thread(ALICE, CHANNEL, thread, command).await;
        assert_eq!(said.expect("an answer").answers[0].status, 200);
    }

    /// Returns a number from the database.
    fn count(&self, sql: &str) -> i64 {
        let file = self.data_directory().join("drydock.db");
        let database =
            Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a database");
        database
            .busy_timeout(std::time::Duration::from_secs(5))
            .expect("a bound");
        database.query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    /// Waits until a command has taken effect, whether or not it is answered.
    async fn has_its_effect(&self) {
        let recorded = "SELECT COUNT(*) FROM inbox WHERE lane = 'change' AND effect IS NOT NULL";
        bounded("an effect", poll(|| (self.count(recorded) > 0).then_some(()))).await;
    }

    /// Returns the prepared patch, which is requested in a thread.
    async fn patch_of(&self, thread: &str) -> String {
        let seen = self.slack.with_state(|state| state.files.len());
        self.commands(thread, "!patch").await;
        let patch = |state: &SlackState| state.files.get(seen).map(|file| file.content.clone());
        let patch = self.wait_for("the patch", patch).await;
        String::from_utf8_lossy(&patch).into_owned()
    }
}

/// P4: the program ends after the undo is recorded and before the remaining change is rendered.
#[tokio::test]
async fn an_undo_takes_back_one_message_when_the_program_is_killed_before_its_answer() {
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.asks_again(&said, 2).await;
    assert!(world.patch_of(&said).await.contains("+three\n"));
    // Rendering the change again takes time.
    world.kill();
    world.start().await;
    world.commands(&said, "!undo").await;
    world.has_its_effect().await;
    world.kill();
    world.start().await;
    world
        .assert_one_message_with("Undone. CHG-1 rev 3 is now 2 files, +2 −0;")
        .await;
    let patch = world.patch_of(&said).await;
    assert!(patch.contains("+one\n") && patch.contains("+two\n"), "{patch}");
    assert!(!patch.contains("+three\n"), "{patch}");
    world.assert_database_sound().await;
}

/// R3, P4: the program ends again during its start, before and after it listens.
#[tokio::test]
async fn an_undo_takes_back_one_message_however_often_the_program_is_killed_while_it_recovers() {
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.asks_again(&said, 2).await;
    world.kill();
    world.start().await;
    world.commands(&said, "!undo").await;
    world.has_its_effect().await;
    world.kill();
    for _ in 0..2 {
        world.spawn();
        world.kill();
        world.launch().await;
        world.kill();
    }
    world.start().await;
    world
        .assert_one_message_with("Undone. CHG-1 rev 3 is now 2 files, +2 −0;")
        .await;
    let patch = world.patch_of(&said).await;
    assert!(patch.contains("+one\n") && patch.contains("+two\n"), "{patch}");
    assert!(!patch.contains("+three\n"), "{patch}");
    world.assert_database_sound().await;
}

/// P4: whenever the program ends, a discard takes effect once and is answered with its own text.
#[tokio::test]
async fn a_discard_is_answered_as_done_when_the_program_is_killed_before_its_answer() {
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.commands(&said, "!discard").await;
    world.kill();
    world.start().await;
    world
        .assert_one_message_with("CHG-1 is discarded; the workspace equals the base again.")
        .await;
    world.assert_database_sound().await;
}

#[tokio::test]
async fn a_button_works_when_the_program_is_killed_right_after_it_was_pressed() {
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    let seen = world.slack.with_state(|state| state.files.len());
    let result = world.slack.with_state(|state| results(state)[0].ts.clone());
    world
        .slack
        .click(ALICE, &result, "Get patch")
        .await
        .expect("an answer");
    world.kill();
    world.start().await;
    let files = |state: &SlackState| (state.files.len() > seen).then_some(());
    world.wait_for("the patch", files).await;
    world
        .slack
        .click(ALICE, &result, "Get patch")
        .await
        .expect("an answer");
    let used = |state: &SlackState| {
        let ephemerals = state
            .ephemerals
            .iter()
            .map(|message| message.visible().join("\n"));
        let mut used = ephemerals.filter(|text| text.contains("That button was used already."));
        used.next()
    };
    world.wait_for("a refusal", used).await;
    assert_eq!(world.slack.with_state(|state| state.files.len()), seen + 1);
    world.assert_database_sound().await;
}

/// Checks that a stop holds until its message is answered.
#[tokio::test]
async fn a_stop_outlives_the_program() {
    let mut world = CrashFixture::build().await;
    world.hold_at(1);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    world.commands(&said, "!stop").await;
    world.kill();
    let asked = world.model.requests().len();
    world.start().await;
    // It may have been stopped already by the program that ended.
    world
        .wait_for_message(|message| message.visible().join("\n").contains("Stopped at step "))
        .await;
    assert_eq!(
        world.model.requests().len(),
        asked,
        "the model was called for a stopped turn"
    );
    world.hold_at(NO_STEP);
    // Edits made before the stop are kept, as the card says.
    let patch = world.patch_of(&said).await;
    assert!(patch.contains("+one\n") && !patch.contains("+two\n"), "{patch}");
    world.assert_database_sound().await;
}

/// R23: a stop of the program during the checks of a turn does not answer the turn.
#[tokio::test]
async fn a_turn_whose_checks_a_deployment_cut_short_is_answered_after_it() {
    let mut world = CrashFixture::build().await;
    world.hold_at(2);
    let said = world.say(REQUEST).await;
    world.wait_until_model_holds(1).await;
    world.kill();
    // A newly started program has rendered nothing yet, so the checks take time.
    world.hold_at(NO_STEP);
    // The model gets two requests with edits again, and one for the end.
    let answered = world.model.requests().len() + 3;
    world.start().await;
    bounded(
        "the last answer of the model",
        poll(|| (world.model.requests().len() >= answered).then_some(())),
    )
    .await;
    world.terminate().await;
    world.start().await;
    world.assert_answered_once(&said).await;
    let shown = world.slack.with_state(super::posts::texts);
    assert!(!shown.contains("I could not check"), "{shown}");
}

/// R3: the edits of a message that is given up are removed.
#[tokio::test]
async fn a_message_that_is_given_up_leaves_no_edits_behind() {
    let mut world = CrashFixture::build().await;
    world.hold_at(1);
    let said = world.say(REQUEST).await;
    for attempt in 1..=3 {
        world.wait_until_model_holds(attempt).await;
        world.kill();
        world.start().await;
    }
    let gave_up = world
        .wait_for_message(|message| message.text.contains("(ref "))
        .await;
    assert!(
        gave_up
            .text
            .contains("Its edits before the interruption are undone."),
        "{}",
        gave_up.text
    );
    world.hold_at(NO_STEP);
    world.commands(&said, "!diff").await;
    world.assert_one_message_with("Nothing is prepared here.").await;
    world.asks_again(&said, 1).await;
    let patch = world.patch_of(&said).await;
    assert!(patch.contains("+three\n") && !patch.contains("+one\n"), "{patch}");
    world.assert_database_sound().await;
}
