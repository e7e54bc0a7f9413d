//! Refusals of a form of a message: which refusals a simpler form may answer, and the memory of the refused forms. The
//! simpler form is a call of its own, which waits for the limits of its chat.

use super::api::{ApiError, UNKNOWN_METHOD};
use clru::CLruCache;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use teloxide_core::types::{ChatId, MessageId};

/// The number of refused forms that are remembered.
const REFUSALS_MAX: NonZeroUsize = match NonZeroUsize::new(512) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};
/// The code with which Telegram refuses the content of a call, and much else.
const BAD_REQUEST: u64 = 400;
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
fn is_answered_lost(error: &ApiError) -> bool {
    LOST_ANSWERED.iter().any(|words| error.says(words))
}

/// Returns true if Telegram refused the content of a message, as far as its words show.
fn is_about_content(error: &ApiError) -> bool {
    error.is(BAD_REQUEST)
        && !is_answered_lost(error)
        && !NOT_ABOUT_CONTENT.iter().any(|words| error.says(words))
}

/// A form of a message that the message can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MessageForm {
    /// A reference to the message that it answers.
    Reference,
    /// A rich message; without it, a text.
    Rich,
    /// The marks of a text, and its length.
    Marked,
    /// A message that only one person of a group sees; without it, one in their own chat.
    Ephemeral,
}

impl MessageForm {
    /// Returns true if Telegram certainly refused a message because of this form.
    pub(super) fn is_refused_by(self, error: &ApiError) -> bool {
        match self {
            Self::Reference => is_answered_lost(error),
            Self::Rich => is_of_old_server(error) || is_about_content(error),
            Self::Marked => error.says("can't parse entities") || error.says("message is too long"),
            Self::Ephemeral => matches!(error, ApiError::Refused { .. }),
        }
    }
}

/// Returns true for the answer of a server from before rich messages. It knows neither the methods nor the field of an
/// edit.
pub(super) fn is_of_old_server(error: &ApiError) -> bool {
    error.is(UNKNOWN_METHOD) || error.says("message text is empty")
}

/// A message whose forms may be refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FormedMessage {
    /// The new message of an operation with this id.
    New(String),
    /// A message that is edited, again and again with other content.
    Edited(ChatId, MessageId),
    /// A draft, which is replaced again and again.
    Draft(ChatId, i64),
}

/// The forms that Telegram refused last. A message that changes stays without them, so that not every change of one costs
/// two calls.
pub(super) struct RefusedForms {
    refused: Mutex<CLruCache<(FormedMessage, MessageForm), ()>>,
}

impl RefusedForms {
    pub(super) fn new() -> Self {
        Self {
            refused: Mutex::new(CLruCache::new(REFUSALS_MAX)),
        }
    }

    /// Returns true if this form of a message was refused.
    pub(super) fn includes(&self, message: &FormedMessage, form: MessageForm) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&(message.clone(), form)).is_some()
    }

    /// Remembers that this form of a message was refused.
    pub(super) fn remember(&self, message: FormedMessage, form: MessageForm) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.put((message, form), ());
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, FormedMessage, MessageForm, REFUSALS_MAX, RefusedForms, is_about_content};
    use teloxide_core::types::{ChatId, MessageId};

    #[test]
    fn a_refusal_of_the_chat_or_of_rights_is_not_one_of_the_content() {
        let is_content = |code: u64, words: &str| {
            is_about_content(&ApiError::Refused {
                code,
                reason: format!("Bad Request: {words}"),
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
        let limited = ApiError::Limited {
            platform: "telegram",
            retry_after: None,
        };
        assert!(!is_about_content(&limited));
    }

    #[test]
    fn the_last_refused_forms_are_remembered() {
        let forms = RefusedForms::new();
        let draft = |id: i64| FormedMessage::Draft(ChatId(7), id);
        let is_refused = |message: &FormedMessage| forms.includes(message, MessageForm::Rich);
        forms.remember(draft(0), MessageForm::Rich);
        assert!(is_refused(&draft(0)));
        assert!(!forms.includes(&draft(0), MessageForm::Marked));
        assert!(!is_refused(&FormedMessage::Edited(ChatId(7), MessageId(0))));
        assert!(!is_refused(&FormedMessage::New("0".to_owned())));
        for id in (1_i64..).take(REFUSALS_MAX.get()) {
            forms.remember(draft(id), MessageForm::Rich);
        }
        assert!(!is_refused(&draft(0)));
        assert!(is_refused(&draft(1)));
    }
}
