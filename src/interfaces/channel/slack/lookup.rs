//! Finds the message of an operation when Slack accepted it and the answer was lost. Every post carries the id of its
//! operation as metadata, and the title of a file contains the id of the message that the file answers. See
//! <https://docs.slack.dev/reference/methods/conversations.replies> and
//! <https://docs.slack.dev/messaging/message-metadata>.

use super::client::SlackClient;
use super::permissions::{BOT_SCOPES, BotScope, missing_scopes};
use super::rich_text::is_id;
use crate::base::model::{Action, MessageRef, Op};
use crate::interfaces::channel::{DeliveryLookup, SendError};
use jiff::{Span, Timestamp};
use serde_json::{Value, json};

/// The event type of Drydock's metadata.
const EVENT_TYPE: &str = "drydock_op";
/// The number of messages of one page.
const PAGE: &str = "200";
/// The maximum number of pages that are read. In a longer thread the lookup is inconclusive.
const PAGES_MAX: usize = 10;
/// The largest assumed lead of our clock over Slack's when a message was posted.
const SKEW_SECONDS: i64 = 3_600;

/// Returns the metadata of a post, which identifies it in a lookup.
pub(super) fn metadata(op: &Op) -> Value {
    json!({"event_type": EVENT_TYPE, "event_payload": {"op": op.id}})
}

/// Returns the reason why the bot may be unable to read where it writes: some scopes are missing, or Slack sent none.
pub(super) fn unreadable(scopes: Option<&[String]>) -> Option<String> {
    let Some(scopes) = scopes else {
        return Some("slack did not report the scopes of the token".to_owned());
    };
    let missing = missing_scopes(&BOT_SCOPES, scopes)
        .into_iter()
        .filter(BotScope::reads_posts);
    let missing: Vec<&str> = missing.map(|scope| scope.name).collect();
    (!missing.is_empty()).then(|| format!("slack grants no {}", missing.join(", ")))
}

/// Returns the metadata of the line that leads to the code channel of a change.
pub(super) fn code_channel_metadata(op: &Op, change: &str, channel: &str) -> Value {
    let mut metadata = metadata(op);
    metadata["event_payload"]["change"] = json!(change);
    metadata["event_payload"]["code_channel"] = json!(channel);
    metadata
}

/// The result of a search through messages.
pub(super) enum ThreadSearch {
    /// The first text that was found.
    Found(String),
    /// No message has such a text.
    Nothing,
    /// Not all messages could be read.
    Inconclusive,
}

/// Searches for the message of an operation at its place.
pub(super) async fn find(
    client: &SlackClient,
    bot: &str,
    op: &Op,
    since: Timestamp,
) -> Result<DeliveryLookup, SendError> {
    let found = search(client, op, since, |message| id_of(message, bot, op)).await?;
    Ok(match found {
        ThreadSearch::Found(id) => DeliveryLookup::Message(MessageRef {
            chat: op.place.chat.clone(),
            id,
        }),
        ThreadSearch::Nothing => DeliveryLookup::Nothing,
        ThreadSearch::Inconclusive => DeliveryLookup::CannotTell,
    })
}

/// Searches the thread of an operation for the code channel of a change.
pub(super) async fn find_code_channel(
    client: &SlackClient,
    bot: &str,
    op: &Op,
    change: &str,
) -> Result<ThreadSearch, SendError> {
    search(client, op, Timestamp::UNIX_EPOCH, |message| {
        code_channel_of(message, bot, change)
    })
    .await
}

