//! The registration of a bot at Telegram: its webhook, its commands and its descriptions. The server registers what it
//! needs when it connects; `drydock telegram setup` registers all of it, and changes only what differs.

use super::ALLOWED_UPDATES;
use super::api::{ApiError, BotApi};
use super::payload::RegisterWebhook;
use crate::base::config::{ServerSettings, TelegramMode, TelegramSettings};
use crate::interfaces::channel::SendError;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use teloxide_core::payloads::{
    DeleteWebhook, GetMyCommands, GetMyDescription, GetMyShortDescription, GetWebhookInfo, SetMyCommands,
    SetMyDescription, SetMyShortDescription, SetWebhook,
};
use teloxide_core::requests::Payload;
use teloxide_core::types::{BotCommandScope, BotDescription, BotShortDescription};

/// The maximum number of concurrent requests from Telegram to the webhook.
const CONNECTIONS_MAX: u8 = 40;

/// The text in an empty chat with the bot; at most 512 characters.
const DESCRIPTION: &str = "I prepare changes to Kubernetes configuration repositories: I edit, render every affected \
    environment, check the result and show you the difference. I never apply, commit or push. An administrator has to \
    invite you first; then write what you want, such as: set web to 4 replicas in dev.";
/// The text on the profile of the bot; at most 120 characters.
const SHORT_DESCRIPTION: &str =
    "Prepares changes to configuration repositories and checks them. Never applies them.";

/// The commands that Telegram suggests while a user types.
const COMMANDS: [(&str, &str); 24] = [
    ("help", "list what I can do here"),
    ("status", "show what is running, waiting and prepared"),
    (
        "diff",
        "show the prepared change, or its effect on one environment or on all",
    ),
    ("risk", "show the risks of the prepared change"),
    ("patch", "send the prepared change as a patch file"),
    ("envs", "list the environments, and which of them change"),
    ("render", "show the objects of an environment as YAML"),
    ("who_imports", "list the entry points that a file affects"),
    ("undo", "undo the edits of the last turn"),
    ("discard", "discard the prepared change"),
    ("clear", "clear the history; the prepared change stays"),
    ("context", "show how much of this conversation the model sees"),
    ("export", "send this conversation to you alone, as a file"),
    (
        "usage",
        "show the tokens and the money you used; for administrators, by person",
    ),
    (
        "budget",
        "show what is used of the budgets; administrators allow more",
    ),
    ("stop", "stop what is running"),
    (
        "retry",
        "go on with the last message, if it failed or was stopped",
    ),
    ("accept", "accept messages that a person sends you through me"),
    ("block", "block the messages of a person"),
    (
        "schedule",
        "list your schedules, or add one that asks me at set times",
    ),
    (
        "zone",
        "show your time zone, or set it for the times of your schedules",
    ),
    ("run", "start a pipeline, or list those you can start"),
    ("runs", "list the runs of pipelines, or show, cancel or retry one"),
    ("login", "let your machine fetch changes; only you see the answer"),
];
/// The commands whose answers are for one person, which Telegram suggests only in private chats.
const PRIVATE_COMMANDS: [&str; 4] = ["accept", "block", "zone", "login"];
/// The commands of groups that only their sender and the bot see, as their answers. All of them only show something:
/// `budget` is none of them, because the group must see that an administrator allowed more.
const EPHEMERAL_COMMANDS: [&str; 4] = ["help", "status", "context", "usage"];

/// A command that Telegram suggests. See <https://core.telegram.org/bots/api#botcommand>.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuggestedCommand {
    command: String,
    description: String,
    /// True if only its sender and the bot see it. A server that does not know the field ignores it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_ephemeral: bool,
}

/// `setMyCommands` with a field that the library does not know.
#[derive(Debug, Serialize)]
pub(super) struct SuggestCommands {
    commands: Vec<SuggestedCommand>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<BotCommandScope>,
}

impl SuggestCommands {
    /// Returns the calls for all places: those of groups, and those of all others.
    pub(super) fn calls() -> [Self; 2] {
        let of = |scope: BotCommandScope| Self {
            commands: commands_of(&scope),
            scope: (scope != BotCommandScope::Default).then_some(scope),
        };
        [BotCommandScope::Default, BotCommandScope::AllGroupChats].map(of)
    }
}

