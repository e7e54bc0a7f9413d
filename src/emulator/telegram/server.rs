//! The emulator's HTTP side: reads calls, plays faults, holds long polls. Knows no method's rules.

use super::methods::{self, Call, Refusal};
use super::state::{Fault, State};
use super::{form, state};
use crate::emulator::server::{Closing, serve};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Bytes of a request: the largest file and its form.
const REQUEST_BYTES_MAX: usize = 51 * 1000 * 1000;
/// Seconds a long poll may wait.
const POLL_SECONDS_MAX: u64 = 50;

/// State that many connections see, and a counter that moves with every change.
pub(super) struct Shared {
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn with(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            version: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that fails while it holds the lock has reported why already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.version.send_modify(|version| *version += 1);
        changed
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

type Answer = http::Response<Full<Bytes>>;

/// Serves until `cancel`.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, cancel: CancellationToken) {
    // This server closes connections only to play a fault, and then as rudely as it can.
    serve(listener, Closing::Reset, cancel, move |request| {
        handle(request, Arc::clone(&shared))
    })
    .await;
}

async fn handle(request: http::Request<Incoming>, shared: Arc<Shared>) -> std::io::Result<Answer> {
    let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BYTES_MAX)
        .collect()
        .await
        .map_err(|_| broken())?
        .to_bytes();
    let call = match read_call(&head, &body, &shared) {
        Ok(call) => call,
        Err(refusal) => return Ok(refused(&shared, head.uri.path(), refusal)),
    };
    let fault = shared.change(|state| {
        state.called(&call.method, &Value::Object(call.parameters.clone()));
        state.take_fault(&call.method)
    });
    match fault {
        None => {}
        Some(Fault::Status(status)) => {
            return Ok(answer(status, Bytes::from_static(b"<html>Bad Gateway</html>")));
        }
        Some(Fault::Refused(code, description)) => {
            return Ok(refused(&shared, "", Refusal::met(code, &description)));
        }
        Some(Fault::TooMany(seconds)) => {
            let refusal = Refusal {
                retry_after: Some(seconds),
                ..Refusal::met(429, &format!("Too Many Requests: retry after {seconds}"))
            };
            return Ok(refused(&shared, "", refusal));
        }
        Some(Fault::Reset) => return Err(broken()),
        Some(Fault::ResetAfterEffect) => {
            let _ = run(&shared, &call).await;
            return Err(broken());
        }
        Some(Fault::Silence) => return std::future::pending().await,
    }
    Ok(match run(&shared, &call).await {
        Ok(result) => answer(200, json!({"ok": true, "result": result}).to_string().into()),
        Err(refusal) => refused(&shared, &call.method, refusal),
    })
}

async fn run(shared: &Shared, call: &Call) -> Result<Value, Refusal> {
    if call.method == "getUpdates" {
        get_updates(shared, &call.parameters).await
    } else {
        shared.change(|state| methods::run(state, call))
    }
}

fn read_call(head: &http::request::Parts, body: &Bytes, shared: &Shared) -> Result<Call, Refusal> {
    let token = shared.read(|state| state.token.clone());
    let method = head.uri.path().strip_prefix(&format!("/bot{token}/"));
    let Some(method) = method else {
        return Err(Refusal {
            is_problem: true,
            ..Refusal::met(401, "Unauthorized")
        });
    };
    if shared.read(|state| state.is_revoked) {
        shared.change(|state| state.called(method, &Value::Null));
        return Err(Refusal::met(401, "Unauthorized"));
    }
    let content_type = head
        .headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let unreadable = || Refusal {
        is_problem: true,
        ..Refusal::met(400, "Bad Request: unreadable")
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
    Ok(Call {
        method: method.to_owned(),
        parameters,
        file,
    })
}

fn refused(shared: &Shared, method: &str, refusal: Refusal) -> Answer {
    if refusal.is_problem {
        shared.change(|state| state.problem(format!("{method}: {}", refusal.description)));
    }
    let mut body = json!({"ok": false, "error_code": refusal.code, "description": refusal.description});
    if let Some(seconds) = refusal.retry_after {
        body["parameters"] = json!({"retry_after": seconds});
    }
    answer(refusal.code, body.to_string().into())
}

fn answer(status: u16, body: Bytes) -> Answer {
    let mut answer = http::Response::new(Full::new(body));
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::BAD_GATEWAY);
    answer
}

/// Forgets what the offset confirms, then waits for something to hand out. A newer poll ends an older.
async fn get_updates(shared: &Shared, parameters: &Map<String, Value>) -> Result<Value, Refusal> {
    let known = ["offset", "limit", "timeout", "allowed_updates"];
    super::check::only(parameters, &known)?;
    let number = |key: &str| parameters.get(key).and_then(Value::as_i64);
    let mut changes = shared.changes();
    let poll = shared.change(|state| {
        if let Some(offset) = number("offset") {
            state.updates.retain(|(id, _)| *id >= offset);
        }
        methods::allow(state, parameters);
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

fn ready(state: &state::State, poll: u64, limit: usize) -> Option<Result<Value, Refusal>> {
    if state.webhook.is_some() {
        let words = "Conflict: can't use getUpdates method while webhook is active";
        return Some(Err(Refusal::met(409, words)));
    }
    if state.polls != poll {
        let words = "Conflict: terminated by other getUpdates request";
        return Some(Err(Refusal::met(409, words)));
    }
    let updates: Vec<&Value> = state
        .updates
        .iter()
        .take(limit)
        .map(|(_, update)| update)
        .collect();
    (!updates.is_empty() || poll <= state.polls_ended).then(|| Ok(json!(updates)))
}
