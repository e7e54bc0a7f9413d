//! The messages of the bot: texts, rich messages, drafts and files, with the checks of their places and of the pace.

use super::methods::{BotApiCall, BotApiRefusal};
use super::rich::{self, RichUse};
use super::state::{PostedMessage, ShownDraft, TelegramState};
use super::{check, ephemeral};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

pub(super) fn number(parameters: &Map<String, Value>, key: &str) -> Result<i64, BotApiRefusal> {
    let value = parameters.get(key);
    let number = value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
    number.ok_or_else(|| BotApiRefusal::mistake(format!("`{key}` is missing")))
}

pub(super) fn string<'a>(parameters: &'a Map<String, Value>, key: &str) -> &'a str {
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

/// The content of a message that is sent or edited.
pub(super) struct SentContent {
    text: String,
    entities: Vec<Value>,
    rich: Option<Value>,
    keyboard: Vec<Vec<(String, String)>>,
}

impl SentContent {
    /// Returns the message with this content.
    pub(super) fn into_message(self, id: i64, topic: Option<i64>, reply_to: Option<i64>) -> PostedMessage {
        PostedMessage {
            id,
            topic,
            text: self.text,
            entities: self.entities,
            rich: self.rich,
            keyboard: self.keyboard,
            reply_to,
            document: None,
            edits: 0,
        }
    }
}

/// Reads the content of a message: a text or a rich message, not both.
fn content(parameters: &Map<String, Value>) -> Result<SentContent, BotApiRefusal> {
    let keyboard = check::keyboard(parameters.get("reply_markup"))?;
    if let Some(rich) = parameters.get("rich_message") {
        check_alone(parameters)?;
        let words = rich::read(rich, RichUse::Message)?;
        return Ok(SentContent {
            text: words.text,
            entities: words.entities,
            rich: Some(rich.clone()),
            keyboard,
        });
    }
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
    Ok(SentContent {
        text: text.trim_end().to_owned(),
        entities,
        rich: None,
        keyboard,
    })
}

/// Refuses the fields of a text beside a rich message.
fn check_alone(parameters: &Map<String, Value>) -> Result<(), BotApiRefusal> {
    let of_text = ["text", "entities", "link_preview_options"];
    match of_text.into_iter().find(|key| parameters.contains_key(*key)) {
        Some(key) => Err(BotApiRefusal::mistake(format!("`{key}` beside a rich message"))),
        None => Ok(()),
    }
}

/// Sends a text or a rich message.
pub(super) fn send(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let content = content(parameters)?;
    let (chat, topic) = place(state, parameters)?;
    if parameters.contains_key("ephemeral_message_parameters") {
        return ephemeral::send(state, (chat, topic), content, parameters);
    }
    let reply_to = reply_target(state, chat, parameters.get("reply_parameters"))?;
    let posted = content.into_message(state.next_message(chat), topic, reply_to);
    Ok(show(state, chat, posted))
}

/// Shows or replaces a draft. See <https://core.telegram.org/bots/api#sendmessagedraft>.
pub(super) fn send_draft(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
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
    let rich = parameters.get("rich_message");
    let text = match rich {
        Some(rich) => rich::read(rich, RichUse::Draft)?.text,
        None => string(parameters, "text").to_owned(),
    };
    // An empty text is a placeholder.
    if rich.is_none() && !text.is_empty() {
        let entities = parameters.get("entities").and_then(Value::as_array).cloned();
        check::text(&text, &entities.unwrap_or_default(), 4096)?;
    }
    let draft = ShownDraft {
        id,
        topic: parameters.get("message_thread_id").and_then(Value::as_i64),
        text,
        rich: rich.cloned(),
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

/// Replaces a text or a rich message by either of them, as TDLib does: see `edit_message_text` in
/// <https://github.com/tdlib/td/blob/master/td/telegram/MessagesManager.cpp>.
pub(super) fn edit(
    state: &mut TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    if parameters.contains_key("rich_message") && state.missing_methods.contains(&"sendRichMessage") {
        // A server does not read a field that it does not know.
        return Err(BotApiRefusal::expected(400, "Bad Request: message text is empty"));
    }
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
        && posted.rich == content.rich
        && posted.keyboard == content.keyboard;
    if is_same {
        let words = "Bad Request: message is not modified: specified new message content and reply markup are \
                     exactly the same as a current content and reply markup of the message";
        return Err(BotApiRefusal::expected(400, words));
    }
    posted.text = content.text;
    posted.entities = content.entities;
    posted.rich = content.rich;
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

pub(super) fn send_document(state: &mut TelegramState, call: &BotApiCall) -> Result<Value, BotApiRefusal> {
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
        rich: None,
        keyboard: Vec::new(),
        reply_to: None,
        document: Some(document),
        edits: 0,
    };
    Ok(show(state, chat, posted))
}
