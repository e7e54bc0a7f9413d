//! Channels with `kind = "discord"`.

use super::{BOT_TOKEN, ChannelKeys, ChannelSettings, CommonChannelSettings, api_base_url};
use crate::base::config::keys::{ConfigKey, UnsetRule, ValueKind, key};
use crate::base::config::reader::SettingsReader;
use crate::base::model::{Platform, Secret};

pub(super) const KEYS: ChannelKeys = ChannelKeys {
    platform: Platform::Discord,
    own: OWN_KEYS,
    is_called: |reader, section| reader.is_set(&format!("{section}.public_key")),
    read,
};

#[rustfmt::skip]
const OWN_KEYS: &[ConfigKey] = &[
    BOT_TOKEN,
    key("channels.*.public_key", ValueKind::Text, UnsetRule::Absent, "Discord: verifies interactions that Discord sends over HTTP"),
];

/// The address of Discord's API.
const API: &str = "https://discord.com/api/v10";
/// The number of bytes of a public key.
const PUBLIC_KEY_BYTES: usize = 32;

/// A Discord application with a bot.
#[derive(Clone)]
pub struct DiscordSettings {
    /// `bot_token`.
    pub bot_token: Secret,
    /// `public_key`: with it, Discord can send interactions over HTTP.
    pub public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
    /// `api_base_url`, default `https://discord.com/api/v10`.
    pub api_base_url: String,
    /// `paced`, default true: respects the platform's rate limits.
    pub paced: bool,
    /// `repository`: the default repository for users of this channel.
    pub repository: Option<String>,
}

impl CommonChannelSettings for DiscordSettings {
    fn platform(&self) -> Platform {
        Platform::Discord
    }

    fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    fn is_paced(&self) -> bool {
        self.paced
    }

    fn webhook_secret_key(&self) -> &'static str {
        "public_key"
    }
}

fn read(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings> {
    let token_key = format!("{section}.bot_token");
    let bot_token = reader.secret(&token_key);
    if bot_token
        .as_ref()
        .is_some_and(|token| !is_discord_token(token.expose()))
    {
        let why = "this is not a bot token; Discord's have three parts with dots between them, and are under Bot of \
                   the application in the Developer Portal";
        reader.problem(&token_key, why);
    }
    let public_key_key = format!("{section}.public_key");
    let public_key = reader.text(&public_key_key).and_then(|text| {
        let mut key = [0; PUBLIC_KEY_BYTES];
        match hex::decode_to_slice(&text, &mut key) {
            Ok(()) => Some(key),
            Err(_) => {
                let why = "is not a public key; Discord's have 64 hex digits, and are under General Information of \
                           the application in the Developer Portal";
                reader.problem(&public_key_key, why);
                None
            }
        }
    });
    let api_base_url = api_base_url(reader, section, API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(ChannelSettings::Discord(DiscordSettings {
        bot_token: bot_token?,
        public_key,
        api_base_url,
        paced,
        repository,
    }))
}

/// Returns true if a text has the form of a bot token. The token becomes a header, so only its own alphabet is allowed.
fn is_discord_token(token: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let parts: Vec<&str> = token.split('.').collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(fits))
}
