//! A person stops a running turn.

use super::{BOB, BOUND, TELEGRAM, telegram_message, wait_for_request};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::model::ModelRequest;
use anyhow::Context;
use std::time::Duration;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("Stop ends a running turn");
    let words = "audit every environment";
    transcript.says(TELEGRAM, "bob", words);
    environment.telegram.say(BOB, BOB, words).await;
    let read_before =
        |asked: &ModelRequest| asked.last_user_text() == words && !asked.last_results().is_empty();
    wait_for_request(&environment.model, read_before).await?;
    let is_shown = environment
        .telegram
        .wait_until(BOUND, |telegram| telegram.draft(BOB).is_some())
        .await;
    anyhow::ensure!(is_shown, "no draft shows the progress");
    transcript.says(TELEGRAM, "bob", "[Stop]");
    let pressed = tokio::time::Instant::now();
    environment
        .telegram
        .stop_draft(BOB)
        .await
        .context("the draft has no stop button")?;
    let stopped = telegram_message(environment, BOB, "Stopped at step").await?;
    let took = pressed.elapsed();
    transcript.expect_answer(TELEGRAM, &stopped.text, &["Stopped at step 2"]);
    let finding = format!("stopped {} ms after the press", took.as_millis());
    transcript.expect(TELEGRAM, &finding, took < Duration::from_secs(2));
    Ok(())
}
