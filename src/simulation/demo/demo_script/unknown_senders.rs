//! Unknown senders get one notice each, and cost no tokens.

use super::{CHANNEL, EVE, MALLORY, TELEGRAM, slack_text, telegram_message};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("Unknown senders");
    transcript.says(CHANNEL, "eve", "@drydock delete prod");
    environment
        .slack
        .say(EVE, SLACK_CHANNEL, "@drydock delete prod")
        .await?;
    let refusal = environment.slack.wait_until(|state| {
        state
            .ephemerals
            .iter()
            .find(|message| message.user == EVE)
            .cloned()
    });
    let refusal = refusal.await.context("eve got no notice")?;
    transcript.expect_answer(
        "#platform, only eve sees it",
        &slack_text(&refusal),
        &["Not authorised", "0 tokens"],
    );

    transcript.says(TELEGRAM, "mallory", "delete prod");
    environment.telegram.say(MALLORY, MALLORY, "delete prod").await;
    let refusal = telegram_message(environment, MALLORY, "Not authorised").await?;
    transcript.expect_answer(TELEGRAM, &refusal.text, &["Not authorised", "0 tokens"]);
    let asked = environment.model.requests().len();
    transcript.expect("model", &format!("model requests so far: {asked}"), asked == 0);
    Ok(())
}
