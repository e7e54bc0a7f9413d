//! The demo environment: a temporary repository, emulators of all external services, and the real gateway between
//! them. All of it runs on loopback and below one temporary directory.

use super::repository;
use crate::base::config::{Config, ConfigSources, SourceFile};
use crate::base::http_client::api_client;
use crate::server::app::{App, Host};
use crate::simulation::emulator::model::{AnswerScript, ModelEmulator};
use crate::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions};
use crate::simulation::emulator::telegram::TelegramEmulator;
use anyhow::Context;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The bot token of the emulated Slack. The secrets in this file are used only in the demo.
pub const SLACK_BOT_TOKEN: &str = "xoxb-110022003300-stage-bot-token";
/// The signing secret of the emulated Slack.
pub const SLACK_SIGNING_SECRET: &str = "5f0d1c9a7be24c6f8a1b3d5e7f901234";
/// The bot token of the emulated Telegram.
pub const TELEGRAM_BOT_TOKEN: &str = "7700000001:AAStageStageStageStageStageStageStage";
/// The secret with which the hook's sender signs.
pub const HOOK_SECRET: &str = "a3c1e5f7092b4d6f8a0c2e4f60718293";
/// The secret with which the sender of alerts signs, which only some demos have.
pub const ALERT_SECRET: &str = "c7e9a1b3d5f70829a4c6e8f01b3d5f72";
/// The bot token of the second emulated Slack, which only some demos have.
pub const FIELD_BOT_TOKEN: &str = "xoxb-220033004400-stage-bot-token";
/// The app-level token of the second emulated Slack, with which the gateway opens its sockets.
pub const FIELD_APP_TOKEN: &str = "xapp-1-A0FIELD-1-stage-app-level-token";
/// The bot token of the emulated Discord, which only some demos have.
pub const DISCORD_BOT_TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.stage.bot-token-of-discord";
/// The token with which runs comment on an emulated GitHub, which only some tests have.
pub const GITHUB_TOKEN: &str = "ghp-stage-token-of-the-bot-000000000000";
/// The API key of the emulated model.
pub const MODEL_KEY: &str = "sk-ant-stage-000000000000000000000000";
/// The Slack channel the hook posts to.
pub const SLACK_CHANNEL: &str = "C0PLATFORM";
/// The longest time the gateway may take to connect its channels and load its repositories.
const READY_MAX: Duration = Duration::from_secs(30);

/// The running gateway and the emulated services around it.
pub struct DemoEnvironment {
    /// The real gateway; `None` while it is stopped.
    pub app: Option<App>,
    /// The emulated Slack.
    pub slack: SlackEmulator,
    /// The emulated Telegram.
    pub telegram: TelegramEmulator,
    /// The emulated model.
    pub model: ModelEmulator,
    /// The base commit of the repository.
    pub base: String,
    directory: TempDir,
    host: Host,
    settings: Vec<(String, String)>,
}

impl DemoEnvironment {
    /// Builds everything and waits until the gateway is ready. `settings` override keys of the
    /// configuration, as `--set` does.
    pub async fn build(
        script: impl AnswerScript + 'static,
        host: Host,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let mut environment = Self::prepare(script, host, settings).await?;
        environment.start().await?;
        Ok(environment)
    }

