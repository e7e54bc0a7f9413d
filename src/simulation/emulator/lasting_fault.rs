//! Faults that last until they are removed: for one method or for all, on every call or at random with a seed.

/// A fault that lasts.
#[derive(Debug)]
pub(super) struct LastingFault<F> {
    /// The affected method, or empty for all.
    method: String,
    fault: F,
    /// The number of affected calls, of a thousand.
    per_thousand: u64,
    random: u64,
}

impl<F: Clone> LastingFault<F> {
    /// Creates a fault of every call of a method; of all methods if `method` is empty.
    pub(super) fn always(method: &str, fault: F) -> Self {
        Self::sometimes(method, fault, 1_000, 1)
    }

    /// Creates a fault of a number of a thousand calls.
    pub(super) fn sometimes(method: &str, fault: F, of_thousand: u64, seed: u64) -> Self {
        Self {
            method: method.to_owned(),
            fault,
            per_thousand: of_thousand,
            random: seed.max(1),
        }
    }

    /// Returns the fault if it affects this call.
    pub(super) fn next_fault(&mut self, method: &str) -> Option<F> {
        if !self.applies_to(method) {
            return None;
        }
        // Xorshift: the same seed affects the same calls.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % 1_000 < self.per_thousand).then(|| self.fault.clone())
    }

    /// Returns true if the fault is for this method, or for all.
    pub(super) fn applies_to(&self, method: &str) -> bool {
        self.method.is_empty() || self.method == method
    }
}
