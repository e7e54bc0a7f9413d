//! Two people have a change prepared at the same time.

use super::{ALICE, BOB, CHANNEL, TELEGRAM, THREAD, slack_result, slack_text, telegram_message};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::slack::SentMessage;
use anyhow::Context;

/// Runs Alice's conversation in Slack and Bob's in Telegram at the same time. Returns Alice's thread.
pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<String> {
    transcript.scene("A change, and another one at the same time");
    let words = "bump web to 4 replicas and 512Mi in dev";
    transcript.says(CHANNEL, "alice", &format!("@drydock {words}"));
    let SentMessage { ts: thread, .. } = environment
        .slack
        .say(ALICE, SLACK_CHANNEL, &format!("@drydock {words}"))
        .await?;
    let bobs_words = "give api 1Gi of memory in staging";
    transcript.says(TELEGRAM, "bob", bobs_words);
    environment.telegram.say(BOB, BOB, bobs_words).await;

    let seen = environment.slack.wait_until(|state| {
        state
            .message(SLACK_CHANNEL, &thread)
            .filter(|message| message.reactions.contains("eyes"))
            .map(|_| ())
    });
    transcript.expect(
        CHANNEL,
        "alice's message has the receipt :eyes:",
        seen.await.is_some(),
    );
    let card = environment.slack.wait_until(|state| {
        state
            .replies(SLACK_CHANNEL, &thread)
            .find(|message| slack_text(message).contains("Working"))
            .cloned()
    });
    let card = card.await.context("no progress card")?;
    transcript.expect_answer(THREAD, &slack_text(&card), &["Working"]);

    let result = slack_result(environment, &thread, "is ready").await?;
    let expected = [
        "CHG-",
        "is ready: dev, 1 file, +2 −2",
        "Nothing was applied, committed or pushed.",
        "▸ environments/dev/main.jsonnet  +2 −2",
        "5 steps",
    ];
    transcript.expect_answer(THREAD, &slack_text(&result), &expected);
    let result = telegram_message(environment, BOB, "is ready").await?;
    let expected = [
        "CHG-",
        "1 file, +1 −1",
        "+    memory: '1Gi',",
        "Nothing was applied, committed or pushed.",
    ];
    transcript.expect_answer(TELEGRAM, &result.text, &expected);
    let leaked = environment
        .model
        .requests()
        .iter()
        .any(|asked| asked.raw.contains(words) && asked.raw.contains(bobs_words));
    transcript.expect("model", "no model request contains words of both", !leaked);
    Ok(thread)
}
