//! The manifest of the Slack app: its name, the permissions of its bot, and how Slack reaches Drydock. See
//! <https://docs.slack.dev/reference/app-manifest>.

use super::permissions::{BOT_EVENTS, BOT_SCOPES, CODE_CHANNEL_SCOPE};
use reqwest::Url;
use serde_json::{Value, json};

/// The maximum number of characters of an app's name.
const NAME_CHARS_MAX: usize = 35;
/// The address at which Slack creates an app.
const CREATE_ADDRESS: &str = "https://api.slack.com/apps";
/// The description of the app; at most 140 characters.
const DESCRIPTION: &str = "Prepares changes to configuration repositories. Never applies them.";
/// The description of a command that starts a pipeline.
const PIPELINE_DESCRIPTION: &str = "Starts a pipeline of a repository. Never applies anything.";
/// The name of the bot if that of the app has no character that a bot's name may have.
const BOT_NAME: &str = "drydock";

/// The way in which Slack reaches Drydock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackConnection {
    /// Slack sends requests to this address: `https://drydock.example.com/in/slack`.
    RequestUrl(String),
    /// Drydock opens a connection to Slack.
    SocketMode,
}

impl SlackConnection {
    /// Returns the connection for requests of a channel to the public address of Drydock.
    pub fn to_public_address(public_url: &str, channel: &str) -> Result<Self, SlackManifestError> {
        let url = Url::parse(public_url).map_err(|_| SlackManifestError::Address)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let is_plain = !has_user && url.query().is_none() && url.fragment().is_none();
        if url.scheme() != "https" || !url.has_host() || !is_plain {
            return Err(SlackManifestError::Address);
        }
        let base = url.as_str().trim_end_matches('/');
        Ok(Self::RequestUrl(format!("{base}/in/{channel}")))
    }
}

/// The reason why there is no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlackManifestError {
    /// Slack would refuse the name.
    #[error("the name of a Slack app has 1 to {NAME_CHARS_MAX} characters in one line")]
    Name,
    /// Slack could not reach the address.
    #[error(
        "Slack needs an https address such as https://drydock.example.com, without user, query and fragment"
    )]
    Address,
}

/// The manifest of a Slack app.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackManifest(Value);

impl SlackManifest {
    /// Creates the manifest of an app with this name.
    pub fn new(name: &str, connection: &SlackConnection) -> Result<Self, SlackManifestError> {
        let name = name.trim();
        if !(1..=NAME_CHARS_MAX).contains(&name.chars().count()) || name.chars().any(char::is_control) {
            return Err(SlackManifestError::Name);
        }
        let mut manifest = json!({
            "display_information": {"name": name, "description": DESCRIPTION},
            "features": {
                "agent_view": {"agent_description": DESCRIPTION},
                "app_home": {
                    "home_tab_enabled": true,
                    "messages_tab_enabled": true,
                    "messages_tab_read_only_enabled": false,
                },
                "bot_user": {"display_name": bot_name(name), "always_online": true},
                "slash_commands": [{
                    "command": "/drydock",
                    "description": "Answers without a model: help, status, diff, patch, undo ...",
                    "usage_hint": "help",
                }],
            },
            "oauth_config": {"scopes": {"bot": BOT_SCOPES.map(|scope| scope.name)}},
            "settings": {
                "event_subscriptions": {"bot_events": BOT_EVENTS},
                "interactivity": {"is_enabled": true},
                "org_deploy_enabled": false,
                "socket_mode_enabled": connection == &SlackConnection::SocketMode,
                "token_rotation_enabled": false,
            },
        });
        if let SlackConnection::RequestUrl(url) = connection {
            manifest["features"]["slash_commands"][0]["url"] = json!(url);
            manifest["settings"]["event_subscriptions"]["request_url"] = json!(url);
            manifest["settings"]["interactivity"]["request_url"] = json!(url);
        }
        Ok(Self(manifest))
    }

    /// Adds the scope of code channels.
    #[must_use]
    pub fn with_code_channels(mut self) -> Self {
        let scopes = &mut self.0["oauth_config"]["scopes"]["bot"];
        if let Some(scopes) = scopes.as_array_mut() {
            scopes.push(json!(CODE_CHANNEL_SCOPE.name));
            scopes.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        self
    }

    /// Adds the commands that start pipelines.
    #[must_use]
    pub fn with_commands(mut self, commands: &[String]) -> Self {
        let all = &mut self.0["features"]["slash_commands"];
        let url = all[0]["url"].clone();
        if let Some(all) = all.as_array_mut() {
            all.extend(commands.iter().map(|command| {
                let mut command = json!({"command": command, "description": PIPELINE_DESCRIPTION});
                if !url.is_null() {
                    command["url"] = url.clone();
                }
                command
            }));
        }
        self
    }

    /// Returns the manifest.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// Returns the link that opens Slack's form for a new app, filled in.
    pub fn create_link(&self) -> String {
        let manifest = self.0.to_string();
        // A form encodes a space as `+`, which is not a space for every reader of a link.
        let encoded: String = form_urlencoded::byte_serialize(manifest.as_bytes()).collect();
        format!(
            "{CREATE_ADDRESS}?new_app=1&manifest_json={}",
            encoded.replace('+', "%20")
        )
    }
}

/// Returns the name of the bot: lower-case letters, digits, `-`, `_` and `.`.
fn bot_name(name: &str) -> String {
    let letters = name.chars().filter_map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.') => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    let letters: String = letters.collect();
    match letters.trim_matches(['-', '_', '.']) {
        "" => BOT_NAME.to_owned(),
        letters => letters.to_owned(),
    }
}
