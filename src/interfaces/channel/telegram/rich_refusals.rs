//! Refusals of rich messages: whether one is about the content, so that a text may take its place, and the memory of the
//! messages that stay texts after one.

use super::api::ApiError;
use clru::CLruCache;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use teloxide_core::types::{ChatId, MessageId};

/// The number of messages and drafts that are remembered.
const REFUSALS_MAX: NonZeroUsize = match NonZeroUsize::new(512) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};
/// The code with which Telegram refuses the content of a call, and much else.
const BAD_REQUEST: u16 = 400;
/// The words with which Telegram refuses an edit without a change.
pub(super) const UNCHANGED: &str = "message is not modified";
/// The words with which Telegram refuses a message because the one that it answers is gone.
const LOST_ANSWERED: [&str; 2] = ["replied not found", "message to reply not found"];
/// Words of the other refusals with [`BAD_REQUEST`] that a text would meet as well.
const NOT_ABOUT_CONTENT: [&str; 24] = [
    // The chat or the topic.
    "chat not found",
    "chat_id is empty",
    "group chat was upgraded",
    "group is deactivated",
    "message thread not found",
    "peer_id_invalid",
    "channel_private",
    "topic_closed",
    "topic_deleted",
    "topic_id_invalid",
    // The rights of the bot.
    "not enough rights",
    "have no rights to send",
    "have no write access",
    "need administrator rights",
    "chat_admin_required",
    "chat_restricted",
    "chat_write_forbidden",
    // The message that is edited, or that an ephemeral one answers.
    UNCHANGED,
    "message to edit not found",
    "message can't be edited",
    "message identifier is not specified",
    "message_id_invalid",
    "message_author_required",
    "message_edit_time_expired",
];

/// Returns true if Telegram refused a message because the one that it answers is gone.
pub(super) fn is_answered_lost(error: &ApiError) -> bool {
    LOST_ANSWERED.iter().any(|words| error.says(words))
}

/// Returns true if Telegram refused the content of a message, as far as its words show.
pub(super) fn is_about_content(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused { code, .. } if *code == BAD_REQUEST)
        && !is_answered_lost(error)
        && !NOT_ABOUT_CONTENT.iter().any(|words| error.says(words))
}

/// A message that is shown again and again, each time with other content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ChangingMessage {
    /// A message that is edited.
    Edited(ChatId, MessageId),
    /// A draft.
    Draft(ChatId, i64),
}

/// The last messages whose rich form Telegram refused. They are texts from then on, so that not every change of one costs
/// two calls.
pub(super) struct RichRefusals {
    refused: Mutex<CLruCache<ChangingMessage, ()>>,
}

impl RichRefusals {
    pub(super) fn new() -> Self {
        Self {
            refused: Mutex::new(CLruCache::new(REFUSALS_MAX)),
        }
    }

    /// Returns true if the rich form of a message was refused.
    pub(super) fn includes(&self, message: ChangingMessage) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&message).is_some()
    }

    /// Remembers that the rich form of a message was refused.
    pub(super) fn remember(&self, message: ChangingMessage) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.put(message, ());
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, ChangingMessage, REFUSALS_MAX, RichRefusals, is_about_content};
    use teloxide_core::types::{ChatId, MessageId};

    #[test]
    fn a_refusal_of_the_chat_or_of_rights_is_not_one_of_the_content() {
        let is_content = |code: u16, words: &str| {
            is_about_content(&ApiError::Refused {
                code,
                description: format!("Bad Request: {words}"),
            })
        };
        for words in [
            "chat not found",
            "not enough rights to send text messages to the chat",
            "CHAT_WRITE_FORBIDDEN",
            "TOPIC_CLOSED",
            "message to edit not found",
            "message can't be edited",
            "message to be replied not found",
            "message is not modified: specified new message content is the same",
        ] {
            assert!(!is_content(400, words), "{words}");
        }
        for words in [
            "RICH_MESSAGE_EMAIL_INVALID",
            "rich message is too long",
            "can't parse RichText: link without https",
        ] {
            assert!(is_content(400, words), "{words}");
            assert!(!is_content(403, words), "{words}");
        }
        assert!(!is_about_content(&ApiError::Limited(None)));
    }

    #[test]
    fn the_last_refused_rich_messages_are_remembered() {
        let refusals = RichRefusals::new();
        let draft = |id: i64| ChangingMessage::Draft(ChatId(7), id);
        refusals.remember(draft(0));
        assert!(refusals.includes(draft(0)));
        assert!(!refusals.includes(ChangingMessage::Edited(ChatId(7), MessageId(0))));
        for id in (1_i64..).take(REFUSALS_MAX.get()) {
            refusals.remember(draft(id));
        }
        assert!(!refusals.includes(draft(0)));
        assert!(refusals.includes(draft(1)));
    }
}
