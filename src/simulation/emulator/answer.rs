//! Parts of requests and answers that all emulators share: the whole body of a request, an answer, and the end of a
//! connection in place of an answer.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// The end of the connection in place of an answer: the client gets no byte.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection is closed on purpose")]
pub(super) struct Severed;

/// Handlers cannot fail, so the end of the connection passes through the router as a mark of a response.
impl IntoResponse for Severed {
    fn into_response(self) -> Response {
        let mut marked = ().into_response();
        marked.extensions_mut().insert(self);
        marked
    }
}

impl Severed {
    /// Returns the response, or the mark that it carries.
    pub(super) fn or_response(response: Response) -> Result<Response, Self> {
        match response.extensions().get::<Self>() {
            Some(severed) => Err(*severed),
            None => Ok(response),
        }
    }
}

/// Reads a whole body. The connection of a larger body ends.
pub(super) async fn whole_body(body: Body, bytes_max: usize) -> Result<Bytes, Severed> {
    let read = Limited::new(body, bytes_max).collect().await;
    Ok(read.map_err(|_| Severed)?.to_bytes())
}

/// Creates an answer without a content type. A status that is none becomes 500.
pub(super) fn answer<B>(status: u16, body: B) -> http::Response<B> {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// Creates an answer with a content type.
pub(super) fn typed_answer<B>(status: u16, content_type: &'static str, body: B) -> http::Response<B> {
    let mut response = answer(status, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Sets the time that an answer shows as that of the server; without one, it shows that of this machine.
pub(super) fn with_date<B>(mut response: http::Response<B>, date: Option<Timestamp>) -> http::Response<B> {
    let printed = date.and_then(|date| DateTimePrinter::new().timestamp_to_rfc9110_string(&date).ok());
    if let Some(date) = printed.and_then(|date| HeaderValue::from_str(&date).ok()) {
        response.headers_mut().insert(DATE, date);
    }
    response
}
