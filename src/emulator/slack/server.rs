//! The listener of the Web API. It reads a request, checks its token and format, applies requested faults, and lets
//! [`super::api`] answer it.

use super::SharedSlack;
use super::state::{SlackFault, SlackState};
use super::{api, response};
use crate::emulator::server::{Closing, serve};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The maximum number of bytes of a request that are read.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// The name of an answer at a response URL in the lists of calls and faults.
const RESPONSE: &str = "response_url";
/// The name of a file upload in the list of faults.
const UPLOAD: &str = "upload_url";

/// The error that ends a connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed on purpose")]
struct Reset;

/// Serves until dropped; then its connections end as well.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedSlack>) {
    let forever = CancellationToken::new();
    serve(listener, Closing::Ordinary, forever, move |request| {
        let shared = Arc::clone(&shared);
        async move { answer(request, &shared).await }
    })
    .await;
}

async fn answer(request: Request<Incoming>, shared: &SharedSlack) -> Result<Response<Full<Bytes>>, Reset> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let body = Limited::new(body, REQUEST_BYTES_MAX)
        .collect()
        .await
        .map_err(|_| Reset)?
        .to_bytes();
    let (file, response) = (path.strip_prefix("/upload/"), path.strip_prefix("/commands/"));
    let method = path.strip_prefix("/api/");
    let Some(method) = method.or(response.map(|_| RESPONSE)).or(file.map(|_| UPLOAD)) else {
        return Ok(plain(StatusCode::NOT_FOUND, "no such path"));
    };
    let fault = shared.take_fault(method);
    match &fault {
        Some(SlackFault::ResetBefore) => return Err(Reset),
        Some(SlackFault::Status {
            status,
            retry_after_seconds,
        }) => return Ok(failed(*status, *retry_after_seconds)),
        Some(SlackFault::Refuse(code)) => return Ok(as_json(&json!({"ok": false, "error": code}))),
        Some(SlackFault::ResetAfter) | None => {}
    }
    let response = match (file, response) {
        (Some(id), _) => upload(shared, id, body),
        (None, Some(id)) => answer_response_url(shared, id, &head.headers, &body),
        (None, None) => web_api(shared, method, &head.headers, &body),
    };
    match fault {
        Some(SlackFault::ResetAfter) => Err(Reset),
        Some(_) | None => Ok(response),
    }
}

/// Accepts an answer at a response URL: JSON, without a token.
fn answer_response_url(
    shared: &SharedSlack,
    id: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response<Full<Bytes>> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let answer = shared.change(|state| {
        if headers.contains_key(header::AUTHORIZATION) {
            state
                .problems
                .push("a token beside an address for answers".to_owned());
        }
        let answer = response::respond(state, &shared.options, id, &body);
        state.record_call(RESPONSE, answer.as_ref().err().map(|(_, code)| code.clone()));
        answer
    });
    let (status, answer_body) = response::response_body(&answer);
    let mut response = as_json(&answer_body);
    *response.status_mut() = status;
    response
}

fn web_api(shared: &SharedSlack, method: &str, headers: &HeaderMap, body: &Bytes) -> Response<Full<Bytes>> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    if token != Some(shared.options.bot_token.as_str()) {
        shared.change(|state| state.problems.push(format!("{method} with a wrong token")));
        return as_json(&json!({"ok": false, "error": "invalid_auth"}));
    }
    if let Some(code) = shared.change(|state| state.token_refusal.clone()) {
        shared.change(|state| state.record_call(method, Some(code.clone())));
        return as_json(&json!({"ok": false, "error": code}));
    }
    let Some(body) = parsed(method, headers, body) else {
        shared.change(|state| {
            state
                .problems
                .push(format!("{method} with a body it does not take"));
        });
        return as_json(&json!({"ok": false, "error": "invalid_arguments"}));
    };
    let at = (shared.options.at)();
    shared.change(
        |state| match api::must_wait(state, shared.options.rate_limits, method, &body, at) {
            Some(seconds) => {
                state.problems.push(format!("{method} was called too often"));
                failed(429, Some(seconds))
            }
            None => {
                let answer = api::call(state, &shared.options, &shared.base_url, method, &body);
                with_scopes(as_json(&answer), state)
            }
        },
    )
}

fn parsed(method: &str, headers: &HeaderMap, body: &Bytes) -> Option<Value> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    if content_type.starts_with("application/json") && !api::FORM_ONLY.contains(&method) {
        return serde_json::from_slice(body).ok().filter(Value::is_object);
    }
    if content_type.starts_with("application/x-www-form-urlencoded") {
        let fields = form_urlencoded::parse(body)
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        return Some(Value::Object(fields));
    }
    None
}

fn upload(shared: &SharedSlack, id: &str, content: Bytes) -> Response<Full<Bytes>> {
    shared.change(|state| match state.uploads.get_mut(id) {
        Some(upload) if upload.length == content.len() => {
            upload.content = Some(content);
            plain(StatusCode::OK, "OK")
        }
        Some(_) => {
            state
                .problems
                .push(format!("the upload of {id} is not as long as it was announced"));
            plain(StatusCode::BAD_REQUEST, "wrong length")
        }
        None => plain(StatusCode::NOT_FOUND, "no such upload"),
    })
}

fn as_json(value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json; charset=utf-8"),
    );
    response
}

fn with_scopes(mut response: Response<Full<Bytes>>, state: &SlackState) -> Response<Full<Bytes>> {
    if state.are_scopes_hidden {
        return response;
    }
    let scopes: Vec<&str> = state.scopes.iter().copied().collect();
    if let Ok(scopes) = header::HeaderValue::from_str(&scopes.join(",")) {
        response.headers_mut().insert("x-oauth-scopes", scopes);
    }
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

fn failed(status: u16, retry_after_seconds: Option<u64>) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain(status, "failed on purpose");
    if let Some(seconds) = retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}
