//! Tests of the writer of the log.

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
    // The writes are submitted in any order; what the writer did says in which order they were committed.
    let committed = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let writes = (0..100).map(|number| {
        let (committed, heard) = (Arc::clone(&committed), Arc::clone(&heard));
        store.write_then(
            move |_| {
                committed.lock().unwrap().push(number);
                Ok(number)
            },
            move |number| heard.lock().unwrap().push(*number),
        )
    });
    futures_util::future::join_all(writes).await;
    let committed = committed.lock().unwrap();
    assert_eq!(committed.len(), 100);
    assert_eq!(*heard.lock().unwrap(), *committed);
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