impl Payload for SuggestCommands {
    type Output = <SetMyCommands as Payload>::Output;
    const NAME: &'static str = SetMyCommands::NAME;
}

/// The effect of a set-up on one part of the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupChange {
    /// It was already as wanted.
    Unchanged,
    /// It was set.
    Changed,
    /// It was set to the same values again, because Telegram does not show all of them.
    Renewed,
    /// It was removed.
    Removed,
}

impl SetupChange {
    fn between<T: PartialEq + ?Sized>(registered: &T, wanted: &T) -> Self {
        match registered == wanted {
            true => Self::Unchanged,
            false => Self::Changed,
        }
    }

    /// Returns the word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Renewed => "renewed",
            Self::Removed => "removed",
        }
    }
}

/// A step of a set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    /// The part of the registration.
    pub subject: &'static str,
    /// The effect.
    pub change: SetupChange,
    /// A description of the current state.
    pub detail: String,
}

/// Registers a bot completely. After an error, `steps` holds what was done before it.
pub async fn set_up_telegram(
    name: &str,
    settings: &TelegramSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
    steps: &mut Vec<SetupStep>,
) -> Result<(), SendError> {
    let api = BotApi::new(http.clone(), &settings.api_base_url, settings.bot_token.clone());
    let registration = Registration {
        name,
        settings,
        server,
        api: &api,
    };
    let done = registration.update_all(steps).await;
    done.map_err(ApiError::into_repeatable_error)
}

struct Registration<'a> {
    name: &'a str,
    settings: &'a TelegramSettings,
    server: &'a ServerSettings,
    api: &'a BotApi,
}

impl Registration<'_> {
    async fn update_all(&self, steps: &mut Vec<SetupStep>) -> Result<(), ApiError> {
        steps.push(self.update_webhook().await?);
        let scopes = [
            ("commands", BotCommandScope::Default),
            ("commands in private chats", BotCommandScope::AllPrivateChats),
            ("commands in groups", BotCommandScope::AllGroupChats),
        ];
        for (subject, scope) in scopes {
            steps.push(self.update_commands(subject, scope).await?);
        }
        steps.push(self.update_description().await?);
        steps.push(self.update_short_description().await?);
        Ok(())
    }

    async fn update_webhook(&self) -> Result<SetupStep, ApiError> {
        let registered = self.api.call(&GetWebhookInfo::new()).await?;
        let before = registered["url"].as_str().unwrap_or_default();
        let (change, detail) = match self.settings.mode {
            TelegramMode::Polling if before.is_empty() => {
                (SetupChange::Unchanged, "none: messages are polled".to_owned())
            }
            TelegramMode::Polling => {
                self.api.call(&without_webhook()).await?;
                let detail = format!("none: messages are polled; it was at {}", host_of(before));
                (SetupChange::Removed, detail)
            }
            TelegramMode::Webhook => {
                let wanted = webhook(self.name, self.settings, self.server)?;
                let is_same = is_registered(&registered, &wanted);
                let detail = wanted.webhook.url.to_string();
                self.api.call(&wanted).await?;
                match is_same {
                    true => (
                        SetupChange::Renewed,
                        format!("{detail} with its secret, which Telegram does not show"),
                    ),
                    false => (SetupChange::Changed, detail),
                }
            }
        };
        Ok(SetupStep {
            subject: "webhook",
            change,
            detail,
        })
    }

    async fn update_commands(
        &self,
        subject: &'static str,
        scope: BotCommandScope,
    ) -> Result<SetupStep, ApiError> {
        let wanted = commands_of(&scope);
        let mut asked = GetMyCommands::new();
        asked.scope = Some(scope.clone());
        let registered: Vec<SuggestedCommand> = self.api.ask(&asked).await?;
        let detail = format!("{} commands", wanted.len());
        let change = SetupChange::between(&registered, &wanted);
        let set = SuggestCommands {
            commands: wanted,
            scope: Some(scope),
        };
        self.update(subject, change, detail, &set).await
    }

    async fn update_description(&self) -> Result<SetupStep, ApiError> {
        let registered: BotDescription = self.api.ask(&GetMyDescription::new()).await?;
        let change = SetupChange::between(registered.description.as_str(), DESCRIPTION);
        let mut set = SetMyDescription::new();
        set.description = Some(DESCRIPTION.to_owned());
        self.update("description", change, "shown in an empty chat", &set)
            .await
    }

    async fn update_short_description(&self) -> Result<SetupStep, ApiError> {
        let registered: BotShortDescription = self.api.ask(&GetMyShortDescription::new()).await?;
        let change = SetupChange::between(registered.short_description.as_str(), SHORT_DESCRIPTION);
        let mut set = SetMyShortDescription::new();
        set.short_description = Some(SHORT_DESCRIPTION.to_owned());
        self.update("short description", change, "shown on the profile", &set)
            .await
    }

    /// Makes the call that sets a part of the registration, if it differs.
    async fn update<P: Payload + Serialize>(
        &self,
        subject: &'static str,
        change: SetupChange,
        detail: impl Into<String>,
        payload: &P,
    ) -> Result<SetupStep, ApiError> {
        if change == SetupChange::Changed {
            self.api.call(payload).await?;
        }
        Ok(SetupStep {
            subject,
            change,
            detail: detail.into(),
        })
    }
}

