//! The configuration of a fixture, in the form an operator writes it.

use super::secrets::TELEGRAM_HOOK_SECRET;
use super::table::WireFormat;
use drydock::base::config;
use drydock::base::config::{ChannelSettings, Config, ConfigSources, SourceFile, TelegramMode};
use drydock::simulation::demo::environment::{
    HOOK_SECRET, MODEL_KEY, SLACK_BOT_TOKEN, SLACK_CHANNEL, SLACK_SIGNING_SECRET, TELEGRAM_BOT_TOKEN,
};
use drydock::simulation::emulator::model::ModelEmulator;
use drydock::simulation::emulator::slack::SlackEmulator;
use drydock::simulation::emulator::telegram::TelegramEmulator;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Returns true if Telegram pushes updates, instead of being polled.
pub(crate) fn has_pushes(config: &Config) -> bool {
    let mut channels = config.channels.values();
    channels.any(|channel| {
        matches!(channel, ChannelSettings::Telegram(telegram) if telegram.mode == TelegramMode::Webhook)
    })
}

pub(crate) fn config(
    room: &TempDir,
    slack: &SlackEmulator,
    telegram: &TelegramEmulator,
    model: &ModelEmulator,
    wire: WireFormat,
    settings: &BTreeMap<String, String>,
) -> Config {
    let secrets = [
        ("DOJO_SLACK_BOT_TOKEN", SLACK_BOT_TOKEN),
        ("DOJO_SLACK_SIGNING_SECRET", SLACK_SIGNING_SECRET),
        ("DOJO_TELEGRAM_BOT_TOKEN", TELEGRAM_BOT_TOKEN),
        ("DOJO_TELEGRAM_HOOK_SECRET", TELEGRAM_HOOK_SECRET),
        ("DOJO_HOOK_SECRET", HOOK_SECRET),
        ("DOJO_MODEL_KEY", MODEL_KEY),
    ];
    let (provider, format) = match wire {
        WireFormat::Anthropic => ("anthropic", config::WireFormat::AnthropicMessages),
        WireFormat::Openai => ("openai", config::WireFormat::OpenaiChat),
        WireFormat::Responses => ("openai", config::WireFormat::OpenaiResponses),
        WireFormat::Gemini => ("google", config::WireFormat::GeminiGenerate),
    };
    let (base, format) = (model.base_url(format), format.word());
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
[data]
directory = "{room}/data"
[model]
default = "{provider}/hijacked"
[providers.{provider}]
api_key = {{ env = "DOJO_MODEL_KEY" }}
base_url = "{base}"
wire = "{format}"
[repositories.infra]
path = "{room}/infra.git"
[channels.slack]
kind = "slack"
bot_token = {{ env = "DOJO_SLACK_BOT_TOKEN" }}
signing_secret = {{ env = "DOJO_SLACK_SIGNING_SECRET" }}
api_base_url = "{slack}"
paced = false
[channels.telegram]
kind = "telegram"
bot_token = {{ env = "DOJO_TELEGRAM_BOT_TOKEN" }}
secret_token = {{ env = "DOJO_TELEGRAM_HOOK_SECRET" }}
api_base_url = "{telegram}"
paced = false
[hooks.release]
scheme = "github"
secret = {{ env = "DOJO_HOOK_SECRET" }}
events = ["release"]
sources = ["acme/web"]
repository = "infra"
prompt = "prompts/release.md"
fields = {{ version = "/release/tag_name", notes = "/release/body" }}
post_to = {{ channel = "slack", chat = "{SLACK_CHANNEL}" }}
grants = {{ role = "editor", environments = ["dev"] }}
[sandbox]
renders_ahead = false
"#,
        room = room.path().display(),
        slack = slack.api_base_url(),
        telegram = telegram.api_base_url(),
    );
    let sources = ConfigSources {
        file: Some(SourceFile {
            path: room.path().join("drydock.toml"),
            text,
        }),
        environment: secrets
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        flags: settings.clone().into_iter().collect(),
    };
    Config::load(sources).unwrap_or_else(|error| panic!("{error}"))
}
