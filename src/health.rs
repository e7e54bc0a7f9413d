//! The register of what keeps this process from doing all of its work, by the name of what is to blame. Whoever
//! notices a failure reports it, and takes it back when it is over; `/readyz` shows it. The register decides nothing
//! and asks nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Reasons that are told apart; a further one is logged only.
const REASONS_MAX: usize = 256;

/// The amount of work that a reason stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthSeverity {
    /// Messages would be refused: `/readyz` answers 503.
    Unready,
    /// Messages are taken, and something does not work as it should: `/readyz` answers 200 and names it.
    Degraded,
}

/// A register of what does not work. Clones share it.
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
    /// Says that something does not work, in the place of what was said of it before. `name` is what an operator knows
    /// it by, such as `store` or `channel slack`; `why` is short and holds no path, address or secret. Logged where it
    /// is news.
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

    /// Says that it works again.
    pub fn clear(&self, name: &str) {
        if self.reasons().remove(name).is_some() {
            info!(health = name, "{name}: it works again");
        }
    }

    /// Returns the reasons of a severity, one line each, sorted.
    pub fn reason_lines(&self, severity: HealthSeverity) -> Vec<String> {
        let reasons = self.reasons();
        let told = reasons.iter().filter(|(_, reason)| reason.severity == severity);
        told.map(|(name, reason)| format!("{name}: {}", reason.why))
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
        // The newest word counts, also on how bad it is.
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
