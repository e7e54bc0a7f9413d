//! A follow-up makes the next revision of a change, which is sent as a patch.

use super::{ALICE, THREAD, slack_result, slack_text};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
    thread: &str,
) -> anyhow::Result<()> {
    transcript.scene("A follow-up makes revision 2");
    let words = "make it 3, and do staging too";
    transcript.says(THREAD, "alice", words);
    environment
        .slack
        .reply_in_thread(ALICE, SLACK_CHANNEL, thread, words)
        .await?;
    let result = slack_result(environment, thread, "rev 2 is ready").await?;
    let expected = [
        "rev 2 is ready: 2 environments, 2 files, +4 −4",
        "2 like dev · Deployment web",
        "▸ Source diff: 2 files, +4 −4",
    ];
    transcript.expect_answer(THREAD, &slack_text(&result), &expected);

    transcript.says(THREAD, "alice", "[Get patch]");
    environment.slack.click(ALICE, &result.ts, "Get patch").await?;
    let file = environment.slack.wait_until(|state| {
        state
            .files
            .iter()
            .find(|file| file.name.ends_with(".patch"))
            .cloned()
    });
    let file = file.await.context("no patch file")?;
    let patch = String::from_utf8_lossy(&file.content).into_owned();
    let whole = patch.matches("diff --git ").count() == 2 && patch.contains("+    replicas: 3,");
    transcript.expect(
        THREAD,
        &format!("{} was sent: {} bytes, two files", file.name, patch.len()),
        whole,
    );
    Ok(())
}
