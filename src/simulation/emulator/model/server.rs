//! The HTTP side of the emulator: reads a request within limits, checks it, and answers it from the script.

use super::body::{AnswerBody, BodyEnding};
use super::conversation::{ModelRequest, RequestMessage, RequestTool, RequestedCalls};
use super::script::{AnswerFault, AnswerScript, ScriptedAnswer};
use super::wire_format::EmulatedFormat;
use super::{WIRE_FORMATS, openai};
use crate::simulation::emulator::answer::typed_answer;
use crate::simulation::emulator::server::{Closing, serve};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The maximum number of bytes of a request's body.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest time from the first byte of a request to the end of its body.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// The maximum number of recorded requests.
const REQUESTS_KEPT_MAX: usize = 4_096;

/// The maximum number of recorded problems.
const PROBLEMS_KEPT_MAX: usize = 1_000;

/// The rule for the API key of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPolicy {
    Required,
    Optional,
}

/// The last event of a stream, which a request may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageEvent {
    Sent,
    Omitted,
}

/// A parsed request.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) model: String,
    pub(super) is_streamed: bool,
    pub(super) usage_event: UsageEvent,
    pub(super) system: String,
    pub(super) tools: Vec<RequestTool>,
    pub(super) tool_choice: RequestedCalls,
    pub(super) messages: Vec<RequestMessage>,
    pub(super) api_key: Option<String>,
}

/// The refusal of an invalid request.
#[derive(Debug)]
pub(super) struct ModelRefusal {
    pub(super) status: u16,
    pub(super) why: String,
}

impl ModelRefusal {
    /// Creates the refusal of an invalid request.
    pub(super) fn invalid_request(why: &str) -> Self {
        Self {
            status: 400,
            why: why.to_owned(),
        }
    }
}

/// The state shared by all connections.
pub(super) struct SharedModel {
    // The lock is never held across an await.
    state: Mutex<ModelState>,
    released: CancellationToken,
}

struct ModelState {
    script: Box<dyn AnswerScript>,
    requests: VecDeque<ModelRequest>,
    problems: Vec<String>,
    answers: u64,
}

/// The wire format of a request, and the rule for its API key.
#[derive(Clone, Copy)]
struct Api {
    format: &'static dyn EmulatedFormat,
    key: KeyPolicy,
}

impl SharedModel {
    pub(super) fn new(script: Box<dyn AnswerScript>) -> Self {
        let state = ModelState {
            script,
            requests: VecDeque::new(),
            problems: Vec::new(),
            answers: 0,
        };
        Self {
            state: Mutex::new(state),
            released: CancellationToken::new(),
        }
    }

    pub(super) fn release(&self) {
        self.released.cancel();
    }

    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.state().requests.iter().cloned().collect()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    pub(super) fn unused(&self) -> Vec<String> {
        self.state().script.unused()
    }

    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and returns the script's answer.
    fn answer(&self, mut asked: ModelRequest) -> Result<(ScriptedAnswer, u64), ModelRefusal> {
        let mut state = self.state();
        // The tools are the largest part of a request and seldom change, so they are shared.
        if let Some(before) = state.requests.back().filter(|before| before.tools == asked.tools) {
            asked.tools = Arc::clone(&before.tools);
        }
        let answer = state.script.answer(&asked);
        if state.requests.len() == REQUESTS_KEPT_MAX {
            state.requests.pop_front();
        }
        state.requests.push_back(asked);
        state.answers += 1;
        let number = state.answers;
        answer
            .map(|answer| (answer, number))
            .ok_or_else(|| ModelRefusal::invalid_request("the script has no line for this request"))
    }

    fn remember(&self, problem: String) {
        let mut state = self.state();
        if state.problems.len() < PROBLEMS_KEPT_MAX {
            state.problems.push(problem);
        }
    }
}

/// Answers requests until `stop`.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedModel>, stop: CancellationToken) {
    // Broken connections are not reported: the script or the client causes them.
    serve(listener, Closing::Ordinary, stop, routes().with_state(shared)).await;
}

/// Returns every route: the paths of the wire formats, for POST.
fn routes() -> Router<Arc<SharedModel>> {
    let mut routes = Router::new();
    for format in WIRE_FORMATS.iter().copied() {
        for (path, key) in format.paths().iter().copied() {
            let api = Api { format, key };
            let handler =
                move |State(shared): State<Arc<SharedModel>>, request| respond(shared, api, request);
            routes = routes.route(path, post(handler));
        }
    }
    routes
        .method_not_allowed_fallback(no_such_address)
        .fallback(no_such_address)
}

async fn no_such_address(State(shared): State<Arc<SharedModel>>, method: Method, uri: Uri) -> Response {
    shared.remember(format!("{method} {}: no such address", uri.path()));
    json_answer(404, openai::error_body("no such address")).map(Body::new)
}

