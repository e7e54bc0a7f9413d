//! The time an evaluation spends outside of its sandbox while it waits for an external program. This time has its own
//! limit and does not count as evaluation time.

use crate::rendering::jsonnet::budget::Tenant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that one evaluation waits for external programs, and the signal that its result is no longer needed.
#[derive(Debug)]
pub(in crate::rendering::jsonnet) struct ExternalWait {
    tenant: Tenant,
    stopped: AtomicBool,
    spent: Mutex<ElapsedTime>,
}

#[derive(Debug, Default)]
struct ElapsedTime {
    before: Duration,
    since: Option<Instant>,
}

impl ExternalWait {
    /// Creates the state of an evaluation for a tenant, with no time waited.
    pub(in crate::rendering::jsonnet) fn new(whose: Tenant) -> Self {
        Self {
            tenant: whose,
            stopped: AtomicBool::new(false),
            spent: Mutex::default(),
        }
    }

    /// Returns the tenant that the evaluation counts for.
    pub(super) fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Runs a closure and counts its duration as waiting.
    pub(super) fn while_running<T>(&self, run: impl FnOnce() -> T) -> T {
        self.spent().since = Some(Instant::now());
        let result = run();
        let mut spent = self.spent();
        if let Some(since) = spent.since.take() {
            spent.before += since.elapsed();
        }
        result
    }

    /// Returns the time waited so far.
    pub(in crate::rendering::jsonnet) fn total(&self) -> Duration {
        let spent = self.spent();
        spent.before + spent.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Signals that the result of the evaluation is no longer needed.
    pub(in crate::rendering::jsonnet) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn spent(&self) -> MutexGuard<'_, ElapsedTime> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
