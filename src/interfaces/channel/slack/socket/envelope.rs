//! Decodes envelopes like the webhook decodes requests.

use super::frame::Envelope;
use crate::base::model::Inbound;
use crate::base::webhook::Received;
use crate::interfaces::channel::slack::webhook::{SlackInstallation, decode_payload};
use jiff::Timestamp;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Decodes the envelopes of one channel.
pub(super) struct EnvelopeDecoder {
    pub(super) installed: SlackInstallation,
    pub(super) now: fn() -> Timestamp,
}

impl EnvelopeDecoder {
    /// Returns the message of an envelope, which is acknowledged when the gateway has accepted it. An envelope without one
    /// is acknowledged at once: otherwise Slack would deliver it again.
    pub(super) fn decode(&self, envelope: &Envelope) -> Option<Inbound> {
        let channel = self.installed.channel.as_str();
        if envelope.retry_attempt > 0 {
            let attempt = envelope.retry_attempt;
            tracing::info!(channel, attempt, "slack delivers an event again");
        }
        let Envelope { kind, payload, .. } = envelope;
        let decoding = AssertUnwindSafe(|| decode_payload(kind, payload, &self.installed, (self.now)()));
        match catch_unwind(decoding) {
            Ok(Ok(Received::Inbound(inbound))) => return Some(*inbound),
            Ok(Ok(Received::Ignored(why))) => tracing::info!(channel, "ingress.ignored: {why}"),
            Ok(Ok(Received::Answer(_))) => tracing::info!(channel, "ingress.ignored: no event"),
            Ok(Err(why)) => tracing::warn!(channel, "skipped an event: {why}"),
            Err(_panic) => tracing::error!(channel, "skipped an event: reading it panicked"),
        }
        None
    }

    pub(super) fn report_unaccepted(&self) {
        let channel = self.installed.channel.as_str();
        tracing::warn!(channel, "an event was not stored; slack will deliver it again");
    }
}
