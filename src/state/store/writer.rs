//! The writer thread. Waiting jobs are committed together, and no caller gets an answer before the commit of its job.

use super::checkpoint::WalCheckpointer;
use super::condition::Reporter;
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
mod tests {
    use super::{Committer, Durability, PendingReply, WriteJob};
    use crate::state::store::checkpoint::WalCheckpointer;
    use crate::state::store::condition::{Condition, Reporter};
    use crate::state::store::fixture::{at, fresh};
    use crate::state::store::syncer::Syncer;
    use crate::state::store::{Store, StoreError};
    use rusqlite::{Connection, Transaction};
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    const INSERT: &str = "INSERT INTO delivery (name, at) VALUES (?1, 0)";

    /// Keeps the writer busy with one job until the gate is opened. All jobs queued in the meantime form one group.
    async fn hold(store: &Store) -> (JoinHandle<Result<(), StoreError>>, Sender<()>) {
        let (open, gate) = channel();
        let (started, begun) = oneshot::channel();
        let store = store.clone();
        let work = move |_: &Transaction<'_>| {
            started.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        };
        let held = tokio::spawn(async move { store.write(work).await });
        begun.await.unwrap();
        (held, open)
    }

    /// P1
    #[test]
    fn a_commit_that_changes_nothing_makes_nothing_durable() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = crate::state::store::open::open(directory.path()).unwrap().writer;
        let log = WalCheckpointer::attach(&mut connection).unwrap();
        let mut committing = Committer {
            connection,
            checkpointer: log,
            // Without its thread, nothing else makes commits durable.
            syncer: Arc::new(Syncer::without_thread()),
            reporter: Reporter::default(),
            directory: directory.path().to_owned(),
            synced: true,
        };
        let mut commit = |durability, sql: &'static str| {
            let run = move |tx: &Transaction<'_>| PendingReply {
                failed: tx.execute_batch(sql).is_err(),
                broken: None,
                answer: Box::new(|committed| committed.unwrap()),
            };
            committing.commit(vec![WriteJob {
                run: Box::new(run),
                durability,
                queued: Instant::now(),
            }]);
            committing.syncer.is_durable()
        };
        assert!(!commit(
            Durability::Deferred,
            "INSERT INTO delivery (name, at) VALUES ('a', 0)"
        ));
        // A duplicate message, one that is not for the bot, and one that fails.
        assert!(!commit(Durability::Synced, "SELECT 1"));
        assert!(!commit(
            Durability::Synced,
            "DELETE FROM delivery WHERE name = 'none'"
        ));
        assert!(!commit(Durability::Synced, "INSERT INTO nowhere VALUES (1)"));
        assert!(commit(
            Durability::Synced,
            "INSERT INTO delivery (name, at) VALUES ('b', 0)"
        ));
        // Without a change there is nothing to wait for either.
        assert!(commit(Durability::Deferred, "SELECT 1"));
    }

    /// P1, I1
    #[tokio::test]
    async fn nobody_is_answered_before_the_commit() {
        let (directory, store) = fresh();
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        let mut tasks = Vec::new();
        for number in 0..300 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                store
                    .write(move |tx| Ok(tx.execute(INSERT, [number.to_string()])?))
                    .await
            }));
        }
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Ok(1));
            // Another connection sees only committed rows.
            let seen: bool = other
                .query_row(
                    "SELECT COUNT(*) FROM delivery WHERE name = ?1",
                    [number.to_string()],
                    |row| row.get(0),
                )
                .unwrap();
            assert!(seen, "{number}");
        }
    }

    #[tokio::test]
    async fn what_waits_is_committed_together_and_one_failure_undoes_only_itself() {
        let (directory, store) = fresh();
        let (held, open) = hold(&store).await;
        let row = |name: &'static str| store.write(move |tx| Ok(tx.execute(INSERT, [name])?));
        let file = directory.path().join("drydock.db");
        // The second row is written before the first is committed, so they are one group.
        let second = store.write(move |tx| {
            let count = "SELECT COUNT(*) FROM delivery";
            let outside = Connection::open(file)?.query_row(count, [], |row| row.get(0))?;
            let inside = tx.query_row(count, [], |row| row.get(0))?;
            tx.execute(INSERT, ["b"])?;
            Ok::<(i64, i64), StoreError>((outside, inside))
        });
        let fails = store.write(|tx| {
            tx.execute(INSERT, ["undone"])?;
            Err::<(), _>(StoreError::NotFound("thing".into()))
        });
        let breaks = store.write(|_| -> Result<(), StoreError> { panic!("a defect") });
        let opener = async {
            // This is polled last, when everything above is queued.
            open.send(()).unwrap();
        };
        let ((), first, failed, broken, second) = {
            let all = async { tokio::join!(row("a"), fails, breaks, second, opener) };
            let (first, failed, broken, second, ()) = all.await;
            (held.await.unwrap().unwrap(), first, failed, broken, second)
        };
        assert_eq!((first, second), (Ok(1), Ok((0, 1))));
        assert_eq!(failed, Err(StoreError::NotFound("thing".into())));
        assert!(matches!(broken, Err(StoreError::Unavailable(_))));
        let names: Vec<String> = store
            .read(|tx| {
                let mut statement = tx.prepare("SELECT name FROM delivery ORDER BY name")?;
                let names = statement.query_map([], |row| row.get(0))?;
                Ok(names.collect::<Result<_, _>>()?)
            })
            .await
            .unwrap();
        assert_eq!(names, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_failure_is_undone_wherever_in_its_group_it_stands() {
        let (_directory, store) = fresh();
        let (held, open) = hold(&store).await;
        let row = |name: &'static str| store.write(move |tx| Ok(tx.execute(INSERT, [name])?));
        let undone = |name: &'static str| {
            store.write(move |tx| {
                tx.execute(INSERT, [name])?;
                Err::<(), _>(StoreError::NotFound("thing".into()))
            })
        };
        let opener = async { open.send(()).unwrap() };
        let all = async { tokio::join!(undone("a"), undone("b"), row("c"), undone("d"), row("e"), opener) };
        let (a, b, c, d, e, ()) = all.await;
        held.await.unwrap().unwrap();
        let failed = Err(StoreError::NotFound("thing".into()));
        assert_eq!((a, b, d), (failed.clone(), failed.clone(), failed));
        assert_eq!((c, e), (Ok(1), Ok(1)));
        let names = store.read(|tx| {
            let mut statement = tx.prepare("SELECT name FROM delivery ORDER BY name")?;
            let names = statement.query_map([], |row| row.get(0))?;
            Ok(names.collect::<Result<Vec<String>, _>>()?)
        });
        assert_eq!(names.await.unwrap(), ["c", "e"]);
    }

    #[tokio::test]
    async fn a_full_disk_makes_the_store_unavailable_until_there_is_space() {
        let (_directory, store) = fresh();
        let pages = |count: i64| {
            move |tx: &rusqlite::Transaction<'_>| {
                Ok(tx.pragma_update_and_check(None, "max_page_count", count, |row| row.get::<_, i64>(0))?)
            }
        };
        store.write(pages(1)).await.unwrap();
        let blob = vec![7u8; 200_000];
        let full = store
            .write(move |tx| Ok(tx.execute("INSERT INTO blob (hash, content) VALUES (x'00', ?1)", [blob])?))
            .await;
        assert_eq!(full, Err(StoreError::Unavailable("the disk is full".into())));
        store.write(pages(1_000_000)).await.unwrap();
        assert_eq!(store.write(|tx| Ok(tx.execute(INSERT, ["later"])?)).await, Ok(1));
    }

    #[tokio::test]
    async fn a_lock_of_another_program_makes_the_store_unavailable_until_released() {
        let (directory, store) = fresh();
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = store.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(store.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await, Ok(1));
    }

    /// R14: a job that finds the database damaged breaks the store, and nothing of its group is committed.
    #[tokio::test]
    async fn a_broken_store_says_so_and_stores_nothing_more() {
        let (directory, store) = fresh();
        let (held, open) = hold(&store).await;
        let before = store.write(|tx| Ok(tx.execute(INSERT, ["before"])?));
        let broken = || Err::<(), _>(StoreError::Broken("the database disk image is malformed".into()));
        let breaks = store.write(move |_| broken());
        let opener = async { open.send(()).unwrap() };
        let (before, breaks, ()) = tokio::join!(before, breaks, opener);
        assert_eq!(held.await.unwrap(), Ok(()));
        let expected = StoreError::Broken("the database disk image is malformed".into());
        assert_eq!((before, breaks), (Err(expected.clone()), Err(expected.clone())));
        assert_eq!(
            store.write(|tx| Ok(tx.execute(INSERT, ["after"])?)).await,
            Err(expected.clone())
        );
        assert_eq!(store.wait_durable().await, Err(expected));
        assert!(matches!(*store.condition().borrow(), Condition::Broken(_)));
        drop(store);
        // The log is unchanged.
        assert!(directory.path().join("drydock.db-wal").exists());
        let (again, names) = (
            Store::open(directory.path()).unwrap(),
            "SELECT COUNT(*) FROM delivery",
        );
        let rows: Result<i64, StoreError> = again
            .read(move |tx| Ok(tx.query_row(names, [], |row| row.get(0))?))
            .await;
        assert_eq!(rows, Ok(0));
    }

    /// A commit stays valid if the code after it panics. Its caller gets an error, and the thread continues.
    #[tokio::test]
    async fn a_panic_behind_a_commit_is_not_the_end_of_the_thread() {
        let (_directory, store) = fresh();
        let written = store.write_then(|tx| Ok(tx.execute(INSERT, ["x"])?), |_| panic!("a defect"));
        assert_eq!(written.await, Ok(1));
        assert_eq!(store.write(|tx| Ok(tx.execute(INSERT, ["y"])?)).await, Ok(1));
        assert_eq!(*store.condition().borrow(), Condition::Sound);
    }

    /// R14, R36: a failed write is reported at once, and the report is cleared once a message fits again.
    #[tokio::test]
    async fn a_full_disk_is_reported_until_there_is_space_again() {
        let (_directory, store) = fresh();
        let seen = store.condition();
        let pages =
            |count: i64| move |tx: &Transaction<'_>| Ok(tx.pragma_update(None, "max_page_count", count)?);
        store.probe_writes(at(0)).await.unwrap();
        assert_eq!(*seen.borrow(), Condition::Sound);
        store.write(pages(1)).await.unwrap();
        let blob = vec![7_u8; 1_000_000];
        let insert = "INSERT INTO blob (hash, content) VALUES (x'00', ?1)";
        let refused = store.write(move |tx| Ok(tx.execute(insert, [blob])?)).await;
        let full = "the disk is full";
        assert_eq!(refused, Err(StoreError::Unavailable(full.into())));
        assert_eq!(*seen.borrow(), Condition::Unavailable(full.into()));
        // A write without data succeeds, but does not show that there is space.
        assert_eq!(store.write(|_| Ok(())).await, Ok(()));
        assert_eq!(
            store.probe_writes(at(1)).await,
            Err(StoreError::Unavailable(full.into()))
        );
        assert_eq!(*seen.borrow(), Condition::Unavailable(full.into()));
        store.write(pages(1_000_000)).await.unwrap();
        assert_eq!(store.probe_writes(at(2)).await, Ok(()));
        assert_eq!(*seen.borrow(), Condition::Sound);
    }

    /// R15: a job that waited in the queue does not wait for the full lock timeout again.
    #[tokio::test]
    async fn a_lock_of_another_program_delays_no_write_by_more_than_two_seconds() {
        let (directory, store) = fresh();
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let write = |after: u64| {
            let store = &store;
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(after)).await;
                let asked = std::time::Instant::now();
                let refused = store.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await;
                assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
                asked.elapsed()
            }
        };
        let (first, second, third) = tokio::join!(write(0), write(300), write(900));
        for waited in [first, second, third] {
            assert!(waited.as_millis() < 2_400, "{waited:?}");
        }
        let seen = store.condition();
        let locked = "another program holds a lock on the database";
        assert_eq!(*seen.borrow(), Condition::Unavailable(locked.into()));
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(store.probe_writes(at(0)).await, Ok(()));
        assert_eq!(*seen.borrow(), Condition::Sound);
    }

    #[tokio::test]
    async fn caches_are_updated_in_commit_order() {
        let (_directory, store) = fresh();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let writes = (0..100).map(|number| {
            let heard = Arc::clone(&heard);
            store.write_then(
                move |_| Ok(number),
                move |number| heard.lock().unwrap().push(*number),
            )
        });
        futures_util::future::join_all(writes).await;
        assert_eq!(*heard.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn only_what_must_survive_a_power_failure_waits_for_the_disk() {
        let (_directory, store) = fresh();
        let level = |tx: &rusqlite::Transaction<'_>| {
            Ok(tx.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
        };
        let (normal, full) = (1, 2);
        assert_eq!(store.write(level).await, Ok(full));
        assert_eq!(store.write_unsynced(level).await, Ok(normal));
        assert_eq!(store.write_deferred(level).await, Ok(normal));
        assert_eq!(store.write(level).await, Ok(full));
        // In one group, the strictest durability applies.
        let (held, open) = hold(&store).await;
        let opener = async { open.send(()).unwrap() };
        let (ordered, durable, ()) = tokio::join!(store.write_unsynced(level), store.write(level), opener);
        assert_eq!((ordered, durable), (Ok(full), Ok(full)));
        assert_eq!(held.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn what_was_queued_is_done_before_the_store_closes() {
        let (directory, store) = fresh();
        let clone = store.clone();
        let write = tokio::spawn(async move { clone.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await });
        assert_eq!(write.await.unwrap(), Ok(1));
        drop(store);
        // The checkpoint is written, so the database is complete without its log.
        assert!(!directory.path().join("drydock.db-wal").exists());
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        let rows: i64 = other
            .query_row("SELECT COUNT(*) FROM delivery", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }
}
