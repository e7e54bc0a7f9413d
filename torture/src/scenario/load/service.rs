//! The platforms of the load: how people write there, and what they see.

use super::place::{LoadMessage, LoadPlace};
use super::{
    GROUP_CARD_PAUSE_MAX, OWN_CARD_PAUSE_MAX, PLACES, SHARED_CARD_PAUSE_MAX, STREAMED_CARD_PAUSE_MAX,
};
use crate::long_run::LongRun;
use crate::slack_thread;
use crate::testbed::{BOT, CHANNEL, Testbed, person};
use anyhow::{Context, bail};
use drydock::simulation::emulator::discord::{DiscordEmulator, DiscordOptions, DiscordState};
use drydock::simulation::emulator::telegram::TelegramEmulator;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const TELEGRAM_TOKEN: &str = "7700000001:AATortureTortureTortureTortureTorture";
const DISCORD_TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.torture.token-of-the-bot";
/// The group in Telegram.
const GROUP: i64 = -1_001_000_001;
/// The channel in Discord whose messages get threads.
const DISCORD_CHANNEL: u64 = 501;
const DISCORD_BOT: u64 = 1_002;
/// The longest wait for a connection or a welcome.
const WELCOME_MAX: Duration = Duration::from_secs(20);
/// The address in the manifest of the app, which is only checked.
const MANIFEST_URL: &str = "https://drydock.example.com";

/// The app in Slack, and where people write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlackApp {
    /// An app that is no agent, in threads of one channel.
    CardsInThreads,
    /// An agent in threads of one channel.
    AgentInThreads,
    /// An agent in direct messages.
    AgentInDirectMessages,
}

/// A platform that enforces its rate limits.
pub(super) enum ChatService {
    Slack(SlackApp),
    Telegram(TelegramEmulator),
    Discord(DiscordEmulator),
}

impl ChatService {
    pub(super) async fn start_telegram() -> anyhow::Result<Self> {
        let http = drydock::base::http_client::api_client()?;
        let telegram = TelegramEmulator::start(TELEGRAM_TOKEN, http).await?;
        telegram.add_group(GROUP, &[]);
        telegram.limit_rates();
        Ok(Self::Telegram(telegram))
    }

    pub(super) async fn start_discord() -> anyhow::Result<Self> {
        let discord = DiscordEmulator::start(DiscordOptions {
            application: 1_001,
            bot: DISCORD_BOT,
            bot_token: DISCORD_TOKEN.to_owned(),
            guild: 900,
            signing_seed: [9; 32],
            closed_to: BTreeSet::new(),
            at: Timestamp::now,
            http: drydock::base::http_client::api_client()?,
        })
        .await?;
        discord.add_channel(DISCORD_CHANNEL, 0);
        discord.limit_rates();
        Ok(Self::Discord(discord))
    }

    pub(super) fn people_of_slack(&self) -> usize {
        match self {
            Self::Slack(_) => PLACES as usize,
            Self::Telegram(_) | Self::Discord(_) => 0,
        }
    }

    /// Returns the numbers of the places, one for each person.
    pub(super) fn places(&self) -> std::ops::Range<u32> {
        match self {
            Self::Slack(_) | Self::Discord(_) => 0..PLACES,
            // The last one is in the group.
            Self::Telegram(_) => 0..PLACES + 1,
        }
    }

    /// Returns the sections of the configuration.
    pub(super) fn sections(&self) -> String {
        let section = |kind: &str, url: &str| {
            format!(
                "[channels.{kind}]\nkind = \"{kind}\"\nbot_token = {{ env = \"TORTURE_CHAT_TOKEN\" }}\n\
                 api_base_url = \"{url}\"\n"
            )
        };
        match self {
            Self::Slack(_) => String::new(),
            Self::Telegram(telegram) => section("telegram", &telegram.api_base_url()),
            Self::Discord(discord) => section("discord", &discord.api_base_url()),
        }
    }

    /// Returns the variables with the secrets of these sections.
    pub(super) fn variables(&self) -> Option<(String, String)> {
        let token = match self {
            Self::Slack(_) => return None,
            Self::Telegram(_) => TELEGRAM_TOKEN,
            Self::Discord(_) => DISCORD_TOKEN,
        };
        Some(("TORTURE_CHAT_TOKEN".to_owned(), token.to_owned()))
    }

