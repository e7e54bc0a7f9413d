//! The HTTP answers, as fixed bytes. No answer reveals more than its caller may know: it contains no reason for a
//! refused signature, no path, no name and no detail of a failure.

use super::Readiness;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// Seconds until a sender may retry an event that could not be stored.
const RETRY_AFTER_SECONDS: &str = "5";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(super) type HttpResponse = Response<Full<Bytes>>;

/// Returns the answer for a stored event. It has no body, because chat platforms show the body of an answer to users.
pub(super) fn accepted() -> HttpResponse {
    build(StatusCode::OK, None, Bytes::new())
}

/// Returns the answer for an event that was stored before.
pub(super) fn duplicate() -> HttpResponse {
    json(StatusCode::OK, br#"{"duplicate":true}"#)
}

/// Returns the answer of the liveness probe.
pub(super) fn alive() -> HttpResponse {
    json(StatusCode::OK, br#"{"alive":true}"#)
}

/// Returns the answer of the readiness probe: 200, or 503 with the reasons.
pub(super) fn ready(readiness: &Readiness) -> HttpResponse {
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
pub(super) fn text(text: String) -> HttpResponse {
    build(StatusCode::OK, Some(TEXT), Bytes::from(text))
}

/// Returns the answer for every failed authentication and for every name that is not configured.
pub(super) fn unauthenticated() -> HttpResponse {
    json(StatusCode::UNAUTHORIZED, br#"{"error":"unauthenticated"}"#)
}

/// Returns the answer for an authentic request that cannot be decoded. `detail` is a fixed phrase of Drydock.
pub(super) fn malformed(detail: &'static str) -> HttpResponse {
    detailed(StatusCode::BAD_REQUEST, "malformed", detail)
}

/// Returns the answer for a content type or encoding that is not accepted.
pub(super) fn unsupported(detail: &'static str) -> HttpResponse {
    detailed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", detail)
}

/// Returns the answer for a body that is larger than the bound.
pub(super) fn too_large() -> HttpResponse {
    closing(json(StatusCode::PAYLOAD_TOO_LARGE, br#"{"error":"too large"}"#))
}

/// Returns the answer for a body that did not arrive in time.
pub(super) fn too_slow() -> HttpResponse {
    closing(json(StatusCode::REQUEST_TIMEOUT, br#"{"error":"too slow"}"#))
}

/// Returns the answer for a body that ended before its length, or was framed wrongly.
pub(super) fn broken_off() -> HttpResponse {
    closing(malformed("the body is incomplete"))
}

/// Returns the answer for an event that cannot be stored now; the sender retries.
pub(super) fn unavailable() -> HttpResponse {
    let answer = json(StatusCode::SERVICE_UNAVAILABLE, br#"{"error":"unavailable"}"#);
    with(answer, RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS))
}

/// Returns the answer for an unknown route.
pub(super) fn not_found() -> HttpResponse {
    json(StatusCode::NOT_FOUND, br#"{"error":"not found"}"#)
}

/// Returns the answer for a route that exists for another method.
pub(super) fn method_not_allowed(allow: &'static str) -> HttpResponse {
    let answer = json(
        StatusCode::METHOD_NOT_ALLOWED,
        br#"{"error":"method not allowed"}"#,
    );
    with(answer, ALLOW, HeaderValue::from_static(allow))
}

/// Returns the answer after an internal error.
pub(super) fn failed() -> HttpResponse {
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

fn detailed(status: StatusCode, error: &'static str, detail: &'static str) -> HttpResponse {
    let body = serde_json::json!({ "error": error, "detail": detail });
    build(status, Some(JSON), Bytes::from(body.to_string()))
}

fn json(status: StatusCode, body: &'static [u8]) -> HttpResponse {
    build(status, Some(JSON), Bytes::from_static(body))
}

fn build(status: StatusCode, content_type: Option<HeaderValue>, body: Bytes) -> HttpResponse {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    answer
}

/// Closes the connection after the answer, because the rest of the request body may never end.
fn closing(answer: HttpResponse) -> HttpResponse {
    with(answer, CONNECTION, HeaderValue::from_static("close"))
}

fn with(mut answer: HttpResponse, name: HeaderName, value: HeaderValue) -> HttpResponse {
    answer.headers_mut().insert(name, value);
    answer
}
