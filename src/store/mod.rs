//! Durable storage: one database, owned by one process. Every write goes through one thread that commits in groups,
//! and answers its caller only after the commit. All SQL is here. `access` writes its rows inside a transaction it is
//! lent, with the functions of this module; nothing here decides who may do what.

mod action;
mod audit;
mod card;
mod change;
mod integrity;
mod claim;
mod column;
mod command;
mod condition;
mod conversation;
mod directory_lock;
mod ingress_activity;
mod edits;
mod inbox;
pub(crate) mod invite;
mod key;
mod last_start;
mod checkpoint;
mod self_check;
mod migration;
mod open;
mod outbox;
pub(crate) mod people;
mod privacy;
mod reader;
mod recovery;
mod retention;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod fixture;
pub(crate) mod unknown_sender;
mod syncer;
mod turn;
mod usage;
mod writer;

pub use action::{NewAction, PressOutcome};
pub(crate) use audit::audit_in;
pub use audit::{AUDIT_KINDS, AuditLine, AuditPage, AuditPerson, AuditSearch, AuditState};
pub use card::CardOutcome;
pub use change::{NewChange, NumberedChange};
pub use claim::{Claim, Claimable, ClaimedConversation, ClaimedWork, DirectClaim, TurnWorker};
pub(crate) use command::apply_once;
pub use command::{
    ClearOutcome, DiscardOutcome, GrantDecision, RemainderOutcome, StopOutcome, UndoOutcome, UndoRemainder,
};
pub use condition::Condition;
pub use conversation::Conversation;
use directory_lock::DirectoryLock;
pub use edits::FileEdits;
pub use inbox::{AcceptOutcome, QueueKind, QueueLimits, RefusalNotice, UnansweredCommand};
pub use ingress_activity::{IngressActivity, RejectedRequest, read_ingress_activity};
pub use open::OpenError;
pub(crate) use outbox::enqueue as enqueue_in;
pub use outbox::{
    Admission, AttemptWeight, DeadLetter, DeadLetterFilter, DueOperation, POSTPONED_MAX, Postponement,
    RetryMode,
};
pub use privacy::{GroupAccess, check_directory, prepare_directory};
pub use recovery::Crashes;
pub use retention::{DataKind, DatabaseSize, Prune, PrunePosition, PruneSlice, StoredAmount};
pub use turn::{
    Announcement, AnnouncementBuilder, FinishedTurn, StartedTurn, StoredChange, TurnAnswer, TurnEnd,
    TurnStart, TurnSummary,
};
pub use usage::{Cost, UsageReport};

use condition::Reporter;
use reader::ReadPool;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use writer::{Durability, WriteQueue};

/// An error of the store, by what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The write was not stored; the disk is full, or another program holds a lock. Ingress answers 503 and the
    /// platform delivers again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The write was not stored, and none will be before the next start: nobody knows what the disk holds, or the
    /// database is damaged.
    #[error("the store is broken: {0}")]
    Broken(String),
    /// A statement failed for what it says or what the database holds: trying again changes nothing.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Another worker has claimed the conversation since: stop, and throw the work away.
    #[error("another worker has taken over this conversation")]
    Fenced,
    /// The row does not exist.
    #[error("no {0}")]
    NotFound(String),
    /// A row does not say what this build can read.
    #[error("a stored {what} cannot be read: {why}")]
    Unreadable {
        /// The kind of the row.
        what: &'static str,
        /// The reason, without the row's content.
        why: String,
    },
}

impl StoreError {
    fn full() -> Self {
        Self::Unavailable("the disk is full".to_owned())
    }

    fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }

    /// True if the same may succeed later, here or after a restart.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Broken(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(err: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        // The message of SQLite names tables and conditions, never the values of a row.
        if condition::is_fatal(&err) {
            return Self::Broken(err.to_string());
        }
        match err.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::full(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Unavailable("another program holds a lock on the database".to_owned())
            }
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::PermissionDenied,
            ) => Self::Unavailable(err.to_string()),
            Some(_) | None => Self::Failed(err.to_string()),
        }
    }
}

/// A handle on the store; clones share it. Dropping the last one finishes what was queued, writes a
/// checkpoint and lets go of the directory.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // Declared in the order they must go: readers, then the writer whose close is the checkpoint,
    // then the lock.
    reader: ReadPool,
    writer: WriteQueue,
    reporter: Reporter,
    pepper: [u8; 32],
    directory: PathBuf,
    /// True if the whole database was read at the start.
    is_checked: bool,
    /// Ops handed out by `due` and not reported on yet. A restart forgets them, on purpose.
    in_flight: Arc<Mutex<HashSet<String>>>,
    _lock: Option<DirectoryLock>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the store in `directory`, creating both when they are not there. One process at a time:
    /// a second one is told who has it.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::start(open::open(directory)?)
    }

    fn start(opened: open::OpenedStore) -> Result<Self, OpenError> {
        let reporter = Reporter::default();
        Ok(Self {
            inner: Arc::new(Inner {
                reader: ReadPool::start(opened.readers, reporter.clone())?,
                writer: WriteQueue::start(opened.writer, &opened.log, reporter.clone())?,
                reporter,
                pepper: opened.pepper,
                directory: opened.directory,
                is_checked: opened.is_checked,
                in_flight: Arc::default(),
                _lock: opened.lock,
            }),
        })
    }

    /// 32 random bytes that were made with the store and never leave its directory: what token hashes
    /// are keyed with.
    pub fn pepper(&self) -> [u8; 32] {
        self.inner.pepper
    }

    /// Runs `work` in a transaction and answers after its commit. A failing `work` leaves nothing
    /// behind and does not disturb the others of its group. Once queued it runs even if the caller
    /// stops waiting.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Synced, work, |_| ()).await
    }

    /// Like [`Store::write`], and does not wait for the disk: a power failure may undo it, the end of the
    /// process does not, and nothing written later survives without it.
    pub(crate) async fn write_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Unsynced, work, |_| ()).await
    }

    /// Like [`Store::write_unsynced`], and it is made durable a moment later, whatever else is written.
    pub(crate) async fn write_deferred<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Deferred, work, |_| ()).await
    }

    /// Waits until what is promised to be durable soon, and was written before, is.
    pub async fn wait_durable(&self) -> Result<(), StoreError> {
        self.inner.writer.wait_durable().await
    }

    /// Like [`Store::write`], and runs `after` between the commit and the answer, in commit order:
    /// for caches that must not see two writes the wrong way round.
    pub(crate) async fn write_then<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Synced, work, after).await
    }

    /// Runs `work` on a connection that cannot write, over one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.reader.read(work).await
    }
}
