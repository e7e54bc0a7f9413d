//! The methods of the Bot API that the gateway needs. Each checks its parameters and then takes effect.

use super::messages::{self, number, string};
use super::profile::{self, DescriptionKind};
use super::state::TelegramState;
use super::{BOT_ID, BOT_NAME, check, sent_files};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The refusal of a call, in Telegram's words.
#[derive(Debug)]
pub(super) struct BotApiRefusal {
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) retry_after: Option<u64>,
    /// True if a correct bot would never send the call; false if the refusal can happen to any bot.
    pub(super) is_problem: bool,
}

impl BotApiRefusal {
    /// Creates a refusal that can happen to a correct bot.
    pub(super) fn expected(code: u16, description: &str) -> Self {
        Self {
            code,
            description: description.to_owned(),
            retry_after: None,
            is_problem: false,
        }
    }

    /// Creates the refusal of an unknown method, in the words of the Bot API server: see
    /// <https://github.com/tdlib/telegram-bot-api/blob/master/telegram-bot-api/Client.cpp>.
    fn unknown_method() -> Self {
        Self {
            is_problem: true,
            ..Self::expected(404, "Not Found: method not found")
        }
    }

    pub(super) fn mistake(description: String) -> Self {
        Self {
            code: 400,
            description: format!("Bad Request: {description}"),
            retry_after: None,
            is_problem: true,
        }
    }
}

impl From<String> for BotApiRefusal {
    fn from(description: String) -> Self {
        Self::mistake(description)
    }
}

/// A parsed call that is not checked yet.
pub(super) struct BotApiCall {
    pub(super) method: String,
    pub(super) parameters: Map<String, Value>,
    pub(super) file: Option<(String, Bytes)>,
}

/// Runs any method except `getUpdates`.
pub(super) fn run(state: &mut TelegramState, call: &BotApiCall) -> Result<Value, BotApiRefusal> {
    let parameters = &call.parameters;
    if state
        .missing_methods
        .iter()
        .any(|missing| *missing == call.method)
    {
        // A correct bot can meet such a server.
        return Err(BotApiRefusal {
            is_problem: false,
            ..BotApiRefusal::unknown_method()
        });
    }
    let known = known(&call.method).ok_or_else(BotApiRefusal::unknown_method)?;
    check::check_known(parameters, known)?;
    match call.method.as_str() {
        "getMe" => Ok(
            json!({"id": BOT_ID, "is_bot": true, "first_name": "Drydock", "username": BOT_NAME,
            "can_join_groups": true, "can_read_all_group_messages": !state.is_private,
            "supports_inline_queries": false}),
        ),
        "setWebhook" => profile::set_webhook(state, parameters),
        "getWebhookInfo" => Ok(profile::webhook_info(state)),
        "deleteWebhook" => {
            state.webhook = None;
            Ok(json!(true))
        }
        "getFile" => sent_files::get_file(state, parameters),
        "setMyCommands" => profile::set_commands(state, parameters),
        "getMyCommands" => profile::commands(state, parameters),
        "setMyDescription" => profile::set_description(state, DescriptionKind::Long, parameters),
        "getMyDescription" => profile::description(state, DescriptionKind::Long, parameters),
        "setMyShortDescription" => profile::set_description(state, DescriptionKind::Short, parameters),
        "getMyShortDescription" => profile::description(state, DescriptionKind::Short, parameters),
        "sendMessage" | "sendRichMessage" => messages::send(state, parameters),
        "sendMessageDraft" | "sendRichMessageDraft" => messages::send_draft(state, parameters),
        "editMessageText" => messages::edit(state, parameters),
        "sendDocument" => messages::send_document(state, call),
        "setMessageReaction" => react(state, parameters),
        _ => answer_press(state, parameters),
    }
}

fn known(method: &str) -> Option<&'static [&'static str]> {
    Some(match method {
        "getMe" | "getWebhookInfo" => &[],
        "setWebhook" => &[
            "url",
            "secret_token",
            "allowed_updates",
            "max_connections",
            "drop_pending_updates",
        ],
        "deleteWebhook" => &["drop_pending_updates"],
        "getFile" => &["file_id"],
        "setMyCommands" => &["commands", "scope", "language_code"],
        "getMyCommands" => &["scope", "language_code"],
        "setMyDescription" => &["description", "language_code"],
        "setMyShortDescription" => &["short_description", "language_code"],
        "getMyDescription" | "getMyShortDescription" => &["language_code"],
        "sendMessage" => &[
            "chat_id",
            "message_thread_id",
            "text",
            "entities",
            "link_preview_options",
            "ephemeral_message_parameters",
            "reply_parameters",
            "reply_markup",
            "disable_notification",
        ],
        "sendRichMessage" => &[
            "chat_id",
            "message_thread_id",
            "rich_message",
            "ephemeral_message_parameters",
            "reply_parameters",
            "reply_markup",
            "disable_notification",
        ],
        "sendRichMessageDraft" => &[
            "chat_id",
            "message_thread_id",
            "draft_id",
            "rich_message",
            "can_stop",
            "keep_on_stop",
        ],
        "sendMessageDraft" => &[
            "chat_id",
            "message_thread_id",
            "draft_id",
            "text",
            "entities",
            "can_stop",
            "keep_on_stop",
        ],
        "editMessageText" => &[
            "chat_id",
            "message_id",
            "text",
            "entities",
            "link_preview_options",
            "rich_message",
            "reply_markup",
        ],
        "sendDocument" => &[
            "chat_id",
            "message_thread_id",
            "caption",
            "caption_entities",
            "disable_content_type_detection",
        ],
        "setMessageReaction" => &["chat_id", "message_id", "reaction", "is_big"],
        "answerCallbackQuery" => &["callback_query_id", "text", "show_alert"],
        _ => return None,
    })
}

fn react(state: &mut TelegramState, parameters: &Map<String, Value>) -> Result<Value, BotApiRefusal> {
    let (chat, message) = (number(parameters, "chat_id")?, number(parameters, "message_id")?);
    let reaction = parameters.get("reaction").cloned().unwrap_or_default();
    let emoji = reaction[0]["emoji"].as_str().unwrap_or_default();
    if reaction[0]["type"] != "emoji" || !check::REACTIONS.split_whitespace().any(|known| known == emoji) {
        return Err(BotApiRefusal::mistake("REACTION_INVALID".to_owned()));
    }
    if !state.exists(chat, message) {
        return Err(BotApiRefusal::expected(
            400,
            "Bad Request: message to react not found",
        ));
    }
    state.reactions.insert((chat, message), emoji.to_owned());
    Ok(json!(true))
}

fn answer_press(state: &mut TelegramState, parameters: &Map<String, Value>) -> Result<Value, BotApiRefusal> {
    let id = string(parameters, "callback_query_id");
    let text = string(parameters, "text");
    if text.encode_utf16().count() > 200 {
        return Err(BotApiRefusal::mistake("MESSAGE_TOO_LONG".to_owned()));
    }
    if !state.callbacks.contains(id) {
        let words = "Bad Request: query is too old and response timeout expired or query ID is invalid";
        return Err(BotApiRefusal::expected(400, words));
    }
    state.answers.push((id.to_owned(), text.to_owned()));
    Ok(json!(true))
}