/// Searches the messages at the operation's place. In a thread it reads all of them, so that clocks do not matter;
/// elsewhere it reads those since the attempt.
async fn search(
    client: &SlackClient,
    op: &Op,
    since: Timestamp,
    look: impl Fn(&Value) -> Option<String> + Send + Sync,
) -> Result<ThreadSearch, SendError> {
    let oldest = since
        .saturating_sub(Span::new().seconds(SKEW_SECONDS))
        .unwrap_or(since);
    let oldest = oldest.as_second().to_string();
    let mut fields = vec![
        ("channel", op.place.chat.as_str()),
        ("limit", PAGE),
        ("include_all_metadata", "true"),
    ];
    let method = match &op.place.thread {
        Some(thread) => {
            fields.push(("ts", thread));
            "conversations.replies"
        }
        None => {
            fields.push(("oldest", &oldest));
            "conversations.history"
        }
    };
    let mut cursor = String::new();
    for _ in 0..PAGES_MAX {
        let mut page = fields.clone();
        if !cursor.is_empty() {
            page.push(("cursor", &cursor));
        }
        let answer = match client.call_form(method, &page).await {
            // Without the scope to read, or without the thread, the lookup is inconclusive.
            Err(SendError::Refused(why)) => {
                tracing::warn!(
                    op.id = op.id,
                    why,
                    "slack did not report whether a message was posted"
                );
                return Ok(ThreadSearch::Inconclusive);
            }
            answer => answer?,
        };
        let messages = answer["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(found) = messages.iter().find_map(&look) {
            return Ok(ThreadSearch::Found(found));
        }
        match answer
            .pointer("/response_metadata/next_cursor")
            .and_then(Value::as_str)
        {
            Some(next) if !next.is_empty() => next.clone_into(&mut cursor),
            Some(_) | None => return Ok(ThreadSearch::Nothing),
        }
    }
    Ok(ThreadSearch::Inconclusive)
}

/// Returns the id of a message if the bot posted it for this operation. The bot is checked as well, because other
/// apps can write such metadata.
fn id_of(message: &Value, bot: &str, op: &Op) -> Option<String> {
    let is_it = match &op.action {
        Action::Upload { file_name, .. } => shows(message, &file_title(op, file_name)),
        // The line that leads to the tab, or the file in its place.
        Action::ShowDiff { file_name, .. } => {
            is_marked(message, op) || shows(message, &file_title(op, file_name))
        }
        _ => is_marked(message, op),
    };
    let id = message["ts"]
        .as_str()
        .filter(|_| is_it && message["user"] == bot)?;
    Some(id.to_owned())
}

fn is_marked(message: &Value, op: &Op) -> bool {
    let (metadata, ours) = (&message["metadata"], metadata(op));
    metadata["event_type"] == ours["event_type"]
        && metadata["event_payload"]["op"] == ours["event_payload"]["op"]
}

/// Returns the code channel of a change that a message of the bot leads to.
fn code_channel_of(message: &Value, bot: &str, change: &str) -> Option<String> {
    let (metadata, payload) = (&message["metadata"], &message["metadata"]["event_payload"]);
    let is_ours = message["user"] == bot && metadata["event_type"] == EVENT_TYPE;
    let id = payload["code_channel"].as_str().filter(|id| is_id(id))?;
    (is_ours && payload["change"] == change).then(|| id.to_owned())
}

/// Returns the title of a file. Slack stores no metadata for files, so the title names the message that the file
/// answers.
pub(super) fn file_title(op: &Op, file_name: &str) -> String {
    let answered = op.id.split('/').next().unwrap_or_default();
    format!("{file_name} (ref {answered})")
}

fn shows(message: &Value, title: &str) -> bool {
    let files = message["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().any(|file| file["title"] == title)
}

#[cfg(test)]
mod tests {
    use super::unreadable;

    /// A proxy between Slack and Drydock may drop the header that lists the scopes.
    #[test]
    fn an_absent_scope_header_is_not_reported_as_missing_scopes() {
        let reason = |scopes: &[&str]| {
            let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            unreadable(Some(&scopes))
        };
        assert_eq!(
            reason(&["chat:write", "channels:history", "groups:history", "im:history"]),
            None
        );
        let missing = "slack grants no groups:history, im:history";
        assert_eq!(reason(&["channels:history"]).as_deref(), Some(missing));
        let unknown = "slack did not report the scopes of the token";
        assert_eq!(unreadable(None).as_deref(), Some(unknown));
    }
}
