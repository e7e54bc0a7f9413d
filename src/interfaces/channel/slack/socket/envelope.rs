//! Decodes envelopes like the webhook decodes requests.

use super::frame::Envelope;
use crate::base::model::Inbound;
use crate::base::webhook::Received;
use crate::interfaces::channel::slack::webhook::{SlackInstallation, decode_payload};
use jiff::Timestamp;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Decodes the envelopes of one channel.
pub(super) struct EnvelopeDecoder {
    channel: String,
    installed: SlackInstallation,
    now: fn() -> Timestamp,
}

/// The content of an envelope.
pub(super) enum EnvelopeContent {
    /// A message, which is acknowledged when the gateway has accepted it.
    Inbound(Box<Inbound>),
    /// Nothing for the gateway. It is acknowledged at once: otherwise Slack would deliver it again.
    Nothing,
}

impl EnvelopeDecoder {
    pub(super) fn new(channel: &str, installed: SlackInstallation, now: fn() -> Timestamp) -> Self {
        Self {
            channel: channel.to_owned(),
            installed,
            now,
        }
    }

    pub(super) fn decode(&self, envelope: &Envelope) -> EnvelopeContent {
        let channel = self.channel.as_str();
        let Some(kind) = envelope.kind else {
            tracing::info!(channel, "ingress.ignored: unknown type of envelope");
            return EnvelopeContent::Nothing;
        };
        if envelope.retry_attempt > 0 {
            let attempt = envelope.retry_attempt;
            tracing::info!(channel, attempt, "slack delivers an event again");
        }
        let decoding =
            AssertUnwindSafe(|| decode_payload(kind, &envelope.payload, &self.installed, (self.now)()));
        match catch_unwind(decoding) {
            Ok(Ok(Received::Inbound(inbound))) => return EnvelopeContent::Inbound(inbound),
            Ok(Ok(Received::Ignored(why))) => tracing::info!(channel, "ingress.ignored: {why}"),
            Ok(Ok(Received::Answer(_))) => tracing::info!(channel, "ingress.ignored: no event"),
            Ok(Err(why)) => tracing::warn!(channel, "skipped an event: {why}"),
            Err(_panic) => tracing::error!(channel, "skipped an event: reading it panicked"),
        }
        EnvelopeContent::Nothing
    }

    pub(super) fn report_unaccepted(&self) {
        let channel = self.channel.as_str();
        tracing::warn!(channel, "an event was not stored; slack will deliver it again");
    }
}
