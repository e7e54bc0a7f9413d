//! A look at the store itself, every few seconds: whether it takes writes, and whether it is whole.

use super::condition::Condition;
use super::integrity::{IntegrityCheck, check};
use super::open::connect_to_read;
use super::{Store, StoreError, invite};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Bytes that a message may need, with all it brings: so many are written as a trial before a full disk counts as one
/// with room.
const ROOM_BYTES: i64 = 64 * 1_024;
/// Free bytes below which it is tried out whether a message would still find room.
const SPARE_BYTES_MIN: u64 = 1_024 * 1_024;

impl Store {
    /// Returns a watch of the condition of the store, as last reported.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.inner.reporter.watch()
    }

    /// Finds out whether the store takes writes: that nobody holds a lock, and, where the last write failed or the
    /// disk is nearly full, that there is room for a message. Marks the invites that have expired, so that a clock
    /// that is set back brings none of them to life.
    pub async fn probe_writes(&self, at: Timestamp) -> Result<(), StoreError> {
        if !self.inner.reporter.is_sound() || !self.has_spare_room() {
            self.write_unsynced(|tx| {
                tx.execute("UPDATE process SET room = zeroblob(?1)", [ROOM_BYTES])?;
                Ok(())
            })
            .await?;
            self.write_unsynced(|tx| Ok(tx.execute("UPDATE process SET room = NULL", [])?))
                .await?;
        }
        self.write_unsynced(move |tx| invite::expire(tx, at)).await?;
        self.inner.reporter.recovered();
        Ok(())
    }

    /// Returns true if the file system reports plenty of room, or reports nothing.
    fn has_spare_room(&self) -> bool {
        let spare = rustix::fs::statvfs(&self.inner.directory)
            .map(|system| system.f_bavail.saturating_mul(system.f_frsize));
        spare.map_or(true, |bytes| bytes >= SPARE_BYTES_MIN)
    }

    /// True if all of the database was read when it was opened, and found whole.
    pub fn is_checked(&self) -> bool {
        self.inner.is_checked
    }

    /// Reads the whole database beside everything else, until `cancel`. Damage breaks the store.
    pub async fn check(&self, cancel: &CancellationToken) -> Result<(), StoreError> {
        let (directory, cancel) = (self.inner.directory.clone(), cancel.clone());
        let checking = tokio::task::spawn_blocking(move || {
            let mut connection =
                connect_to_read(&directory).map_err(|err| StoreError::Failed(err.to_string()))?;
            Ok::<_, StoreError>(check(&mut connection, move || !cancel.is_cancelled())?)
        });
        let checked = checking
            .await
            .map_err(|err| StoreError::Failed(err.to_string()))?;
        match checked {
            Ok(IntegrityCheck::Intact) => info!("the database was read to its end, and is whole"),
            Ok(IntegrityCheck::Incomplete) => {}
            Ok(IntegrityCheck::Damaged(why)) => {
                let error = StoreError::Broken(format!("the database is damaged: {why}"));
                self.inner.reporter.failed(&error);
                return Err(error);
            }
            Err(error) => {
                self.inner.reporter.failed(&error);
                return Err(error);
            }
        }
        Ok(())
    }
}