async fn respond(shared: Arc<SharedModel>, api: Api, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let read = read(api, &parts.uri, &parts.headers, body).await;
    let answered = read.and_then(|(asked, read)| {
        let answered_at = Arc::clone(&asked.answered_at);
        Ok((read, shared.answer(asked)?, answered_at))
    });
    match answered {
        Ok((read, (mut answer, number), answered_at)) => {
            if read.tool_choice == RequestedCalls::Forbidden {
                answer.calls.clear();
            }
            if answer.fault == Some(AnswerFault::Held) {
                shared.released.cancelled().await;
            }
            let response = write(&shared, api, &read, &answer, number).await;
            response.map(|body| Body::new(body.with_written_at(answered_at)))
        }
        Err(refusal) => {
            shared.remember(refusal.why.clone());
            refuse(api, &refusal).map(Body::new)
        }
    }
}

async fn read(
    api: Api,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<(ModelRequest, ParsedRequest), ModelRefusal> {
    let whole = tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect());
    let whole = match whole.await {
        Ok(Ok(whole)) => whole.to_bytes(),
        Ok(Err(_)) => {
            return Err(ModelRefusal {
                status: 413,
                why: "the body is too large or broken".to_owned(),
            });
        }
        Err(_) => {
            return Err(ModelRefusal {
                status: 408,
                why: "the body is too slow".to_owned(),
            });
        }
    };
    let at = Instant::now();
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(|value| value.starts_with("application/json")) {
        return Err(ModelRefusal::invalid_request(
            "content-type must be application/json",
        ));
    }
    let raw = String::from_utf8(whole.to_vec())
        .map_err(|_| ModelRefusal::invalid_request("the body is not UTF-8"))?;
    let json: Value =
        serde_json::from_str(&raw).map_err(|_| ModelRefusal::invalid_request("the body is not JSON"))?;
    let mut read = api.format.read(uri, headers, &json, api.key)?;
    let asked = ModelRequest {
        model: read.model.clone(),
        system: std::mem::take(&mut read.system),
        tools: std::mem::take(&mut read.tools).into(),
        tool_choice: read.tool_choice.clone(),
        messages: std::mem::take(&mut read.messages),
        api_key: read.api_key.take(),
        raw,
        at,
        answered_at: Arc::default(),
    };
    Ok((asked, read))
}

async fn write(
    shared: &SharedModel,
    api: Api,
    read: &ParsedRequest,
    answer: &ScriptedAnswer,
    number: u64,
) -> http::Response<AnswerBody> {
    let mut ending = BodyEnding::Complete;
    let mut bytes_max = usize::MAX;
    match &answer.fault {
        Some(AnswerFault::Status {
            status,
            headers,
            body,
        }) => return status_response(*status, headers, body),
        Some(AnswerFault::Stall) => std::future::pending().await,
        Some(AnswerFault::Delay(delay)) => tokio::time::sleep(*delay).await,
        Some(AnswerFault::Malformed) => return json_answer(200, "{\"type\":\"message\",".to_owned()),
        Some(AnswerFault::StallAfter(bytes)) => (bytes_max, ending) = (*bytes, BodyEnding::Stall),
        Some(AnswerFault::StallLate { delay, bytes }) => {
            tokio::time::sleep(*delay).await;
            (bytes_max, ending) = (*bytes, BodyEnding::Stall);
        }
        Some(AnswerFault::ResetAfter(bytes)) => (bytes_max, ending) = (*bytes, BodyEnding::Reset),
        Some(AnswerFault::EndAfter(bytes)) => bytes_max = *bytes,
        Some(
            AnswerFault::Arguments(_)
            | AnswerFault::Ids(_)
            | AnswerFault::Stop(_)
            | AnswerFault::ErrorEvent(_)
            | AnswerFault::Held
            | AnswerFault::HeldBefore(_),
        )
        | None => {}
    }
    let mut bytes = Bytes::from(api.format.write(answer, read, number));
    bytes.truncate(bytes_max);
    let content_type = if read.is_streamed {
        "text/event-stream; charset=utf-8"
    } else {
        "application/json"
    };
    let body = match answer.fault {
        Some(AnswerFault::HeldBefore(text)) => {
            let held_at = memchr::memmem::find(&bytes, text.as_bytes()).unwrap_or(bytes.len());
            let held = bytes.split_off(held_at);
            AnswerBody::new(bytes, ending).with_held(held, shared.released.clone().cancelled_owned())
        }
        _ => AnswerBody::new(bytes, ending),
    };
    typed_answer(200, content_type, body)
}

fn refuse(api: Api, refusal: &ModelRefusal) -> http::Response<AnswerBody> {
    let body = api.format.error_body(refusal.status, &refusal.why);
    json_answer(refusal.status, body)
}

fn status_response(status: u16, headers: &[(String, String)], body: &str) -> http::Response<AnswerBody> {
    let mut response = json_answer(status, body.to_owned());
    for (name, value) in headers {
        let name = http::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn json_answer(status: u16, body: String) -> http::Response<AnswerBody> {
    let body = AnswerBody::new(Bytes::from(body), BodyEnding::Complete);
    typed_answer(status, "application/json", body)
}
