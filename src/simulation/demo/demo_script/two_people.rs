//! Two people have a change prepared at the same time.

use super::{
    ALICE, BOB, BOUND, CHANNEL, TELEGRAM, THREAD, slack_result, slack_text, telegram_message, telegram_text,
};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::slack::SentMessage;
use crate::simulation::emulator::telegram::{PostedMessage, TelegramEmulator};
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
        "[Get patch]",
    ];
    transcript.expect_answer(TELEGRAM, &telegram_text(&result), &expected);
    get_patch(environment, transcript, &result).await?;
    let leaked = environment
        .model
        .requests()
        .iter()
        .any(|asked| asked.raw.contains(words) && asked.raw.contains(bobs_words));
    transcript.expect("model", "no model request contains words of both", !leaked);
    Ok(thread)
}

/// Bob presses a button below his result.
async fn get_patch(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
    result: &PostedMessage,
) -> anyhow::Result<()> {
    let telegram = &environment.telegram;
    transcript.says(TELEGRAM, "bob", "[Get patch]");
    let pressed = telegram.click(BOB, BOB, result.id, "Get patch").await;
    pressed.context("the result has no button")?;
    let find = |telegram: &TelegramEmulator| {
        let mut files = telegram
            .messages(BOB)
            .into_iter()
            .filter_map(|posted| posted.document);
        files.find(|(name, _)| name.ends_with(".patch"))
    };
    telegram
        .wait_until(BOUND, |telegram| find(telegram).is_some())
        .await;
    let (_, content) = find(telegram).context("no patch file")?;
    let patch = String::from_utf8_lossy(&content);
    transcript.expect(
        TELEGRAM,
        "the patch was sent as a file: one file, +1 −1",
        patch.matches("diff --git ").count() == 1 && patch.contains("\n+    memory: '1Gi',"),
    );
    Ok(())
}
