//! Webhooks: signed events from other systems. A webhook verifies the signature over the raw bytes, and only then
//! decodes the body, tolerantly. It is synchronous and does no I/O.

mod event;
mod other_schemes;
mod generic;
mod github;
mod github_events;
mod github_issue;
mod secret_pair;
mod secret_use;
mod settings;
mod signature;
mod slack;

pub use event::EVENT_NESTING_MAX;
pub use github_issue::GithubIssue;
pub(crate) use other_schemes::refuse_other_schemes;
#[cfg(test)]
pub(crate) use other_schemes::signature_headers;
pub(crate) use secret_pair::SecretPair;
pub use secret_use::{SecretPairKeys, SecretPairs, SecretState, SecretUse, SignedRequests};
pub use settings::{GithubCommentSettings, Grants, HookChange, HookSettings, PostTo};
pub(crate) use signature::{require_fresh, single_header, verify_hex_hmac_sha256};

use crate::base::model::Inbound;
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;

/// The outcome of a verified request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message or event that is stored before it is acknowledged.
    Inbound(Box<Inbound>),
    /// A verified event that is not for Drydock. It is acknowledged and audited as `ingress.ignored`, and not stored.
    Ignored(&'static str),
    /// A plain text to answer with at once (Slack `url_verification`).
    Answer(String),
}

/// The reason why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The signature is missing, duplicate, mixed with another scheme, malformed or wrong. The answer is always the
    /// same 401; only the audit log has the reason.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The signature is right, but its time differs too much from ours. The answer is the same 401.
    #[error("the time of the signature differs from now by {seconds} s")]
    Stale {
        /// The difference in seconds: positive if the time is after ours, negative if before.
        seconds: i64,
    },
    /// The request is signed, but cannot be decoded: 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// The content type or encoding is not accepted: 415.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// The reasons of [`Rejected::Unauthenticated`], as named in the audit log, that can mean different secrets on the
/// two sides. The reason for an unreadable time is not among them: the audit log has the same word for a time that is
/// signed and wrong.
pub const SECRET_MISMATCH_REASONS: [&str; 9] = [
    "a signature header is missing",
    "a signature header is not text",
    "a signature header is repeated",
    "hook.forged",
    "hook.malformed",
    "hook.mixed",
    "secret token missing or repeated",
    "the signature is not of version 0",
    "wrong secret token",
];
/// The audit log's reason for a signature with a wrong or unreadable time.
pub const STALE_REASON: &str = "hook.stale";

/// A source of signed events, reachable as `POST /in/<name>`.
pub trait Webhook: Send + Sync {
    /// Verifies and decodes one request received at `at`.
    fn receive(&self, request: &http::Request<Bytes>, at: Timestamp) -> Result<Received, Rejected>;

    /// Returns the JSON that the platform expects in the answer to an authentic request, once its message is stored or
    /// ignored. Most platforms expect none.
    fn acknowledgement(&self, _request: &http::Request<Bytes>) -> Option<String> {
        None
    }
}

/// Defines the schemes of hooks, so that none can be missing from a list.
macro_rules! schemes {
    ($($(#[$about:meta])* $variant:ident: $definition:expr;)+) => {
        /// `scheme` of a hook. A secret is valid for its own scheme only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HookScheme {
            $($(#[$about])* $variant,)+
        }

        impl HookScheme {
            /// All schemes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The words of all schemes in the configuration.
            pub const WORDS: &'static [&'static str] = &[$($definition.word),+];

            /// Returns the definition of a scheme.
            pub const fn definition(self) -> &'static SchemeDefinition {
                match self {
                    $(Self::$variant => &$definition,)+
                }
            }
        }
    };
}

schemes! {
    /// `github`: `X-Hub-Signature-256` over the body; `X-GitHub-Delivery` is the delivery id.
    Github: github::SCHEME;
    /// `generic`: `X-Webhook-Id`, `X-Webhook-Timestamp` and `X-Webhook-Signature`, the hex HMAC-SHA256 of
    /// `id.timestamp.body`; the clock difference may be at most 300 s.
    Generic: generic::SCHEME;
    /// `generic-body`: `X-Webhook-Signature`, the hex HMAC-SHA256 of the body only; replays are recognised by the
    /// body's hash. Needs `allow_replayable = true`.
    GenericBody: generic::BODY_SCHEME;
    /// `slack`: `X-Slack-Signature` over time and body, as for the requests of a Slack app; the clock difference may be at
    /// most 300 s.
    Slack: slack::SCHEME;
}

/// The names and values of headers.
#[cfg(test)]
pub(crate) type SignedHeaders = Vec<(&'static str, String)>;

/// Everything that other code must know of a scheme.
pub struct SchemeDefinition {
    /// The word in the configuration.
    pub word: &'static str,
    /// The headers that its genuine senders sign with, in lower case. No other scheme accepts a request with one.
    pub signature_headers: &'static [&'static str],
    /// True if an old delivery can be sent again after its name has expired. Then `allow_replayable` is needed.
    pub is_replayable: bool,
    /// For a scheme that names its events: returns the reason why an entry of `events` can never match.
    pub event_refusal: Option<fn(entry: &str) -> Option<String>>,
    /// Returns the webhook of a hook.
    pub webhook: fn(name: &str, settings: &HookSettings) -> Arc<dyn Webhook>,
    /// Returns every header that a request needs, for a body without a name of its event.
    #[cfg(test)]
    pub(crate) sign: fn(secret: &str, body: &[u8], at: Timestamp) -> SignedHeaders,
}

/// Returns the webhook of a configured hook. While its secret is replaced, it accepts both secrets; `pairs` has the use of
/// each.
pub fn hook_webhook(name: &str, settings: &HookSettings, pairs: &SecretPairs) -> Arc<dyn Webhook> {
    let webhook = settings.scheme.definition().webhook;
    let current = webhook(name, settings);
    match settings.with_previous_secret() {
        Some(previous) => {
            let pair = pairs.of(SecretPairKeys::of_hook(name));
            Arc::new(SecretPair::new(pair, current, webhook(name, &previous)))
        }
        None => current,
    }
}
