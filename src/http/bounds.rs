//! The bounds of the listener as durations and counts.

use crate::config::ServerSettings;
use std::time::Duration;

/// Bytes of a request line and all its headers; more is refused by the parser with 431.
pub(super) const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Headers of one request; more is refused by the parser with 431.
pub(super) const HEADERS_MAX: usize = 64;

/// The bounds of one listener.
#[derive(Clone, Debug)]
pub(super) struct ListenerBounds {
    /// Time from accept, or from the first byte of a later request, to the end of the headers.
    pub(super) header_time_max: Duration,
    /// Time from the end of the headers to the end of the body.
    pub(super) body_time_max: Duration,
    /// Time from an answer to the first byte of the next request; also the time to take the answer.
    pub(super) idle_time_max: Duration,
    /// Time from shutdown to the last answer.
    pub(super) drain_time_max: Duration,
    /// Bytes of a body.
    pub(super) body_bytes_max: usize,
    /// Connections open at once.
    pub(super) connections_max: usize,
    /// Connections open at once from one address.
    pub(super) connections_per_ip_max: usize,
}

impl From<&ServerSettings> for ListenerBounds {
    fn from(settings: &ServerSettings) -> Self {
        Self {
            header_time_max: Duration::from_secs(settings.header_seconds_max),
            body_time_max: Duration::from_secs(settings.body_seconds_max),
            idle_time_max: Duration::from_secs(settings.idle_seconds_max),
            drain_time_max: Duration::from_secs(10),
            body_bytes_max: settings.body_bytes_max,
            connections_max: settings.connections_max,
            connections_per_ip_max: settings.connections_per_ip_max,
        }
    }
}
