//! The files that users send: their objects, and the addresses of their contents.

use super::SharedSlack;
use super::api::MethodResult;
use super::state::SlackState;
use crate::simulation::emulator::answer::{answer, typed_answer};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

/// The path below which the contents are.
pub(super) const CONTENT_PATH: &str = "/files-pri/";

/// A file that a user sent.
#[derive(Clone, Debug)]
pub(super) struct SentSlackFile {
    name: String,
    user: String,
    content: Bytes,
}

/// Stores a file of a user, and returns its object as an event has it. See
/// <https://docs.slack.dev/reference/objects/file-object>.
pub(super) fn store(state: &mut SlackState, user: &str, (name, content): (&str, &[u8])) -> Value {
    let id = state.next_id("F");
    let file = SentSlackFile {
        name: name.to_owned(),
        user: user.to_owned(),
        content: Bytes::copy_from_slice(content),
    };
    let object = object(&id, &file);
    state.sent_files.insert(id, file);
    object
}

fn object(id: &str, file: &SentSlackFile) -> Value {
    let mimetype = match file.name.rsplit_once('.') {
        Some((_, "png")) => "image/png",
        _ => "text/plain",
    };
    json!({"id": id, "name": file.name, "title": file.name, "mimetype": mimetype, "mode": "hosted",
        "file_access": "visible", "user": file.user, "size": file.content.len()})
}

/// Answers `files.info`. See <https://docs.slack.dev/reference/methods/files.info>.
pub(super) fn info(state: &SlackState, base_url: &str, body: &Value) -> MethodResult {
    let id = body["file"].as_str().unwrap_or_default();
    let file = state.sent_files.get(id).ok_or("file_not_found")?;
    let mut object = object(id, file);
    object["url_private_download"] = json!(format!("{base_url}{CONTENT_PATH}{id}"));
    Ok(json!({"file": object}))
}

/// Answers a request for the content of a file. Without a token that may read files, Slack leads to its login page.
pub(super) fn content(shared: &SharedSlack, id: &str, headers: &HeaderMap) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let expected = format!("Bearer {}", shared.options.bot_token);
    shared.change(|state| {
        let may_read = token == Some(expected.as_str()) && state.has_scope(Some("files:read"));
        match state.sent_files.get(id) {
            Some(file) if may_read => {
                typed_answer(200, "text/plain; charset=utf-8", file.content.clone().into())
            }
            _ => {
                let mut login = answer(302, Bytes::new().into());
                let place = HeaderValue::from_static("https://slack.com/signin");
                login.headers_mut().insert(header::LOCATION, place);
                login
            }
        }
    })
}
