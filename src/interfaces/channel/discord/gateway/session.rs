//! A session of the gateway, which outlives its connections.

use super::progress::EventProgress;
use serde_json::Value;

/// A session that can be resumed.
#[derive(Clone, Debug)]
pub(super) struct GatewaySession {
    /// The id that Discord gave it.
    pub(super) id: String,
    /// The address at which it is resumed.
    pub(super) url: String,
    /// The events that were received and accepted.
    pub(super) progress: EventProgress,
}

impl GatewaySession {
    /// Reads the session of a `READY` event.
    pub(super) fn of_ready(data: &Value) -> Option<Self> {
        Some(Self {
            id: data["session_id"].as_str()?.to_owned(),
            url: data["resume_gateway_url"].as_str()?.to_owned(),
            progress: EventProgress::default(),
        })
    }
}
