//! Room in memory for large values. As trees they take many times the bytes of their texts, so what works on
//! much of that at once takes turns.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

/// Bytes of texts from which on a work is large.
pub(super) const LARGE_BYTES: usize = 512 << 10;
/// The room of this process, as its memory is.
static LARGE: Semaphore = Semaphore::const_new(1);

/// The room of one work, such as to read what was rendered. Large works have it one at a time, until they leave it or
/// are dropped; small ones never wait. Nothing is evaluated meanwhile, and no other room is entered.
#[derive(Debug)]
pub struct MemoryPermit {
    semaphore: &'static Semaphore,
    // Held across a wait only by those who enter this same room.
    permit: Mutex<Option<SemaphorePermit<'static>>>,
    is_large: AtomicBool,
}

impl Default for MemoryPermit {
    fn default() -> Self {
        Self::with_semaphore(&LARGE)
    }
}

impl MemoryPermit {
    fn with_semaphore(all: &'static Semaphore) -> Self {
        Self {
            semaphore: all,
            permit: Mutex::default(),
            is_large: AtomicBool::default(),
        }
    }

    /// Returns when values whose texts have that many bytes may be read.
    pub async fn acquire(&self, bytes: usize) {
        if bytes <= LARGE_BYTES {
            return;
        }
        self.is_large.store(true, Ordering::Relaxed);
        let mut permit = self.permit.lock().await;
        if permit.is_none() {
            // It is never closed.
            *permit = self.semaphore.acquire().await.ok();
        }
    }

    /// Gives the room back. Whoever does so has dropped what was large, and enters again for more.
    pub async fn release(&self) {
        drop(self.permit.lock().await.take());
    }

    /// True once it was entered for something large.
    pub fn is_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE_BYTES, MemoryPermit};
    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    /// The semaphore of this test, so that no other one is in its way.
    static OWN: Semaphore = Semaphore::const_new(1);

    #[test]
    fn large_values_are_processed_one_at_a_time_and_small_ones_do_not_wait() {
        let (one, two, small) = (
            MemoryPermit::with_semaphore(&OWN),
            MemoryPermit::with_semaphore(&OWN),
            MemoryPermit::with_semaphore(&OWN),
        );
        assert!(one.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        // Whoever has room has it for all it does.
        assert!(one.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_none());
        assert!(small.acquire(LARGE_BYTES).now_or_never().is_some());
        drop(one);
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        // Who leaves may come back, and was large.
        let third = MemoryPermit::with_semaphore(&OWN);
        assert!(two.release().now_or_never().is_some() && two.is_large());
        assert!(third.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_none());
    }
}
