//! The HTTP side of the emulator: reads calls, applies faults, holds long polls. It does not depend on the rules of
//! the methods.

use super::methods::{self, BotApiCall, BotApiRefusal};
use super::state::{TelegramFault, TelegramState};
use super::{form, profile, sent_files, state};
use crate::simulation::emulator::answer::{Severed, answer, whole_body, with_date};
use crate::simulation::emulator::server::{Closing, serve};
use crate::simulation::emulator::traffic::{Traffic, record};
use crate::simulation::emulator::watched_state::WatchedState;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The maximum number of bytes of a request: the largest file and its form.
const REQUEST_BYTES_MAX: usize = 51 * 1000 * 1000;
/// The maximum number of seconds of a long poll.
const POLL_SECONDS_MAX: u64 = 50;

/// The state shared by all connections, and the recorded requests.
pub(super) struct SharedTelegram {
    state: WatchedState<TelegramState>,
    pub(super) traffic: Traffic,
}

impl SharedTelegram {
    pub(super) fn with(state: TelegramState) -> Self {
        Self {
            state: WatchedState::new(state),
            traffic: Traffic::default(),
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&TelegramState) -> T) -> T {
        self.state.read(read)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut TelegramState) -> T) -> T {
        self.state.change(change)
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes()
    }
}

/// Serves until `cancel`.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedTelegram>, cancel: CancellationToken) {
    // This server closes connections only for a fault, so it uses a reset.
    let recorded = from_fn_with_state(shared.traffic.clone(), record);
    let routes = routes().layer(recorded).with_state(shared);
    serve(listener, Closing::Reset, cancel, routes).await;
}

/// Returns every route: its path and its handler, for all methods.
fn routes() -> Router<Arc<SharedTelegram>> {
    Router::new()
        .route("/bot{token}/{*method}", any(call_method))
        .route("/file/bot{token}/{*path}", any(give_content))
        .fallback(no_bot)
}

/// Answers a path that names no bot like a wrong token.
async fn no_bot(State(shared): State<Arc<SharedTelegram>>, request: Request) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    Ok(refused(&shared, head.uri.path(), unauthorized()))
}

async fn give_content(
    State(shared): State<Arc<SharedTelegram>>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    let path = head.uri.path().strip_prefix("/file/bot").unwrap_or_default();
    let (token, path) = path.split_once('/').unwrap_or_default();
    if token != shared.read(|state| state.token.clone()) {
        return Ok(refused(&shared, head.uri.path(), unauthorized()));
    }
    Ok(shared.read(|state| sent_files::content(state, path)))
}

async fn call_method(
    State(shared): State<Arc<SharedTelegram>>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    // The names as the client wrote them.
    let path = head.uri.path().strip_prefix("/bot").unwrap_or_default();
    let (token, method) = path.split_once('/').unwrap_or_default();
    let (token, method) = (token.to_owned(), method.to_owned());
    let body = whole_body(body, REQUEST_BYTES_MAX).await?;
    if token != shared.read(|state| state.token.clone()) {
        return Ok(refused(&shared, head.uri.path(), unauthorized()));
    }
    let call = match read_call(method, &head.headers, &body, &shared) {
        Ok(call) => call,
        Err(refusal) => return Ok(refused(&shared, head.uri.path(), refusal)),
    };
    let chat = call.parameters.get("chat_id").map(Value::to_string);
    let chat = chat.unwrap_or_default();
    let fault = shared.change(|state| {
        state.waits.record_call(&chat, Instant::now());
        state.record_call(&call.method, &Value::Object(call.parameters.clone()));
        state.take_fault(&call.method)
    });
    match fault {
        None => {}
        Some(TelegramFault::Status(status)) => {
            return Ok(answer(status, "<html>Bad Gateway</html>".into()));
        }
        Some(TelegramFault::Refused(code, description)) => {
            return Ok(refused(&shared, "", BotApiRefusal::expected(code, &description)));
        }
        Some(TelegramFault::TooMany(seconds)) => {
            shared.change(|state| state.waits.record_wait(&chat, seconds, Instant::now()));
            let refusal = BotApiRefusal {
                retry_after: Some(seconds),
                ..BotApiRefusal::expected(429, &format!("Too Many Requests: retry after {seconds}"))
            };
            return Ok(refused(&shared, "", refusal));
        }
        Some(TelegramFault::Reset) => return Err(Severed),
        Some(TelegramFault::ResetAfterEffect) => {
            let _ = run(&shared, &call).await;
            return Err(Severed);
        }
        Some(TelegramFault::Silence) => return std::future::pending().await,
    }
    Ok(match run(&shared, &call).await {
        Ok(result) => {
            let body = json!({"ok": true, "result": result}).to_string();
            with_date(answer(200, body.into()), shared.read(|state| state.date))
        }
        Err(refusal) => {
            if let Some(seconds) = refusal.retry_after {
                shared.change(|state| state.waits.record_wait(&chat, seconds, Instant::now()));
            }
            refused(&shared, &call.method, refusal)
        }
    })
}

