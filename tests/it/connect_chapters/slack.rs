//! Slack's pages and chats: an app has no token before it is installed, and no event that its manifest does not ask for.

use super::walk::{ORIGIN, VisitedPlatform};
use crate::support::app::visible_text;
use crate::support::schemas::{self, SentTo};
use crate::support::shell::ProgramOutput;
use drydock::base::http_client::api_client;
use drydock::simulation::emulator::slack::{
    RateLimits, SlackEmulator, SlackMessage, SlackOptions, SlackState,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cell::Cell;

const BOT_TOKEN: &str = "xoxb-7700000001-AbCdEfGh12345678";
const APP_TOKEN: &str = "xapp-1-A0DRYDOCK-1-abcdefgh12345678";
const SIGNING_SECRET: &str = "8f742231b10e8888abcd99aa1122bb33";
const ALICE: &str = "U0ALICE";
const CHANNEL: &str = "C0PLATFORM";
/// The number of waits of the emulator, 10 s each, for an answer.
const WAITS_MAX: usize = 6;

/// A workspace, and what a person did and learnt on its pages.
pub(crate) struct VisitedSlack {
    slack: SlackEmulator,
    manifest: Option<Value>,
    is_installed: bool,
    /// The words of the chapter so far.
    read: String,
    is_in_channel: bool,
    /// The channel and the thread of the last message, and the number of messages of the bot there before it.
    asked: (String, Option<String>, usize),
    mentions_answered: Cell<usize>,
}

impl VisitedSlack {
    pub(crate) async fn new() -> Self {
        let options = SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: BOT_TOKEN.to_owned(),
            signing_secret: SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: Timestamp::now,
            http: api_client().unwrap(),
        };
        let slack = SlackEmulator::start(options).await.unwrap();
        slack.add_user(ALICE);
        slack.record_traffic();
        // No app is installed yet.
        slack.refuse_token("invalid_auth");
        Self {
            slack,
            manifest: None,
            is_installed: false,
            read: String::new(),
            is_in_channel: false,
            asked: (String::new(), None, 0),
            mentions_answered: Cell::new(0),
        }
    }

    fn has_socket(&self) -> bool {
        let manifest = self.manifest.as_ref();
        manifest.is_some_and(|manifest| manifest["settings"]["socket_mode_enabled"] == true)
    }

    /// Creates the app in the form behind the printed link.
    fn create(&mut self, printed: &ProgramOutput) -> Result<(), String> {
        let (_, encoded) = printed
            .err
            .split_once("&manifest_json=")
            .ok_or("no link was printed")?;
        let form = format!("manifest={}", encoded.trim());
        let (_, manifest) = form_urlencoded::parse(form.as_bytes()).next().unwrap();
        let manifest: Value = serde_json::from_str(&manifest).map_err(|error| error.to_string())?;
        self.slack
            .install(&manifest)
            .map_err(|problems| problems.join("\n"))?;
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Sends the request that verifies the address of events.
    async fn verify(&self) -> Result<(), String> {
        let body = json!({"type": "url_verification", "challenge": "3eZbrw1aB"}).to_string();
        let headers = self.slack.signed_headers("application/json", body.as_bytes());
        let answer = self.slack.send(body, headers).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match (answer.status, answer.body.as_str()) {
            (200, "3eZbrw1aB") => Ok(()),
            other => Err(format!("the address is not verified: {other:?}")),
        }
    }

    /// Returns the messages of the bot at the place of the last message.
    fn shown<'a>(&'a self, state: &'a SlackState) -> impl Iterator<Item = &'a SlackMessage> {
        let (channel, thread, _) = &self.asked;
        state.messages.iter().filter(move |message| {
            let is_there = thread.is_none() || message.thread_ts == *thread;
            message.channel == *channel && is_there && !message.request.is_null()
        })
    }
}

impl VisitedPlatform for VisitedSlack {
    fn api(&self) -> (&'static str, String) {
        ("DRYDOCK_CHANNELS__SLACK__API_BASE_URL", self.slack.api_base_url())
    }

    async fn visit(&mut self, words: &str, printed: &ProgramOutput) -> Result<(), String> {
        self.read.push_str(words);
        if words.contains("press *Create*") {
            self.create(printed)?;
        }
        if words.contains("*Install to Workspace*") {
            self.manifest.as_ref().ok_or("there is no app to install")?;
            self.slack.restore_token();
            self.is_installed = true;
        }
        if words.contains("*App-Level Tokens*") && words.contains("`connections:write`") {
            match self.has_socket() {
                true => self.slack.turn_socket_mode_on(APP_TOKEN),
                false => return Err("the app has no Socket Mode".to_owned()),
            }
        }
        if words.contains("*Event Subscriptions*, press *Retry*") {
            self.verify().await?;
        }
        Ok(())
    }

    fn secret(&self, variable: &str) -> Option<&'static str> {
        let is_read = |words: &str| self.read.contains(words);
        match variable {
            "SLACK_BOT_TOKEN" if self.is_installed && is_read("*Bot User OAuth Token*") => Some(BOT_TOKEN),
            "SLACK_APP_TOKEN" if is_read("`connections:write`") => Some(APP_TOKEN),
            "SLACK_SIGNING_SECRET" if self.manifest.is_some() && is_read("*Signing Secret*") => {
                Some(SIGNING_SECRET)
            }
            _ => None,
        }
    }

    async fn reach(&mut self, server: &str) {
        if self.has_socket() {
            let open = |state: &SlackState| (state.socket_mode.staying_sockets() > 0).then_some(());
            assert!(self.slack.wait_until(open).await.is_some(), "no socket");
            return;
        }
        let manifest = self.manifest.as_ref().unwrap();
        let url = &manifest["settings"]["event_subscriptions"]["request_url"];
        let path = url.as_str().unwrap().strip_prefix(ORIGIN).unwrap();
        self.slack.connect_to(&format!("{server}{path}"));
    }

    async fn say(&mut self, words: &str) -> Result<(), String> {
        if words == "/invite @drydock" {
            self.slack.add_channel(CHANNEL, &[ALICE]);
            self.is_in_channel = true;
            return Ok(());
        }
        if words.starts_with("@drydock ") {
            if !self.is_in_channel {
                return Err("the bot is in no channel".to_owned());
            }
            let said = self.slack.say(ALICE, CHANNEL, words).await;
            let said = said.map_err(|error| error.to_string())?;
            self.asked = (CHANNEL.to_owned(), Some(said.ts), 0);
            return Ok(());
        }
        self.asked = (format!("D{ALICE}"), None, 0);
        self.asked.2 = self.slack.with_state(|state| self.shown(state).count());
        let said = self.slack.dm(ALICE, words).await;
        said.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn wait_for_answer(&self, text: &str) -> Result<(), String> {
        let look = |state: &SlackState| {
            let texts: Vec<String> = self
                .shown(state)
                .skip(self.asked.2)
                .chain(&state.ephemerals)
                .map(visible_text)
                .collect();
            let has = |text: &str| texts.iter().any(|shown| shown.contains(text));
            (has(text) || has("Not authorised")).then(|| has(text))
        };
        for _ in 0..WAITS_MAX {
            match self.slack.wait_until(look).await {
                Some(true) => {
                    let is_mention = usize::from(self.asked.1.is_some());
                    self.mentions_answered
                        .set(self.mentions_answered.get() + is_mention);
                    return Ok(());
                }
                Some(false) => return Err("the person is not authorised".to_owned()),
                None => {}
            }
        }
        Err(format!("nobody answers `{text}`"))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.slack.problems();
        problems.extend(schemas::problems(SentTo::Slack, &self.slack.traffic()));
        let refused = self.slack.with_state(|state| {
            let refused = state.calls.iter().filter(|call| call.refused.is_some());
            refused.map(|call| format!("{call:?}")).collect::<Vec<_>>()
        });
        problems.extend(refused);
        let is_unused = self.mentions_answered.get() == 0;
        problems.extend(is_unused.then(|| "no mention in a channel was answered".to_owned()));
        problems
    }

    fn secrets(&self) -> Vec<&'static str> {
        vec![BOT_TOKEN, APP_TOKEN, SIGNING_SECRET]
    }
}
