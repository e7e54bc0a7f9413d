//! The demo script: one file for each scene, in the order of [`ScriptedDemo::play`]. Every line is checked; a line whose
//! check fails makes the demo fail.

mod alert;
mod budget;
mod commands;
mod discord;
mod fallback;
mod follow_up;
mod invites;
mod library;
mod question;
mod records;
mod recovery;
mod socket_mode;
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
use crate::server::app::{Host, StartError};
use crate::simulation::emulator::discord::DiscordEmulator;
use crate::simulation::emulator::model::{ModelEmulator, ModelRequest};
use crate::simulation::emulator::slack::{SlackEmulator, SlackMessage, SlackState};
use crate::simulation::emulator::telegram::PostedMessage;
use crate::state::access::Role;
use anyhow::Context;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::Instant;

/// Alice's Slack account.
pub const ALICE: &str = "U0ALICE";
/// Bob's Telegram account, which is also his private chat.
pub const BOB: i64 = 4_201;
/// Dana's account in the second Slack workspace.
pub const DANA: &str = "U0DANA";
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
/// The maximum number of starts, each on another port.
const STARTS_MAX: usize = 5;

/// The gateway of the script with its emulators, and the services that only the script has.
pub struct ScriptedDemo {
    /// The gateway, and the emulators of most services.
    pub environment: DemoEnvironment,
    fallback: ModelEmulator,
    /// The second workspace, which has Socket Mode.
    field: SlackEmulator,
    discord: DiscordEmulator,
}

impl ScriptedDemo {
    /// Builds everything and waits until the gateway is ready. `pace` is the simulated thinking time of the models.
    /// `settings` override keys of the configuration, as `--set` does.
    pub async fn build(pace: Duration, host: Host, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut starts = 1;
        loop {
            match Box::pin(Self::start(pace, host, settings)).await {
                // Another program took the port between its choice and its use.
                Err(error) if starts < STARTS_MAX && is_port_taken(&error) => starts += 1,
                started => return started,
            }
        }
    }

    async fn start(pace: Duration, host: Host, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let script = move |asked: &ModelRequest| scripted_model::answer(asked, pace);
        let fallback = ModelEmulator::start(script)?;
        let wire = WireFormat::OpenaiChat;
        let url = fallback.base_url(wire);
        let field = socket_mode::start(host).await?;
        let discord = discord::start(host).await?;
        let (field_url, discord_url) = (field.api_base_url(), discord.api_base_url());
        // The port is chosen before the start, because the answer to `login` names the address.
        let listen = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.to_string();
        let public_url = format!("http://{listen}");
        let own = [
            ("server.listen", listen.as_str()),
            ("server.public_url", public_url.as_str()),
            ("model.fallbacks", scripted_model::FALLBACK),
            ("providers.backup.wire", wire.word()),
            ("providers.backup.base_url", url.as_str()),
            // The next model is asked at once.
            ("providers.anthropic.attempts_max", "1"),
            ("budgets.person_day_tokens_max", PERSON_DAY_TOKENS_MAX),
            ("budgets.ask_in.channel", "slack"),
            ("budgets.ask_in.chat", SLACK_CHANNEL),
        ];
        let (field_keys, discord_keys) = (socket_mode::keys(&field_url), discord::keys(&discord_url));
        let all = [
            &own[..],
            &field_keys[..],
            &discord_keys[..],
            &alert::KEYS[..],
            settings,
        ]
        .concat();
        let environment = DemoEnvironment::build(script, host, &all).await?;
        Ok(Self {
            environment,
            fallback,
            field,
            discord,
        })
    }

    /// Stops the gateway.
    pub async fn stop(&mut self) {
        self.environment.stop().await;
    }

    /// Plays every scene, in order, up to [`ScriptedDemo::conclude`].
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
        socket_mode::play(environment, &self.field, transcript).await?;
        discord::play(environment, &self.discord, transcript).await?;
        stop::play(environment, transcript).await?;
        budget::play(environment, transcript).await?;
        alert::play(environment, transcript).await?;
        records::play(environment, transcript).await
    }

    /// Adds the last line: the findings of the emulators about all requests.
    pub fn conclude(&self, transcript: &mut Transcript<'_>) {
        transcript.scene("The end");
        let problems: Vec<String> = [
            self.environment.slack.problems(),
            self.environment.telegram.problems(),
            self.environment.model.problems(),
            self.fallback.problems(),
            self.field.problems(),
            self.discord.problems(),
        ]
        .concat();
        let finding = format!(
            "Slack, Telegram, Discord and the models found nothing wrong with any request{}",
            problems.join("\n")
        );
        transcript.expect("loopback", &finding, problems.is_empty());
    }
}

fn is_port_taken(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<StartError>(),
        Some(StartError::Listen { .. })
    )
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

/// Returns the text a user reads in a Telegram message, with its buttons.
fn telegram_text(message: &PostedMessage) -> String {
    let rows = message.keyboard.iter().map(|row| {
        let labels = row.iter().map(|(label, _)| format!("[{label}]"));
        labels.collect::<Vec<_>>().join(" ")
    });
    let lines: Vec<String> = std::iter::once(message.text.clone()).chain(rows).collect();
    lines.join("\n")
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
