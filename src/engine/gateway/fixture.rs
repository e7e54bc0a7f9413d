//! The fixture of tests that compose answers: an address, and the configuration of its channel.

use super::compose::Address;
use crate::base::config::{Config, ConfigSources, SourceFile};
use crate::base::model::{Account, ChatPlace, Platform};

/// Returns a configuration with the channel `team`, and with one of each other platform.
pub(super) fn config() -> Config {
    let text = r#"
        [channels.team]
        kind = "telegram"
        bot_token = { env = "TOKEN" }
        [channels.slack]
        kind = "slack"
        bot_token = { env = "SLACK_TOKEN" }
        app_token = { env = "APP_TOKEN" }
        [channels.discord]
        kind = "discord"
        bot_token = { env = "DISCORD_TOKEN" }
        [providers.anthropic]
        api_key = { env = "KEY" }
    "#;
    let variables = [
        ("TOKEN", "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"),
        ("SLACK_TOKEN", "xoxb-1234567890-abc"),
        ("APP_TOKEN", "xapp-1-canary-0123456"),
        ("DISCORD_TOKEN", "MTEwMDAw.4f1d-discord_6b.8e2a5be1f09a"),
        ("KEY", "8f742231b10e8888abcd99"),
    ];
    let sources = ConfigSources {
        file: Some(SourceFile {
            path: "drydock.toml".into(),
            text: text.to_owned(),
        }),
        environment: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..ConfigSources::default()
    };
    Config::load(sources).unwrap()
}

/// Returns the address of the answer to a private message in that channel.
pub(super) fn address() -> Address {
    Address {
        channel: "team".to_owned(),
        place: ChatPlace {
            account: Account {
                platform: Platform::Telegram,
                id: "42".to_owned(),
            },
            chat: "7".to_owned(),
            thread: None,
        },
        reply_to: None,
        mention: None,
        ephemeral_to: None,
        prefix: "inbox-7".to_owned(),
        response_url: None,
    }
}
