//! `[channels.<name>]`: the accounts on chat platforms.

use crate::config::reader::SettingsReader;
use crate::config::settings::{ChannelSettings, SlackSettings, TelegramMode, TelegramSettings};
use crate::model::Secret;
use std::collections::BTreeMap;

/// The address of Slack's Web API.
const SLACK_API: &str = "https://slack.com/api";
/// The address of Telegram's Bot API.
const TELEGRAM_API: &str = "https://api.telegram.org";
/// Prefixes of genuine Slack tokens of the wrong kind: app, user, refresh and legacy tokens.
const OTHER_SLACK_TOKENS: [&str; 6] = ["xapp-", "xoxp-", "xoxe-", "xoxa-", "xoxr-", "xoxs-"];

/// Reads all channels.
pub(super) fn channels(reader: &mut SettingsReader<'_>) -> BTreeMap<String, ChannelSettings> {
    let names = reader.names("channels").into_iter();
    names
        .filter_map(|name| Some((name.clone(), channel(reader, &format!("channels.{name}"))?)))
        .collect()
}

fn channel(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings> {
    type Read = fn(&mut SettingsReader<'_>, &str) -> Option<ChannelSettings>;
    let kinds: [(&str, Read); 2] = [
        ("slack", |reader, section| {
            slack(reader, section).map(ChannelSettings::Slack)
        }),
        ("telegram", |reader, section| {
            telegram(reader, section).map(ChannelSettings::Telegram)
        }),
    ];
    reader.choice(&format!("{section}.kind"), &kinds)?(reader, section)
}

fn slack(reader: &mut SettingsReader<'_>, section: &str) -> Option<SlackSettings> {
    refuse_keys_of_others(reader, section, &["mode", "secret_token"], "telegram");
    let token_key = format!("{section}.bot_token");
    let bot_token = reader.secret(&token_key);
    if bot_token.as_ref().is_some_and(is_other_slack_token) {
        reader.problem(
            &token_key,
            "this is not a bot token; Slack's bot tokens begin with xoxb-",
        );
    }
    let secret_key = format!("{section}.signing_secret");
    let signing_secret = reader.required_secret(&secret_key);
    if signing_secret.as_ref().is_some_and(is_slack_token) {
        let why = "this is a token; the signing secret is under Basic Information, App Credentials, of the Slack app";
        reader.problem(&secret_key, why);
    }
    let api_base_url = api_base_url(reader, section, SLACK_API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(SlackSettings {
        bot_token: bot_token?,
        signing_secret: signing_secret?,
        api_base_url,
        paced,
        repository,
    })
}

fn is_other_slack_token(token: &Secret) -> bool {
    OTHER_SLACK_TOKENS
        .iter()
        .any(|prefix| token.expose().starts_with(prefix))
}

fn is_slack_token(secret: &Secret) -> bool {
    secret.expose().starts_with("xoxb-") || is_other_slack_token(secret)
}

fn telegram(reader: &mut SettingsReader<'_>, section: &str) -> Option<TelegramSettings> {
    refuse_keys_of_others(reader, section, &["signing_secret"], "slack");
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
    let secret_token = match mode {
        TelegramMode::Webhook => {
            require_public_url(reader, section);
            reader.required_secret(&secret_key)
        }
        TelegramMode::Polling => reader.secret(&secret_key),
    };
    if secret_token
        .as_ref()
        .is_some_and(|token| !is_header_token(token.expose()))
    {
        reader.problem(
            &secret_key,
            "Telegram allows 1 to 256 of A-Z, a-z, 0-9, _ and - only",
        );
    }
    let api_base_url = api_base_url(reader, section, TELEGRAM_API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(TelegramSettings {
        bot_token: bot_token?,
        mode,
        secret_token,
        api_base_url,
        paced,
        repository,
    })
}

fn require_public_url(reader: &mut SettingsReader<'_>, section: &str) {
    let is_https = reader.url("server.public_url").is_some_and(|url| url.is_https());
    if !is_https {
        let why = "mode = \"webhook\" needs server.public_url, an https URL Telegram can reach";
        reader.problem(&format!("{section}.mode"), why);
    }
}

fn refuse_keys_of_others(reader: &mut SettingsReader<'_>, section: &str, keys: &[&str], kind: &str) {
    for key in keys.iter().map(|key| format!("{section}.{key}")) {
        if reader.is_set(&key) {
            reader.problem(&key, format!("is only for kind = \"{kind}\""));
        }
    }
}

fn api_base_url(reader: &mut SettingsReader<'_>, section: &str, default: &str) -> String {
    let url = reader.url(&format!("{section}.api_base_url"));
    url.map_or(default.to_owned(), |url| url.as_str().to_owned())
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
