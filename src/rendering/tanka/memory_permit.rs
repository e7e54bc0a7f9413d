//! Permits that limit the memory for large values. A parsed value takes many times the size of its text, so tasks
//! with large values run one at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

/// Size in bytes above which the text of a value is large.
pub(super) const LARGE_BYTES: usize = 512 << 10;
/// The single permit of this process.
static LARGE: Semaphore = Semaphore::const_new(1);

/// The permit of one task, such as reading a rendered value. Only one task with a large value holds it at a time,
/// until the task releases or drops it. Tasks with small values never wait. To avoid deadlocks, a task must not
/// evaluate anything or acquire another permit while it holds this one.
#[derive(Debug)]
pub struct MemoryPermit {
    semaphore: &'static Semaphore,
    // Held across an await only by callers that acquire this same permit.
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

    /// Waits until values with texts of this many bytes may be read.
    pub async fn acquire(&self, bytes: usize) {
        if bytes <= LARGE_BYTES {
            return;
        }
        self.is_large.store(true, Ordering::Relaxed);
        let mut permit = self.permit.lock().await;
        if permit.is_none() {
            // The semaphore is never closed.
            *permit = self.semaphore.acquire().await.ok();
        }
    }

    /// Releases the permit. The caller must have dropped the large values, and must acquire the permit again for
    /// more.
    pub async fn release(&self) {
        drop(self.permit.lock().await.take());
    }

    /// True once the permit was acquired for a large value.
    pub fn is_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE_BYTES, MemoryPermit};
    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    /// A separate semaphore, so that other tests do not interfere.
    static OWN: Semaphore = Semaphore::const_new(1);

    #[test]
    fn large_values_are_processed_one_at_a_time_and_small_ones_do_not_wait() {
        let (one, two, small) = (
            MemoryPermit::with_semaphore(&OWN),
            MemoryPermit::with_semaphore(&OWN),
            MemoryPermit::with_semaphore(&OWN),
        );
        assert!(one.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        // A task that holds the permit can acquire it again without waiting.
        assert!(one.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_none());
        assert!(small.acquire(LARGE_BYTES).now_or_never().is_some());
        drop(one);
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        // After a release, the permit can be acquired again, and the task still counts as large.
        let third = MemoryPermit::with_semaphore(&OWN);
        assert!(two.release().now_or_never().is_some() && two.is_large());
        assert!(third.acquire(LARGE_BYTES + 1).now_or_never().is_some());
        assert!(two.acquire(LARGE_BYTES + 1).now_or_never().is_none());
    }
}
