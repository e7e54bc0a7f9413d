//! The routes: `POST /in/<name>` for events, and three probes. Four routes need no router, only a `match`.

use super::answer::{self, HttpResponse};
use super::bounds::ListenerBounds;
use super::{Ingress, IngressResult, NAME_UNKNOWN, Route, Unavailable};
use crate::crash_point;
use crate::webhook::{Received, Rejected, STALE_REASON};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use jiff::Timestamp;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tracing::error;

/// The state that all connections share.
pub(super) struct HttpRoutes {
    pub(super) bounds: ListenerBounds,
    pub(super) ingress: Arc<dyn Ingress>,
}

/// The reason why a body was not read.
enum BodyError {
    TooLarge,
    BrokenOff,
}

impl HttpRoutes {
    /// Answers one request. A panic is answered as well and does not affect other requests.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        match AssertUnwindSafe(self.route(request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_panic) => {
                error!("a request handler panicked");
                answer::failed()
            }
        }
    }

    async fn route(&self, request: Request<Incoming>) -> HttpResponse {
        let probe = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/healthz" | "/livez" if probe => answer::alive(),
            "/readyz" if probe => answer::ready(&self.ingress.ready()),
            "/healthz" | "/livez" | "/readyz" => answer::method_not_allowed("GET, HEAD"),
            path if !path.starts_with("/in/") => answer::not_found(),
            _event if request.method() != Method::POST => answer::method_not_allowed("POST"),
            _event => self.event(request).await,
        }
    }

    /// Receives an event. All checks that need no secret run before the name is looked up, so that an unknown sender
    /// cannot distinguish configured names from others. A signed request for a channel that is still connecting is
    /// answered with 503, so that its sender retries.
    async fn event(&self, request: Request<Incoming>) -> HttpResponse {
        if has_content_encoding(request.headers()) {
            return answer::unsupported("no content encoding is accepted");
        }
        let (head, body) = request.into_parts();
        let body = match tokio::time::timeout(self.bounds.body_time_max, self.read(body, &head.headers)).await
        {
            Ok(Ok(body)) => body,
            Ok(Err(BodyError::TooLarge)) => return answer::too_large(),
            Ok(Err(BodyError::BrokenOff)) => return answer::broken_off(),
            Err(_) => return answer::too_slow(),
        };
        self.receive(&Request::from_parts(head, body)).await
    }

    /// Reads a body up to the bound. Memory grows with the received bytes, not with the announced length.
    async fn read(&self, mut body: Incoming, headers: &HeaderMap) -> Result<Bytes, BodyError> {
        let bytes_max = self.bounds.body_bytes_max;
        let announced = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > bytes_max as u64) {
            return Err(BodyError::TooLarge);
        }
        let mut whole = Bytes::new();
        let mut pieces = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyError::BrokenOff)?.into_data() else {
                continue;
            };
            if whole.len() + pieces.len() + data.len() > bytes_max {
                return Err(BodyError::TooLarge);
            }
            if whole.is_empty() && pieces.is_empty() && body.is_end_stream() {
                // A body usually arrives in one piece; then it is not copied.
                whole = data;
            } else {
                pieces.extend_from_slice(&data);
            }
        }
        Ok(if pieces.is_empty() { whole } else { pieces.freeze() })
    }

    /// Verifies and decodes one complete request, and passes its event on.
    async fn receive(&self, request: &Request<Bytes>) -> HttpResponse {
        let at = self.ingress.now();
        let name = request.uri().path().strip_prefix("/in/").unwrap_or_default();
        let webhook = match self.ingress.webhook(name) {
            Route::Webhook(webhook) => webhook,
            Route::Connecting(webhook) => {
                let received = webhook.receive(request, at);
                self.note(name, &received);
                return match received {
                    Err(rejected @ (Rejected::Unauthenticated(_) | Rejected::Stale { .. })) => {
                        self.reject(name, &rejected, at)
                    }
                    // The channel is not connected yet, so the content cannot be interpreted.
                    Ok(_) | Err(Rejected::Malformed(_) | Rejected::Unsupported(_)) => answer::unavailable(),
                };
            }
            Route::Unknown => {
                self.ingress.unauthenticated(NAME_UNKNOWN, "hook.unknown", at);
                self.ingress.rejected(NAME_UNKNOWN, "hook.unknown", at);
                return answer::unauthenticated();
            }
        };
        crash_point::before("B1");
        let received = webhook.receive(request, at);
        crash_point::after("B1");
        self.note(name, &received);
        match received {
            Ok(Received::Inbound(inbound)) => match self.ingress.accept(*inbound, at).await {
                Ok(IngressResult::New | IngressResult::Refused) => {
                    crash_point::before("B5");
                    answer::accepted()
                }
                Ok(IngressResult::Duplicate) => answer::duplicate(),
                Err(Unavailable) => answer::unavailable(),
            },
            Ok(Received::Ignored(reason)) => {
                self.ingress.ignored(name, reason, at);
                answer::accepted()
            }
            Ok(Received::Answer(text)) => answer::text(text),
            Err(rejected) => self.reject(name, &rejected, at),
        }
    }

    /// Records a request that was signed in time, whatever its content.
    fn note(&self, name: &str, received: &Result<Received, Rejected>) {
        match received {
            Ok(_) | Err(Rejected::Malformed(_) | Rejected::Unsupported(_)) => self.ingress.authentic(name),
            Err(Rejected::Unauthenticated(_) | Rejected::Stale { .. }) => {}
        }
    }

    fn reject(&self, name: &str, rejected: &Rejected, at: Timestamp) -> HttpResponse {
        let (reason, answer) = match rejected {
            Rejected::Unauthenticated(reason) => {
                self.ingress.unauthenticated(name, reason, at);
                (reason, answer::unauthenticated())
            }
            Rejected::Stale { seconds } => {
                self.ingress.stale(name, *seconds);
                (&STALE_REASON, answer::unauthenticated())
            }
            Rejected::Malformed(reason) => (reason, answer::malformed(reason)),
            Rejected::Unsupported(reason) => (reason, answer::unsupported(reason)),
        };
        self.ingress.rejected(name, reason, at);
        answer
    }
}

/// Returns true if the body has a content encoding, which signatures and bounds could not check.
fn has_content_encoding(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}
