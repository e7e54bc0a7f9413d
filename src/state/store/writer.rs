//! The writer thread. Waiting jobs are committed together, and no caller gets an answer before the commit of its job.

use super::checkpoint::WalCheckpointer;
use super::condition::Reporter;
#[cfg(test)]
use super::idle_wait::RequestCount;
use super::last_start::LastStart;
use super::open::BUSY_MAX;
use super::syncer::Syncer;
use super::{OpenError, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

/// The name of the writer thread.
const THREAD_NAME: &str = "store-writer";
/// Maximum number of queued jobs. Further callers wait.
const WAITING_MAX: usize = 1_024;
/// Maximum number of jobs in one commit.
const GROUP_MAX: usize = 256;
/// Longest wait for another program's lock if the job already waited for [`BUSY_MAX`] in the queue.
const BUSY_MIN: Duration = Duration::from_millis(10);

/// The durability that the answer guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The write survives a power failure.
    Synced,
    /// The write survives the end of the process, and after a moment also a power failure. Used for outcomes of
    /// completed actions, if nothing that must happen only once waits for them.
    Deferred,
    /// The write survives the end of the process, and a power failure once a later write is durable. Used for data that
    /// can be determined again, such as the worker of a conversation.
    Unsynced,
}

struct WriteJob {
    run: Box<dyn FnOnce(&Transaction<'_>) -> PendingReply + Send>,
    durability: Durability,
    queued: Instant,
}

/// A job that ran and whose caller waits for the commit.
struct PendingReply {
    failed: bool,
    /// The error, if the job found the store broken.
    broken: Option<StoreError>,
    answer: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// The queue of the writer thread.
pub(super) struct WriteQueue {
    queue: Option<mpsc::Sender<WriteJob>>,
    thread: Option<JoinHandle<()>>,
    syncer: Arc<Syncer>,
    reporter: Reporter,
    #[cfg(test)]
    pub(super) requests: RequestCount,
}

/// True on the thread that writes. Work that needs no transaction must not run on it, because all other writes wait.
pub(crate) fn is_writing_thread() -> bool {
    std::thread::current().name() == Some(THREAD_NAME)
}

impl WriteQueue {
    pub(super) fn start(
        mut connection: Connection,
        file: &Path,
        reporter: Reporter,
    ) -> Result<Self, OpenError> {
        let syncer = Arc::new(Syncer::start(file, reporter.clone())?);
        let log =
            WalCheckpointer::attach(&mut connection).map_err(|err| OpenError::Resources(err.to_string()))?;
        let (queue, works) = mpsc::channel(WAITING_MAX);
        let mut thread = Committer {
            connection,
            checkpointer: log,
            syncer: Arc::clone(&syncer),
            reporter: reporter.clone(),
            directory: file.parent().map(Path::to_owned).unwrap_or_default(),
            synced: true,
        };
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                if catch_unwind(AssertUnwindSafe(|| thread.run(works))).is_err() {
                    thread.reporter.broken("the thread that writes panicked");
                }
                thread.close();
            })
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            syncer,
            reporter,
            #[cfg(test)]
            requests: RequestCount::default(),
        })
    }

    /// Waits until all earlier deferred writes are durable.
    pub(super) async fn wait_durable(&self) -> Result<(), StoreError> {
        self.syncer.wait_durable().await
    }

    /// True if no commit waits for the disk.
    #[cfg(test)]
    pub(super) fn is_durable(&self) -> bool {
        self.syncer.is_durable()
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        promise: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        #[cfg(test)]
        self.requests.add_one();
        let (reply, answered) = oneshot::channel();
        let run = move |transaction: &Transaction<'_>| {
            let result = work(transaction);
            PendingReply {
                failed: result.is_err(),
                broken: result.as_ref().err().filter(|error| error.is_broken()).cloned(),
                answer: Box::new(move |committed| {
                    let result = committed.and(result);
                    if let Ok(value) = &result
                        && catch_unwind(AssertUnwindSafe(|| after(value))).is_err()
                    {
                        // The commit is valid, and its caller gets the result.
                        error!("what follows a commit panicked");
                    }
                    // The caller may have stopped waiting; the job's result stays committed.
                    let _ = reply.send(result);
                }),
            }
        };
        let work = WriteJob {
            run: Box::new(run),
            durability: promise,
            queued: Instant::now(),
        };
        let queue = self.queue.as_ref().ok_or_else(|| self.closed())?;
        queue.send(work).await.map_err(|_| self.closed())?;
        answered.await.map_err(|_| self.reporter.why_dropped())?
    }

    fn closed(&self) -> StoreError {
        match self.reporter.is_broken() {
            true => self.reporter.why_dropped(),
            false => StoreError::Unavailable("it is shutting down".to_owned()),
        }
    }
}

