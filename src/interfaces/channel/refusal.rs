//! [`RememberedRefusal`]: a feature that a workspace or a server refused is not asked for again for a day; it may have
//! it by then.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which a refusal is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The last refusal of a feature by a workspace or a server.
#[derive(Debug, Default)]
pub(super) struct RememberedRefusal {
    refused_at: Mutex<Option<Instant>>,
}

impl RememberedRefusal {
    /// Returns true if the feature was refused within the last day.
    pub(super) fn is_recent(&self) -> bool {
        let refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Remembers that the feature was refused now.
    pub(super) fn remember(&self) {
        let mut refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        *refused_at = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::RememberedRefusal;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_a_day() {
        let refusal = RememberedRefusal::default();
        assert!(!refusal.is_recent());
        refusal.remember();
        tokio::time::advance(Duration::from_hours(24) - Duration::from_secs(1)).await;
        assert!(refusal.is_recent());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!refusal.is_recent());
        refusal.remember();
        assert!(refusal.is_recent());
    }
}
