//! The methods of the Bot API that the gateway needs. Each checks its parameters and then takes effect.

use super::profile::{self, DescriptionKind};
use super::state::{PostedMessage, ShownDraft, TelegramState};
use super::{BOT_ID, BOT_NAME, check, sent_files};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

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

    fn mistake(description: String) -> Self {
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
    if call.method == "sendMessageDraft" && state.knows_no_drafts {
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
        "sendMessage" => send_message(state, parameters),
        "sendMessageDraft" => send_draft(state, parameters),
        "editMessageText" => edit_message(state, parameters),
        "sendDocument" => send_document(state, call),
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
            "reply_parameters",
            "reply_markup",
            "disable_notification",
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

fn number(parameters: &Map<String, Value>, key: &str) -> Result<i64, BotApiRefusal> {
    let value = parameters.get(key);
    let number = value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
    number.ok_or_else(|| BotApiRefusal::mistake(format!("`{key}` is missing")))
}

fn string<'a>(parameters: &'a Map<String, Value>, key: &str) -> &'a str {
    parameters.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the place of a new message; the chat must be known to the bot, and the topic must exist.
fn place(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<(i64, Option<i64>), BotApiRefusal> {
    let chat = number(parameters, "chat_id")?;
    if !state.chats.contains_key(&chat) {
        return Err(BotApiRefusal::expected(400, "Bad Request: chat not found"));
    }
    let topic = match parameters.get("message_thread_id") {
        Some(_) => Some(number(parameters, "message_thread_id")?),
        None => None,
    };
    if topic.is_some_and(|topic| !state.has_topic(chat, topic)) {
        return Err(BotApiRefusal::expected(
            400,
            "Bad Request: message thread not found",
        ));
    }
    count(state, chat)?;
    Ok((chat, topic))
}

/// Counts a message or edit against the chat's limit; both share it.
fn count(state: &mut TelegramState, chat: i64) -> Result<(), BotApiRefusal> {
    let Some(rates) = &mut state.rates else {
        return Ok(());
    };
    rates.count(chat, Instant::now()).map_err(|wait| BotApiRefusal {
        retry_after: Some(wait),
        ..BotApiRefusal::expected(429, &format!("Too Many Requests: retry after {wait}"))
    })
}

struct Content {
    text: String,
    entities: Vec<Value>,
    keyboard: Vec<Vec<(String, String)>>,
}

fn content(parameters: &Map<String, Value>) -> Result<Content, BotApiRefusal> {
    let text = string(parameters, "text");
    let entities = parameters
        .get("entities")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    check::text(text, &entities, 4096)?;
    let preview = parameters.get("link_preview_options");
    if !preview.is_some_and(|preview| preview["is_disabled"] == json!(true)) {
        return Err(BotApiRefusal::mistake(
            "link previews are not disabled".to_owned(),
        ));
    }
    Ok(Content {
        text: text.trim_end().to_owned(),
        entities,
        keyboard: check::keyboard(parameters.get("reply_markup"))?,
    })
}

fn send_message(state: &mut TelegramState, parameters: &Map<String, Value>) -> Result<Value, BotApiRefusal> {
    let content = content(parameters)?;
    let (chat, topic) = place(state, parameters)?;
    let reply_to = reply_target(state, chat, parameters.get("reply_parameters"))?;
    let posted = PostedMessage {
        id: state.next_message(chat),
        topic,
        text: content.text,
        entities: content.entities,
        keyboard: content.keyboard,
        reply_to,
        document: None,
        edits: 0,
    };
    Ok(show(state, chat, posted))
}

/// Shows or replaces a draft. See <https://core.telegram.org/bots/api#sendmessagedraft>.
fn send_draft(state: &mut TelegramState, parameters: &Map<String, Value>) -> Result<Value, BotApiRefusal> {
    let (chat, id) = (number(parameters, "chat_id")?, number(parameters, "draft_id")?);
    if chat < 0 {
        return Err(BotApiRefusal::mistake(
            "a draft outside of a private chat".to_owned(),
        ));
    }
    if !state.chats.contains_key(&chat) {
        return Err(BotApiRefusal::expected(400, "Bad Request: chat not found"));
    }
    if id == 0 {
        return Err(BotApiRefusal::mistake("the id of a draft is 0".to_owned()));
    }
    let text = string(parameters, "text");
    let entities = parameters.get("entities").and_then(Value::as_array).cloned();
    // An empty text is a placeholder.
    if !text.is_empty() {
        check::text(text, &entities.unwrap_or_default(), 4096)?;
    }
    let draft = ShownDraft {
        id,
        topic: parameters.get("message_thread_id").and_then(Value::as_i64),
        text: text.to_owned(),
        can_stop: parameters.get("can_stop") == Some(&Value::Bool(true)),
    };
    state.drafts.insert(chat, draft);
    Ok(json!(true))
}

fn show(state: &mut TelegramState, chat: i64, posted: PostedMessage) -> Value {
    let id = posted.id;
    // A message of the bot takes the place of a draft.
    state.drafts.remove(&chat);
    state.chats.entry(chat).or_default().posted.insert(id, posted);
    state.describe_message(chat, id)
}

fn reply_target(
    state: &TelegramState,
    chat: i64,
    reply: Option<&Value>,
) -> Result<Option<i64>, BotApiRefusal> {
    let Some(reply) = reply else { return Ok(None) };
    let fields = reply
        .as_object()
        .ok_or_else(|| BotApiRefusal::mistake("bad reply".to_owned()))?;
    check::check_known(fields, &["message_id", "allow_sending_without_reply"])?;
    let message = number(fields, "message_id")?;
    match (state.exists(chat, message), &reply["allow_sending_without_reply"]) {
        (true, _) => Ok(Some(message)),
        (false, Value::Bool(true)) => Ok(None),
        (false, _) => Err(BotApiRefusal::expected(
            400,
            "Bad Request: message to be replied not found",
        )),
    }
}

fn edit_message(state: &mut TelegramState, parameters: &Map<String, Value>) -> Result<Value, BotApiRefusal> {
    let content = content(parameters)?;
    if parameters
        .get("reply_markup")
        .is_some_and(|markup| markup.get("inline_keyboard").is_none())
    {
        return Err(BotApiRefusal::mistake(
            "can't parse inline keyboard: an edit takes no other markup".to_owned(),
        ));
    }
    let (chat, message) = (number(parameters, "chat_id")?, number(parameters, "message_id")?);
    count(state, chat)?;
    let posted = state
        .chats
        .get_mut(&chat)
        .and_then(|chat| chat.posted.get_mut(&message));
    let Some(posted) = posted else {
        return Err(BotApiRefusal::expected(
            400,
            "Bad Request: message to edit not found",
        ));
    };
    let is_same = posted.text == content.text
        && posted.entities == content.entities
        && posted.keyboard == content.keyboard;
    if is_same {
        let words = "Bad Request: message is not modified: specified new message content and reply markup are \
                     exactly the same as a current content and reply markup of the message";
        return Err(BotApiRefusal::expected(400, words));
    }
    posted.text = content.text;
    posted.entities = content.entities;
    posted.keyboard = content.keyboard;
    posted.edits += 1;
    Ok(state.describe_message(chat, message))
}

/// Returns the entities of a caption. In a form each parameter is text, and an object is its JSON. See
/// <https://core.telegram.org/bots/api#making-requests>.
fn caption_entities(parameters: &Map<String, Value>) -> Result<Vec<Value>, BotApiRefusal> {
    match parameters.get("caption_entities") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|_| BotApiRefusal::mistake("can't parse entities: not a list of them".to_owned())),
        Some(_) => Err(BotApiRefusal::mistake(
            "can't parse entities: not text".to_owned(),
        )),
    }
}

fn send_document(state: &mut TelegramState, call: &BotApiCall) -> Result<Value, BotApiRefusal> {
    let Some(document) = call.file.clone() else {
        return Err(BotApiRefusal::mistake(
            "there is no document in the request".to_owned(),
        ));
    };
    let caption = string(&call.parameters, "caption");
    let entities = caption_entities(&call.parameters)?;
    if !caption.is_empty() {
        check::text(caption, &entities, 1024)?;
    }
    let (chat, topic) = place(state, &call.parameters)?;
    let posted = PostedMessage {
        id: state.next_message(chat),
        topic,
        text: caption.to_owned(),
        entities,
        keyboard: Vec::new(),
        reply_to: None,
        document: Some(document),
        edits: 0,
    };
    Ok(show(state, chat, posted))
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