async fn run(shared: &SharedTelegram, call: &BotApiCall) -> Result<Value, BotApiRefusal> {
    if call.method == "getUpdates" {
        get_updates(shared, &call.parameters).await
    } else {
        shared.change(|state| methods::run(state, call))
    }
}

/// Returns the refusal of a call with a token of no bot.
fn unauthorized() -> BotApiRefusal {
    BotApiRefusal {
        is_problem: true,
        ..BotApiRefusal::expected(401, "Unauthorized")
    }
}

fn read_call(
    method: String,
    headers: &HeaderMap,
    body: &Bytes,
    shared: &SharedTelegram,
) -> Result<BotApiCall, BotApiRefusal> {
    if shared.read(|state| state.is_revoked) {
        shared.change(|state| state.record_call(&method, &Value::Null));
        return Err(BotApiRefusal::expected(401, "Unauthorized"));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let unreadable = || BotApiRefusal {
        is_problem: true,
        ..BotApiRefusal::expected(400, "Bad Request: unreadable")
    };
    let content_type = content_type.unwrap_or_default();
    let (parameters, file) = if content_type.starts_with("multipart/") {
        let form = form::read(content_type, body).ok_or_else(unreadable)?;
        (form.parameters, form.file)
    } else {
        (
            serde_json::from_slice::<Map<String, Value>>(body).map_err(|_| unreadable())?,
            None,
        )
    };
    Ok(BotApiCall {
        method,
        parameters,
        file,
    })
}

fn refused(shared: &SharedTelegram, method: &str, refusal: BotApiRefusal) -> Response {
    if refusal.is_problem {
        shared.change(|state| state.problem(format!("{method}: {}", refusal.description)));
    }
    let mut body = json!({"ok": false, "error_code": refusal.code, "description": refusal.description});
    if let Some(seconds) = refusal.retry_after {
        body["parameters"] = json!({"retry_after": seconds});
    }
    answer(refusal.code, body.to_string().into())
}

/// Removes the updates that the offset confirms, and then waits for new ones. A newer poll ends an older one.
async fn get_updates(
    shared: &SharedTelegram,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let known = ["offset", "limit", "timeout", "allowed_updates"];
    super::check::check_known(parameters, &known)?;
    let number = |key: &str| parameters.get(key).and_then(Value::as_i64);
    let mut changes = shared.changes();
    let poll = shared.change(|state| {
        if let Some(offset) = number("offset") {
            state.updates.retain(|(id, _)| *id >= offset);
        }
        profile::set_allowed_updates(state, parameters);
        state.polls += 1;
        state.polls
    });
    let limit = number("limit")
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(100)
        .clamp(1, 100);
    let seconds = number("timeout")
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    let waiting = async {
        loop {
            changes.borrow_and_update();
            if let Some(answer) = shared.read(|state| ready(state, poll, limit)) {
                return answer;
            }
            if changes.changed().await.is_err() {
                return Ok(json!([]));
            }
        }
    };
    let bound = Duration::from_secs(seconds.min(POLL_SECONDS_MAX));
    tokio::time::timeout(bound, waiting)
        .await
        .unwrap_or_else(|_| Ok(json!([])))
}

fn ready(state: &state::TelegramState, poll: u64, limit: usize) -> Option<Result<Value, BotApiRefusal>> {
    if state.webhook.is_some() {
        let words = "Conflict: can't use getUpdates method while webhook is active";
        return Some(Err(BotApiRefusal::expected(409, words)));
    }
    if state.polls != poll {
        let words = "Conflict: terminated by other getUpdates request";
        return Some(Err(BotApiRefusal::expected(409, words)));
    }
    let updates: Vec<&Value> = state
        .updates
        .iter()
        .take(limit)
        .map(|(_, update)| update)
        .collect();
    (!updates.is_empty() || poll <= state.polls_ended).then(|| Ok(json!(updates)))
}
