//! The output to people: every message and file, with the people it would ping and the addresses it would link.

use drydock::simulation::emulator::slack::{Mention, SlackMessage, SlackState};
use drydock::simulation::emulator::telegram::{PostedMessage, RichWords, rich_words};
use serde_json::Value;

/// One message or file of the bot.
#[derive(Clone, Debug, Default)]
pub(crate) struct VisibleMessage {
    /// The text a person reads.
    pub(crate) text: String,
    /// The complete payload.
    pub(crate) payload: Vec<u8>,
    /// The people it pings and the addresses it links, beyond the person who asked.
    pub(crate) acts_on: Vec<String>,
    /// The labels of its buttons.
    pub(crate) buttons: Vec<String>,
    pub(crate) id: String,
    pub(crate) is_file: bool,
    /// True if another message has replaced it.
    pub(crate) is_replaced: bool,
}

/// Returns the messages of the bot in a thread of Slack, or in a channel outside threads.
pub(crate) fn slack_messages(
    state: &SlackState,
    channel: &str,
    thread: Option<&str>,
    asker: &str,
) -> Vec<VisibleMessage> {
    let is_there = |message: &&SlackMessage| {
        let at = message.thread_ts.as_deref();
        message.channel == channel
            && !message.request.is_null()
            && thread.is_none_or(|thread| at == Some(thread) || message.ts == thread)
    };
    let mut shown: Vec<VisibleMessage> = state
        .messages
        .iter()
        .filter(is_there)
        .flat_map(|message| message_versions(message, asker))
        .collect();
    shown.extend(ephemeral_messages(state, channel, thread, asker));
    let files = state.files.iter().filter(|file| {
        file.channel == channel && thread.is_none_or(|thread| file.thread_ts.as_deref() == Some(thread))
    });
    shown.extend(files.map(|file| VisibleMessage {
        text: format!("{}\n{}", file.title, String::from_utf8_lossy(&file.content)),
        payload: [file.name.as_bytes(), file.title.as_bytes(), &file.content].concat(),
        is_file: true,
        ..VisibleMessage::default()
    }));
    shown
}

/// Returns the ephemeral messages of the bot to a person in a thread, or anywhere in a channel.
pub(crate) fn ephemeral_messages(
    state: &SlackState,
    channel: &str,
    thread: Option<&str>,
    asker: &str,
) -> Vec<VisibleMessage> {
    let is_there = |message: &&SlackMessage| {
        let at = message.thread_ts.as_deref();
        message.channel == channel && message.user == asker && thread.is_none_or(|thread| at == Some(thread))
    };
    let ephemerals = state.ephemerals.iter().filter(is_there);
    ephemerals.map(|message| slack_message(message, asker)).collect()
}

/// Returns a message as it is, and as it was before each edit, because people may have read it then, and been pinged by
/// it.
pub(crate) fn message_versions(message: &SlackMessage, asker: &str) -> Vec<VisibleMessage> {
    let before = message.before_edits().map(|message| VisibleMessage {
        buttons: Vec::new(),
        is_replaced: true,
        ..slack_message(&message, asker)
    });
    before.chain([slack_message(message, asker)]).collect()
}

pub(crate) fn slack_message(message: &SlackMessage, asker: &str) -> VisibleMessage {
    let others = message.mentions().into_iter().filter(|mention| match mention {
        Mention::User(user) => user != asker,
        Mention::Channel(_) | Mention::Group(_) | Mention::Broadcast(_) | Mention::Link(_) => true,
    });
    VisibleMessage {
        text: message.visible().join("\n"),
        payload: message.request.to_string().into_bytes(),
        acts_on: others.map(|mention| format!("{mention:?}")).collect(),
        buttons: message.buttons().into_iter().map(|button| button.label).collect(),
        id: message.ts.clone(),
        ..VisibleMessage::default()
    }
}

/// The entities that only change how a text looks.
const STYLE_ENTITIES: [&str; 9] = [
    "bold",
    "italic",
    "underline",
    "strikethrough",
    "spoiler",
    "code",
    "pre",
    "blockquote",
    "expandable_blockquote",
];

/// Returns every text that was sent or edited in a chat of Telegram.
pub(crate) fn telegram_call_messages(
    calls: &[(String, Value)],
    chat: i64,
    asker: i64,
) -> Vec<VisibleMessage> {
    let methods = ["sendMessage", "sendRichMessage", "editMessageText"];
    let sent = calls.iter().filter(|(method, parameters)| {
        let is_there = parameters["chat_id"].as_i64() == Some(chat);
        is_there && methods.contains(&method.as_str())
    });
    sent.map(|(_, parameters)| {
        let words = call_words(parameters);
        VisibleMessage {
            text: words.text,
            payload: parameters.to_string().into_bytes(),
            acts_on: active_entities(&words.entities, asker),
            is_replaced: true,
            ..VisibleMessage::default()
        }
    })
    .collect()
}

/// Returns the words of a call. A rich message that cannot be read has those of its whole content, as a link.
fn call_words(parameters: &Value) -> RichWords {
    match parameters.get("rich_message") {
        None => RichWords {
            text: parameters["text"].as_str().unwrap_or_default().to_owned(),
            entities: parameters["entities"].as_array().cloned().unwrap_or_default(),
        },
        Some(rich) => rich_words(rich).unwrap_or_else(|_| RichWords {
            text: rich.to_string(),
            entities: vec![rich.clone()],
        }),
    }
}

/// Returns the entities that ping or link, except a mention of the person who asked.
fn active_entities<'e>(entities: impl IntoIterator<Item = &'e Value>, asker: i64) -> Vec<String> {
    let acts = entities.into_iter().filter(|entity| {
        let kind = entity["type"].as_str().unwrap_or_default();
        let is_asker = kind == "text_mention" && entity["user"]["id"].as_i64() == Some(asker);
        !is_asker && !STYLE_ENTITIES.contains(&kind)
    });
    acts.map(ToString::to_string).collect()
}

/// Returns a message of the bot in Telegram.
pub(crate) fn telegram_message(posted: &PostedMessage, asker: i64) -> VisibleMessage {
    let mut payload = format!("{}{:?}{:?}", posted.text, posted.entities, posted.rich).into_bytes();
    let mut text = posted.text.clone();
    if let Some((name, content)) = &posted.document {
        payload.extend_from_slice(name.as_bytes());
        payload.extend_from_slice(content);
        text.push_str(&String::from_utf8_lossy(content));
    }
    VisibleMessage {
        text,
        payload,
        acts_on: active_entities(&posted.entities, asker),
        buttons: posted
            .keyboard
            .iter()
            .flatten()
            .map(|(label, _)| label.clone())
            .collect(),
        id: posted.id.to_string(),
        is_file: posted.document.is_some(),
        is_replaced: false,
    }
}
