//! A person sends another message while the model works: it reaches the running turn at its next step.

use super::{ALICE, CHANNEL, THREAD, slack_result, slack_text, wait_for_request};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::slack::SentMessage;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A message while the model works");
    let (words, more) = ("set api to 3 replicas in dev", "and in staging, too");
    let (slack, model) = (&environment.slack, &environment.model);
    let mention = format!("@drydock {words}");
    transcript.says(CHANNEL, "alice", &mention);
    let SentMessage { ts: thread, .. } = slack.say(ALICE, SLACK_CHANNEL, &mention).await?;
    // The model holds its first answer back behind the words until the second message is stored.
    let asked = wait_for_request(model, |asked| asked.last_user_text() == words).await?;
    let card = slack_result(environment, &thread, "I begin with dev").await?;
    transcript.expect_excerpt(THREAD, &slack_text(&card), &["I begin with dev"]);
    transcript.expect(
        "model",
        "it is still writing this answer",
        asked.answered_at.get().is_none(),
    );
    transcript.says(THREAD, "alice", more);
    slack.reply_in_thread(ALICE, SLACK_CHANNEL, &thread, more).await?;
    model.release();
    let result = slack_result(environment, &thread, "is ready").await?;
    let expected = [
        "is ready: 2 environments, 2 files, +2 −2",
        "3 replicas in dev and in staging",
        "▸ Source diff: 2 files, +2 −2",
        "3 steps",
    ];
    transcript.expect_excerpt(THREAD, &slack_text(&result), &expected);
    let steered = wait_for_request(model, |asked| asked.last_user_text().contains(more)).await?;
    let is_next_step = steered.messages.len() == 3 && steered.last_results().len() == 1;
    transcript.expect(
        "model",
        "the second message came with the result of the first step",
        is_next_step,
    );
    let results = slack.with_state(|state| {
        let replies = state.replies(SLACK_CHANNEL, &thread);
        replies
            .filter(|reply| slack_text(reply).contains(" tokens · "))
            .count()
    });
    transcript.expect(THREAD, "one answer covers both messages", results == 1);
    Ok(())
}
