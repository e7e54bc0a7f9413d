//! A bounded number of runs at the same time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often it is asked whether somebody still wants to wait.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Places for runs.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Slots);

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place; `None` when it was stopped meanwhile.
    pub(super) fn take(&self, stopped: &dyn Fn() -> bool) -> Option<Slot<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            if stopped() {
                return None;
            }
            let waited = self.freed.wait_timeout(free, LOOK_EVERY);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Slot(self))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Slots;

    #[test]
    fn a_place_is_given_once_and_comes_back() {
        let slots = Slots::new(1);
        let first = slots.take(&|| false).unwrap();
        assert!(slots.take(&|| true).is_none());
        drop(first);
        assert!(slots.take(&|| true).is_some());
    }
}
