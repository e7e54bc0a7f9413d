//! Alice and Bob join with invites.

use super::{ALICE, BOB, TELEGRAM, bot_message, invite, slack_text, telegram_message};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;
use crate::state::access::Role;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("Invites");
    let alice = invite(environment, "alice", Role::Editor, &["**"]).await?;
    let bob = invite(environment, "bob", Role::Editor, &["staging"]).await?;
    transcript.says(
        "terminal",
        "operator",
        "drydock invite alice --role editor\ndrydock invite bob --role editor --env staging",
    );

    transcript.says("Slack, direct", "alice", "join <the token>");
    environment.slack.dm(ALICE, &format!("join {alice}")).await?;
    let chat = format!("D{ALICE}");
    let welcome = environment
        .slack
        .wait_until(|state| bot_message(state, &chat, "You're in"))
        .await
        .context("no welcome")?;
    transcript.expect_answer(
        "Slack, direct",
        &slack_text(&welcome),
        &[
            "You're in, alice.",
            "all repositories and all environments",
            "never apply",
        ],
    );

    transcript.says(TELEGRAM, "bob", "/start <the token>");
    environment.telegram.say(BOB, BOB, &format!("/start {bob}")).await;
    let welcome = telegram_message(environment, BOB, "You're in").await?;
    transcript.expect_answer(TELEGRAM, &welcome.text, &["You're in, bob.", "staging"]);
    Ok(())
}
