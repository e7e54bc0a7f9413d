//! The bodies of messages. Discord would ping and link whatever a message names, so each body states that it pings at
//! most the person it mentions, and that its links have no previews.

use super::lookup::nonce;
use super::render::DiscordPayload;
use crate::base::model::{MessageRef, Op};
use serde_json::{Value, json};

/// `SUPPRESS_EMBEDS`
const SUPPRESS_EMBEDS: u64 = 1 << 2;
/// `EPHEMERAL`
pub(super) const EPHEMERAL: u64 = 1 << 6;
/// `LOADING`: the answer to a command that is not there yet.
pub(super) const LOADING: u64 = 1 << 7;

/// Returns the body of a new message, which is the same at each attempt.
pub(super) fn new_message(op: &Op, rendered: &DiscordPayload, reply_to: Option<&MessageRef>) -> Value {
    let mut body = content(rendered);
    body["flags"] = json!(SUPPRESS_EMBEDS);
    body["nonce"] = json!(nonce(op));
    body["enforce_nonce"] = json!(true);
    if let Some(replied) = reply_to {
        body["message_reference"] = json!({"message_id": replied.id, "fail_if_not_exists": false});
    }
    body
}

/// Returns the body of a message with a file, whose part is `files[0]`.
pub(super) fn file_message(op: &Op, file_name: &str, caption: &str) -> Value {
    json!({
        "content": caption,
        "attachments": [{"id": 0, "filename": safe_name(file_name)}],
        "allowed_mentions": allowed_mentions(None),
        "flags": SUPPRESS_EMBEDS,
        "nonce": nonce(op),
        "enforce_nonce": true,
    })
}

/// Returns the body of an edit, which also removes buttons that the message has no more.
pub(super) fn edited_message(rendered: &DiscordPayload) -> Value {
    let mut body = content(rendered);
    body["flags"] = json!(SUPPRESS_EMBEDS);
    body["components"] = json!(rendered.components);
    body
}

/// Returns the body of an answer that only the person sees who typed a command or pressed a button.
pub(super) fn private_message(rendered: &DiscordPayload) -> Value {
    let mut body = content(rendered);
    body["flags"] = json!(SUPPRESS_EMBEDS | EPHEMERAL);
    body
}

fn content(rendered: &DiscordPayload) -> Value {
    let mut body = json!({
        "content": rendered.content,
        "allowed_mentions": allowed_mentions(rendered.mentioned.as_deref()),
    });
    if !rendered.components.is_empty() {
        body["components"] = json!(rendered.components);
    }
    body
}

fn allowed_mentions(person: Option<&str>) -> Value {
    let people: Vec<&str> = person.into_iter().collect();
    json!({"parse": [], "users": people, "replied_user": false})
}

/// Returns a file name that cannot end its header, and that Discord does not change.
pub(super) fn safe_name(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let safe: String = name
        .chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .take(128)
        .collect();
    match safe.trim_matches(['.', '_']).is_empty() {
        true => "file".to_owned(),
        false => safe,
    }
}

#[cfg(test)]
mod tests {
    use super::safe_name;

    #[test]
    fn a_file_name_cannot_end_its_header() {
        assert_eq!(
            safe_name("x\"\r\nEvil: 1/../CHG-1.patch"),
            "x___Evil__1_.._CHG-1.patch"
        );
        assert_eq!(safe_name("///"), "file");
    }
}