    /// Builds everything, and leaves the gateway stopped until [`DemoEnvironment::start`].
    pub async fn prepare(
        script: impl AnswerScript + 'static,
        host: Host,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("drydock-").with_context(|| {
            let place = std::env::temp_dir();
            format!(
                "no directory can be made in `{}`; set TMPDIR to another",
                place.display()
            )
        })?;
        let base = repository::create(&directory.path().join("infra.git"))?;
        let http = api_client()?;
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: SLACK_BOT_TOKEN.to_owned(),
            signing_secret: SLACK_SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: host.now,
            http: http.clone(),
        })
        .await?;
        let telegram = TelegramEmulator::start(TELEGRAM_BOT_TOKEN, http).await?;
        let model = ModelEmulator::start(script)?;
        let settings = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Ok(Self {
            app: None,
            slack,
            telegram,
            model,
            base,
            directory,
            host,
            settings,
        })
    }

    /// Starts the gateway, also after [`DemoEnvironment::stop`].
    pub async fn start(&mut self) -> anyhow::Result<()> {
        let app = App::start(self.config()?, self.host).await?;
        self.slack.connect_to(&format!("http://{}/in/slack", app.address));
        let address = app.address;
        self.app = Some(app);
        wait_until_ready(&format!("http://{address}/readyz")).await
    }

    /// Stops the gateway; the emulators keep running.
    pub async fn stop(&mut self) {
        if let Some(app) = self.app.take() {
            app.shutdown().await;
        }
    }

    /// Returns the directory that holds all files of the demo.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the bare repository.
    pub fn repository(&self) -> PathBuf {
        self.directory.path().join("infra.git")
    }

    /// Returns the gateway's data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the time of the gateway's clock.
    pub fn now(&self) -> Timestamp {
        (self.host.now)()
    }

    /// Returns the gateway's address, as a URL without a path.
    pub fn url(&self) -> String {
        self.app
            .as_ref()
            .map(|app| format!("http://{}", app.address))
            .unwrap_or_default()
    }

    /// Returns the gateway's configuration, loaded in the same way as an operator's file.
    pub fn config(&self) -> anyhow::Result<Config> {
        let secrets = [
            ("STAGE_SLACK_BOT_TOKEN", SLACK_BOT_TOKEN),
            ("STAGE_SLACK_SIGNING_SECRET", SLACK_SIGNING_SECRET),
            ("STAGE_TELEGRAM_BOT_TOKEN", TELEGRAM_BOT_TOKEN),
            ("STAGE_HOOK_SECRET", HOOK_SECRET),
            ("STAGE_ALERT_SECRET", ALERT_SECRET),
            ("STAGE_MODEL_KEY", MODEL_KEY),
            // The key of a second provider and the tokens of further channels, if the settings name them.
            ("BACKUP_API_KEY", MODEL_KEY),
            ("STAGE_FIELD_BOT_TOKEN", FIELD_BOT_TOKEN),
            ("STAGE_FIELD_APP_TOKEN", FIELD_APP_TOKEN),
            ("STAGE_DISCORD_BOT_TOKEN", DISCORD_BOT_TOKEN),
            ("STAGE_GITHUB_TOKEN", GITHUB_TOKEN),
        ];
        let environment: BTreeMap<String, String> = secrets
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let file = SourceFile {
            path: self.directory.path().join("drydock.toml"),
            text: self.toml(),
        };
        Config::load(ConfigSources {
            file: Some(file),
            environment,
            flags: self.settings.clone(),
            ..ConfigSources::default()
        })
        .map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn toml(&self) -> String {
        format!(
            r#"
[server]
listen = "127.0.0.1:0"

[data]
directory = "{data}"

[model]
default = "anthropic/demo"

[providers.anthropic]
api_key = {{ env = "STAGE_MODEL_KEY" }}
base_url = "{model}"

[repositories.infra]
path = "{repository}"

[channels.slack]
kind = "slack"
bot_token = {{ env = "STAGE_SLACK_BOT_TOKEN" }}
signing_secret = {{ env = "STAGE_SLACK_SIGNING_SECRET" }}
api_base_url = "{slack}"
paced = false

[channels.telegram]
kind = "telegram"
bot_token = {{ env = "STAGE_TELEGRAM_BOT_TOKEN" }}
mode = "polling"
api_base_url = "{telegram}"
paced = false

[hooks.release]
scheme = "github"
secret = {{ env = "STAGE_HOOK_SECRET" }}
events = ["release.published"]
sources = ["acme/web"]
repository = "infra"
prompt = "{prompt}"
fields = {{ version = "/release/tag_name", notes = "/release/body" }}
post_to = {{ channel = "slack", chat = "{SLACK_CHANNEL}" }}
grants = {{ role = "editor", environments = ["dev", "staging"] }}
"#,
            data = self.data().display(),
            model = self.model.url(),
            repository = self.repository().display(),
            slack = self.slack.api_base_url(),
            telegram = self.telegram.api_base_url(),
            prompt = repository::HOOK_PROMPT,
        )
    }
}

/// Waits until the gateway reports that its channels are connected and its repositories are loaded.
async fn wait_until_ready(url: &str) -> anyhow::Result<()> {
    let client = api_client()?;
    let asked = async {
        loop {
            let answer = client.get(url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(READY_MAX, asked)
        .await
        .context("the gateway did not become ready")
}
