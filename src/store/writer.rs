//! The one thread that writes. What waits is committed together, and nobody is answered before the
//! commit that holds their work.

use super::OpenError;
use super::StoreError;
use rusqlite::Connection;
use rusqlite::ErrorCode;
use rusqlite::Transaction;
use rusqlite::TransactionBehavior;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tracing::error;

/// Works that wait before callers do.
const WAITING_MAX: usize = 1_024;
/// Works of one commit.
const GROUP_MAX: usize = 256;

type Work = Box<dyn FnOnce(&Transaction<'_>) -> Pending + Send>;

/// A work that ran and whose caller waits for the commit.
struct Pending {
    failed: bool,
    answer: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// The queue in front of the thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, OpenError> {
        let (queue, works) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(connection, works))
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let work: Work = Box::new(move |transaction| {
            let result = work(transaction);
            Pending {
                failed: result.is_err(),
                answer: Box::new(move |committed| {
                    let result = committed.and(result);
                    if let Ok(value) = &result {
                        after(value);
                    }
                    // The caller may have stopped waiting; the work stands.
                    let _ = reply.send(result);
                }),
            }
        });
        let closed = || StoreError::Unavailable("it is shutting down".to_owned());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(work).await.map_err(|_| closed())?;
        answered
            .await
            .map_err(|_| StoreError::Unavailable("nothing was committed".to_owned()))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            error!("the store's writer thread panicked");
        }
    }
}

fn run(mut connection: Connection, mut works: mpsc::Receiver<Work>) {
    // After a failed fsync nobody knows what the disk holds: the kernel may report it once and drop
    // the pages. Nothing is stored any more until a restart has read the file again.
    let mut broken = false;
    while let Some(first) = works.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(work) = works.try_recv()
        {
            group.push(work);
        }
        // A work that is dropped tells its caller that nothing was stored.
        if !broken {
            broken = commit(&mut connection, group);
        }
    }
    if let Err((_, err)) = connection.close() {
        error!("the database did not close cleanly: {err}");
    }
}

/// Runs a group and answers it. True if the disk must not be trusted any more.
fn commit(connection: &mut Connection, group: Vec<Work>) -> bool {
    let mut done = Vec::with_capacity(group.len());
    let outcome = attempt(connection, group, &mut done);
    let fatal = outcome.as_ref().is_err_and(is_fatal);
    let outcome = outcome.map_err(|err| {
        error!("a commit failed: {err}");
        StoreError::from(err)
    });
    for work in done {
        (work.answer)(outcome.clone());
    }
    fatal
}

fn attempt(connection: &mut Connection, group: Vec<Work>, done: &mut Vec<Pending>) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for work in group {
        transaction.execute_batch("SAVEPOINT work")?;
        // A work that panics is a defect of its own; the others of the group are not.
        let pending = catch_unwind(AssertUnwindSafe(|| work(&transaction))).ok();
        let failed = pending.as_ref().is_none_or(|pending| pending.failed);
        done.extend(pending);
        if transaction.is_autocommit() {
            // A full disk rolls the whole transaction back under us.
            let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            return Err(rusqlite::Error::SqliteFailure(full, None));
        }
        transaction.execute_batch(match failed {
            false => "RELEASE work",
            true => "ROLLBACK TO work; RELEASE work",
        })?;
    }
    transaction.commit()
}

/// Errors after which the state of the disk is unknown.
fn is_fatal(err: &rusqlite::Error) -> bool {
    matches!(
        err.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
