//! Webhooks: signed events from other systems. A webhook verifies the signature over the raw bytes, and only then
//! decodes the body, tolerantly. It is synchronous and does no I/O.

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
}

/// Returns the webhook of a connected channel; `None` for a polled one.
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

/// Returns the webhook of a channel that is not connected yet. It only verifies; its decoded content must not be
/// used.
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

/// Returns the webhook of a configured hook.
pub fn hook_webhook(name: &str, settings: &HookSettings) -> Option<Arc<dyn Webhook>> {
    match settings.scheme {
        HookScheme::Github => github::webhook(name, settings),
        HookScheme::Generic | HookScheme::GenericBody => generic::webhook(name, settings),
    }
}
