//! The handler of `POST /in/<name>`: reads the body within its bounds, and only then looks up the name, has its
//! [`Webhook`](crate::base::webhook::Webhook) verify the raw bytes, and stores the event.

use super::answer::{self, Answer};
use super::routes::RouteState;
use super::{IngressResult, NAME_UNKNOWN, Route, Unavailable};
use crate::base::webhook::{Received, Rejected, STALE_REASON, Webhook};
use crate::crash_point;
use axum::body::Body;
use axum::extract::{Request, State};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use jiff::Timestamp;
use std::sync::Arc;

/// The reason why a body was not read.
enum BodyError {
    TooLarge,
    BrokenOff,
}

/// Receives an event. All checks that need no secret run before the name is looked up, so that an unknown sender
/// cannot distinguish configured names from others. A signed request for a channel that is still connecting is
/// answered with 503, so that its sender retries.
pub(super) async fn event(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    match read_body(&state, request).await {
        Ok(request) => state.receive(&request).await,
        Err(answer) => answer,
    }
}

/// Reads the body of a request within its bounds. Fails with the answer to the request.
pub(super) async fn read_body(state: &RouteState, request: Request) -> Result<http::Request<Bytes>, Answer> {
    if has_content_encoding(request.headers()) {
        return Err(answer::unsupported("no content encoding is accepted"));
    }
    let (head, body) = request.into_parts();
    let read = state.read(body, &head.headers);
    match tokio::time::timeout(state.bounds.body_time_max, read).await {
        Ok(Ok(body)) => Ok(http::Request::from_parts(head, body)),
        Ok(Err(BodyError::TooLarge)) => Err(answer::too_large()),
        Ok(Err(BodyError::BrokenOff)) => Err(answer::broken_off()),
        Err(_) => Err(answer::too_slow()),
    }
}

impl RouteState {
    /// Reads a body up to the bound. Memory grows with the received bytes, not with the announced length.
    async fn read(&self, mut body: Body, headers: &HeaderMap) -> Result<Bytes, BodyError> {
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
    async fn receive(&self, request: &http::Request<Bytes>) -> Answer {
        let at = self.ingress.now();
        // The name as it was sent: the parameter of the router is decoded, and would give a hook further names.
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
        let is_form = matches!(&received, Ok(Received::Inbound(inbound)) if inbound.about.is_some());
        match received {
            Ok(Received::Inbound(inbound)) => match self.ingress.accept(*inbound, at).await {
                Ok(IngressResult::New | IngressResult::Refused) => {
                    crash_point::before("B5");
                    acknowledged(webhook.as_ref(), request).unwrap_or_else(answer::accepted)
                }
                // A form stays open unless its answer is empty.
                Ok(IngressResult::Duplicate) if is_form => answer::accepted(),
                Ok(IngressResult::Duplicate) => {
                    acknowledged(webhook.as_ref(), request).unwrap_or_else(answer::duplicate)
                }
                Err(Unavailable) => answer::unavailable(),
            },
            Ok(Received::Ignored(reason)) => {
                self.ingress.ignored(name, reason, at);
                acknowledged(webhook.as_ref(), request).unwrap_or_else(answer::accepted)
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

    fn reject(&self, name: &str, rejected: &Rejected, at: Timestamp) -> Answer {
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

/// Returns the answer that the platform of a webhook expects, if it expects one.
fn acknowledged(webhook: &dyn Webhook, request: &http::Request<Bytes>) -> Option<Answer> {
    webhook.acknowledgement(request).map(answer::acknowledged)
}

/// Returns true if the body has a content encoding, which signatures and bounds could not check.
fn has_content_encoding(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}
