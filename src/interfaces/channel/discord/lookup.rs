//! Finds the message of an operation when Discord accepted it and the answer was lost. A post carries a nonce, which
//! Discord enforces for some minutes and shows with new messages. The history may be without it, so there the content
//! of a message, or the names and sizes of its files, decide. See
//! <https://docs.discord.com/developers/resources/message#create-message>.

use super::api::{ApiError, DiscordApi, code};
use super::message::safe_name;
use super::{list, message_channel, snowflake};
use crate::base::model::{Action, MessageRef, Op};
use crate::interfaces::channel::{DeliveryLookup, SendError};
use jiff::{SignedDuration, Span, Timestamp};
use serde_json::Value;
use sha2::{Digest, Sha256};
use twilight_http::request::TryIntoRequest;
use twilight_model::id::Id;

/// The number of messages of one page.
const PAGE: u16 = 100;
/// The maximum number of pages that are read. In a longer channel the lookup is inconclusive.
const PAGES_MAX: usize = 10;
/// The largest assumed lead of our clock over Discord's when a message was posted.
const SKEW_SECONDS: i64 = 60;
/// The time for which Discord certainly knows a nonce; it documents some minutes.
const NONCE_TIME_MIN: SignedDuration = SignedDuration::from_secs(60);
/// The first millisecond of the ids of Discord.
const EPOCH_MILLISECONDS: i64 = 1_420_070_400_000;
/// The number of bytes of a nonce, which has at most 25 characters.
const NONCE_BYTES: usize = 12;

/// Returns the nonce of a post, which is the same at each attempt.
pub(super) fn nonce(op: &Op) -> String {
    let mut digest = Sha256::new();
    for part in [&op.channel, &op.place.chat, &op.id] {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    hex::encode(&digest[..NONCE_BYTES])
}

/// Searches the messages since the attempt. `content` is that of the post.
pub(super) async fn find(
    api: &DiscordApi,
    bot: &str,
    op: &Op,
    content: &str,
    since: Timestamp,
) -> Result<DeliveryLookup, SendError> {
    let channel = message_channel(&op.place);
    let earliest = since
        .saturating_sub(Span::new().seconds(SKEW_SECONDS))
        .unwrap_or(since);
    let earliest = snowflake_at(earliest);
    let mut before: Option<u64> = None;
    for _ in 0..PAGES_MAX {
        let request = api.requests().channel_messages(snowflake(channel)?).limit(PAGE);
        let request = match before {
            Some(id) => request.before(Id::new(id)).try_into_request(),
            None => request.try_into_request(),
        };
        let answer = match request {
            Ok(request) => api.send(request).await,
            Err(_) => return Ok(DeliveryLookup::CannotTell),
        };
        let (messages, now) = match answer {
            Ok((Value::Array(messages), now)) => (messages, now),
            Ok(_) => return Ok(DeliveryLookup::CannotTell),
            // The first post creates the thread.
            Err(error) if error.is(code::UNKNOWN_CHANNEL) && op.place.thread.is_some() => {
                return Ok(DeliveryLookup::Nothing);
            }
            Err(ApiError::Refused { reason, .. }) => {
                tracing::warn!(
                    op.id = op.id,
                    reason,
                    "discord did not report whether a message was posted"
                );
                return Ok(DeliveryLookup::CannotTell);
            }
            Err(error) => return Err(error.into_repeatable_error()),
        };
        // Without the permission to read the history, Discord answers with no messages. A channel in which Drydock
        // answers has at least the message that it answers.
        if messages.is_empty() && before.is_none() {
            return Ok(DeliveryLookup::CannotTell);
        }
        let is_recent = now.is_some_and(|now| now.duration_since(since).abs() <= NONCE_TIME_MIN);
        let evidence = if is_recent {
            Evidence::Nonce
        } else {
            Evidence::Content(content)
        };
        let is_late_enough = |message: &&Value| {
            let id = message["id"].as_str().and_then(|id| id.parse().ok());
            id.is_some_and(|id: u64| id >= earliest)
        };
        if let Some(id) = messages
            .iter()
            .filter(is_late_enough)
            .find_map(|message| id_of(message, bot, op, evidence))
        {
            return Ok(DeliveryLookup::Message(MessageRef {
                chat: channel.to_owned(),
                id,
            }));
        }
        // A repeated post with the same nonce is the same message.
        if is_recent {
            return Ok(DeliveryLookup::Nothing);
        }
        let oldest = messages
            .last()
            .and_then(|message| message["id"].as_str()?.parse().ok());
        match oldest {
            Some(oldest) if messages.len() == usize::from(PAGE) && oldest > earliest => before = Some(oldest),
            Some(_) | None => return Ok(DeliveryLookup::Nothing),
        }
    }
    Ok(DeliveryLookup::CannotTell)
}

/// The evidence that a message is that of an operation.
#[derive(Clone, Copy)]
enum Evidence<'a> {
    /// Its nonce only.
    Nonce,
    /// Its nonce; its content if the history has none.
    Content(&'a str),
}

/// Returns the id of a message if the bot posted it for this operation.
fn id_of(message: &Value, bot: &str, op: &Op, evidence: Evidence<'_>) -> Option<String> {
    if message["author"]["id"] != bot {
        return None;
    }
    let is_it = match (&message["nonce"], evidence, &op.action) {
        (Value::String(marked), _, _) => *marked == nonce(op),
        (_, Evidence::Nonce, _) => false,
        (
            _,
            Evidence::Content(_),
            Action::Upload {
                file_name, content, ..
            },
        ) => {
            let files = list(&message["attachments"]);
            let name = safe_name(file_name);
            let size = u64::try_from(content.len()).ok();
            files
                .iter()
                .any(|file| file["filename"] == name && file["size"].as_u64() == size)
        }
        (_, Evidence::Content(content), _) => {
            message["content"].as_str().map(str::trim) == Some(content.trim())
        }
    };
    message["id"].as_str().filter(|_| is_it).map(str::to_owned)
}

/// Returns the lowest id of a time.
pub(super) fn snowflake_at(at: Timestamp) -> u64 {
    let milliseconds = at.as_millisecond().saturating_sub(EPOCH_MILLISECONDS).max(0);
    u64::try_from(milliseconds).unwrap_or(0) << 22
}
