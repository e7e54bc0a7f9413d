//! Channels with `kind = "telegram"`.

use super::{BOT_TOKEN, ChannelKeys, ChannelSettings, CommonChannelSettings, api_base_url};
use crate::base::config::keys::{ConfigKey, SIGNING, UnsetRule, ValueKind, key};
use crate::base::config::reader::SettingsReader;
use crate::base::config::secret_pair::{previous_key, previous_secret};
use crate::base::model::{Platform, Secret};

pub(super) const KEYS: ChannelKeys = ChannelKeys {
    platform: Platform::Telegram,
    own: OWN_KEYS,
    is_called: |reader, section| reader.text(&format!("{section}.mode")).as_deref() == Some("webhook"),
    read,
};

#[rustfmt::skip]
const OWN_KEYS: &[ConfigKey] = &[
    BOT_TOKEN,
    key("channels.*.mode", ValueKind::Choice(&["polling", "webhook"]), UnsetRule::Absent, "Telegram: how updates arrive"),
    key("channels.*.rich_messages", ValueKind::Choice(&["auto", "off"]), UnsetRule::Absent, "Telegram: whether results are rich messages"),
    key("channels.*.secret_token", SIGNING, UnsetRule::Absent, "Telegram: verifies what Telegram sends"),
    key("channels.*.previous_secret_token", SIGNING, UnsetRule::Absent, "Telegram: also verifies what Telegram sends, while secret_token replaces it"),
];

/// The address of Telegram's Bot API.
const API: &str = "https://api.telegram.org";

/// A Telegram bot.
#[derive(Clone)]
pub struct TelegramSettings {
    /// `bot_token`.
    pub bot_token: Secret,
    /// `mode`, default `polling`.
    pub mode: TelegramMode,
    /// `rich_messages`, default `auto`.
    pub rich_messages: RichMessages,
    /// `secret_token`: required for `mode = "webhook"`; 1-256 of `A-Za-z0-9_-`.
    pub secret_token: Option<Secret>,
    /// `previous_secret_token`: accepted beside `secret_token` while it is replaced.
    pub previous_secret_token: Option<Secret>,
    /// `api_base_url`, default `https://api.telegram.org`.
    pub api_base_url: String,
    /// `paced`, default true: respects the platform's rate limits.
    pub paced: bool,
    /// `repository`: the default repository for users of this bot.
    pub repository: Option<String>,
}

/// The way in which Telegram's updates arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelegramMode {
    /// `getUpdates`, for machines without a public address.
    Polling,
    /// `POST /in/<name>` with a secret token.
    Webhook,
}

/// The use of rich messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RichMessages {
    /// Replies that gain by it are rich messages, if the server knows them.
    Auto,
    /// All replies are texts.
    Off,
}

impl CommonChannelSettings for TelegramSettings {
    fn platform(&self) -> Platform {
        Platform::Telegram
    }

    fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    fn is_paced(&self) -> bool {
        self.paced
    }

    fn webhook_secret_key(&self) -> &'static str {
        "secret_token"
    }

    fn webhook_secret(&self) -> Option<&[u8]> {
        self.secret_token
            .as_ref()
            .map(|secret| secret.expose().as_bytes())
    }

    fn with_previous_secret(&self) -> Option<ChannelSettings> {
        let secret_token = Some(self.previous_secret_token.clone()?);
        Some(ChannelSettings::Telegram(Self {
            secret_token,
            ..self.clone()
        }))
    }
}

fn read(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings> {
    let token_key = format!("{section}.bot_token");
    let bot_token = reader.secret(&token_key);
    if bot_token
        .as_ref()
        .is_some_and(|token| !is_telegram_token(token.expose()))
    {
        reader.problem(
            &token_key,
            "this is not a bot token; Telegram's look like 123456789:letters",
        );
    }
    let secret_key = format!("{section}.secret_token");
    let modes = [
        ("polling", TelegramMode::Polling),
        ("webhook", TelegramMode::Webhook),
    ];
    let mode = reader.choice(&format!("{section}.mode"), &modes);
    let mode = mode.unwrap_or(TelegramMode::Polling);
    let uses = [("auto", RichMessages::Auto), ("off", RichMessages::Off)];
    let rich_messages = reader.choice(&format!("{section}.rich_messages"), &uses);
    let secret_token = match mode {
        TelegramMode::Webhook => {
            require_public_url(reader, section);
            reader.required_secret(&secret_key)
        }
        TelegramMode::Polling => reader.secret(&secret_key),
    };
    let previous_secret_token = previous_secret(reader, &secret_key, secret_token.as_ref());
    for (key, token) in [
        (&secret_key, &secret_token),
        (&previous_key(&secret_key), &previous_secret_token),
    ] {
        if token
            .as_ref()
            .is_some_and(|token| !is_header_token(token.expose()))
        {
            reader.problem(key, "Telegram allows 1 to 256 of A-Z, a-z, 0-9, _ and - only");
        }
    }
    let api_base_url = api_base_url(reader, section, API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(ChannelSettings::Telegram(TelegramSettings {
        bot_token: bot_token?,
        mode,
        rich_messages: rich_messages.unwrap_or(RichMessages::Auto),
        secret_token,
        previous_secret_token,
        api_base_url,
        paced,
        repository,
    }))
}

fn require_public_url(reader: &mut SettingsReader<'_>, section: &str) {
    let is_https = reader.url("server.public_url").is_some_and(|url| url.is_https());
    if !is_https {
        let why = "mode = \"webhook\" needs server.public_url, an https URL Telegram can reach";
        reader.problem(&format!("{section}.mode"), why);
    }
}

/// Returns true if a text has the form of a Telegram token. The token becomes part of a URL's path, so only its own
/// alphabet is allowed.
fn is_telegram_token(token: &str) -> bool {
    token.split_once(':').is_some_and(|(bot, key)| {
        !bot.is_empty() && bot.bytes().all(|byte| byte.is_ascii_digit()) && is_header_token(key)
    })
}

fn is_header_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=256).contains(&text.len()) && text.bytes().all(fits)
}
