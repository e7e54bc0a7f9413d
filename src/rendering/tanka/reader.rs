//! A single thread that reads large values, one after another. An allocator retains memory for each thread that has
//! used much of it. For one thread that is little, but for every thread of a pool it was a gigabyte. The memory is
//! released when the thread ends, which happens after a short idle time.

use super::memory_permit::LARGE_BYTES;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::error;

/// Idle time after which the thread ends.
const IDLE_MAX: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

static READER: ReaderThread = ReaderThread(Mutex::new(None));

/// The queue of the thread while it runs.
struct ReaderThread(Mutex<Option<Sender<Work>>>);

/// Runs work on values with texts of this many bytes, on a thread where it does not block async tasks. The error
/// describes what failed.
pub async fn read<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= LARGE_BYTES {
        return tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| error.to_string());
    }
    let (answer, answered) = oneshot::channel();
    let work = Box::new(move || drop(answer.send(work())));
    READER
        .enqueue(work)
        .map_err(|error| format!("no thread for large values: {error}"))?;
    answered
        .await
        .map_err(|_| "reading a large value ended with an internal error".to_owned())
}

impl ReaderThread {
    fn queue(&self) -> MutexGuard<'_, Option<Sender<Work>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&'static self, work: Work) -> std::io::Result<()> {
        let mut queue = self.queue();
        let work = match queue.as_ref() {
            None => work,
            Some(thread) => match thread.send(work) {
                Ok(()) => return Ok(()),
                // The thread has ended without removing its queue.
                Err(SendError(work)) => work,
            },
        };
        let (sender, works) = mpsc::channel();
        let thread = std::thread::Builder::new().name("large values".to_owned());
        thread.spawn(move || self.run_until_idle(&works))?;
        // The new thread receives until this sender is dropped.
        let _ = sender.send(work);
        *queue = Some(sender);
        Ok(())
    }

    fn run_until_idle(&self, works: &Receiver<Work>) {
        loop {
            match works.recv_timeout(IDLE_MAX) {
                Ok(work) => run(work),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    // No caller can add to the queue while this lock is held.
                    let mut queue = self.queue();
                    let Ok(work) = works.try_recv() else {
                        *queue = None;
                        return;
                    };
                    drop(queue);
                    run(work);
                }
            }
        }
    }
}

/// Runs one unit of work. If it panics, its answer channel is dropped, which reports the failure to its caller.
/// Later work still runs.
fn run(work: Work) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        error!("reading a large value panicked");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::{IDLE_MAX, LARGE_BYTES, ReaderThread, read};
    use std::collections::BTreeSet;
    use std::sync::{Mutex, mpsc};
    use std::thread::{self, ThreadId};
    use std::time::Instant;

    #[tokio::test]
    async fn large_values_are_read_by_one_thread_and_small_ones_by_others() {
        let mut threads = BTreeSet::new();
        for _ in 0..20 {
            let thread = || format!("{:?}", thread::current().name());
            threads.insert(read(LARGE_BYTES + 1, thread).await.unwrap());
        }
        assert_eq!(threads, [r#"Some("large values")"#.to_owned()].into());
        let small = read(LARGE_BYTES, || thread::current().id()).await.unwrap();
        let large = read(LARGE_BYTES + 1, || thread::current().id()).await.unwrap();
        assert_ne!(small, large);
    }

    #[tokio::test]
    async fn a_panic_on_a_large_value_is_reported_and_queued_values_are_still_read() {
        let (go_on, held) = mpsc::channel::<()>();
        let first = read(LARGE_BYTES + 1, move || held.recv().is_ok());
        let broken = read::<()>(LARGE_BYTES + 1, || panic!("on purpose"));
        let behind = (0..20).map(|number| read(LARGE_BYTES + 1, move || number));
        let behind = futures_util::future::join_all(behind);
        // All of them are queued before the first one ends.
        let go = async { go_on.send(()).unwrap() };
        let (first, broken, behind, ()) = tokio::join!(first, broken, behind, go);
        assert_eq!(first, Ok(true));
        assert_eq!(
            broken,
            Err("reading a large value ended with an internal error".to_owned())
        );
        assert_eq!(behind, (0..20).map(Ok).collect::<Vec<_>>());
    }

    #[test]
    fn the_reader_thread_survives_a_panic_and_ends_when_idle() {
        static OWN: ReaderThread = ReaderThread(Mutex::new(None));
        let ran_on = || {
            let (sender, thread) = mpsc::channel::<ThreadId>();
            let work = Box::new(move || sender.send(thread::current().id()).unwrap());
            OWN.enqueue(work).unwrap();
            thread.recv().unwrap()
        };
        let first = ran_on();
        assert_eq!(ran_on(), first);
        OWN.enqueue(Box::new(|| panic!("on purpose"))).unwrap();
        assert_eq!(ran_on(), first);
        let started = Instant::now();
        while OWN.queue().is_some() {
            assert!(started.elapsed() < 60 * IDLE_MAX, "the thread never ends");
            thread::yield_now();
        }
        assert_ne!(ran_on(), first);
    }
}
