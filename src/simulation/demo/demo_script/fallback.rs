//! The default model is overloaded, and a fallback model answers.

use super::{THREAD, ask_as_alice, slack_text};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::model::ModelEmulator;

pub(super) async fn play(
    environment: &DemoEnvironment,
    fallback: &ModelEmulator,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("The model is overloaded, and another one answers");
    let before = environment.model.requests().len();
    let result = ask_as_alice(environment, transcript, "use cache 7.4.2 in dev").await?;
    let expected = [
        "1 file, +1 −1",
        "anthropic/demo did not answer: the model provider is overloaded (529). backup/second answered instead.",
        " · backup/second",
    ];
    transcript.expect_excerpt(THREAD, &slack_text(&result), &expected);
    let refused = environment.model.requests().len() - before;
    let answered = fallback.requests().len();
    transcript.expect(
        "model",
        &format!("the default model answered 529, and the fallback model made {answered} answers"),
        refused > 0 && answered == 3,
    );
    Ok(())
}