    /// Installs the app in Slack, before the program starts.
    pub(super) fn install(&self, world: &Testbed) -> anyhow::Result<()> {
        let Self::Slack(app) = self else { return Ok(()) };
        // Slack begins a stream only for a user of the workspace.
        for number in self.places() {
            world.slack.add_user(&person(number as usize));
        }
        let arguments = ["--json", "slack", "manifest", "--url", MANIFEST_URL];
        let printed = world.launch().run_command(&arguments)?;
        let printed: Value = serde_json::from_slice(&printed.stdout)
            .with_context(|| String::from_utf8_lossy(&printed.stderr).into_owned())?;
        let mut manifest = printed["manifest"].clone();
        if *app == SlackApp::CardsInThreads {
            forget_agent(&mut manifest);
        }
        match world.slack.install(&manifest) {
            Ok(()) => Ok(()),
            Err(problems) => bail!("Slack refuses the manifest: {problems:?}"),
        }
    }

    /// Invites and admits the people of Telegram or Discord.
    pub(super) async fn admit(&self, world: &Testbed) -> anyhow::Result<()> {
        if let Self::Discord(discord) = self {
            let connected = |state: &DiscordState| (state.gateway.connected() > 0).then_some(());
            let connected = discord.wait_until(WELCOME_MAX, connected).await;
            connected.context("the program did not connect to Discord")?;
        }
        for number in self.places() {
            match self {
                Self::Slack(_) => return Ok(()),
                Self::Telegram(telegram) => {
                    let user = telegram_user(number);
                    let token = world.launch().invite(&format!("telegram {number}"))?;
                    telegram.say(user, user, &format!("/start {token}")).await;
                    let is_welcome = |telegram: &TelegramEmulator| {
                        let mut shown = telegram.messages(user).into_iter();
                        shown.any(|message| message.text.contains("You're in"))
                    };
                    if !telegram.wait_until(WELCOME_MAX, is_welcome).await {
                        bail!("an invited person was not welcomed in Telegram");
                    }
                }
                Self::Discord(discord) => {
                    let user = discord_user(number);
                    let token = world.launch().invite(&format!("discord {number}"))?;
                    discord.dm(user, &format!("join {token}"));
                    let welcome = discord.wait_until(WELCOME_MAX, |state| {
                        let mut shown = state.messages_in(state.direct(user)?);
                        shown
                            .any(|message| message.text().contains("You're in"))
                            .then_some(())
                    });
                    welcome
                        .await
                        .context("an invited person was not welcomed in Discord")?;
                }
            }
        }
        Ok(())
    }

    /// Has a person request a run.
    pub(super) async fn ask(
        &self,
        world: &Testbed,
        place: &mut LoadPlace,
        run: &LongRun,
    ) -> anyhow::Result<()> {
        let words = format!("please carry out {} now", run.word());
        match self {
            Self::Slack(SlackApp::AgentInDirectMessages) => {
                let user = person(place.number as usize);
                let written = world.slack.write(&user, &format!("D{user}"), None, &words);
                deliver(world, &written.events).await?;
            }
            Self::Slack(_) => {
                let user = person(place.number as usize);
                let words = format!("@drydock {words}");
                let written = world.slack.write(&user, CHANNEL, place.root.as_deref(), &words);
                place.root.get_or_insert(written.ts);
                deliver(world, &written.events).await?;
            }
            Self::Telegram(telegram) => {
                let user = telegram_user(place.number);
                match telegram_chat(place.number) {
                    GROUP => telegram.say(user, GROUP, &format!("@drydock_bot {words}")).await,
                    chat => telegram.say(user, chat, &words).await,
                };
            }
            Self::Discord(discord) => {
                let user = discord_user(place.number);
                let thread = place.root.as_ref().and_then(|root| root.parse().ok());
                let id = discord.say(
                    user,
                    thread.unwrap_or(DISCORD_CHANNEL),
                    &format!("@drydock {words}"),
                );
                place.root.get_or_insert_with(|| id.to_string());
            }
        }
        Ok(())
    }

