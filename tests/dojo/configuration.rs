//! The configuration of a fixture, in the form an operator writes it.

use super::options::FixtureOptions;
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
use tempfile::TempDir;

/// Returns true if Telegram pushes updates, instead of being polled.
pub(crate) fn has_pushes(config: &Config) -> bool {
    let mut channels = config.channels.values();
    channels.any(|channel| {
        matches!(channel, ChannelSettings::Telegram(telegram) if telegram.mode == TelegramMode::Webhook)
    })
}

/// The model of every class.
const FIRST_MODEL: &str = "hijacked";
/// The model that answers if the first one does not.
pub(crate) const SECOND_MODEL: &str = "second";

/// Returns the provider of a model, and its wire format in the configuration.
fn provider_of(wire: WireFormat) -> (&'static str, config::WireFormat) {
    match wire {
        WireFormat::Anthropic => ("anthropic", config::WireFormat::AnthropicMessages),
        WireFormat::Openai => ("openai", config::WireFormat::OpenaiChat),
        WireFormat::Responses => ("openai", config::WireFormat::OpenaiResponses),
        WireFormat::Gemini => ("google", config::WireFormat::GeminiGenerate),
    }
}

/// Returns the key that names the second model, and the section of its provider with the number of attempts at the first
/// one. A model that does not answer is asked once.
fn second_model(model: &ModelEmulator, wire: WireFormat) -> (String, String) {
    let (_, format) = provider_of(wire);
    let (base, format) = (model.base_url(format), format.word());
    let backup = format!(
        r#"attempts_max = 1
[providers.backup]
api_key = {{ env = "DOJO_MODEL_KEY" }}
base_url = "{base}"
wire = "{format}""#
    );
    (format!("fallbacks = [\"backup/{SECOND_MODEL}\"]"), backup)
}

pub(crate) fn config(
    room: &TempDir,
    slack: &SlackEmulator,
    telegram: &TelegramEmulator,
    model: &ModelEmulator,
    wire: WireFormat,
    options: &FixtureOptions,
) -> Config {
    let secrets = [
        ("DOJO_SLACK_BOT_TOKEN", SLACK_BOT_TOKEN),
        ("DOJO_SLACK_SIGNING_SECRET", SLACK_SIGNING_SECRET),
        ("DOJO_TELEGRAM_BOT_TOKEN", TELEGRAM_BOT_TOKEN),
        ("DOJO_TELEGRAM_HOOK_SECRET", TELEGRAM_HOOK_SECRET),
        ("DOJO_HOOK_SECRET", HOOK_SECRET),
        ("DOJO_MODEL_KEY", MODEL_KEY),
    ];
    let (provider, format) = provider_of(wire);
    let (base, format) = (model.base_url(format), format.word());
    let fallback = options.fallback.map(|wire| second_model(model, wire));
    let (fallback, backup) = fallback.unwrap_or_default();
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
[data]
directory = "{room}/data"
[model]
default = "{provider}/{FIRST_MODEL}"
{fallback}
[providers.{provider}]
api_key = {{ env = "DOJO_MODEL_KEY" }}
base_url = "{base}"
wire = "{format}"
{backup}
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
        flags: options.settings.clone().into_iter().collect(),
        ..ConfigSources::default()
    };
    Config::load(sources).unwrap_or_else(|error| panic!("{error}"))
}
