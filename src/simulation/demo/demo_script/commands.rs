//! Commands use no tokens.

use super::{ALICE, BOB, CHANNEL, TELEGRAM, THREAD, slack_text, telegram_message};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
    thread: &str,
) -> anyhow::Result<()> {
    transcript.scene("Commands use no tokens");
    let asked = environment.model.requests().len();
    transcript.says(CHANNEL, "alice", "/drydock status");
    environment.slack.slash(ALICE, SLACK_CHANNEL, "status").await?;
    let status = environment.slack.wait_until(|state| {
        state
            .ephemerals
            .iter()
            .find(|message| message.user == ALICE && slack_text(message).contains("Prepared"))
            .cloned()
    });
    transcript.expect_answer(
        "#platform, only alice sees it",
        &slack_text(&status.await.context("no status")?),
        &["rev 2", "infra"],
    );

    transcript.says(THREAD, "alice", "!undo");
    environment
        .slack
        .reply_in_thread(ALICE, SLACK_CHANNEL, thread, "!undo")
        .await?;
    let undone = environment.slack.wait_until(|state| {
        state
            .replies(SLACK_CHANNEL, thread)
            .find(|message| slack_text(message).contains("Undone"))
            .cloned()
    });
    transcript.expect_answer(
        THREAD,
        &slack_text(&undone.await.context("no undo")?),
        &["Undone. CHG-", "rev 3", "1 file, +2 −2"],
    );

    transcript.says(TELEGRAM, "bob", "/usage");
    environment.telegram.say(BOB, BOB, "/usage").await;
    let usage = telegram_message(environment, BOB, "model calls").await?;
    transcript.expect_answer(TELEGRAM, &usage.text, &["3 model calls"]);
    let now = environment.model.requests().len();
    transcript.expect("model", "model requests for three commands: 0", now == asked);
    Ok(())
}
