//! Finds the message an operation became, when Slack took it and the answer was lost: every post carries the
//! id of its operation as metadata, and a file carries the id of the message it answers in its title.
//! See <https://docs.slack.dev/reference/methods/conversations.replies> and
//! <https://docs.slack.dev/messaging/message-metadata>.

use super::client::SlackClient;
use crate::channel::{DeliveryLookup, SendError};
use crate::model::{Action, MessageRef, Op};
use jiff::{Span, Timestamp};
use serde_json::{Value, json};

/// The scopes a bot needs to read the places it writes to: channels, private ones, conversations.
const SCOPES: [&str; 3] = ["channels:history", "groups:history", "im:history"];
/// The event type of our metadata.
const EVENT_TYPE: &str = "drydock_op";
/// Messages of one page.
const PAGE: &str = "200";
/// Pages that are read. In a longer thread nobody can tell.
const PAGES_MAX: usize = 10;
/// The largest lead of our clock over Slack's when a message was posted.
const SKEW_SECONDS: i64 = 3_600;

/// Returns the metadata that a post carries, by which it can be found again.
pub(super) fn metadata(op: &Op) -> Value {
    json!({"event_type": EVENT_TYPE, "event_payload": {"op": op.id}})
}

/// Says why a bot may be unable to read wherever it writes: it lacks some of the scopes, or Slack told none.
pub(super) fn unreadable(scopes: Option<&[String]>) -> Option<String> {
    let Some(scopes) = scopes else {
        return Some("slack did not tell which scopes the token has".to_owned());
    };
    let is_granted = |scope: &&str| scopes.iter().any(|granted| granted == scope);
    let missing: Vec<&str> = SCOPES.into_iter().filter(|scope| !is_granted(scope)).collect();
    (!missing.is_empty()).then(|| format!("slack grants no {}", missing.join(", ")))
}

/// Looks through what was written where the operation goes: in a thread through all of it, so that no clock matters,
/// elsewhere since it was tried.
pub(super) async fn find(
    client: &SlackClient,
    bot: &str,
    op: &Op,
    since: Timestamp,
) -> Result<DeliveryLookup, SendError> {
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
            // Without the scope to read, or the thread: nobody here can say.
            Err(SendError::Refused(why)) => {
                tracing::warn!(
                    op.id = op.id,
                    why,
                    "slack did not say whether a message was posted"
                );
                return Ok(DeliveryLookup::CannotTell);
            }
            answer => answer?,
        };
        let messages = answer["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(id) = messages.iter().find_map(|message| id_of(message, bot, op)) {
            return Ok(DeliveryLookup::Message(MessageRef {
                chat: op.place.chat.clone(),
                id,
            }));
        }
        match answer
            .pointer("/response_metadata/next_cursor")
            .and_then(Value::as_str)
        {
            Some(next) if !next.is_empty() => next.clone_into(&mut cursor),
            Some(_) | None => return Ok(DeliveryLookup::Nothing),
        }
    }
    Ok(DeliveryLookup::CannotTell)
}

/// The id of a message, if it is ours and that of this operation: anybody may write such metadata.
fn id_of(message: &Value, bot: &str, op: &Op) -> Option<String> {
    let is_it = match &op.action {
        Action::Upload { file_name, .. } => shows(message, &file_title(op, file_name)),
        _ => is_marked(message, op),
    };
    let id = message["ts"]
        .as_str()
        .filter(|_| is_it && message["user"] == bot)?;
    Some(id.to_owned())
}

fn is_marked(message: &Value, op: &Op) -> bool {
    let (metadata, ours) = (&message["metadata"], metadata(op));
    metadata["event_type"] == ours["event_type"] && metadata["event_payload"] == ours["event_payload"]
}

/// The title of a file. Slack keeps no metadata of one, so it names the message that the file answers.
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

    /// The header that lists the scopes may be dropped by a proxy between Slack and us.
    #[test]
    fn an_absent_scope_header_is_not_reported_as_missing_scopes() {
        let told = |scopes: &[&str]| {
            let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            unreadable(Some(&scopes))
        };
        assert_eq!(
            told(&["chat:write", "channels:history", "groups:history", "im:history"]),
            None
        );
        let missing = "slack grants no groups:history, im:history";
        assert_eq!(told(&["channels:history"]).as_deref(), Some(missing));
        let unknown = "slack did not tell which scopes the token has";
        assert_eq!(unreadable(None).as_deref(), Some(unknown));
    }
}
