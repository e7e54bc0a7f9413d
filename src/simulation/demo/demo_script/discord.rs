//! A person on Discord requests a change in a channel, and presses a button below the result in its thread.

use super::{BOUND, invite};
use crate::base::http_client::api_client;
use crate::server::app::Host;
use crate::simulation::demo::environment::{DISCORD_BOT_TOKEN, DemoEnvironment};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::discord::{DiscordEmulator, DiscordMessage, DiscordOptions, DiscordState};
use crate::state::access::Role;
use anyhow::Context;
use std::collections::BTreeSet;

/// Erin's account.
const ERIN: u64 = 7_001;
/// The account of the bot.
const BOT: u64 = 1_002;
/// A channel of the server.
const OPS: u64 = 501;
const DIRECT: &str = "Discord, direct";
const PLACE: &str = "Discord, #ops";
const PLACE_THREAD: &str = "Discord, #ops, thread";

/// Starts a server with a channel.
pub(super) async fn start(host: Host) -> anyhow::Result<DiscordEmulator> {
    let options = DiscordOptions {
        application: 1_001,
        bot: BOT,
        bot_token: DISCORD_BOT_TOKEN.to_owned(),
        guild: 900,
        // It sends no signed request: interactions arrive over the gateway of Discord.
        signing_seed: [0; 32],
        closed_to: BTreeSet::new(),
        at: host.now,
        http: api_client()?,
    };
    let discord = DiscordEmulator::start(options).await?;
    discord.add_channel(OPS, 0);
    Ok(discord)
}

/// Returns the keys of its channel.
pub(super) fn keys(api_base_url: &str) -> [(&str, &str); 4] {
    [
        ("channels.discord.kind", "discord"),
        ("channels.discord.bot_token.env", "STAGE_DISCORD_BOT_TOKEN"),
        ("channels.discord.api_base_url", api_base_url),
        ("channels.discord.paced", "false"),
    ]
}

pub(super) async fn play(
    environment: &DemoEnvironment,
    discord: &DiscordEmulator,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("The same on Discord");
    let connected = discord.wait_until(BOUND, |state| (state.gateway.connected() > 0).then_some(()));
    connected.await.context("the gateway of Discord has no session")?;
    let token = invite(environment, "erin", Role::Editor, &["prod"]).await?;
    transcript.says(
        "terminal",
        "operator",
        "drydock invite erin --role editor --env prod",
    );
    transcript.says(DIRECT, "erin", "join <the token>");
    discord.dm(ERIN, &format!("join {token}"));
    let direct = discord.with_state(|state| state.direct(ERIN));
    let direct = direct.context("erin has no chat with the bot")?;
    message(discord, direct, "You're in, erin").await?;

    let mention = "@drydock set the worker log level to debug in prod";
    transcript.says(PLACE, "erin", mention);
    // The thread of a message has its id.
    let thread = discord.say(ERIN, OPS, mention);
    let result = message(discord, thread, " tokens · ").await?;
    let labels = result
        .buttons()
        .into_iter()
        .map(|(label, _)| format!("[{label}]"));
    let text = result.text().replace(&format!("@{ERIN}"), "@erin");
    let shown = format!("{text}\n{}", labels.collect::<Vec<_>>().join(" "));
    let expected = ["is ready: prod, 1 file, +1 −1", "[Get patch]"];
    transcript.expect_answer(PLACE_THREAD, &shown, &expected);

    transcript.says(PLACE_THREAD, "erin", "[Get patch]");
    let press = discord.press(ERIN, result.id, "Get patch");
    discord.send(&press.context("the result has no button")?);
    let patch = discord.wait_until(BOUND, |state| {
        let mut files = state.messages_in(thread).flat_map(|message| &message.files);
        files.find(|(name, _)| name.ends_with(".patch")).cloned()
    });
    let (_, content) = patch.await.context("no patch file")?;
    transcript.expect(
        PLACE_THREAD,
        "the patch was sent as a file: one file, +1 −1",
        String::from_utf8_lossy(&content).contains("\n+    config+: { LOG_LEVEL: 'debug' },"),
    );
    Ok(())
}

/// Waits for a message of the bot in a channel or thread.
async fn message(discord: &DiscordEmulator, channel: u64, text: &str) -> anyhow::Result<DiscordMessage> {
    let look = |state: &DiscordState| {
        let mut messages = state.messages_in(channel);
        messages
            .find(|message| message.author == BOT && message.text().contains(text))
            .cloned()
    };
    let found = discord.wait_until(BOUND, look).await;
    found.with_context(|| format!("no message on Discord that reads `{text}`"))
}
