//! The files that users send: `getFile`, and the contents at the address that it leads to. See
//! <https://core.telegram.org/bots/api#getfile>.

use super::methods::BotApiRefusal;
use super::state::TelegramState;
use crate::simulation::emulator::answer::{answer, typed_answer};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The largest file that a bot can read, in bytes.
const BYTES_MAX: usize = 20 << 20;

/// A file that a user sent.
#[derive(Clone, Debug)]
pub(super) struct SentTelegramFile {
    path: String,
    content: Bytes,
}

/// Stores a file of a user, and returns its `Document`.
pub(super) fn store(state: &mut TelegramState, name: &str, content: &[u8]) -> Value {
    let number = state.sent_files.len() + 1;
    let (id, extension) = (
        format!("BQACAgIAAx{number}"),
        name.rsplit('.').next().unwrap_or("bin"),
    );
    let file = SentTelegramFile {
        path: format!("documents/file_{number}.{extension}"),
        content: Bytes::copy_from_slice(content),
    };
    state.sent_files.insert(id.clone(), file);
    json!({"file_id": id, "file_unique_id": format!("AgAD{number}"), "file_name": name,
        "mime_type": "application/octet-stream", "file_size": content.len()})
}

pub(super) fn get_file(
    state: &TelegramState,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let id = parameters
        .get("file_id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(file) = state.sent_files.get(id) else {
        return Err(BotApiRefusal::expected(400, "Bad Request: invalid file_id"));
    };
    if file.content.len() > BYTES_MAX {
        return Err(BotApiRefusal::expected(400, "Bad Request: file is too big"));
    }
    Ok(
        json!({"file_id": id, "file_unique_id": format!("u{id}"), "file_size": file.content.len(),
        "file_path": file.path}),
    )
}

/// Answers a request for the content of a file.
pub(super) fn content(state: &TelegramState, path: &str) -> Response {
    match state.sent_files.values().find(|file| file.path == path) {
        Some(file) => typed_answer(200, "application/octet-stream", file.content.clone().into()),
        None => answer(
            404,
            r#"{"ok":false,"error_code":404,"description":"Not Found"}"#.into(),
        ),
    }
}
