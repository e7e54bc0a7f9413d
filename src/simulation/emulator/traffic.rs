//! The requests that an emulator received, as they were sent, for a comparison with the rules of other authors.

use super::answer::Severed;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, UPGRADE};
use http_body_util::BodyExt;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The list of received requests. Nothing is added before [`Traffic::start`]. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic(Arc<Mutex<Option<Vec<SentRequest>>>>);

/// A request, a frame of a WebSocket or an answer, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SentRequest {
    /// The method; `FRAME` for a frame of a WebSocket, and `ANSWER` for the answer to a request of the platform.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// The content type; empty if there is none.
    #[serde(rename = "type")]
    pub content_type: String,
    /// The body, as text. Bytes that are no text are replaced.
    pub body: String,
}

impl SentRequest {
    /// Creates the record of a JSON document that is no request.
    pub(super) fn document(method: &str, path: &str, body: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            content_type: "application/json".to_owned(),
            body: body.to_owned(),
        }
    }
}

impl Traffic {
    /// Keeps what is received from now on.
    pub(super) fn start(&self) {
        self.lock().get_or_insert_default();
    }

    /// Returns what was received so far, oldest first.
    pub(super) fn received(&self) -> Vec<SentRequest> {
        self.lock().clone().unwrap_or_default()
    }

    /// Adds a request if the list was started.
    pub(super) fn add(&self, request: impl FnOnce() -> SentRequest) {
        if let Some(received) = self.lock().as_mut() {
            received.push(request());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<SentRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records each request before it is answered; handshakes of WebSockets are no calls.
pub(super) async fn record(
    State(traffic): State<Traffic>,
    request: Request,
    next: Next,
) -> Result<Response, Severed> {
    if traffic.lock().is_none() || request.headers().contains_key(UPGRADE) {
        return Ok(next.run(request).await);
    }
    let (head, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(|_| Severed)?.to_bytes();
    traffic.add(|| {
        let content_type = head.headers.get(CONTENT_TYPE);
        SentRequest {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    });
    Ok(next.run(Request::from_parts(head, Body::from(body))).await)
}
