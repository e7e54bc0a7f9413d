//! The channels of a configuration without their secrets. Commands use it before the secrets exist.

use super::{COMMON_KEYS, ChannelKeys, KINDS, refuse_keys_of_others};
use crate::base::config::keys::{ConfigKey, UnsetRule, ValueKind};
use crate::base::config::reader::SettingsReader;
use crate::base::model::Platform;
use std::collections::BTreeMap;

/// The public address of a server, and its channels by name.
#[derive(Clone, Debug)]
pub struct ConfiguredChannels {
    /// `server.public_url`; empty if it is not set.
    pub public_url: String,
    /// The channels by name.
    pub channels: BTreeMap<String, ChannelOutline>,
}

/// A channel without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelOutline {
    /// `kind`
    pub platform: Platform,
    /// `mode`, if it is set.
    pub mode: Option<String>,
    /// `repository`
    pub repository: Option<String>,
    /// True if the platform sends requests.
    pub is_called: bool,
    /// `code_channels`
    pub code_channels: bool,
    /// `slash_commands`
    pub slash_commands: Vec<String>,
    /// The secrets that are set or required.
    pub secrets: Vec<SecretOutline>,
}

/// The source of a secret, and whether the secret can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretOutline {
    /// The key, such as `bot_token`.
    pub key: &'static str,
    /// The source, such as `env SLACK_BOT_TOKEN`; empty if the key is not set.
    pub source: String,
    /// The reason why the secret cannot be used now.
    pub problem: Option<String>,
}

/// Reads the outlines of all channels.
pub(in crate::base::config) fn outlines(reader: &mut SettingsReader<'_>) -> BTreeMap<String, ChannelOutline> {
    let names = reader.names("channels").into_iter();
    names
        .filter_map(|name| Some((name.clone(), outline(reader, &format!("channels.{name}"))?)))
        .collect()
}

fn outline(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelOutline> {
    let kinds: Vec<(&str, &ChannelKeys)> = KINDS.iter().map(|kind| (kind.platform.as_str(), kind)).collect();
    let kind = reader.choice(&format!("{section}.kind"), &kinds)?;
    refuse_keys_of_others(reader, section, kind);
    let keys = COMMON_KEYS.iter().chain(kind.own);
    Some(ChannelOutline {
        platform: kind.platform,
        mode: reader.text(&format!("{section}.mode")),
        repository: reader.reference(&format!("{section}.repository"), "repositories"),
        is_called: (kind.is_called)(reader, section),
        code_channels: reader.boolean(&format!("{section}.code_channels")),
        slash_commands: reader.list(&format!("{section}.slash_commands")),
        secrets: keys.filter_map(|key| secret(reader, section, key)).collect(),
    })
}

fn secret(reader: &mut SettingsReader<'_>, section: &str, key: &ConfigKey) -> Option<SecretOutline> {
    let ValueKind::Secret { .. } = key.kind else {
        return None;
    };
    let name = key.path.rsplit('.').next().unwrap_or_default();
    match reader.describe_secret(&format!("{section}.{name}")) {
        Some((source, fetched)) => Some(SecretOutline {
            key: name,
            source,
            problem: fetched.err(),
        }),
        None if key.unset == UnsetRule::Required => Some(SecretOutline {
            key: name,
            source: String::new(),
            problem: Some("is not set".to_owned()),
        }),
        None => None,
    }
}
