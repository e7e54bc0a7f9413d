//! Room in memory for large values. As trees they take many times the bytes of their texts, so what works on
//! much of that at once takes turns.

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// Bytes of texts from which on a work is large.
const LARGE_BYTES: usize = 512 << 10;
/// The room of this process, as its memory is.
static LARGE: Semaphore = Semaphore::const_new(1);

/// The room of one work, such as to read what was rendered. Large works have it one at a time, until they are
/// dropped; small ones never wait. Nothing is evaluated meanwhile, and no other room is entered.
#[derive(Debug, Default)]
pub struct Room(OnceCell<Option<SemaphorePermit<'static>>>);

impl Room {
    /// Returns when values whose texts have that many bytes may be read.
    pub async fn enter(&self, bytes: usize) {
        if bytes > LARGE_BYTES {
            // It is never closed.
            self.0.get_or_init(|| async { LARGE.acquire().await.ok() }).await;
        }
    }

    /// True once it was entered for something large.
    pub fn is_large(&self) -> bool {
        self.0.initialized()
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE_BYTES, Room};
    use futures_util::FutureExt as _;

    #[test]
    fn large_works_take_turns_and_small_ones_do_not_wait() {
        let (one, two, small) = (Room::default(), Room::default(), Room::default());
        assert!(one.enter(LARGE_BYTES + 1).now_or_never().is_some());
        // Whoever has room has it for all it does.
        assert!(one.enter(LARGE_BYTES + 1).now_or_never().is_some());
        assert!(two.enter(LARGE_BYTES + 1).now_or_never().is_none());
        assert!(small.enter(LARGE_BYTES).now_or_never().is_some());
        drop(one);
        assert!(two.enter(LARGE_BYTES + 1).now_or_never().is_some());
    }
}
