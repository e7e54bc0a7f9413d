//! `[channels.<name>]`: the accounts on chat platforms. Each kind of channel has a file with its settings, its keys and
//! its reader.

mod discord;
mod outline;
mod slack;
mod telegram;

pub use discord::DiscordSettings;
pub(super) use outline::outlines;
pub use outline::{ChannelOutline, ConfiguredChannels, SecretOutline};
pub use slack::SlackSettings;
pub use telegram::{RichMessages, TelegramMode, TelegramSettings};

use crate::base::config::keys::{ConfigKey, TOKEN, UnsetRule, ValueKind, key};
use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::ServerSettings;
use crate::base::model::Platform;
use std::collections::BTreeMap;

/// `[channels.<name>]`: the settings of a channel, by `kind`.
#[derive(Clone)]
pub enum ChannelSettings {
    /// `kind = "slack"`
    Slack(SlackSettings),
    /// `kind = "telegram"`
    Telegram(TelegramSettings),
    /// `kind = "discord"`
    Discord(DiscordSettings),
}

/// A channel with its secrets, and the settings of its server.
#[derive(Clone)]
pub struct ChannelConfig {
    /// `[server]`
    pub server: ServerSettings,
    /// `[channels.<name>]`
    pub settings: ChannelSettings,
}

/// All kinds of channels.
const KINDS: [ChannelKeys; 3] = [slack::KEYS, telegram::KEYS, discord::KEYS];

/// The settings of a channel that every kind has.
pub trait CommonChannelSettings {
    /// Returns the platform, whose name is the `kind`.
    fn platform(&self) -> Platform;

    /// Returns the default repository for users of this channel.
    fn repository(&self) -> Option<&str>;

    /// Returns true if the platform's rate limits are respected.
    fn is_paced(&self) -> bool;

    /// Returns the key of the secret that authenticates the platform's requests.
    fn webhook_secret_key(&self) -> &'static str;

    /// Returns the secret that authenticates the platform's requests.
    fn webhook_secret(&self) -> Option<&[u8]>;

    /// Returns the settings with the previous secret of the platform's requests in the place of the current one;
    /// `None` without a previous secret.
    fn with_previous_secret(&self) -> Option<ChannelSettings>;

    /// Returns a hint if that secret does not have the usual form. It follows the name of the key.
    fn webhook_secret_hint(&self) -> Option<String> {
        None
    }
}

impl ChannelSettings {
    /// Returns the settings that every kind has.
    pub fn common(&self) -> &dyn CommonChannelSettings {
        match self {
            Self::Slack(settings) => settings,
            Self::Telegram(settings) => settings,
            Self::Discord(settings) => settings,
        }
    }

    /// Returns the commands of the channel that start pipelines.
    pub fn slash_commands(&self) -> &[String] {
        match self {
            Self::Slack(settings) => &settings.slash_commands,
            Self::Telegram(_) | Self::Discord(_) => &[],
        }
    }
}

/// The keys of a kind of channel, and their reader.
struct ChannelKeys {
    platform: Platform,
    /// The keys beside the common ones. A key may belong to several kinds.
    own: &'static [ConfigKey],
    /// Returns true if the platform sends requests to a channel.
    is_called: fn(reader: &mut SettingsReader<'_>, section: &str) -> bool,
    /// Reads a section, such as `channels.team`.
    read: fn(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings>,
}

/// The words of `kind`.
const WORDS: [&str; KINDS.len()] = {
    let mut words = [""; KINDS.len()];
    let mut index = 0;
    while index < KINDS.len() {
        words[index] = KINDS[index].platform.as_str();
        index += 1;
    }
    words
};

/// The keys of every channel.
#[rustfmt::skip]
const COMMON_KEYS: &[ConfigKey] = &[
    key("channels.*.kind", ValueKind::Choice(&WORDS), UnsetRule::Required, "the platform"),
    key("channels.*.api_base_url", ValueKind::Url, UnsetRule::Absent, "address of the platform's API"),
    key("channels.*.paced", ValueKind::Boolean, UnsetRule::Default("true"), "keeps within the rate limits of the platform"),
    key("channels.*.repository", ValueKind::Text, UnsetRule::Absent, "the repository of this channel, unless a person names another"),
];

/// The key of a bot's token, for the kinds that have one.
const BOT_TOKEN: ConfigKey = key(
    "channels.*.bot_token",
    TOKEN,
    UnsetRule::Required,
    "the bot's token",
);

/// Returns the secrets that a kind of channel can have, such as `bot_token`; `None` if the platform has no channels.
pub fn secrets_of_kind(platform: Platform) -> Option<Vec<&'static str>> {
    let kind = KINDS.iter().find(|kind| kind.platform == platform)?;
    let keys = COMMON_KEYS.iter().chain(kind.own);
    let secrets = keys.filter(|key| matches!(key.kind, ValueKind::Secret { .. }));
    Some(secrets.filter_map(|key| key.path.rsplit('.').next()).collect())
}

/// Returns the keys of all kinds, each once.
pub(super) fn keys() -> Vec<ConfigKey> {
    let mut keys = COMMON_KEYS.to_vec();
    for key in KINDS.iter().flat_map(|kind| kind.own) {
        if !keys.contains(key) {
            keys.push(*key);
        }
    }
    keys
}

/// Reads all channels.
pub(super) fn channels(reader: &mut SettingsReader<'_>) -> BTreeMap<String, ChannelSettings> {
    let names = reader.names("channels").into_iter();
    names
        .filter_map(|name| Some((name.clone(), channel(reader, &format!("channels.{name}"))?)))
        .collect()
}

pub(super) fn channel(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings> {
    let kinds: Vec<(&str, &ChannelKeys)> = KINDS.iter().map(|kind| (kind.platform.as_str(), kind)).collect();
    let kind = reader.choice(&format!("{section}.kind"), &kinds)?;
    refuse_keys_of_others(reader, section, kind);
    (kind.read)(reader, section)
}

fn refuse_keys_of_others(reader: &mut SettingsReader<'_>, section: &str, kind: &ChannelKeys) {
    let own = |kind: &ChannelKeys, key: &ConfigKey| kind.own.contains(key);
    for key in keys() {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        let path = format!("{section}.{name}");
        if COMMON_KEYS.contains(&key) || own(kind, &key) || !reader.is_set(&path) {
            continue;
        }
        let others = KINDS.iter().filter(|other| own(other, &key));
        let others: Vec<String> = others
            .map(|other| format!("\"{}\"", other.platform.as_str()))
            .collect();
        reader.problem(&path, format!("is only for kind = {}", others.join(" or ")));
    }
}

fn api_base_url(reader: &mut SettingsReader<'_>, section: &str, default: &str) -> String {
    let url = reader.url(&format!("{section}.api_base_url"));
    url.map_or(default.to_owned(), |url| url.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{KINDS, keys};
    use crate::base::model::Platform;

    #[test]
    fn every_chat_platform_is_a_kind_of_channel() {
        let chats = Platform::ALL.iter().filter(|platform| platform.chat().is_some());
        let kinds: Vec<Platform> = KINDS.iter().map(|kind| kind.platform).collect();
        assert_eq!(kinds, chats.copied().collect::<Vec<_>>());
    }

    #[test]
    fn a_key_of_several_kinds_is_the_same_in_all_of_them() {
        let mut paths: Vec<&str> = keys().iter().map(|key| key.path).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}
