//! The HTTP answers, as fixed bytes. No answer reveals more than its caller may know: it contains no reason for a
//! refused signature, no path, no name and no detail of a failure.

use super::Readiness;
use crate::engine::gateway::FieldProblem;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};
use tracing::error;

/// Seconds until a sender may retry an event that could not be stored.
const RETRY_AFTER_SECONDS: &str = "5";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The answer as hyper sends it: a whole body, or one that goes on.
pub(super) type HttpResponse = Response<Either<Full<Bytes>, Body>>;

/// The answer of a handler.
///
/// axum would add headers to a response, remove the body of one to HEAD, and has responses of its own. An answer passes
/// through the router beside the response, so a client gets the fixed bytes of this module and nothing else.
#[derive(Clone, Debug)]
pub(super) struct Answer(Response<Full<Bytes>>);

/// The answer of a handler whose body goes on: events. It passes through the router as the body of its response.
pub(super) struct StreamedAnswer(Body);

/// The mark of the response of a [`StreamedAnswer`].
#[derive(Clone, Copy, Debug)]
struct StreamMark;

impl StreamedAnswer {
    pub(super) fn new(events: Body) -> Self {
        Self(events)
    }
}

impl IntoResponse for StreamedAnswer {
    fn into_response(self) -> axum::response::Response {
        let mut carrier = self.0.into_response();
        carrier.extensions_mut().insert(StreamMark);
        carrier
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> axum::response::Response {
        let mut carrier = ().into_response();
        carrier.extensions_mut().insert(self);
        carrier
    }
}

impl Answer {
    /// Returns the answer of the handler that the router selected. A response that no handler made is a failure.
    pub(super) fn of(mut routed: axum::response::Response) -> HttpResponse {
        if routed.extensions_mut().remove::<StreamMark>().is_some() {
            return streamed(routed.into_body());
        }
        let answer: Answer = routed.extensions_mut().remove().unwrap_or_else(|| {
            error!("a request was answered by the router itself");
            failed()
        });
        answer.into()
    }
}

impl From<Answer> for HttpResponse {
    fn from(Answer(response): Answer) -> Self {
        response.map(Either::Left)
    }
}

/// Returns the answer with events that go on. Its connection ends with it.
fn streamed(events: Body) -> HttpResponse {
    let head = closing(build(StatusCode::OK, Some(EVENTS), Bytes::new()));
    // A proxy passes on each event at once.
    let buffering = HeaderName::from_static("x-accel-buffering");
    let Answer(head) = with(head, buffering, HeaderValue::from_static("no"));
    head.map(|_| Either::Right(events))
}

/// Returns the answer for a stored event. It has no body, because chat platforms show the body of an answer to users.
pub(super) fn accepted() -> Answer {
    build(StatusCode::OK, None, Bytes::new())
}

/// Returns the answer for a stored event of a platform that expects a document, and for a person's machine.
pub(super) fn acknowledged(document: String) -> Answer {
    build(StatusCode::OK, Some(JSON), Bytes::from(document))
}

/// Returns the answer about something that was created at a path.
pub(super) fn created(location: &str, document: String) -> Answer {
    let answer = build(StatusCode::CREATED, Some(JSON), Bytes::from(document));
    match HeaderValue::from_str(location) {
        Ok(location) => with(answer, LOCATION, location),
        Err(_) => answer,
    }
}

/// Returns the answer with the description of the API.
pub(super) fn described(document: Bytes) -> Answer {
    build(StatusCode::OK, Some(JSON), document)
}

/// Returns the answer for an event that was stored before.
pub(super) fn duplicate() -> Answer {
    json(StatusCode::OK, br#"{"duplicate":true}"#)
}

/// Returns the answer of the liveness probe.
pub(super) fn alive() -> Answer {
    json(StatusCode::OK, br#"{"alive":true}"#)
}

/// Returns the answer of the readiness probe: 200, or 503 with the reasons.
pub(super) fn ready(readiness: &Readiness) -> Answer {
    let Readiness {
        waiting_for,
        degraded,
    } = readiness;
    let is_ready = waiting_for.is_empty();
    let mut body = serde_json::json!({ "ready": is_ready });
    for (name, reasons) in [("waiting_for", waiting_for), ("degraded", degraded)] {
        if !reasons.is_empty() {
            body[name] = serde_json::json!(reasons);
        }
    }
    let status = match is_ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    build(status, Some(JSON), Bytes::from(body.to_string()))
}

/// Returns a text that the protocol requires (Slack `url_verification`), with a content type that no browser
/// executes.
pub(super) fn text(text: String) -> Answer {
    build(StatusCode::OK, Some(TEXT), Bytes::from(text))
}

/// Returns the answer for every failed authentication and for every name that is not configured.
pub(super) fn unauthenticated() -> Answer {
    json(StatusCode::UNAUTHORIZED, br#"{"error":"unauthenticated"}"#)
}

/// Returns the answer of the API to a request without a valid code or token, with the scheme of tokens.
pub(super) fn token_refused() -> Answer {
    with(
        unauthenticated(),
        WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer"),
    )
}

/// Returns the answer for a valid token that does not permit the request, with the reason.
pub(super) fn forbidden(why: &str) -> Answer {
    detailed(StatusCode::FORBIDDEN, "forbidden", why)
}

/// Returns the answer for an authentic request that cannot be decoded. `detail` is a fixed phrase of Drydock.
pub(super) fn malformed(detail: &'static str) -> Answer {
    detailed(StatusCode::BAD_REQUEST, "malformed", detail)
}

/// Returns the answer for a content type or encoding that is not accepted.
pub(super) fn unsupported(detail: &'static str) -> Answer {
    detailed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", detail)
}

/// Returns the answer for a body that is larger than the bound.
pub(super) fn too_large() -> Answer {
    closing(json(StatusCode::PAYLOAD_TOO_LARGE, br#"{"error":"too large"}"#))
}

/// Returns the answer for a body that did not arrive in time.
pub(super) fn too_slow() -> Answer {
    closing(json(StatusCode::REQUEST_TIMEOUT, br#"{"error":"too slow"}"#))
}

/// Returns the answer for a body that ended before its length, or was framed wrongly.
pub(super) fn broken_off() -> Answer {
    closing(malformed("the body is incomplete"))
}

/// Returns the answer for an event that cannot be stored now; the sender retries.
pub(super) fn unavailable() -> Answer {
    let answer = json(StatusCode::SERVICE_UNAVAILABLE, br#"{"error":"unavailable"}"#);
    with(answer, RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS))
}

/// Returns the answer after too many attempts to log in; the next one is possible after a number of seconds.
pub(super) fn too_many_attempts(seconds: u64) -> Answer {
    let answer = json(StatusCode::TOO_MANY_REQUESTS, br#"{"error":"too many attempts"}"#);
    with(answer, RETRY_AFTER, HeaderValue::from(seconds))
}

/// Returns the answer for something that a person may not have as it is now, with the reason for them.
pub(super) fn refused(why: &str) -> Answer {
    detailed(StatusCode::CONFLICT, "refused", why)
}

/// Returns the answer for a request that cannot be followed as it is, with the problems of its fields.
pub(super) fn unprocessable(why: &str, problems: &[FieldProblem]) -> Answer {
    let body = serde_json::json!({ "error": "unprocessable", "detail": why, "problems": problems });
    build(
        StatusCode::UNPROCESSABLE_ENTITY,
        Some(JSON),
        Bytes::from(body.to_string()),
    )
}

/// Returns the answer while there is too much of something; a repeat may succeed after a number of seconds.
pub(super) fn too_many(why: &str, seconds: u64) -> Answer {
    let answer = detailed(StatusCode::TOO_MANY_REQUESTS, "too many", why);
    with(answer, RETRY_AFTER, HeaderValue::from(seconds))
}

/// Returns the answer for an unknown route, and for something that is not there for a person.
pub(super) fn not_found() -> Answer {
    json(StatusCode::NOT_FOUND, br#"{"error":"not found"}"#)
}

/// Returns the answer for a route that exists for another method.
pub(super) fn method_not_allowed(allow: &'static str) -> Answer {
    let answer = json(
        StatusCode::METHOD_NOT_ALLOWED,
        br#"{"error":"method not allowed"}"#,
    );
    with(answer, ALLOW, HeaderValue::from_static(allow))
}

/// Returns the answer after an internal error.
pub(super) fn failed() -> Answer {
    closing(json(
        StatusCode::INTERNAL_SERVER_ERROR,
        br#"{"error":"internal"}"#,
    ))
}

/// Returns the complete answer for a connection over the limit, as bytes that are written without a parser.
pub(super) fn connection_refused(full: super::connection_limits::LimitReached) -> &'static [u8] {
    match full {
        super::connection_limits::LimitReached::Address => {
            b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        }
        super::connection_limits::LimitReached::Listener => {
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        }
    }
}

fn detailed(status: StatusCode, error: &'static str, detail: &str) -> Answer {
    let body = serde_json::json!({ "error": error, "detail": detail });
    build(status, Some(JSON), Bytes::from(body.to_string()))
}

fn json(status: StatusCode, body: &'static [u8]) -> Answer {
    build(status, Some(JSON), Bytes::from_static(body))
}

fn build(status: StatusCode, content_type: Option<HeaderValue>, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    Answer(response)
}

/// Closes the connection after the answer, because the rest of the request body may never end.
fn closing(answer: Answer) -> Answer {
    with(answer, CONNECTION, HeaderValue::from_static("close"))
}

fn with(Answer(mut response): Answer, name: HeaderName, value: HeaderValue) -> Answer {
    response.headers_mut().insert(name, value);
    Answer(response)
}
