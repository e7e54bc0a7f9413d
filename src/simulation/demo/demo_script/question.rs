//! The model asks for a decision with `ask_user`, and goes on with the pressed choice.

use super::{ALICE, CHANNEL, THREAD, slack_result, slack_text};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("The model asks for a decision");
    let slack = &environment.slack;
    let mention = "@drydock scale api in prod for the sale";
    transcript.says(CHANNEL, "alice", mention);
    let said = slack.say(ALICE, SLACK_CHANNEL, mention).await?;
    let question = slack_result(environment, &said.ts, "I need your decision").await?;
    let expected = [
        "How many replicas should api have in prod?",
        "After 60 minutes I go on with: 4 replicas",
        "[4 replicas] [8 replicas]",
    ];
    transcript.expect_answer(THREAD, &slack_text(&question), &expected);
    transcript.says(THREAD, "alice", "[8 replicas]");
    slack.click(ALICE, &question.ts, "8 replicas").await?;
    let result = slack_result(environment, &said.ts, "is ready").await?;
    let expected = ["1 file, +1 −1", "8 replicas, as you chose", "+    replicas: 8,"];
    transcript.expect_excerpt(THREAD, &slack_text(&result), &expected);
    let closed = slack.wait_until(|state| {
        let asked = state.message(SLACK_CHANNEL, &question.ts)?;
        (asked.buttons().is_empty()).then(|| slack_text(asked))
    });
    let closed = closed.await.context("the question still has buttons")?;
    transcript.expect(
        THREAD,
        "the question shows the answer, and has no buttons any more",
        closed.contains("Your answer: 8 replicas"),
    );
    Ok(())
}
