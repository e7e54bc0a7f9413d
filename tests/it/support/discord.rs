//! The gateway with a Discord channel, beside the platforms of the demo.

use super::app::{BOUND, SHOWN_CALLS_MAX, TestApp};
use super::schemas::{self, SentTo};
use super::world::{Host, world};
use drydock::base::config::{ChannelSettings, Config, DiscordSettings};
use drydock::base::http_client::api_client;
use drydock::base::model::Secret;
use drydock::simulation::emulator::discord::{
    DiscordEmulator, DiscordMessage, DiscordOptions, DiscordState, UnsentInteraction,
};
use drydock::simulation::emulator::model::AnswerScript;
use drydock::state::access::Role;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) const ALICE: u64 = 7001;
pub(crate) const BOB: u64 = 7002;
pub(crate) const EVE: u64 = 6666;
/// A text channel of the server.
pub(crate) const PLATFORM: u64 = 501;
/// A person who accepts no direct messages.
pub(crate) const CLOSED: u64 = 7003;
const TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.stage.canary-of-the-bot-token";
/// The end of every result: steps, tokens, time.
const FOOTER: &str = " tokens · ";

/// The gateway and the emulated Discord.
pub(crate) struct DiscordApp {
    pub(crate) app: TestApp,
    pub(crate) discord: DiscordEmulator,
    signed: bool,
    host: Host,
}

impl DiscordApp {
    pub(crate) async fn new(script: impl AnswerScript + 'static) -> Self {
        Self::start(script, false, world::<0>()).await
    }

    pub(crate) async fn with_host(script: impl AnswerScript + 'static, host: Host) -> Self {
        Self::start(script, false, host).await
    }

    /// Starts with a public key, so that interactions can arrive over HTTP.
    pub(crate) async fn signed(script: impl AnswerScript + 'static) -> Self {
        Self::start(script, true, world::<0>()).await
    }

    async fn start(script: impl AnswerScript + 'static, signed: bool, host: Host) -> Self {
        let options = DiscordOptions {
            application: 1001,
            bot: 1002,
            bot_token: TOKEN.to_owned(),
            guild: 900,
            signing_seed: [9; 32],
            closed_to: BTreeSet::from([CLOSED]),
            at: host.now,
            http: api_client().unwrap(),
        };
        let discord = DiscordEmulator::start(options).await.unwrap();
        discord.add_channel(PLATFORM, 0);
        discord.record_traffic();
        let mut app = TestApp::with_host(script, host, &[]).await;
        app.demo.stop().await;
        let mut started = Self {
            app,
            discord,
            signed,
            host,
        };
        started.run().await;
        started
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = self.app.demo.config().unwrap();
        let settings = DiscordSettings {
            bot_token: Secret::new(TOKEN.to_owned()),
            public_key: self.signed.then(|| self.discord.public_key()),
            previous_public_key: None,
            api_base_url: self.discord.api_base_url(),
            paced: false,
            repository: None,
        };
        config
            .channels
            .insert("discord".to_owned(), ChannelSettings::Discord(settings));
        config
    }

    /// Starts the gateway, and waits until its session is open.
    pub(crate) async fn run(&mut self) {
        self.run_with(|_| {}).await;
    }

    /// Starts the gateway with a changed configuration, and waits until its session is open.
    pub(crate) async fn run_with(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = self.config();
        change(&mut config);
        self.app.start_with_host(config, self.host).await;
        self.app
            .demo
            .slack
            .connect_to(&format!("{}/in/slack", self.app.demo.url()));
        self.wait_for("a session", |state| (state.gateway.connected() > 0).then_some(()))
            .await;
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.run().await;
    }

