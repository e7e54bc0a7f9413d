//! Channels with `kind = "discord"`.

use super::{BOT_TOKEN, ChannelKeys, ChannelSettings, CommonChannelSettings, api_base_url};
use crate::base::config::keys::{ConfigKey, UnsetRule, ValueKind, key};
use crate::base::config::reader::SettingsReader;
use crate::base::config::secret_pair::{check_pair, previous_key};
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
    key("channels.*.previous_public_key", ValueKind::Text, UnsetRule::Absent, "Discord: also verifies interactions, while public_key replaces it"),
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
    /// `previous_public_key`: accepted beside `public_key` while it is replaced.
    pub previous_public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
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

    fn webhook_secret(&self) -> Option<&[u8]> {
        self.public_key.as_ref().map(<[u8; PUBLIC_KEY_BYTES]>::as_slice)
    }

    fn with_previous_secret(&self) -> Option<ChannelSettings> {
        let public_key = Some(self.previous_public_key?);
        Some(ChannelSettings::Discord(Self {
            public_key,
            ..self.clone()
        }))
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
    let public_key = read_public_key(reader, &public_key_key);
    let previous_public_key = read_public_key(reader, &previous_key(&public_key_key));
    let [previous, current] =
        [&previous_public_key, &public_key].map(|key| key.as_ref().map(<[u8; PUBLIC_KEY_BYTES]>::as_slice));
    check_pair(reader, &public_key_key, previous, current);
    let api_base_url = api_base_url(reader, section, API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(ChannelSettings::Discord(DiscordSettings {
        bot_token: bot_token?,
        public_key,
        previous_public_key,
        api_base_url,
        paced,
        repository,
    }))
}

fn read_public_key(reader: &mut SettingsReader<'_>, path: &str) -> Option<[u8; PUBLIC_KEY_BYTES]> {
    let text = reader.text(path)?;
    let mut key = [0; PUBLIC_KEY_BYTES];
    if hex::decode_to_slice(&text, &mut key).is_err() {
        let why = "is not a public key; Discord's have 64 hex digits, and are under General Information of the \
                   application in the Developer Portal";
        reader.problem(path, why);
        return None;
    }
    Some(key)
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
