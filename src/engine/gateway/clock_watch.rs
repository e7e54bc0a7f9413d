//! The waits of a task that acts at times of the clock, such as the driver of runs and the watch of schedules.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use crate::state::store::StoreError;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The longest sleep before the clock is compared again, which may have been set. The timer only compares the clock then,
/// once a minute, and only while a time is awaited; nothing is read.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// The wait before another attempt after a failure of the store.
pub(super) const RETRY_WAIT: Duration = Duration::from_secs(5);

/// The time at which a task looks for what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockLook {
    pub(super) at: Timestamp,
    /// True if the clock shows an earlier time than before, and at the start, when nobody knows the time before.
    pub(super) is_earlier: bool,
}

/// The waits between the looks. One ends when its time has come, when something changes, or when the clock went back.
pub(super) struct ClockWatch {
    now: fn() -> Timestamp,
    changed: Arc<Notify>,
    cancel: CancellationToken,
    /// The time of the last look.
    looked_at: Timestamp,
    /// The latest time that the clock has shown since the last look that succeeded.
    seen: Timestamp,
}

impl ClockWatch {
    /// Creates a watch that ends with `cancel`. A wait ends when `changed` is notified.
    pub(super) fn new(now: fn() -> Timestamp, changed: Arc<Notify>, cancel: CancellationToken) -> Self {
        Self {
            now,
            changed,
            cancel,
            looked_at: Timestamp::MAX,
            seen: Timestamp::MAX,
        }
    }

    /// Begins a look; `None` at the end of the watch.
    pub(super) fn look(&mut self) -> Option<ClockLook> {
        if self.cancel.is_cancelled() {
            return None;
        }
        self.looked_at = (self.now)();
        Some(ClockLook {
            at: self.looked_at,
            is_earlier: self.looked_at < self.seen,
        })
    }

    /// Waits until the next time that a look found, forever without one. After a look that failed it waits for a moment, and
    /// logs `retried` with the reason; the next look then finds the clock as this one did.
    pub(super) async fn wait(&mut self, looked: Result<Option<Timestamp>, StoreError>, retried: &str) {
        let Self {
            now,
            changed,
            cancel,
            looked_at,
            seen,
        } = self;
        match looked {
            Ok(time) => {
                *seen = *looked_at;
                tokio::select! {
                    () = sleep_until(*now, time, seen) => {}
                    () = changed.notified() => {}
                    () = cancel.cancelled() => {}
                }
            }
            Err(error) => {
                warn!(%error, "{retried}");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_WAIT) => {}
                    () = cancel.cancelled() => {}
                }
            }
        }
    }
}

/// Sleeps until a time has come, or the clock shows an earlier time than `seen`, which is kept up to date; forever without a
/// time.
async fn sleep_until(now: fn() -> Timestamp, time: Option<Timestamp>, seen: &mut Timestamp) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    loop {
        let at = now();
        if at < *seen {
            return;
        }
        *seen = at;
        match Duration::try_from(time.duration_since(at)) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(SLEEP_MAX)).await,
            _ => return,
        }
    }
}
