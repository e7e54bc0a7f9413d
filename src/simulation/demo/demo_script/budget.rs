//! A person has used up the budget of the day: an administrator allows more, and the request goes on where it ended.

use super::{
    BOB, BOUND, CAROL, CHANNEL, TELEGRAM, bot_message, invite, slack_text, telegram_message, wait_for_request,
};
use crate::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::telegram::PostedMessage;
use crate::state::access::Role;
use anyhow::Context;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A budget is used up, and an administrator allows more");
    admit_carol(environment, transcript).await?;
    let (slack, telegram) = (&environment.slack, &environment.telegram);
    let words = "compare the replicas of all environments";
    transcript.says(TELEGRAM, "bob", words);
    telegram.say(BOB, BOB, words).await;
    let refused = message_with_button(environment, "the budget of a person", "Retry").await?;
    let expected = [
        "I stopped: the budget of a person for one day is 150,000 tokens",
        "I asked the administrators to allow more.",
    ];
    transcript.expect_answer(TELEGRAM, &refused.text, &expected);

    let request = slack.wait_until(|state| bot_message(state, SLACK_CHANNEL, "needs an administrator"));
    let request = request.await.context("no administrator was asked")?;
    let label = "Allow 75,000 tokens more for today";
    transcript.expect_answer(
        CHANNEL,
        &slack_text(&request),
        &["bob needs an administrator", label],
    );
    transcript.says(CHANNEL, "carol", &format!("[{label}]"));
    slack.click(CAROL, &request.ts, label).await?;
    let allowed = telegram_message(environment, BOB, "carol allowed").await?;
    let expected = ["carol allowed 75,000 tokens more for today."];
    transcript.expect_answer(TELEGRAM, &allowed.text, &expected);

    transcript.says(TELEGRAM, "bob", "[Retry]");
    let pressed = telegram.click(BOB, BOB, refused.id, "Retry").await;
    pressed.context("the answer has no button")?;
    let resumed = telegram_message(environment, BOB, "I go on with your last message").await?;
    transcript.expect_answer(TELEGRAM, &resumed.text, &["1 finished step is kept"]);
    let answer = telegram_message(environment, BOB, "Only prod differs").await?;
    transcript.expect_answer(
        TELEGRAM,
        &answer.text,
        &["web has 2 replicas in dev and in staging"],
    );
    let first_calls = environment.model.requests();
    let first_calls = first_calls
        .iter()
        .filter(|asked| asked.last_user_text() == words && asked.last_results().is_empty());
    let last = wait_for_request(&environment.model, |asked| {
        asked.last_user_text() == words && !asked.last_results().is_empty()
    });
    let kept = last.await?.last_results().len();
    transcript.expect(
        "model",
        &format!("the finished step with its {kept} results was not requested again"),
        first_calls.count() == 1 && kept == 3,
    );
    Ok(())
}

/// Invites an administrator, who joins.
async fn admit_carol(environment: &DemoEnvironment, transcript: &mut Transcript<'_>) -> anyhow::Result<()> {
    let token = invite(environment, "carol", Role::Admin, &["**"]).await?;
    transcript.says("terminal", "operator", "drydock invite carol --role admin");
    transcript.says("Slack, direct", "carol", "join <the token>");
    environment.slack.dm(CAROL, &format!("join {token}")).await?;
    let chat = format!("D{CAROL}");
    let welcome = environment
        .slack
        .wait_until(|state| bot_message(state, &chat, "You're in, carol"));
    welcome.await.context("carol was not admitted")?;
    Ok(())
}

/// Waits for a message in Bob's chat with this text that has a button with this label.
async fn message_with_button(
    environment: &DemoEnvironment,
    text: &str,
    label: &str,
) -> anyhow::Result<PostedMessage> {
    let is_it = |posted: &PostedMessage| {
        posted.text.contains(text) && posted.keyboard.iter().flatten().any(|(of, _)| of == label)
    };
    let find = |messages: Vec<PostedMessage>| messages.into_iter().find(is_it);
    let telegram = &environment.telegram;
    telegram
        .wait_until(BOUND, |telegram| find(telegram.messages(BOB)).is_some())
        .await;
    find(telegram.messages(BOB)).with_context(|| format!("no message with the button {label}"))
}
