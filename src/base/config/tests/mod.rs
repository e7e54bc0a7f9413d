//! Tests of configurations as operators write them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod budgets;
mod fallbacks;
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod layers;
mod model_facts;
mod profiles;
mod providers;
mod reference;
mod refusals;
mod secret_pairs;
mod table;
mod terminal;

use crate::base::config::{Config, ConfigSources, SourceFile};
use std::path::PathBuf;

/// A complete configuration: a Slack channel, a Telegram bot and a hook.
const GOOD: &str = r#"[server]
public_url = "https://drydock.example.com"
[repositories.infra]
path = "/srv/git/infra"
[channels.team]
kind = "slack"
bot_token = { env = "SLACK_BOT_TOKEN" }
signing_secret = { env = "SLACK_SIGNING_SECRET" }
repository = "infra"
[channels.phone]
kind = "telegram"
bot_token = { env = "TELEGRAM_BOT_TOKEN" }
mode = "webhook"
secret_token = { env = "TELEGRAM_SECRET_TOKEN" }
[hooks.ci]
scheme = "github"
secret = { env = "HOOK_SECRET" }
repository = "infra"
prompt = ".drydock/ci.md"
post_to.channel = "team"
post_to.chat = "C1"
"#;

/// Secrets that look real and occur only here.
const SECRETS: [(&str, &str); 6] = [
    ("SLACK_BOT_TOKEN", "xoxb-17653672481-canaryslack"),
    ("SLACK_SIGNING_SECRET", "canary-8f742231b10e8888abcd99"),
    (
        "TELEGRAM_BOT_TOKEN",
        "123456789:canary-AAHdqTcvCH1vGWJxfSeofSAs0K5",
    ),
    ("TELEGRAM_SECRET_TOKEN", "canary_telegram_9d2f71c0"),
    ("HOOK_SECRET", "canary-hook-5be1f09a77"),
    ("ANTHROPIC_API_KEY", "sk-ant-canary-0f9e8d7c6b"),
];

/// A secret in the form of its platform, which the configuration above does not use.
const APP_TOKEN: (&str, &str) = ("SLACK_APP_TOKEN", "xapp-1-canary-0123456");

/// Another one.
const DISCORD_TOKEN: (&str, &str) = ("DISCORD_BOT_TOKEN", "MTEwMDAw.canary.4f1d-discord_6b8e2a");

fn sources(text: &str) -> ConfigSources {
    let environment = SECRETS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ConfigSources {
        file: Some(SourceFile {
            path: PathBuf::from("drydock.toml"),
            text: text.to_owned(),
        }),
        environment: environment.collect(),
        ..ConfigSources::default()
    }
}

fn with(text: &str, environment: &[(&str, &str)]) -> ConfigSources {
    let mut sources = sources(text);
    let more = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    sources.environment.extend(more);
    sources
}

fn problems(sources: ConfigSources) -> Vec<String> {
    match Config::load(sources) {
        Ok(_) => Vec::new(),
        Err(error) => {
            assert_eq!(error.exit_code(), 78);
            error.to_string().lines().map(str::to_owned).collect()
        }
    }
}