    /// Returns the messages of the bot that the person of a place sees, and their drafts.
    pub(super) fn shown(&self, world: &Testbed, place: &LoadPlace) -> Vec<LoadMessage> {
        match self {
            Self::Slack(app) => {
                let is_direct = *app == SlackApp::AgentInDirectMessages;
                let direct = format!("D{}", person(place.number as usize));
                world.slack.with_state(|state| {
                    let messages = state.messages.iter().filter(|message| message.user == BOT);
                    let there = messages.filter(|message| match is_direct {
                        true => message.channel == direct,
                        false => {
                            message.channel == CHANNEL
                                && place.root.is_some()
                                && message.thread_ts == place.root
                        }
                    });
                    there
                        .map(|message| LoadMessage {
                            id: message.ts.clone(),
                            text: slack_thread::shown(message),
                        })
                        .collect()
                })
            }
            Self::Telegram(telegram) => {
                let chat = telegram_chat(place.number);
                let messages = telegram.messages(chat).into_iter();
                let messages = messages.map(|message| LoadMessage {
                    id: message.id.to_string(),
                    text: message.text,
                });
                let draft = telegram.draft(chat).map(|draft| LoadMessage {
                    id: format!("draft {}", draft.id),
                    text: draft.text,
                });
                messages.chain(draft).collect()
            }
            Self::Discord(discord) => {
                let thread: Option<u64> = place.root.as_ref().and_then(|root| root.parse().ok());
                discord.with_state(|state| {
                    let messages = thread.into_iter().flat_map(|thread| state.messages_in(thread));
                    messages
                        .filter(|message| message.author == DISCORD_BOT)
                        .map(|message| LoadMessage {
                            id: message.id.to_string(),
                            text: message.text(),
                        })
                        .collect()
                })
            }
        }
    }

    /// Returns the longest time for which the card of a run may stay unchanged.
    pub(super) fn card_pause_max(&self) -> Duration {
        match self {
            Self::Slack(SlackApp::AgentInThreads) => STREAMED_CARD_PAUSE_MAX,
            Self::Slack(_) => SHARED_CARD_PAUSE_MAX,
            Self::Telegram(_) => GROUP_CARD_PAUSE_MAX,
            Self::Discord(_) => OWN_CARD_PAUSE_MAX,
        }
    }

    /// Returns the calls that were refused for their rate. Those of Slack are problems of the testbed.
    pub(super) fn rate_violations(&self) -> Vec<String> {
        match self {
            Self::Slack(_) => Vec::new(),
            Self::Telegram(telegram) => vec!["a method of Telegram".to_owned(); telegram.rate_violations()],
            Self::Discord(discord) => discord.rate_violations(),
        }
    }

    /// Returns what Telegram or Discord would have refused.
    pub(super) fn problems(&self) -> Vec<String> {
        match self {
            Self::Slack(_) => Vec::new(),
            Self::Telegram(telegram) => telegram.problems(),
            Self::Discord(discord) => discord.problems(),
        }
    }
}

/// Delivers the events of a message. Each must be acknowledged.
async fn deliver(world: &Testbed, events: &[Value]) -> anyhow::Result<()> {
    for event in events {
        if !world.deliver(event).await {
            bail!("an event was not acknowledged");
        }
    }
    Ok(())
}

/// Removes what makes the app of a manifest an agent.
fn forget_agent(manifest: &mut Value) {
    if let Some(features) = manifest["features"].as_object_mut() {
        features.remove("agent_view");
    }
    let events = &mut manifest["settings"]["event_subscriptions"]["bot_events"];
    let of_agents = |event: &Value| {
        let name = event.as_str().unwrap_or_default();
        name.starts_with("agent_") || name.starts_with("app_context")
    };
    if let Some(events) = events.as_array_mut() {
        events.retain(|event| !of_agents(event));
    }
}

fn telegram_user(number: u32) -> i64 {
    7_000 + i64::from(number)
}

/// Returns the private chat of a person, which has their id, or the group.
fn telegram_chat(number: u32) -> i64 {
    match number {
        PLACES => GROUP,
        _ => telegram_user(number),
    }
}

fn discord_user(number: u32) -> u64 {
    7_000 + u64::from(number)
}
