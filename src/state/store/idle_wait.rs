//! The wait of tests on virtual time for the threads of the store, which work in real time.

use super::Store;
use super::open::READERS;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// The number of rounds after which the requests of a test never end.
const ROUNDS_MAX: usize = 10_000;
/// The number of times that other tasks run between two looks. Each may wake another one.
const YIELDS: usize = 16;

/// Counts the requests to a store.
#[derive(Debug, Default)]
pub(super) struct RequestCount(AtomicUsize);

impl RequestCount {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Store {
    fn requested(&self) -> usize {
        self.inner.reader.requests.get() + self.inner.writer.requests.get()
    }

    /// Waits until every request is answered, and the tasks of this thread make no further one.
    pub(crate) async fn wait_until_idle(&self) {
        for _ in 0..ROUNDS_MAX {
            let before = self.requested();
            // Each reading thread takes one of these, so it has answered everything from before.
            let barrier = Arc::new(Barrier::new(READERS));
            let reads = (0..READERS).map(|_| {
                let barrier = Arc::clone(&barrier);
                self.read(move |_| {
                    barrier.wait();
                    Ok(())
                })
            });
            join_all(reads).await;
            // A store that is broken or locked refuses this, and all others as well.
            let _ = self.write(|_| Ok(())).await;
            let _ = self.wait_durable().await;
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            if self.requested() == before + READERS + 1 {
                return;
            }
        }
        panic!("the requests to the store never end");
    }
}
