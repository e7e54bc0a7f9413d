//! Faults that last until they are taken away: of one method or of all, each time or by chance from a seed.

/// A fault that lasts.
#[derive(Debug)]
pub(super) struct LastingFault<F> {
    /// The method it is of, or empty for all.
    method: String,
    fault: F,
    /// The number of calls it meets, of a thousand.
    per_thousand: u64,
    random: u64,
}

impl<F: Clone> LastingFault<F> {
    /// Meets every call of a method; of all if it is empty.
    pub(super) fn always(method: &str, fault: F) -> Self {
        Self::sometimes(method, fault, 1_000, 1)
    }

    /// Meets so many of a thousand calls.
    pub(super) fn sometimes(method: &str, fault: F, of_thousand: u64, seed: u64) -> Self {
        Self {
            method: method.to_owned(),
            fault,
            per_thousand: of_thousand,
            random: seed.max(1),
        }
    }

    /// The fault, if it meets this call.
    pub(super) fn next_fault(&mut self, method: &str) -> Option<F> {
        if !self.applies_to(method) {
            return None;
        }
        // Xorshift: the same calls are met with the same seed.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % 1_000 < self.per_thousand).then(|| self.fault.clone())
    }

    /// True if it is of this method, or of all.
    pub(super) fn applies_to(&self, method: &str) -> bool {
        self.method.is_empty() || self.method == method
    }
}
