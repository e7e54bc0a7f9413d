//! The registration of the bot: its webhook, its commands for each scope and language, and its descriptions.

use super::check;
use super::methods::BotApiRefusal;
use super::state::{RegisteredWebhook, TelegramState};
use serde_json::{Map, Value, json};

/// The maximum number of commands of one scope and language.
const COMMANDS_MAX: usize = 100;
/// The maximum number of characters of a description of the bot.
const DESCRIPTION_CHARS_MAX: usize = 512;
/// The maximum number of characters of a short description of the bot.
const SHORT_DESCRIPTION_CHARS_MAX: usize = 120;
/// The number of connections of a webhook that asks for none.
const CONNECTIONS: i64 = 40;

/// A description of the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DescriptionKind {
    /// The text in an empty chat.
    Long,
    /// The text on the profile.
    Short,
}

impl DescriptionKind {
    fn field(self) -> &'static str {
        match self {
            Self::Long => "description",
            Self::Short => "short_description",
        }
    }

    fn chars_max(self) -> usize {
        match self {
            Self::Long => DESCRIPTION_CHARS_MAX,
            Self::Short => SHORT_DESCRIPTION_CHARS_MAX,
        }
    }
}

fn string<'a>(parameters: &'a Map<String, Value>, key: &str) -> &'a str {
    parameters.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// See <https://core.telegram.org/bots/api#setwebhook>.
pub(super) fn set_webhook(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let (url, secret) = (string(parameters, "url"), string(parameters, "secret_token"));
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !(1..=256).contains(&secret.len()) || !secret.chars().all(is_safe) {
        let why = "secret token is missing or has unallowed characters";
        return Err(why.to_owned().into());
    }
    if !url.starts_with("https://") && !url.starts_with("http://127.0.0.1") {
        return Err("bad webhook: an HTTPS address must be provided".to_owned().into());
    }
    let connections = parameters.get("max_connections").and_then(Value::as_i64);
    if connections.is_some_and(|count| !(1..=100).contains(&count)) {
        return Err("bad max_connections".to_owned().into());
    }
    set_allowed_updates(state, parameters);
    state.webhook = Some(RegisteredWebhook {
        url: url.to_owned(),
        secret: secret.to_owned(),
    });
    state.connections_max = connections.unwrap_or(CONNECTIONS);
    Ok(json!(true))
}

/// Stores the requested kinds of updates.
pub(super) fn set_allowed_updates(state: &mut TelegramState, parameters: &Map<String, Value>) {
    if let Some(kinds) = parameters.get("allowed_updates").and_then(Value::as_array) {
        let kinds = kinds.iter().filter_map(Value::as_str).map(str::to_owned);
        state.allowed_updates = Some(kinds.collect());
    }
}

/// See <https://core.telegram.org/bots/api#webhookinfo>. The secret is never shown.
pub(super) fn webhook_info(state: &TelegramState) -> Value {
    let url = state.webhook.as_ref().map_or("", |webhook| webhook.url.as_str());
    let mut info = json!({
        "url": url,
        "has_custom_certificate": false,
        "pending_update_count": state.updates.len(),
    });
    if state.webhook.is_some() {
        info["max_connections"] = json!(state.connections_max);
    }
    if let Some(kinds) = &state.allowed_updates {
        info["allowed_updates"] = json!(kinds);
    }
    if let Some((at, why)) = &state.webhook_error {
        info["last_error_date"] = json!(at);
        info["last_error_message"] = json!(why);
    }
    info
}

/// See <https://core.telegram.org/bots/api#setmycommands>.
pub(super) fn set_commands(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let commands = parameters.get("commands").and_then(Value::as_array);
    let commands = commands.ok_or_else(|| BotApiRefusal::from("no commands".to_owned()))?;
    if commands.len() > COMMANDS_MAX || !commands.iter().all(is_command) {
        return Err("BOT_COMMAND_INVALID".to_owned().into());
    }
    let place = place(state, parameters)?;
    state.commands.insert(place, commands.clone());
    Ok(json!(true))
}

/// Returns the commands of exactly this scope and language, or an empty list.
pub(super) fn commands(
    state: &TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let place = place(state, parameters)?;
    Ok(json!(state.commands.get(&place).cloned().unwrap_or_default()))
}

fn is_command(command: &Value) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let is_name = |name: &str| (1..=32).contains(&name.len()) && name.bytes().all(is_letter);
    let description = command["description"].as_str().unwrap_or_default();
    command["command"].as_str().is_some_and(is_name) && (1..=256).contains(&description.chars().count())
}

/// Returns the scope and the language of commands. See <https://core.telegram.org/bots/api#botcommandscope>.
fn place(state: &TelegramState, parameters: &Map<String, Value>) -> Result<(String, String), BotApiRefusal> {
    let language = language(parameters)?;
    let Some(scope) = parameters.get("scope") else {
        return Ok(("default".to_owned(), language));
    };
    let fields = scope
        .as_object()
        .ok_or_else(|| BotApiRefusal::from("can't parse BotCommandScope".to_owned()))?;
    let kind = string(fields, "type");
    let known: &[&str] = match kind {
        "default" | "all_private_chats" | "all_group_chats" | "all_chat_administrators" => &["type"],
        "chat" | "chat_administrators" => &["type", "chat_id"],
        _ => return Err("unsupported BotCommandScope type specified".to_owned().into()),
    };
    check::check_known(fields, known)?;
    match scope["chat_id"].as_i64() {
        None if known.len() == 1 => Ok((kind.to_owned(), language)),
        Some(chat) if state.chats.contains_key(&chat) => Ok((format!("{kind} {chat}"), language)),
        Some(_) | None => Err(BotApiRefusal::expected(400, "Bad Request: chat not found")),
    }
}

/// Returns the language: two letters, or none for all languages.
fn language(parameters: &Map<String, Value>) -> Result<String, BotApiRefusal> {
    let language = string(parameters, "language_code");
    let is_code = language.len() == 2 && language.bytes().all(|b| b.is_ascii_lowercase());
    match language.is_empty() || is_code {
        true => Ok(language.to_owned()),
        false => Err("LANG_CODE_INVALID".to_owned().into()),
    }
}

/// See <https://core.telegram.org/bots/api#setmydescription>. An empty text removes the description.
pub(super) fn set_description(
    state: &mut TelegramState,
    kind: DescriptionKind,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let text = string(parameters, kind.field());
    if text.chars().count() > kind.chars_max() {
        return Err(format!("{} is too long", kind.field()).into());
    }
    let place = (kind, language(parameters)?);
    state.descriptions.insert(place, text.to_owned());
    Ok(json!(true))
}

/// Returns the description for a language: its own, or that of all languages.
pub(super) fn description(
    state: &TelegramState,
    kind: DescriptionKind,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let language = language(parameters)?;
    let own = state.descriptions.get(&(kind, language));
    let text = own
        .filter(|text| !text.is_empty())
        .or_else(|| state.descriptions.get(&(kind, String::new())));
    Ok(json!({ kind.field(): text.cloned().unwrap_or_default() }))
}
