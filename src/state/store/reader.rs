//! A small pool of threads for reads. Their connections cannot write.

use super::condition::Reporter;
#[cfg(test)]
use super::idle_wait::RequestCount;
use super::{OpenError, StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

/// Maximum number of queued reads. Further callers wait.
const WAITING_MAX: usize = 1_024;

type ReadJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// The queue of the reading threads.
pub(super) struct ReadPool {
    queue: Option<mpsc::Sender<ReadJob>>,
    threads: Vec<JoinHandle<()>>,
    reporter: Reporter,
    #[cfg(test)]
    pub(super) requests: RequestCount,
}

impl ReadPool {
    pub(super) fn start(connections: Vec<Connection>, reporter: Reporter) -> Result<Self, OpenError> {
        let (queue, works) = mpsc::channel(WAITING_MAX);
        let works = Arc::new(Mutex::new(works));
        let start = |connection| {
            let works = Arc::clone(&works);
            std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || run(connection, &works))
                .map_err(|err| OpenError::Resources(err.to_string()))
        };
        Ok(Self {
            threads: connections.into_iter().map(start).collect::<Result<_, _>>()?,
            queue: Some(queue),
            reporter,
            #[cfg(test)]
            requests: RequestCount::default(),
        })
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        #[cfg(test)]
        self.requests.add_one();
        let (reply, answered) = oneshot::channel();
        let reporter = self.reporter.clone();
        let work: ReadJob = Box::new(move |connection| {
            let result = connection
                .transaction_with_behavior(TransactionBehavior::Deferred)
                .map_err(StoreError::from)
                .and_then(|transaction| work(&transaction));
            if let Err(StoreError::Broken(why)) = &result {
                reporter.broken(why);
            }
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        });
        let closed = || StoreError::Unavailable("it is shutting down".to_owned());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(work).await.map_err(|_| closed())?;
        answered
            .await
            .map_err(|_| StoreError::Unavailable("the read failed".to_owned()))?
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                error!("a reader thread of the store panicked");
            }
        }
    }
}

fn run(mut connection: Connection, works: &Mutex<mpsc::Receiver<ReadJob>>) {
    loop {
        // One thread at a time waits for a job. It releases the lock before the job runs.
        let work = works
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .blocking_recv();
        let Some(work) = work else { return };
        if catch_unwind(AssertUnwindSafe(|| work(&mut connection))).is_err() {
            error!("a read of the store panicked");
        }
    }
}
