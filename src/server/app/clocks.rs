//! Detects that this machine's clock and a sender's clock differ: the signatures are right, but every request is
//! refused for its age.

use crate::base::health::{Health, HealthSeverity};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of stale requests in a row that may be a replay of old requests.
const IN_A_ROW_MAX: u32 = 5;

/// A counter, for each name, of the requests in a row with a valid signature and a wrong time.
pub(super) struct ClockMonitor {
    health: Health,
    in_a_row: Mutex<BTreeMap<String, u32>>,
}

impl ClockMonitor {
    pub(super) fn new(health: Health) -> Self {
        Self {
            health,
            in_a_row: Mutex::default(),
        }
    }

    /// Counts a request whose signing time differs from now by so many seconds.
    pub(super) fn record_stale(&self, name: &str, seconds: i64) {
        let mut in_a_row = self.in_a_row();
        let count = in_a_row.entry(name.to_owned()).or_default();
        *count = count.saturating_add(1);
        if *count == IN_A_ROW_MAX + 1 {
            let by = seconds.unsigned_abs();
            let why = format!("the clock of this machine or of the sender differs by {by} s");
            self.health.set(&health_key(name), HealthSeverity::Degraded, why);
        }
    }

    /// Records a request that was signed recently.
    pub(super) fn record_fresh(&self, name: &str) {
        if self.in_a_row().remove(name).is_some() {
            self.health.clear(&health_key(name));
        }
    }

    fn in_a_row(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn health_key(name: &str) -> String {
    format!("signatures of {name}")
}

#[cfg(test)]
mod tests {
    use super::ClockMonitor;
    use crate::base::health::{Health, HealthSeverity};

    /// R20
    #[test]
    fn six_stale_signatures_in_a_row_are_a_clock_that_differs() {
        let health = Health::default();
        let clocks = ClockMonitor::new(health.clone());
        let reasons = || health.reason_lines(HealthSeverity::Degraded);
        for _ in 0..5 {
            clocks.record_stale("slack", -7_200);
        }
        // A fresh request ends the row, so the stale ones before it may have been a replay.
        clocks.record_fresh("slack");
        for _ in 0..5 {
            clocks.record_stale("slack", -7_200);
            clocks.record_stale("ci", 400);
            clocks.record_fresh("ci");
        }
        assert_eq!(reasons(), [""; 0]);
        clocks.record_stale("slack", -7_200);
        clocks.record_stale("slack", -7_201);
        let why = "the clock of this machine or of the sender differs by 7200 s";
        assert_eq!(reasons(), [format!("signatures of slack: {why}")]);
        assert_eq!(health.reason_lines(HealthSeverity::Unready), [""; 0]);
        clocks.record_fresh("slack");
        assert_eq!(reasons(), [""; 0]);
    }
}
