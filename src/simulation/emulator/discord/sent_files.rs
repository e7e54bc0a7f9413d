//! The files that people send: their objects, and the addresses of their contents. See
//! <https://docs.discord.com/developers/resources/message#attachment-object>.

use super::state::DiscordState;
use crate::simulation::emulator::answer::{answer, typed_answer};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

/// The path below which the contents are.
pub(super) const CONTENT_PATH: &str = "/attachments/";

/// Stores a file of a person, and returns its attachment object.
pub(super) fn store(state: &mut DiscordState, base_url: &str, (name, content): (&str, &[u8])) -> Value {
    let number = state.sent_files.len() + 1;
    let id = format!("1300000000000{number:06}");
    let url = format!("{base_url}{CONTENT_PATH}{id}/{name}");
    state
        .sent_files
        .insert(format!("{id}/{name}"), Bytes::copy_from_slice(content));
    json!({"id": id, "filename": name, "size": content.len(), "url": url, "proxy_url": url,
        "content_type": "text/plain; charset=utf-8"})
}

/// Answers a request for the content of a file.
pub(super) fn content(state: &DiscordState, path: &str) -> Response {
    match state.sent_files.get(path) {
        Some(content) => typed_answer(200, "text/plain; charset=utf-8", content.clone().into()),
        None => answer(404, "This content is no longer available.".into()),
    }
}
