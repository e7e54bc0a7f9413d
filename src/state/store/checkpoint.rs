//! Checkpoints of the write-ahead log. Committed pages are moved into the database after the callers of a commit have
//! their answers, so no caller waits for it.

use super::StoreError;
use super::condition::is_fatal;
use crate::crash_point;
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tracing::warn;

/// Number of log pages that trigger a checkpoint: about 1 MiB, moved in 1 to 2 ms.
const PAGES_MAX: i32 = 500;

/// The write-ahead log of the writing connection.
pub(super) struct WalCheckpointer {
    pages: Arc<AtomicI32>,
    /// True if a commit has written to the log since the flag was last read.
    has_grown: Arc<AtomicBool>,
}

impl WalCheckpointer {
    /// Replaces SQLite's automatic checkpoint, which would run at the end of a commit.
    pub(super) fn attach(connection: &mut Connection) -> rusqlite::Result<Self> {
        let (pages, has_grown) = (Arc::<AtomicI32>::default(), Arc::<AtomicBool>::default());
        let (logged_pages, grew) = (Arc::clone(&pages), Arc::clone(&has_grown));
        // Called only for commits that wrote something.
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            logged_pages.store(pages, Ordering::Relaxed);
            grew.store(true, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, has_grown })
    }

    /// True if a commit has written to the log since the last call. A commit without changes writes nothing, and SQLite
    /// does not sync for it.
    pub(super) fn has_grown(&self) -> bool {
        self.has_grown.swap(false, Ordering::Relaxed)
    }

    /// Moves the log's pages into the database if there are enough. Pages that cannot be moved stay in the log, where
    /// they are just as safe, until another call. A failed sync is reported only once, by this call.
    pub(super) fn checkpoint(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.pages.load(Ordering::Relaxed) < PAGES_MAX {
            return Ok(());
        }
        crash_point::before("B23");
        let moved = connection
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
            .and_then(|mut checkpoint| checkpoint.query_row([], |_| Ok(())));
        crash_point::after("B23");
        match moved {
            // The next commit updates the number of pages.
            Ok(()) => self.pages.store(0, Ordering::Relaxed),
            Err(error) if is_fatal(&error) => return Err(error.into()),
            Err(error) => warn!(%error, "the log could not be moved into the database; it is tried again"),
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::state::store::{Store, fixture::fresh};
    use std::fs::metadata;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    const INSERT: &str = "INSERT INTO blob (hash, content) VALUES (randomblob(32), zeroblob(?1))";

    fn bytes_of(file: &PathBuf) -> u64 {
        metadata(file).unwrap().len()
    }

    #[tokio::test]
    async fn the_log_stays_small_however_much_is_written() {
        let (directory, store) = fresh();
        let insert = |bytes: i64| store.write(move |tx| Ok(tx.execute(INSERT, [bytes])?));
        for _ in 0..100 {
            insert(100_000).await.unwrap();
        }
        assert!(bytes_of(&directory.path().join("drydock.db")) > 8_000_000);
        let log = bytes_of(&directory.path().join("drydock.db-wal"));
        assert!(log < 1_500_000, "{log}");
    }

    #[tokio::test]
    async fn a_write_does_not_wait_for_the_wal_checkpoint() {
        let (directory, store) = fresh();
        let file = directory.path().join("drydock.db");
        let before = bytes_of(&file);
        let seen = Arc::new(Mutex::new(0));
        let (there, size_seen) = (file.clone(), Arc::clone(&seen));
        let big = |tx: &rusqlite::Transaction<'_>| Ok(tx.execute(INSERT, [4_000_000])?);
        // Called on the writer thread, before the answer.
        store
            .write_then(big, move |_| *size_seen.lock().unwrap() = bytes_of(&there))
            .await
            .unwrap();
        assert_eq!(*seen.lock().unwrap(), before);
        wait_checkpointed(&store).await;
        assert!(bytes_of(&file) > before + 3_500_000);
    }

    /// Waits for the checkpoint: the writer thread takes the next job only after the previous one is complete.
    async fn wait_checkpointed(store: &Store) {
        store.write(|_| Ok(())).await.unwrap();
    }
}
