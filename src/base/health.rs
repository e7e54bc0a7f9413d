//! Current health problems of this process, by name of the failing part. The code that notices a failure sets its
//! entry, and clears it when the failure is over. `/readyz` shows the entries. This module makes no decisions and runs
//! no checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Maximum number of distinct problems. Further ones are only logged.
const REASONS_MAX: usize = 256;

/// The amount of work that a problem stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthSeverity {
    /// Messages would be refused. `/readyz` answers 503.
    Unready,
    /// Messages are accepted, but something does not work. `/readyz` answers 200 and names it.
    Degraded,
}

/// The current health problems. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Health {
    reasons: Arc<Mutex<BTreeMap<String, Reason>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    severity: HealthSeverity,
    why: String,
}

impl Health {
    /// Reports a problem and replaces an earlier report with the same name. Operators know the part by `name`, such as
    /// `store` or `channel slack`. `why` is short and holds no path, address or secret. Changes are logged.
    pub fn set(&self, name: &str, severity: HealthSeverity, why: impl Into<String>) {
        let why = why.into();
        let mut reasons = self.reasons();
        let reason = Reason { severity, why };
        if reasons.get(name) == Some(&reason) {
            return;
        }
        warn!(health = name, "{name}: {}", reason.why);
        if reasons.len() < REASONS_MAX || reasons.contains_key(name) {
            reasons.insert(name.to_owned(), reason);
        }
    }

    /// Reports that a part works again.
    pub fn clear(&self, name: &str) {
        if self.reasons().remove(name).is_some() {
            info!(health = name, "{name}: it works again");
        }
    }

    /// Returns the problems of a severity, one line each, sorted.
    pub fn reason_lines(&self, severity: HealthSeverity) -> Vec<String> {
        let reasons = self.reasons();
        let matching = reasons.iter().filter(|(_, reason)| reason.severity == severity);
        matching
            .map(|(name, reason)| format!("{name}: {}", reason.why))
            .collect()
    }

    fn reasons(&self) -> MutexGuard<'_, BTreeMap<String, Reason>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, HealthSeverity, REASONS_MAX};

    /// R36
    #[test]
    fn a_health_problem_is_reported_until_it_is_cleared() {
        let health = Health::default();
        let other = health.clone();
        other.set("store", HealthSeverity::Unready, "the disk is full");
        other.set("mirror infra", HealthSeverity::Degraded, "it cannot be fetched");
        assert_eq!(
            health.reason_lines(HealthSeverity::Unready),
            ["store: the disk is full"]
        );
        assert_eq!(
            health.reason_lines(HealthSeverity::Degraded),
            ["mirror infra: it cannot be fetched"]
        );
        // The newest report replaces the earlier one, including its severity.
        other.set("store", HealthSeverity::Degraded, "it is being checked");
        assert_eq!(health.reason_lines(HealthSeverity::Unready), [""; 0]);
        health.clear("store");
        health.clear("mirror infra");
        health.clear("never heard of");
        assert_eq!(other.reason_lines(HealthSeverity::Degraded), [""; 0]);
    }

    #[test]
    fn the_number_of_reported_health_problems_is_bounded() {
        let health = Health::default();
        for number in 0..2 * REASONS_MAX {
            health.set(&format!("channel {number}"), HealthSeverity::Unready, "held");
        }
        assert_eq!(health.reason_lines(HealthSeverity::Unready).len(), REASONS_MAX);
    }
}
