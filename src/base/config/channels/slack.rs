//! Channels with `kind = "slack"`.

use super::{BOT_TOKEN, ChannelKeys, ChannelSettings, CommonChannelSettings, api_base_url};
use crate::base::config::keys::{ConfigKey, SIGNING, TOKEN, UnsetRule, ValueKind, key};
use crate::base::config::reader::SettingsReader;
use crate::base::config::secret_pair::{previous_key, previous_secret};
use crate::base::model::{Platform, Secret};

pub(super) const KEYS: ChannelKeys = ChannelKeys {
    platform: Platform::Slack,
    own: OWN_KEYS,
    // Slack sends nothing in Socket Mode, for which an app has another token.
    is_called: |reader, section| !reader.is_set(&format!("{section}.app_token")),
    read,
};

#[rustfmt::skip]
const OWN_KEYS: &[ConfigKey] = &[
    BOT_TOKEN,
    key("channels.*.signing_secret", SIGNING, UnsetRule::Absent, "Slack: verifies what Slack sends"),
    key("channels.*.previous_signing_secret", SIGNING, UnsetRule::Absent, "Slack: also verifies what Slack sends, while signing_secret replaces it"),
    key("channels.*.app_token", TOKEN, UnsetRule::Absent, "Slack: receives over Socket Mode, without a public address"),
    key("channels.*.code_channels", ValueKind::Boolean, UnsetRule::Default("false"), "Slack: shows full diffs in tabs of code channels"),
    key("channels.*.slash_commands", ValueKind::List, UnsetRule::Default("[]"), "Slack: commands of the app that start pipelines"),
];

/// The maximum number of characters of a slash command, with its slash. Slack allows 32.
const COMMAND_CHARS_MAX: usize = 32;
/// The command of Drydock itself.
const OWN_COMMAND: &str = "/drydock";
/// The address of Slack's Web API.
const API: &str = "https://slack.com/api";
/// The prefix of app-level tokens.
const APP_TOKEN_PREFIX: &str = "xapp-";
/// Prefixes of genuine Slack tokens of the wrong kind: app, user, refresh and legacy tokens.
const OTHER_SLACK_TOKENS: [&str; 6] = [APP_TOKEN_PREFIX, "xoxp-", "xoxe-", "xoxa-", "xoxr-", "xoxs-"];
const TOKEN_AS_SECRET: &str =
    "this is a token; the signing secret is under Basic Information, App Credentials, of the Slack app";
/// The number of characters of the signing secrets that Slack makes.
const SIGNING_SECRET_CHARS: usize = 32;

/// A Slack app in one workspace.
#[derive(Clone)]
pub struct SlackSettings {
    /// `bot_token`: `xoxb-...`.
    pub bot_token: Secret,
    /// `signing_secret`: with it, Slack can send requests. Required without `app_token`.
    pub signing_secret: Option<Secret>,
    /// `previous_signing_secret`: accepted beside `signing_secret` while it is replaced.
    pub previous_signing_secret: Option<Secret>,
    /// `app_token`: `xapp-...`. With it, Drydock receives over Socket Mode.
    pub app_token: Option<Secret>,
    /// `code_channels`, default false: shows full diffs in tabs of code channels.
    pub code_channels: bool,
    /// `slash_commands`, default empty: the commands that start pipelines, such as `/review`. All others are those of Drydock.
    pub slash_commands: Vec<String>,
    /// `api_base_url`, default `https://slack.com/api`.
    pub api_base_url: String,
    /// `paced`, default true: respects the platform's rate limits.
    pub paced: bool,
    /// `repository`: the default repository for users of this channel.
    pub repository: Option<String>,
}

impl CommonChannelSettings for SlackSettings {
    fn platform(&self) -> Platform {
        Platform::Slack
    }

    fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    fn is_paced(&self) -> bool {
        self.paced
    }

