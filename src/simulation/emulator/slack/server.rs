//! The listener of the Web API. It reads a request, checks its token and format, applies requested faults, and lets
//! [`super::api`] answer it.

use super::SharedSlack;
use super::state::{SlackFault, SlackState};
use super::{api, response, sent_files, socket_server, sockets};
use crate::simulation::emulator::answer::{Severed, answer, typed_answer, whole_body, with_date};
use crate::simulation::emulator::server::{Closing, serve};
use crate::simulation::emulator::traffic::record;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Uri, header};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The maximum number of bytes of a request that are read.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// The name of an answer at a response URL in the lists of calls and faults.
const RESPONSE: &str = "response_url";
/// The name of a file upload in the list of faults.
const UPLOAD: &str = "upload_url";
/// The name of the content of a file in the list of faults.
const CONTENT: &str = "url_private_download";

/// Serves until dropped; then its connections end as well.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedSlack>) {
    let forever = CancellationToken::new();
    let recorded = from_fn_with_state(shared.traffic.clone(), record);
    let routes = routes().layer(recorded).with_state(shared);
    serve(listener, Closing::Ordinary, forever, routes).await;
}

/// Returns every route: its path and its handler, for all methods.
fn routes() -> Router<Arc<SharedSlack>> {
    Router::new()
        .route("/api/{*method}", any(call_method))
        .route("/commands/{*id}", any(use_response_url))
        .route("/upload/{*id}", any(take_upload))
        .route("/files-pri/{*id}", any(give_content))
        .route("/link/", any(socket_server::open_socket))
        .fallback(no_such_path)
}

async fn call_method(State(shared): State<Arc<SharedSlack>>, request: Request) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    let method = below(&head.uri, "/api/");
    let body = whole_body(body, REQUEST_BYTES_MAX).await?;
    let scope = wait_scope(&method, &body);
    shared.change(|state| state.waits.record_call(&scope, Instant::now()));
    let answered = faulty(&shared, &method, || {
        web_api(&shared, &method, &head.headers, &body)
    })?;
    if let Some(seconds) = retry_after(&answered) {
        shared.change(|state| state.waits.record_wait(&scope, seconds, Instant::now()));
    }
    Ok(answered)
}

/// Returns the calls that a wait is for: posts in the same channel, or calls of the same method.
fn wait_scope(method: &str, body: &Bytes) -> String {
    let channel = match method {
        "chat.postMessage" => serde_json::from_slice(body).unwrap_or(Value::Null),
        _ => Value::Null,
    };
    format!("{method} {}", channel["channel"].as_str().unwrap_or_default())
}

fn retry_after(answered: &Response) -> Option<u64> {
    let seconds = answered.headers().get(header::RETRY_AFTER)?;
    seconds.to_str().ok()?.parse().ok()
}

async fn use_response_url(
    State(shared): State<Arc<SharedSlack>>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    let id = below(&head.uri, "/commands/");
    let body = whole_body(body, REQUEST_BYTES_MAX).await?;
    faulty(&shared, RESPONSE, || {
        answer_response_url(&shared, &id, &head.headers, &body)
    })
}

async fn take_upload(State(shared): State<Arc<SharedSlack>>, request: Request) -> Result<Response, Severed> {
    let id = below(request.uri(), "/upload/");
    let body = whole_body(request.into_body(), REQUEST_BYTES_MAX).await?;
    faulty(&shared, UPLOAD, || upload(&shared, &id, body))
}

async fn give_content(State(shared): State<Arc<SharedSlack>>, request: Request) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    let id = below(&head.uri, sent_files::CONTENT_PATH);
    faulty(&shared, CONTENT, || {
        sent_files::content(&shared, &id, &head.headers)
    })
}

/// Returns the rest of a path as the client wrote it. A client that escapes a name would not reach the real service's
/// method either.
fn below(uri: &Uri, prefix: &str) -> String {
    uri.path().strip_prefix(prefix).unwrap_or_default().to_owned()
}

async fn no_such_path(request: Request) -> Result<Response, Severed> {
    whole_body(request.into_body(), REQUEST_BYTES_MAX).await?;
    Ok(answer(404, "no such path".into()))
}

/// Answers a call, unless a fault was requested for it.
fn faulty(
    shared: &SharedSlack,
    method: &str,
    answered: impl FnOnce() -> Response,
) -> Result<Response, Severed> {
    match shared.take_fault(method) {
        None => Ok(answered()),
        Some(SlackFault::ResetBefore) => Err(Severed),
        Some(SlackFault::Status {
            status,
            retry_after_seconds,
        }) => Ok(failed(status, retry_after_seconds)),
        Some(SlackFault::Refuse(code)) => Ok(as_json(&json!({"ok": false, "error": code}))),
        Some(SlackFault::ResetAfter) => {
            let _lost = answered();
            Err(Severed)
        }
    }
}

/// Accepts an answer at a response URL: JSON, without a token.
fn answer_response_url(shared: &SharedSlack, id: &str, headers: &HeaderMap, body: &Bytes) -> Response {
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

fn web_api(shared: &SharedSlack, method: &str, headers: &HeaderMap, body: &Bytes) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let refusal = shared.change(|state| sockets::token_refusal(state, &shared.options, method, token));
    if let Some(code) = refusal {
        // The app-level token is tried at the start, and a wrong one is the mistake of an operator.
        if method != "apps.connections.open" {
            shared.change(|state| state.problems.push(format!("{method} with a wrong token")));
        }
        return as_json(&json!({"ok": false, "error": code}));
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
                with_date(with_scopes(as_json(&answer), state), state.date)
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

fn upload(shared: &SharedSlack, id: &str, content: Bytes) -> Response {
    shared.change(|state| match state.uploads.get_mut(id) {
        Some(upload) if upload.length == content.len() => {
            upload.content = Some(content);
            answer(200, "OK".into())
        }
        Some(_) => {
            state
                .problems
                .push(format!("the upload of {id} is not as long as it was announced"));
            answer(400, "wrong length".into())
        }
        None => answer(404, "no such upload".into()),
    })
}

fn as_json(value: &Value) -> Response {
    typed_answer(200, "application/json; charset=utf-8", value.to_string().into())
}

fn with_scopes(mut response: Response, state: &SlackState) -> Response {
    if state.are_scopes_hidden {
        return response;
    }
    let scopes: Vec<&str> = state.scopes.iter().copied().collect();
    if let Ok(scopes) = header::HeaderValue::from_str(&scopes.join(",")) {
        response.headers_mut().insert("x-oauth-scopes", scopes);
    }
    response
}

fn failed(status: u16, retry_after_seconds: Option<u64>) -> Response {
    let mut response = answer(status, "failed on purpose".into());
    if let Some(seconds) = retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}
