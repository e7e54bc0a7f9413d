//! Drafts: an unfinished answer in a private chat, with Telegram's own button to stop it. A draft is shown for half a
//! minute after its last update, and until the next message of the bot. A server that does not know drafts is not asked
//! again for a day. See <https://core.telegram.org/bots/api#sendrichmessagedraft>.

use super::api::{ApiError, UNKNOWN_METHOD};
use super::payload::{DraftPayload, RichDraftPayload};
use super::refused_forms::{FormedMessage, MessageForm};
use super::render::TelegramPayload;
use super::{TelegramChannel, chat_and_topic};
use crate::base::model::ChatPlace;
use crate::interfaces::channel::{Delivered, SendError};

impl TelegramChannel {
    /// Returns true for a private chat, unless the server refused drafts within the last day. Only private chats have
    /// them, and the ids of groups are negative.
    pub(super) fn has_drafts(&self, place: &ChatPlace) -> bool {
        !place.chat.starts_with('-') && !self.refused_drafts.is_recent()
    }

    /// Shows a draft, or replaces it.
    pub(super) async fn draft(
        &self,
        place: &ChatPlace,
        draft: i64,
        shown: TelegramPayload,
    ) -> Result<Delivered, SendError> {
        let (chat, topic) = chat_and_topic(place)?;
        let message = FormedMessage::Draft(chat, draft);
        let shown = self.accepted_form(shown, &message);
        if let Some(rich_message) = &shown.rich {
            let rich = RichDraftPayload {
                chat_id: chat,
                message_thread_id: topic,
                draft_id: draft,
                rich_message,
                can_stop: true,
            };
            let called = self.call_form(&rich, message, &[MessageForm::Rich]).await;
            return called
                .map(|_| Delivered::default())
                .map_err(ApiError::into_repeatable_error);
        }
        let payload = DraftPayload {
            chat_id: chat,
            message_thread_id: topic,
            draft_id: draft,
            text: shown.body.text,
            entities: shown.body.entities,
            can_stop: true,
        };
        match self.api.call(&payload).await {
            Ok(_) => Ok(Delivered::default()),
            Err(error) => {
                if error.is(UNKNOWN_METHOD) {
                    self.refused_drafts.remember();
                    tracing::info!(
                        channel = self.name,
                        "telegram's server knows no drafts; progress is shown in messages"
                    );
                }
                Err(error.into_repeatable_error())
            }
        }
    }
}
