//! The output to people: every message and file, with whom it would ping and what it would link.

use drydock::emulator::slack::{Mention, Message, State};
use drydock::emulator::telegram::Posted;
use serde_json::Value;

/// One message or file of the bot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// The text a person reads.
    pub(crate) text: String,
    /// All that was sent.
    pub(crate) payload: Vec<u8>,
    /// The people it pings and the addresses it links, beyond the person who asked.
    pub(crate) acts_on: Vec<String>,
    /// Labels of its buttons.
    pub(crate) buttons: Vec<String>,
    /// The id of the message.
    pub(crate) id: String,
    pub(crate) is_file: bool,
    /// True if something else stands in its place now.
    pub(crate) is_replaced: bool,
}

/// Returns the messages of the bot in a thread of Slack, or to a channel alone.
pub(crate) fn of_slack(state: &State, channel: &str, thread: Option<&str>, asker: &str) -> Vec<Shown> {
    let is_there = |message: &&Message| {
        let at = message.thread_ts.as_deref();
        message.channel == channel
            && !message.request.is_null()
            && thread.is_none_or(|thread| at == Some(thread) || message.ts == thread)
    };
    let mut shown: Vec<Shown> = state
        .messages
        .iter()
        .filter(is_there)
        .flat_map(|message| of_every_version(message, asker))
        .collect();
    shown.extend(whispers(state, channel, thread, asker));
    let files = state.files.iter().filter(|file| {
        file.channel == channel && thread.is_none_or(|thread| file.thread_ts.as_deref() == Some(thread))
    });
    shown.extend(files.map(|file| Shown {
        text: format!("{}\n{}", file.title, String::from_utf8_lossy(&file.content)),
        payload: [file.name.as_bytes(), file.title.as_bytes(), &file.content].concat(),
        is_file: true,
        ..Shown::default()
    }));
    shown
}

/// Returns the messages the bot has whispered to somebody in a thread, or anywhere in a channel.
pub(crate) fn whispers(state: &State, channel: &str, thread: Option<&str>, asker: &str) -> Vec<Shown> {
    let is_there = |message: &&Message| {
        let at = message.thread_ts.as_deref();
        message.channel == channel && message.user == asker && thread.is_none_or(|thread| at == Some(thread))
    };
    let whispers = state.ephemerals.iter().filter(is_there);
    whispers.map(|message| of_message(message, asker)).collect()
}

/// A message as it is, and as it was before each edit: somebody may have read it then, and been pinged by it.
pub(crate) fn of_every_version(message: &Message, asker: &str) -> Vec<Shown> {
    let before = message.before_edits().map(|message| Shown {
        buttons: Vec::new(),
        is_replaced: true,
        ..of_message(&message, asker)
    });
    before.chain([of_message(message, asker)]).collect()
}

pub(crate) fn of_message(message: &Message, asker: &str) -> Shown {
    let others = message.mentions().into_iter().filter(|mention| match mention {
        Mention::User(user) => user != asker,
        Mention::Channel(_) | Mention::Group(_) | Mention::Broadcast(_) | Mention::Link(_) => true,
    });
    Shown {
        text: message.visible().join("\n"),
        payload: message.request.to_string().into_bytes(),
        acts_on: others.map(|mention| format!("{mention:?}")).collect(),
        buttons: message.buttons().into_iter().map(|button| button.label).collect(),
        id: message.ts.clone(),
        ..Shown::default()
    }
}

/// Entities that only change how a text looks.
const HARMLESS: [&str; 9] = [
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

/// Every text that was sent to a chat of Telegram or put in the place of another there.
pub(crate) fn of_telegram_calls(calls: &[(String, Value)], chat: i64, asker: i64) -> Vec<Shown> {
    let sent = calls.iter().filter(|(method, parameters)| {
        let is_there = parameters["chat_id"].as_i64() == Some(chat);
        is_there && ["sendMessage", "editMessageText"].contains(&method.as_str())
    });
    sent.map(|(_, parameters)| Shown {
        text: parameters["text"].as_str().unwrap_or_default().to_owned(),
        payload: parameters.to_string().into_bytes(),
        acts_on: acts(parameters["entities"].as_array().into_iter().flatten(), asker),
        is_replaced: true,
        ..Shown::default()
    })
    .collect()
}

/// Entities that ping or link more than the one who asked.
fn acts<'e>(entities: impl IntoIterator<Item = &'e Value>, asker: i64) -> Vec<String> {
    let acts = entities.into_iter().filter(|entity| {
        let kind = entity["type"].as_str().unwrap_or_default();
        let is_asker = kind == "text_mention" && entity["user"]["id"].as_i64() == Some(asker);
        !is_asker && !HARMLESS.contains(&kind)
    });
    acts.map(ToString::to_string).collect()
}

/// A message of the bot in Telegram.
pub(crate) fn of_telegram(posted: &Posted, asker: i64) -> Shown {
    let mut payload = format!("{}{:?}", posted.text, posted.entities).into_bytes();
    let mut text = posted.text.clone();
    if let Some((name, content)) = &posted.document {
        payload.extend_from_slice(name.as_bytes());
        payload.extend_from_slice(content);
        text.push_str(&String::from_utf8_lossy(content));
    }
    Shown {
        text,
        payload,
        acts_on: acts(&posted.entities, asker),
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
