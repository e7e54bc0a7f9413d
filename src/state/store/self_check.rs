//! Regular self-checks of the store: whether it accepts writes, and whether the database is intact.

use super::condition::Condition;
use super::integrity::{IntegrityCheck, check};
use super::open::connect_to_read;
use super::{Store, StoreError, invite};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Space that a message may need in total, in bytes. A trial write of this size shows whether a full disk has space
/// again.
const ROOM_BYTES: i64 = 64 * 1_024;
/// Free bytes below which a trial write checks whether a message still fits.
const SPARE_BYTES_MIN: u64 = 1_024 * 1_024;

impl Store {
    /// Returns a watch of the store's condition.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.inner.reporter.watch()
    }

    /// Checks whether the store accepts writes. No other program may hold a lock. If the last write failed or the disk
    /// is nearly full, a trial write checks for enough space. Also marks expired invites, so that a clock that is set
    /// back cannot revive them.
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

    /// True if the file system reports plenty of space, or reports nothing.
    fn has_spare_room(&self) -> bool {
        let spare = rustix::fs::statvfs(&self.inner.directory)
            .map(|system| system.f_bavail.saturating_mul(system.f_frsize));
        spare.map_or(true, |bytes| bytes >= SPARE_BYTES_MIN)
    }

    /// True if the whole database was checked at opening and is intact.
    pub fn is_checked(&self) -> bool {
        self.inner.is_checked
    }

    /// Checks the whole database in the background until `cancel`. Damage breaks the store.
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
            Ok(IntegrityCheck::Intact) => info!("all pages of the database were checked; it is intact"),
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
