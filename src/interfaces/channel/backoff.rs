//! [`Backoff`]: the growing wait between attempts to open a socket.

use super::SendError;
use jiff::Timestamp;
use std::time::Duration;

const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The growing wait between attempts.
pub(super) struct Backoff {
    failures: u32,
    /// The clock. Its fractions of a second keep servers from trying at the same time.
    now: fn() -> Timestamp,
}

impl Backoff {
    pub(super) fn new(now: fn() -> Timestamp) -> Self {
        Self { failures: 0, now }
    }

    /// Returns the number of failures since a socket was of use.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the failures: a socket was of use.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the wait after a socket could not be opened.
    pub(super) fn after(&mut self, error: &SendError) -> Duration {
        let asked = match error {
            SendError::Limited { retry_after, .. } | SendError::NotSent { retry_after, .. } => *retry_after,
            _ => None,
        };
        self.next_wait().max(asked.unwrap_or_default())
    }

    /// Returns the wait after a socket was closed: none for the first, because a platform may close one at any time.
    pub(super) fn after_close(&mut self) -> Duration {
        let wait = self.next_wait();
        match self.failures {
            1 => Duration::ZERO,
            _ => wait,
        }
    }

    /// Returns the wait after any other failure.
    pub(super) fn next_wait(&mut self) -> Duration {
        let wait = BACKOFF_MIN
            .saturating_mul(1 << self.failures.min(6))
            .min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let fraction = (self.now)().subsec_nanosecond().unsigned_abs();
        wait + wait / 4 * (fraction / 1_000_000) / 1_000
    }
}
