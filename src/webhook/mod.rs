//! Webhooks: signed events from outside. A webhook verifies the signature over the raw bytes, and
//! only then decodes, tolerantly. It is synchronous and does no I/O.

use crate::model::Inbound;
use bytes::Bytes;
use jiff::Timestamp;

/// What a verified request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something to admit and store before it is acknowledged.
    Inbound(Box<Inbound>),
    /// Verified, and not for us: acknowledged, audited as `ingress.ignored`, forgotten.
    Ignored(&'static str),
    /// Answered at once with this plain text (Slack `url_verification`).
    Answer(String),
}

/// Why a request is not received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Missing, duplicate, mixed, malformed, stale or wrong signature. The answer is the same 401 for
    /// all of them; the reason goes to the audit log only.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// Signed, but not readable: 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// A content type or encoding that is not accepted: 415.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// A source of signed events, reachable as `POST /in/<name>`.
pub trait Webhook: Send + Sync {
    /// Verifies and decodes one request received at `at`.
    fn receive(&self, request: &http::Request<Bytes>, at: Timestamp) -> Result<Received, Rejected>;
}
