//! A tool call fails, and the turn continues.

use super::{THREAD, ask_as_alice, slack_text};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A turn continues after a failed tool call");
    let result = ask_as_alice(
        environment,
        transcript,
        "set the worker log level to debug in prod",
    )
    .await?;
    let expected = [
        "1 file, +1 −1",
        "+    config+: { LOG_LEVEL: 'debug' },",
        "4 steps",
    ];
    transcript.expect_answer(THREAD, &slack_text(&result), &expected);
    let failed = environment
        .model
        .requests()
        .iter()
        .flat_map(|asked| asked.messages.clone())
        .flat_map(|m| m.results)
        .any(|r| r.is_error);
    transcript.expect(
        "model",
        "one tool call failed, and the model got the error",
        failed,
    );
    Ok(())
}
