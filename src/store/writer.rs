//! The one thread that writes. What waits is committed together, and nobody is answered before the
//! commit that holds their work.

use super::log::Log;
use super::syncer::Syncer;
use super::{OpenError, StoreError};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

/// Works that wait before callers do.
const WAITING_MAX: usize = 1_024;
/// Works of one commit.
const GROUP_MAX: usize = 256;

/// What a caller is promised with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// It survives a power failure.
    Durable,
    /// It survives the end of the process, and a power failure from a moment later on: for what became of
    /// something that was done already, where nothing waits for it that must not be done twice.
    Soon,
    /// It survives the end of the process, and a power failure once anything durable came after it:
    /// for what can be found out again, such as who works on a conversation.
    Ordered,
}

struct Work {
    run: Box<dyn FnOnce(&Transaction<'_>) -> Pending + Send>,
    promise: Promise,
}

/// A work that ran and whose caller waits for the commit.
struct Pending {
    failed: bool,
    answer: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// The queue in front of the thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    syncer: Arc<Syncer>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, file: &Path) -> Result<Self, OpenError> {
        let syncer = Arc::new(Syncer::start(file)?);
        let there = Arc::clone(&syncer);
        let log = Log::of(&mut connection).map_err(|err| OpenError::Resources(err.to_string()))?;
        let (queue, works) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(connection, works, &log, &there))
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            syncer,
        })
    }

    /// Waits until everything that was to be durable soon, and was answered before, is.
    pub(super) async fn durable(&self) -> Result<(), StoreError> {
        self.syncer.durable().await
    }

    /// True if nothing waits for the disk.
    #[cfg(test)]
    pub(super) fn is_durable(&self) -> bool {
        self.syncer.is_durable()
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        promise: Promise,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let run = move |transaction: &Transaction<'_>| {
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
        };
        let work = Work {
            run: Box::new(run),
            promise,
        };
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

fn run(mut connection: Connection, mut works: mpsc::Receiver<Work>, log: &Log, syncer: &Syncer) {
    // After a failed fsync nobody knows what the disk holds: the kernel may report it once and drop
    // the pages. Nothing is stored any more until a restart has read the file again.
    let mut broken = false;
    let mut synced = true;
    while let Some(first) = works.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(work) = works.try_recv()
        {
            group.push(work);
        }
        // A work that is dropped tells its caller that nothing was stored.
        broken = broken || syncer.has_failed();
        if !broken {
            let soon = group.iter().any(|work| work.promise == Promise::Soon);
            // Told before anybody is answered: who is told of a commit may ask whether it is durable.
            let committed = |synced| match (synced, soon) {
                (true, _) => syncer.done(),
                (false, true) => syncer.later(),
                (false, false) => {}
            };
            broken = settle(&connection, &group, &mut synced).is_err()
                || commit(&mut connection, group, || committed(synced));
        }
        if !broken {
            log.settle(&connection);
        }
    }
    if let Err((_, err)) = connection.close() {
        error!("the database did not close cleanly: {err}");
    }
}

/// Makes the next commit wait for the disk, or not: one that syncs takes along all before it.
fn settle(connection: &Connection, group: &[Work], synced: &mut bool) -> rusqlite::Result<()> {
    let wanted = group.iter().any(|work| work.promise == Promise::Durable);
    if *synced != wanted {
        let level = if wanted { "FULL" } else { "NORMAL" };
        connection.pragma_update(None, "synchronous", level)?;
        *synced = wanted;
    }
    Ok(())
}

/// Runs a group and answers it. True if the disk must not be trusted any more.
fn commit(connection: &mut Connection, group: Vec<Work>, committed: impl FnOnce()) -> bool {
    let mut done = Vec::with_capacity(group.len());
    let outcome = attempt(connection, group, &mut done);
    if outcome.is_ok() {
        committed();
    }
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
    // By reference, so that one can be begun anew after another.
    let connection: &Connection = connection;
    let begin = || Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let mut transaction = begin()?;
    // A work alone in a transaction needs no savepoint: what it did is all there is.
    let mut is_alone = true;
    for work in group {
        if !is_alone {
            transaction.prepare_cached("SAVEPOINT work")?.execute([])?;
        }
        // A work that panics is a defect of its own; the others of the group are not.
        let pending = catch_unwind(AssertUnwindSafe(|| (work.run)(&transaction))).ok();
        let failed = pending.as_ref().is_none_or(|pending| pending.failed);
        done.extend(pending);
        if transaction.is_autocommit() {
            // A full disk rolls the whole transaction back under us.
            let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            return Err(rusqlite::Error::SqliteFailure(full, None));
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
    transaction.commit()
}

/// Errors after which the state of the disk is unknown.
fn is_fatal(err: &rusqlite::Error) -> bool {
    matches!(
        err.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::is_fatal;
    use crate::store::fixture::fresh;
    use crate::store::{Store, StoreError};
    use rusqlite::{Connection, Transaction, ffi};
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    const INSERT: &str = "INSERT INTO delivery (name, at) VALUES (?1, 0)";

    /// Keeps the writer at one work until the gate is opened: whatever is queued meanwhile is one group.
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
            // Another connection sees committed rows only.
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
        // The second row is written while the first is not committed: they are one group.
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
            // Polled last: everything above is queued by now.
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
    async fn a_full_disk_is_unavailable_and_passes() {
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
    async fn a_foreign_lock_is_unavailable_and_passes() {
        let (directory, store) = fresh();
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = store.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(store.write(|tx| Ok(tx.execute(INSERT, ["x"])?)).await, Ok(1));
    }

    #[test]
    fn after_a_failed_fsync_the_disk_is_not_trusted() {
        let failure = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(is_fatal(&failure(ffi::SQLITE_IOERR_FSYNC)));
        assert!(is_fatal(&failure(ffi::SQLITE_IOERR_WRITE)));
        assert!(is_fatal(&failure(ffi::SQLITE_CORRUPT)));
        assert!(!is_fatal(&failure(ffi::SQLITE_FULL)));
        assert!(!is_fatal(&failure(ffi::SQLITE_BUSY)));
    }

    #[tokio::test]
    async fn caches_hear_of_writes_in_commit_order() {
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
        assert_eq!(store.write_ordered(level).await, Ok(normal));
        assert_eq!(store.write_soon(level).await, Ok(normal));
        assert_eq!(store.write(level).await, Ok(full));
        // In one group the strictest promise counts.
        let (held, open) = hold(&store).await;
        let opener = async { open.send(()).unwrap() };
        let (ordered, durable, ()) = tokio::join!(store.write_ordered(level), store.write(level), opener);
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
        // The checkpoint is written: the database is whole without its log.
        assert!(!directory.path().join("drydock.db-wal").exists());
        let other = Connection::open(directory.path().join("drydock.db")).unwrap();
        let rows: i64 = other
            .query_row("SELECT COUNT(*) FROM delivery", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }
}
