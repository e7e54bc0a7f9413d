//! @BotFather, and the private chat of a bot: its token does not exist before the bot, and a webhook has the address and
//! the secret that the program registered.

use super::walk::{ORIGIN, VisitedPlatform};
use crate::support::schemas::{self, SentTo};
use crate::support::shell::{BOUND, ProgramOutput};
use drydock::base::http_client::api_client;
use drydock::simulation::emulator::telegram::TelegramEmulator;

const BOT_TOKEN: &str = "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde";
const SECRET_TOKEN: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f9";
const ALICE: i64 = 4_201;

/// The bot, and what a person knows about it.
pub(crate) struct VisitedTelegram {
    telegram: TelegramEmulator,
    /// The words of the chapter so far.
    read: String,
    server: String,
    /// The number of messages of the bot before the last one of the person.
    before: usize,
}

impl VisitedTelegram {
    pub(crate) async fn new() -> Self {
        let telegram = TelegramEmulator::start(BOT_TOKEN, api_client().unwrap()).await;
        let telegram = telegram.unwrap();
        telegram.record_traffic();
        // There is no bot yet.
        telegram.revoke_token();
        Self {
            telegram,
            read: String::new(),
            server: String::new(),
            before: 0,
        }
    }

    /// Returns the address and the secret of the webhook that the program registered last, if it did not remove it.
    fn webhook(&self) -> Option<(String, String)> {
        let calls = self.telegram.calls();
        let mut calls = calls.iter().rev();
        let (method, sent) =
            calls.find(|(method, _)| ["setWebhook", "deleteWebhook"].contains(&method.as_str()))?;
        let text = |key: &str| sent[key].as_str().map(str::to_owned);
        (method == "setWebhook").then(|| text("url").zip(text("secret_token")))?
    }
}

impl VisitedPlatform for VisitedTelegram {
    fn api(&self) -> (&'static str, String) {
        (
            "DRYDOCK_CHANNELS__TELEGRAM__API_BASE_URL",
            self.telegram.api_base_url(),
        )
    }

    async fn visit(&mut self, words: &str, _printed: &ProgramOutput) -> Result<(), String> {
        self.read.push_str(words);
        if words.contains("`/newbot`") {
            self.telegram.restore_token();
        }
        Ok(())
    }

    fn secret(&self, variable: &str) -> Option<&'static str> {
        match variable {
            "TELEGRAM_BOT_TOKEN" if self.read.contains("`/newbot`") => Some(BOT_TOKEN),
            "TELEGRAM_SECRET_TOKEN" if self.read.contains("of your choice") => Some(SECRET_TOKEN),
            _ => None,
        }
    }

    async fn reach(&mut self, server: &str) {
        self.server = server.to_owned();
    }

    async fn say(&mut self, words: &str) -> Result<(), String> {
        self.before = self.telegram.messages(ALICE).len();
        let Some((url, secret)) = self.webhook() else {
            self.telegram.say(ALICE, ALICE, words).await;
            return Ok(());
        };
        let path = url.strip_prefix(ORIGIN).ok_or("another address is registered")?;
        // The update goes through the proxy.
        self.telegram
            .connect_to(&format!("{}{path}", self.server), &secret);
        let pushed = self.telegram.say(ALICE, ALICE, words).await;
        self.telegram.connect_to(&url, &secret);
        match pushed.status {
            Some(200) => Ok(()),
            other => Err(format!("the webhook answers {other:?}")),
        }
    }

    async fn wait_for_answer(&self, text: &str) -> Result<(), String> {
        let has = |telegram: &TelegramEmulator, text: &str| {
            let mut messages = telegram.messages(ALICE).into_iter().skip(self.before);
            messages.any(|message| message.text.contains(text))
        };
        let is_answered =
            |telegram: &TelegramEmulator| has(telegram, text) || has(telegram, "Not authorised");
        self.telegram.wait_until(BOUND, is_answered).await;
        match has(&self.telegram, text) {
            true => Ok(()),
            false => Err(format!("nobody answers `{text}`")),
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.telegram.problems();
        problems.extend(schemas::problems(SentTo::Telegram, &self.telegram.traffic()));
        // A server registers commands as well.
        let calls = self.telegram.calls();
        let is_described = calls.iter().any(|(method, _)| method == "setMyDescription");
        problems.extend((!is_described).then(|| "an empty chat does not say what the bot does".to_owned()));
        problems
    }

    fn secrets(&self) -> Vec<&'static str> {
        vec![BOT_TOKEN, SECRET_TOKEN]
    }
}
