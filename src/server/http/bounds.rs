//! The limits of the listener: durations and counts.

use crate::base::config::ServerSettings;
use std::time::Duration;

/// The maximum number of bytes of a request line and its headers; the parser refuses more with 431.
pub(super) const HEADER_BYTES_MAX: usize = 32 * 1024;

/// The maximum number of headers of a request; the parser refuses more with 431.
pub(super) const HEADERS_MAX: usize = 64;

/// The limits of one listener.
#[derive(Clone, Debug)]
pub(super) struct ListenerBounds {
    /// The time from accepting a connection, or from the first byte of a later request, to the end of the headers.
    pub(super) header_time_max: Duration,
    /// The time from the end of the headers to the end of the body.
    pub(super) body_time_max: Duration,
    /// The time from an answer to the first byte of the next request; also the time for the client to read the
    /// answer.
    pub(super) idle_time_max: Duration,
    /// The time from the start of a shutdown to the last answer.
    pub(super) drain_time_max: Duration,
    /// The maximum number of bytes of a body.
    pub(super) body_bytes_max: usize,
    /// The maximum number of open connections.
    pub(super) connections_max: usize,
    /// The maximum number of open connections from one address.
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
