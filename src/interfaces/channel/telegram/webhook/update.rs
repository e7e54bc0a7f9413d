//! The fields of Telegram's objects that Drydock uses. All other fields may be present, new or missing: an update
//! with an unknown part can still be read.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct TelegramMessage {
    /// The id in the chat; 0 for an ephemeral message.
    pub(super) message_id: i64,
    /// The id of a message that only its sender and the bot see.
    pub(super) ephemeral_message_id: Option<i64>,
    /// The time at which it was sent, in seconds.
    #[serde(default)]
    pub(super) date: i64,
    pub(super) chat: TelegramChat,
    pub(super) from: Option<TelegramUser>,
    pub(super) sender_chat: Option<Value>,
    pub(super) via_bot: Option<Value>,
    pub(super) forward_origin: Option<Value>,
    /// The date field of forwards before Bot API 7.0; local Bot API servers still send it.
    pub(super) forward_date: Option<Value>,
    pub(super) is_automatic_forward: Option<bool>,
    pub(super) is_topic_message: Option<bool>,
    pub(super) message_thread_id: Option<i64>,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    /// The id of an album within its chat, on each of its messages.
    pub(super) media_group_id: Option<String>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    pub(super) reply_to_message: Option<Box<RepliedMessage>>,
    pub(super) quote: Option<Quote>,
    pub(super) external_reply: Option<ExternalReply>,
}

/// The message that was replied to.
#[derive(Debug, Deserialize)]
pub(super) struct RepliedMessage {
    pub(super) message_id: Option<i64>,
    pub(super) from: Option<TelegramUser>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
    pub(super) rich_message: Option<Value>,
    pub(super) forum_topic_created: Option<Value>,
}

/// The part of the replied message that the user quoted.
#[derive(Debug, Deserialize)]
pub(super) struct Quote {
    pub(super) text: Option<String>,
}

/// A replied message of another chat.
#[derive(Debug, Deserialize)]
pub(super) struct ExternalReply {
    pub(super) quote: Option<Quote>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramChat {
    pub(super) id: i64,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramUser {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
}

/// A marked part of the text; `offset` and `length` count UTF-16 units.
#[derive(Debug, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) length: usize,
    pub(super) user: Option<TelegramUser>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallbackQuery {
    pub(super) id: String,
    pub(super) from: TelegramUser,
    pub(super) data: Option<String>,
    pub(super) message: Option<PressedMessage>,
}

/// The message of a pressed button; of an old message Telegram sends only chat and id.
#[derive(Debug, Deserialize)]
pub(super) struct PressedMessage {
    pub(super) message_id: i64,
    pub(super) ephemeral_message_id: Option<i64>,
    pub(super) chat: TelegramChat,
    pub(super) is_topic_message: Option<bool>,
    pub(super) message_thread_id: Option<i64>,
}

/// The draft that a user stopped. See <https://core.telegram.org/bots/api#messagegenerationstopped>.
#[derive(Debug, Deserialize)]
pub(super) struct StoppedDraft {
    pub(super) chat: TelegramChat,
    pub(super) message_thread_id: Option<i64>,
    pub(super) draft_id: i64,
}

impl Entity {
    /// Returns the byte range of `text` that this entity marks; `None` if it ends outside the text or inside a
    /// character.
    pub(super) fn range(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let start = byte_at(text, self.offset)?;
        let end = byte_at(text, self.offset.checked_add(self.length)?)?;
        Some(start..end)
    }
}

fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut seen = 0;
    for (byte, character) in text.char_indices() {
        if seen == units {
            return Some(byte);
        }
        seen += character.len_utf16();
    }
    (seen == units).then_some(text.len())
}
