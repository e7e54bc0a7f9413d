//! The demo script: one file for each scene, in the order of [`ScriptedDemo::play`]. Every line is checked; a line whose
//! check fails makes the demo fail.

mod budget;
mod commands;
mod fallback;
mod follow_up;
mod invites;
mod library;
mod question;
mod records;
mod recovery;
mod steering;
mod stop;
mod two_people;
mod unknown_senders;
mod webhook;

use super::environment::{DemoEnvironment, SLACK_CHANNEL};
use super::transcript::Transcript;
use super::{message_text, scripted_model};
use crate::base::config::WireFormat;
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::server::app::Host;
use crate::simulation::emulator::model::{ModelEmulator, ModelRequest};
use crate::simulation::emulator::slack::{SlackMessage, SlackState};
use crate::simulation::emulator::telegram::PostedMessage;
use crate::state::access::Role;
use anyhow::Context;
use std::time::Duration;
use tokio::time::Instant;

/// Alice's Slack account.
pub const ALICE: &str = "U0ALICE";
/// Bob's Telegram account, which is also his private chat.
pub const BOB: i64 = 4_201;
/// The Slack account of an administrator.
const CAROL: &str = "U0CAROL";
/// The Slack account of a user without access.
const EVE: &str = "U0EVE";
/// The Telegram account of a user without access.
const MALLORY: i64 = 666;
const CHANNEL: &str = "#platform";
const THREAD: &str = "#platform, thread";
const TELEGRAM: &str = "Telegram";
/// The longest time any step may take on loopback.
const BOUND: Duration = Duration::from_secs(20);
/// The tokens that a person may use in a day. One request of the script reads so much that the next call is refused.
const PERSON_DAY_TOKENS_MAX: &str = "150_000";

/// The gateway of the script with its emulators, and the service of the fallback model.
pub struct ScriptedDemo {
    /// The gateway, and the emulators of everything but the fallback model.
    pub environment: DemoEnvironment,
    fallback: ModelEmulator,
}

impl ScriptedDemo {
    /// Builds everything and waits until the gateway is ready. `pace` is the simulated thinking time of the models.
    /// `settings` override keys of the configuration, as `--set` does.
    pub async fn build(pace: Duration, host: Host, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let script = move |asked: &ModelRequest| scripted_model::answer(asked, pace);
        let fallback = ModelEmulator::start(script)?;
        let wire = WireFormat::OpenaiChat;
        let url = fallback.base_url(wire);
        let own = [
            ("model.fallbacks", scripted_model::FALLBACK),
            ("providers.backup.wire", wire.word()),
            ("providers.backup.base_url", url.as_str()),
            // The next model is asked at once.
            ("providers.anthropic.attempts_max", "1"),
            ("budgets.person_day_tokens_max", PERSON_DAY_TOKENS_MAX),
            ("budgets.ask_in.channel", "slack"),
            ("budgets.ask_in.chat", SLACK_CHANNEL),
        ];
        let environment = DemoEnvironment::build(script, host, &[&own, settings].concat()).await?;
        Ok(Self {
            environment,
            fallback,
        })
    }

    /// Stops the gateway.
    pub async fn stop(&mut self) {
        self.environment.stop().await;
    }

    /// Plays every scene, in order.
    pub async fn play(&self, transcript: &mut Transcript<'_>) -> anyhow::Result<()> {
        let environment = &self.environment;
        environment.slack.add_channel(SLACK_CHANNEL, &[ALICE, CAROL, EVE]);
        invites::play(environment, transcript).await?;
        unknown_senders::play(environment, transcript).await?;
        let thread = two_people::play(environment, transcript).await?;
        follow_up::play(environment, transcript, &thread).await?;
        commands::play(environment, transcript, &thread).await?;
        webhook::play(environment, transcript).await?;
        recovery::play(environment, transcript).await?;
        library::play(environment, transcript).await?;
        steering::play(environment, transcript).await?;
        question::play(environment, transcript).await?;
        fallback::play(environment, &self.fallback, transcript).await?;
        stop::play(environment, transcript).await?;
        budget::play(environment, transcript).await?;
        records::play(environment, transcript).await?;
        transcript.scene("The end");
        let problems: Vec<String> = [
            environment.slack.problems(),
            environment.telegram.problems(),
            environment.model.problems(),
            self.fallback.problems(),
        ]
        .concat();
        let finding = format!(
            "Slack, Telegram and the models found nothing wrong with any request{}",
            problems.join("\n")
        );
        transcript.expect("loopback", &finding, problems.is_empty());
        Ok(())
    }
}

/// Requests a change as Alice, in a new thread, and returns the result.
async fn ask_as_alice(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
    words: &str,
) -> anyhow::Result<SlackMessage> {
    let mention = format!("@drydock {words}");
    transcript.says(CHANNEL, "alice", &mention);
    let said = environment.slack.say(ALICE, SLACK_CHANNEL, &mention).await?;
    slack_result(environment, &said.ts, "is ready").await
}

/// Requests an invite as the operator and returns its token.
async fn invite(
    environment: &DemoEnvironment,
    name: &str,
    role: Role,
    environments: &[&str],
) -> anyhow::Result<String> {
    let app = environment.app.as_ref().context("the gateway is down")?;
    let request = AdminRequest::Invite {
        name: name.to_owned(),
        role,
        repositories: "*".to_owned(),
        environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
        hours: 24,
    };
    match app.admin.answer(request).await {
        AdminReply::Invite { token, .. } => Ok(token),
        other => anyhow::bail!("no invite: {other:?}"),
    }
}

/// Returns the text a user reads in a Slack message, on all its surfaces.
pub fn slack_text(message: &SlackMessage) -> String {
    message_text::text(message)
}

/// Returns the first message of the bot in a channel, or in one of its threads, that contains the text.
fn bot_message(state: &SlackState, channel: &str, text: &str) -> Option<SlackMessage> {
    let mut found = state
        .messages
        .iter()
        .filter(|message| message.channel == channel && !message.request.is_null());
    found.find(|message| slack_text(message).contains(text)).cloned()
}

/// Waits for a result in a thread.
pub async fn slack_result(
    environment: &DemoEnvironment,
    thread: &str,
    text: &str,
) -> anyhow::Result<SlackMessage> {
    let found = environment.slack.wait_until(|state| {
        let mut replies = state.replies(SLACK_CHANNEL, thread);
        replies
            .find(|message| !message.request.is_null() && slack_text(message).contains(text))
            .cloned()
    });
    found
        .await
        .with_context(|| format!("no result that reads `{text}`"))
}

/// Waits for a message of the bot in a Telegram chat and returns the newest that contains the text.
pub async fn telegram_message(
    environment: &DemoEnvironment,
    chat: i64,
    text: &str,
) -> anyhow::Result<PostedMessage> {
    let find = |messages: Vec<PostedMessage>| {
        let filled = |posted: &&PostedMessage| {
            posted.text.contains(text) && (posted.edits > 0 || !posted.text.contains(" is ready: "))
        };
        messages.iter().rev().find(filled).cloned()
    };
    environment
        .telegram
        .wait_until(BOUND, |telegram| find(telegram.messages(chat)).is_some())
        .await;
    find(environment.telegram.messages(chat)).with_context(|| format!("no message that reads `{text}`"))
}

/// Waits until a model has received a request.
async fn wait_for_request(
    model: &ModelEmulator,
    is_it: impl Fn(&ModelRequest) -> bool,
) -> anyhow::Result<ModelRequest> {
    let deadline = Instant::now() + BOUND;
    loop {
        if let Some(found) = model.requests().into_iter().find(&is_it) {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < deadline, "the model was not asked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