/// Returns the commands that Telegram suggests in a scope.
fn commands_of(scope: &BotCommandScope) -> Vec<SuggestedCommand> {
    let is_group = scope == &BotCommandScope::AllGroupChats;
    let commands = COMMANDS
        .iter()
        .filter(|(command, _)| !(is_group && PRIVATE_COMMANDS.contains(command)));
    commands
        .map(|(command, description)| SuggestedCommand {
            command: (*command).to_owned(),
            description: (*description).to_owned(),
            is_ephemeral: is_group && EPHEMERAL_COMMANDS.contains(command),
        })
        .collect()
}

/// Returns the call that ends a webhook and keeps the waiting updates.
pub(super) fn without_webhook() -> DeleteWebhook {
    let mut call = DeleteWebhook::new();
    call.drop_pending_updates = Some(false);
    call
}

/// Returns the registration of a channel's webhook below the public address.
pub(super) fn webhook(
    name: &str,
    settings: &TelegramSettings,
    server: &ServerSettings,
) -> Result<RegisterWebhook, ApiError> {
    let Some(secret) = &settings.secret_token else {
        return Err(ApiError::refused("a webhook needs `secret_token`"));
    };
    let address = format!("{}/in/{name}", server.public_url.trim_end_matches('/'));
    let address =
        Url::parse(&address).map_err(|_| ApiError::refused("`server.public_url` is not an address"))?;
    let mut webhook = SetWebhook::new(address);
    webhook.secret_token = Some(secret.expose().to_owned());
    webhook.max_connections = Some(CONNECTIONS_MAX);
    Ok(RegisterWebhook {
        webhook,
        allowed_updates: &ALLOWED_UPDATES,
    })
}

/// Returns true if Telegram has this webhook, as far as it shows.
pub(super) fn is_registered(registered: &Value, wanted: &RegisterWebhook) -> bool {
    let wanted = &wanted.webhook;
    registered["url"] == wanted.url.as_str()
        && registered["max_connections"] == json!(wanted.max_connections)
        && missing_updates(registered).is_empty()
}

/// Returns the kinds of updates that Telegram does not send to a registered webhook. Without a list, it sends all of
/// ours.
pub(super) fn missing_updates(registered: &Value) -> BTreeSet<String> {
    let Some(sent) = registered["allowed_updates"].as_array() else {
        return BTreeSet::new();
    };
    let wanted = ALLOWED_UPDATES.iter().map(|kind| json!(kind));
    let missing = wanted.filter(|kind| !sent.contains(kind));
    missing
        .filter_map(|kind| Some(kind.as_str()?.to_owned()))
        .collect()
}

/// Returns the host of a registered address. Its path may be a secret of somebody else.
pub(super) fn host_of(address: &str) -> String {
    let url = Url::parse(address).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.unwrap_or("an unknown host").to_owned()
}
