//! Webhooks: signed events from outside. A webhook verifies the signature over the raw bytes, and
//! only then decodes, tolerantly. It is synchronous and does no I/O.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod any_json;
mod event;
mod other_schemes;
mod generic;
mod github;
mod signature;
pub(crate) mod slack;
pub(crate) mod telegram;

use crate::config::{ChannelSettings, HookScheme, HookSettings};
use crate::model::{Account, Inbound, Installation, Platform};
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;

/// The outcome of a verified request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message or event to admit and store before it is acknowledged.
    Inbound(Box<Inbound>),
    /// Verified, and not for us: acknowledged, audited as `ingress.ignored`, forgotten.
    Ignored(&'static str),
    /// Answered at once with this plain text (Slack `url_verification`).
    Answer(String),
}

/// The reason why a request is not received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Missing, duplicate, mixed, malformed or wrong signature. The answer is the same 401 for
    /// all of them; the reason goes to the audit log only.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The signature is right, and its time too far from ours: the same 401.
    #[error("the signature is of a time that is {seconds} s from now")]
    Stale {
        /// Seconds after our time; before it if negative.
        seconds: i64,
    },
    /// Signed, but not readable: 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// A content type or encoding that is not accepted: 415.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// The reasons of [`Rejected::Unauthenticated`] for which the two sides may have different secrets, as the audit log has
/// them. A time that is not readable stands there in the same word as one that is signed and wrong, so it is none.
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
/// The reason of the audit log for a signature of another time, or of one that is not readable.
pub const STALE_REASON: &str = "hook.stale";

/// A source of signed events, reachable as `POST /in/<name>`.
pub trait Webhook: Send + Sync {
    /// Verifies and decodes one request received at `at`.
    fn receive(&self, request: &http::Request<Bytes>, at: Timestamp) -> Result<Received, Rejected>;
}

/// The webhook of a connected channel; `None` for one that is polled.
pub fn channel_webhook(
    name: &str,
    settings: &ChannelSettings,
    installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    match settings {
        ChannelSettings::Slack(settings) => slack::webhook(name, settings, installation),
        ChannelSettings::Telegram(settings) => telegram::webhook(name, settings, installation),
    }
}

/// The webhook of a channel that does not know itself yet: it verifies, and what it decodes means nothing.
pub fn unconnected_channel_webhook(name: &str, settings: &ChannelSettings) -> Option<Arc<dyn Webhook>> {
    let platform = match settings {
        ChannelSettings::Slack(_) => Platform::Slack,
        ChannelSettings::Telegram(_) => Platform::Telegram,
    };
    let nobody = Installation {
        account: Account {
            platform,
            id: String::new(),
        },
        bot_id: String::new(),
        bot_name: String::new(),
    };
    channel_webhook(name, settings, &nobody)
}

/// The webhook of a configured hook.
pub fn hook_webhook(name: &str, settings: &HookSettings) -> Option<Arc<dyn Webhook>> {
    match settings.scheme {
        HookScheme::Github => github::webhook(name, settings),
        HookScheme::Generic | HookScheme::GenericBody => generic::webhook(name, settings),
    }
}
