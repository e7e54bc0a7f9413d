//! Drafts: an unfinished answer in a private chat, with Telegram's own button to stop it. A draft is shown for half a
//! minute after its last update, and until the next message of the bot. A server that does not know drafts is not asked
//! again for a day. See <https://core.telegram.org/bots/api#sendmessagedraft>.

use super::api::ApiError;
use super::payload::DraftPayload;
use super::render::TelegramPayload;
use super::{TelegramChannel, chat_id, topic_id};
use crate::base::model::ChatPlace;
use crate::interfaces::channel::{Delivered, SendError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which it is remembered that the server knows no drafts.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The code with which a server refuses a method that it does not know.
const UNKNOWN_METHOD: u16 = 404;

/// The last refusal of a draft by a server that does not know them.
#[derive(Debug, Default)]
pub(super) struct DraftSupport {
    refused_at: Mutex<Option<Instant>>,
}

impl DraftSupport {
    /// Returns true for a private chat, unless the server refused drafts within the last day. Only private chats have
    /// them, and the ids of groups are negative.
    pub(super) fn is_there(&self, place: &ChatPlace) -> bool {
        let refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        !place.chat.starts_with('-') && refused_at.is_none_or(|at| at.elapsed() >= REMEMBERED)
    }

    fn remember_refusal(&self) {
        let mut refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        *refused_at = Some(Instant::now());
    }
}

impl TelegramChannel {
    /// Shows a draft, or replaces it.
    pub(super) async fn draft(
        &self,
        place: &ChatPlace,
        draft: i64,
        shown: TelegramPayload,
    ) -> Result<Delivered, SendError> {
        let payload = DraftPayload {
            chat_id: chat_id(&place.chat)?,
            message_thread_id: place.thread.as_deref().map(topic_id).transpose()?,
            draft_id: draft,
            text: shown.body.text,
            entities: shown.body.entities,
            can_stop: true,
        };
        match self.api.call(&payload).await {
            Ok(_) => Ok(Delivered::default()),
            Err(error) => {
                if matches!(&error, ApiError::Refused { code, .. } if *code == UNKNOWN_METHOD) {
                    self.drafts.remember_refusal();
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