    fn webhook_secret_key(&self) -> &'static str {
        "signing_secret"
    }

    fn webhook_secret(&self) -> Option<&[u8]> {
        self.signing_secret
            .as_ref()
            .map(|secret| secret.expose().as_bytes())
    }

    fn with_previous_secret(&self) -> Option<ChannelSettings> {
        let signing_secret = Some(self.previous_signing_secret.clone()?);
        Some(ChannelSettings::Slack(Self {
            signing_secret,
            ..self.clone()
        }))
    }

    /// Returns a hint if the secret is not 32 letters and digits. Only Slack knows whether it is the right one.
    fn webhook_secret_hint(&self) -> Option<String> {
        let secret = self.signing_secret.as_ref()?.expose();
        let is_usual =
            secret.len() == SIGNING_SECRET_CHARS && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (!is_usual).then(|| {
            format!("does not look like one of Slack's, which have {SIGNING_SECRET_CHARS} letters and digits")
        })
    }
}

fn read(reader: &mut SettingsReader<'_>, section: &str) -> Option<ChannelSettings> {
    let token_key = format!("{section}.bot_token");
    let bot_token = reader.secret(&token_key);
    if bot_token.as_ref().is_some_and(is_other_slack_token) {
        reader.problem(
            &token_key,
            "this is not a bot token; Slack's bot tokens begin with xoxb-",
        );
    }
    let secret_key = format!("{section}.signing_secret");
    let app_key = format!("{section}.app_token");
    let is_receiving = reader.is_set(&secret_key) || reader.is_set(&app_key);
    if !is_receiving {
        let why = "is required, or app_token for Socket Mode; write signing_secret = { env = \"NAME\" } or \
                   { file = \"path\" }";
        reader.problem(&secret_key, why);
    }
    let app_token = reader.secret(&app_key);
    if app_token
        .as_ref()
        .is_some_and(|token| !token.expose().starts_with(APP_TOKEN_PREFIX))
    {
        let why = "this is not an app-level token; they begin with xapp- and are under Basic Information, App-Level \
                   Tokens, of the Slack app";
        reader.problem(&app_key, why);
    }
    let code_channels = reader.boolean(&format!("{section}.code_channels"));
    let slash_commands = slash_commands(reader, section);
    let signing_secret = reader.secret(&secret_key);
    if signing_secret.as_ref().is_some_and(is_slack_token) {
        reader.problem(&secret_key, TOKEN_AS_SECRET);
    }
    let previous_signing_secret = previous_secret(reader, &secret_key, signing_secret.as_ref());
    if previous_signing_secret.as_ref().is_some_and(is_slack_token) {
        reader.problem(&previous_key(&secret_key), TOKEN_AS_SECRET);
    }
    let api_base_url = api_base_url(reader, section, API);
    let paced = reader.boolean(&format!("{section}.paced"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    Some(ChannelSettings::Slack(SlackSettings {
        bot_token: bot_token?,
        signing_secret,
        previous_signing_secret,
        app_token,
        code_channels,
        slash_commands,
        api_base_url,
        paced,
        repository,
    }))
}

/// Returns the commands that start pipelines.
fn slash_commands(reader: &mut SettingsReader<'_>, section: &str) -> Vec<String> {
    let key = format!("{section}.slash_commands");
    let commands = reader.list(&key);
    for (index, command) in commands.iter().enumerate() {
        if let Some(why) = command_refusal(command) {
            reader.problem(&key, format!("entry {}: {why}", index + 1));
        }
    }
    commands
}

/// Returns the reason why no pipeline can have a command.
fn command_refusal(command: &str) -> Option<&'static str> {
    match command {
        OWN_COMMAND => Some("/drydock is the command of Drydock itself; choose another one"),
        _ if !is_command(command) => Some("expected a slash command in lower case, such as /review"),
        _ => None,
    }
}

/// Returns true for a command as pipelines name it.
fn is_command(command: &str) -> bool {
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || matches!(char, '-' | '_');
    let name = command.strip_prefix('/').unwrap_or_default();
    name.starts_with(|char: char| char.is_ascii_lowercase())
        && name.chars().all(fits)
        && command.len() <= COMMAND_CHARS_MAX
}

fn is_other_slack_token(token: &Secret) -> bool {
    OTHER_SLACK_TOKENS
        .iter()
        .any(|prefix| token.expose().starts_with(prefix))
}

fn is_slack_token(secret: &Secret) -> bool {
    secret.expose().starts_with("xoxb-") || is_other_slack_token(secret)
}