    /// Stops the gateway, and waits until Discord has noticed it.
    pub(crate) async fn stop(&mut self) {
        self.app.demo.stop().await;
        self.wait_for("no session", |state| {
            (state.gateway.connected() == 0).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for<T>(&self, what: &str, look: impl Fn(&DiscordState) -> Option<T>) -> T {
        if let Some(found) = self.discord.wait_until(BOUND, look).await {
            return found;
        }
        let (shown, calls, sessions) = self.discord.with_state(|state| {
            let texts = state
                .messages
                .iter()
                .map(|m| format!("{}: {}", m.channel, m.text()));
            let calls = state.calls.iter().rev().take(SHOWN_CALLS_MAX);
            let calls: Vec<String> = calls.map(|(route, _)| route.clone()).collect();
            let gateway = &state.gateway;
            let sessions = format!(
                "{} new, {} resumed, {} open after {} connections",
                gateway.identified,
                gateway.resumed,
                gateway.connected(),
                gateway.opened
            );
            (texts.collect::<Vec<_>>().join("\n---\n"), calls, sessions)
        });
        panic!(
            "Discord never showed {what}; it shows:\n{shown}\nsessions: {sessions}\nthe newest calls: {calls:?}\n\
             problems: {:?}\nopen: {:#?}",
            self.discord.problems(),
            self.app.open_work()
        );
    }

    /// Waits for a message of the bot in a channel or thread.
    pub(crate) async fn wait_for_message(&self, channel: u64, text: &str) -> DiscordMessage {
        self.wait_for(text, |state| {
            let mut messages = state.messages_in(channel);
            messages
                .find(|message| message.author == 1002 && message.text().contains(text))
                .cloned()
        })
        .await
    }

    pub(crate) async fn wait_for_private_answer(&self, person: u64, text: &str) -> DiscordMessage {
        self.wait_for(text, |state| {
            let mut messages = state.messages.iter();
            messages
                .find(|message| message.only_for == Some(person) && message.text().contains(text))
                .cloned()
        })
        .await
    }

    /// Returns the own chat of a person.
    pub(crate) fn direct(&self, person: u64) -> u64 {
        self.discord.with_state(|state| state.direct(person).unwrap())
    }

    /// Invites and admits a person in a direct message.
    pub(crate) async fn admit(&self, person: u64, role: Role) {
        let token = self.app.invite(&format!("d{person}"), role, &["**"]).await;
        self.discord.dm(person, &format!("join {token}"));
        self.wait_for_message(self.direct(person), "You're in").await;
    }

    /// Returns the results in a channel or thread so far.
    pub(crate) fn results(&self, channel: u64) -> Vec<DiscordMessage> {
        self.discord.with_state(|state| {
            let messages = state.messages_in(channel);
            messages
                .filter(|message| message.text().contains(FOOTER))
                .cloned()
                .collect()
        })
    }

    /// Waits for the n-th result of a channel or thread, from 1.
    pub(crate) async fn wait_for_result(&self, channel: u64, n: usize) -> DiscordMessage {
        self.wait_for(&format!("result {n} in {channel}"), |state| {
            let mut results = state
                .messages_in(channel)
                .filter(|message| message.text().contains(FOOTER));
            results.nth(n - 1).cloned()
        })
        .await
    }

    /// Sends a request in the platform channel. Returns its thread and the result in it.
    pub(crate) async fn ask(&self, person: u64, words: &str) -> (u64, DiscordMessage) {
        let thread = self.discord.say(person, PLATFORM, &format!("@drydock {words}"));
        let result = self.wait_for_result(thread, 1).await;
        (thread, result)
    }

    /// Sends an interaction, and waits until it is responded to.
    pub(crate) async fn interact(&self, interaction: &UnsentInteraction) {
        self.discord.send(interaction);
        let started = Instant::now();
        while !self.discord.is_responded_to(interaction) {
            assert!(
                started.elapsed() < BOUND,
                "no response to {}; open: {:#?}",
                interaction.payload,
                self.app.open_work()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Presses a button, by its label.
    pub(crate) async fn press(&self, person: u64, message: &DiscordMessage, label: &str) {
        let press = self.discord.press(person, message.id, label);
        let press = press.unwrap_or_else(|| panic!("no button {label}: {:?}", message.buttons()));
        self.interact(&press).await;
    }

    pub(crate) fn count_of(&self, channel: u64, text: &str) -> usize {
        self.discord.with_state(|state| {
            let messages = state.messages_in(channel);
            messages
                .filter(|message| message.author == 1002 && message.text().contains(text))
                .count()
        })
    }
}

impl Drop for DiscordApp {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut problems = self.discord.problems();
            problems.extend(schemas::problems(SentTo::Discord, &self.discord.traffic()));
            assert!(problems.is_empty(), "Discord found:\n{}", problems.join("\n"));
        }
    }
}