impl Drop for WriteQueue {
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

/// The state of the writer thread.
struct Committer {
    connection: Connection,
    checkpointer: WalCheckpointer,
    syncer: Arc<Syncer>,
    reporter: Reporter,
    directory: PathBuf,
    /// True if commits wait for the disk.
    synced: bool,
}

impl Committer {
    fn run(&mut self, mut works: mpsc::Receiver<WriteJob>) {
        while let Some(first) = works.blocking_recv() {
            let mut group = vec![first];
            while group.len() < GROUP_MAX
                && let Ok(work) = works.try_recv()
            {
                group.push(work);
            }
            // After a failed fsync the content of the disk is unknown: the kernel may report the error once and drop
            // the pages. Nothing is stored until a restart has read the file again. The caller of a dropped job gets an
            // error.
            if !self.reporter.is_broken() {
                self.commit(group);
            }
            if !self.reporter.is_broken()
                && let Err(error) = self.checkpointer.checkpoint(&self.connection)
            {
                self.reporter.failed(&error);
            }
            if self.reporter.is_broken() {
                self.syncer.fail();
            }
        }
    }

    /// Runs a group of jobs and answers their callers.
    fn commit(&mut self, group: Vec<WriteJob>) {
        let soon = group.iter().any(|work| work.durability == Durability::Deferred);
        let mut done = Vec::with_capacity(group.len());
        let outcome = self
            .set_sync_level(&group)
            .and_then(|()| attempt(&self.connection, group, &mut done));
        let has_written = self.checkpointer.has_grown();
        match &outcome {
            // The syncer is updated before the callers get their answers, because they may ask whether their commit is
            // durable. A commit without changes has synced nothing, not even earlier commits.
            Ok(()) => match (self.synced, soon) {
                _ if !has_written => {}
                (true, _) => self.syncer.note_synced_commit(),
                (false, true) => self.syncer.note_commit(),
                (false, false) => {}
            },
            Err(error) => self.reporter.failed(error),
        }
        for work in done {
            if catch_unwind(AssertUnwindSafe(|| (work.answer)(outcome.clone()))).is_err() {
                error!("an answer of the store panicked");
            }
        }
    }

    /// Sets whether the next commit waits for the disk. A synced commit also covers all earlier ones. The wait for
    /// another program's lock is reduced by the time that a job has waited in the queue.
    fn set_sync_level(&mut self, group: &[WriteJob]) -> Result<(), StoreError> {
        let wanted = group.iter().any(|work| work.durability == Durability::Synced);
        if self.synced != wanted {
            let level = if wanted { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synced = wanted;
        }
        let waited = group
            .first()
            .map(|work| work.queued.elapsed())
            .unwrap_or_default();
        let patience = BUSY_MAX.saturating_sub(waited).max(BUSY_MIN);
        self.connection.busy_timeout(patience)?;
        Ok(())
    }

    fn close(self) {
        if self.reporter.is_broken() {
            // The log stays as it is for a later reader. A checkpoint would trust this process's view of a failed disk.
            let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            if let Err(error) = self.connection.set_db_config(kept, true) {
                error!("the log could not be preserved: {error}");
            }
            // The index of the log may count pages that the disk dropped, so the next start must rely on the disk
            // alone.
            if let Err(error) = LastStart::distrust(&self.directory) {
                error!("the next start may treat the log as truncated: {error}");
            }
        }
        if let Err((_, err)) = self.connection.close() {
            error!("the database did not close cleanly: {err}");
        }
    }
}

fn attempt(
    connection: &Connection,
    group: Vec<WriteJob>,
    done: &mut Vec<PendingReply>,
) -> Result<(), StoreError> {
    // Takes a reference, so that another transaction can begin later.
    let begin = || Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let mut transaction = begin()?;
    // A single job in a transaction needs no savepoint, because it is the whole transaction.
    let mut is_alone = true;
    for work in group {
        if !is_alone {
            transaction.prepare_cached("SAVEPOINT work")?.execute([])?;
        }
        // A panic affects only its own job, not the others of the group.
        let pending = catch_unwind(AssertUnwindSafe(|| (work.run)(&transaction))).ok();
        let failed = pending.as_ref().is_none_or(|pending| pending.failed);
        let broken = pending.as_ref().and_then(|pending| pending.broken.clone());
        done.extend(pending);
        if let Some(broken) = broken {
            return Err(broken);
        }
        if transaction.is_autocommit() {
            // A full disk makes SQLite roll back the whole transaction.
            return Err(StoreError::full());
        }
        match (failed, is_alone) {
            (false, true) => is_alone = false,
            (true, true) => {
                transaction.rollback()?;
                transaction = begin()?;
            }
            (failed, false) => {
                if failed {
                    transaction.prepare_cached("ROLLBACK TO work")?.execute([])?;
                }
                transaction.prepare_cached("RELEASE work")?.execute([])?;
            }
        }
    }
    Ok(transaction.commit()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
