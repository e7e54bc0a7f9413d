//! Durable storage: one database, owned by one process. One thread does all writes. It commits in groups and answers a
//! caller only after the commit. All SQL is in this module. `access` stores its rows with functions of this module
//! inside a given transaction. This module makes no decisions about permissions.

mod access_request;
mod action;
mod allocation;
mod audit;
mod beginning;
mod budget;
mod card;
mod change;
mod channel_position;
mod integrity;
mod claim;
mod column;
mod command;
mod condition;
mod conversation;
mod delivery_name;
mod directory_lock;
mod ingress_activity;
mod earlier_versions;
mod edits;
mod held_message;
mod history;
#[cfg(test)]
#[allow(clippy::panic)]
mod idle_wait;
mod inbox;
pub(crate) mod invite;
mod key;
mod last_start;
pub(crate) mod login;
mod login_message;
mod checkpoint;
mod self_check;
mod migration;
mod open;
mod outbox;
mod other_change;
mod output;
pub(crate) mod people;
mod person_change;
mod person_message;
mod person_zone;
mod privacy;
mod prospect;
mod question;
mod reader;
mod recovery;
mod retention;
mod retired_secret;
mod retry;
mod run;
mod schedule;
mod session_export;
mod shown_result;
mod summary;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod fixture;
pub(crate) mod unknown_sender;
mod steering;
mod take_over;
mod thread;
pub(crate) mod token;
mod syncer;
mod turn;
mod usage;
mod writer;

pub use access_request::AccessRequestOutcome;
pub use action::{ActionOwner, NewAction, PressOutcome};
pub(crate) use audit::audit_in;
pub use audit::{AUDIT_KINDS, AuditLine, AuditPage, AuditPerson, AuditSearch, AuditState};
pub use budget::{AllowOutcome, BudgetRequest, BudgetState, BudgetSubject, CallReservation, ReservationId};
pub use card::{CARD_END, CardOutcome};
pub use change::{NewChange, NumberedChange};
pub use channel_position::ThreadBeginning;
pub use claim::{Claim, Claimable, ClaimedConversation, ClaimedWork, DirectClaim, TurnWorker};
pub(crate) use command::apply_once;
pub use command::{ClearOutcome, DiscardOutcome, StopOutcome, StopTarget, UndoOutcome, UndoRemainder};
pub use condition::Condition;
pub use conversation::Conversation;
use directory_lock::DirectoryLock;
pub use directory_lock::directory_owner;
pub use earlier_versions::EarlierVersions;
pub use edits::FileEdits;
pub use held_message::{ReleaseOutcome, choice, choice_argument};
pub use inbox::{AcceptOutcome, QueueKind, QueueLimits, UnansweredCommand};
pub use ingress_activity::{IngressActivity, RejectedRequest, read_ingress_activity};
pub use login::NewLoginCode;
pub use login_message::LOGIN_CODE;
pub use open::OpenError;
pub use other_change::OtherChange;
pub(crate) use outbox::enqueue as enqueue_in;
pub use outbox::{
    Admission, AttemptWeight, DeadLetter, DeadLetterFilter, DueOperation, POSTPONED_MAX, Postponement,
    ResentLetters, RetryMode,
};
pub use person_change::{PersonChange, PersonChanges};
pub use person_message::{MessageDelivery, NewPersonMessage, ReceivedMessage, SendingCheck};
pub use privacy::{GroupAccess, check_directory, prepare_directory};
pub use prospect::{ChangeBasis, ComposedWrite, ProspectiveChange};
pub use question::{
    AnswerReader, AnsweredTurn, ButtonOutcome, NewQuestion, OpenQuestion, QuestionPlace, TypedAnswer,
};
pub use recovery::Crashes;
pub use retention::{DataKind, DatabaseSize, Prune, PrunePosition, PruneSlice, StoredAmount};
pub use retired_secret::{RetiredSecrets, read_retired_secrets};
pub use retry::{RetryOutcome, RetryRequest};
pub use run::{
    AgentStepWork, AskedRunQuestion, GroupReach, NewRun, NewRunQuestion, OPEN_RUNS_MAX,
    OPEN_RUNS_OF_OWNER_MAX, OpenRuns, RUN_BYTES_MAX, RunAdvance, RunAnswerOutcome, RunAnswerRequest,
    RunCancellation, RunChange, RunCreation, RunHead, RunMessage, RunPage, RunRow, RunStarter, RunWork,
    StepBegin, StepRow,
};
pub use schedule::{
    ConfiguredSchedule, FAILURES_MAX, FireResult, FireStart, FireWork, NewSchedule, NewTime, NextTime,
    PIPELINE_SCHEDULES_MAX, PipelineScheduleOwner, SCHEDULES_OF_PERSON_MAX, ScheduleChange, ScheduleEdit,
    ScheduleFire, ScheduleRow, StoppedWork,
};
pub use session_export::{ConversationReader, EXPORT, ExportOutcome};
pub use shown_result::{REPLACED, RESULT_LINE_CHARS_MAX, with_line};
pub use steering::{MessagesBehind, TakeOutcome, TakenMessage, TakenMessages};
pub use take_over::{TakeOverOutcome, TakeOverRequest};
pub use thread::{ThreadJoin, ThreadOwner, ThreadQuestion};
pub use turn::{
    Announcement, FinishedTurn, StartedTurn, StepEffects, StoredChange, TurnAnswer, TurnEnd, TurnStart,
    TurnSummary,
};
pub use usage::{Cost, LostCalls, UsageReport};

use condition::Reporter;
use history::HistoryCache;
use prospect::ReservedNumbers;
use reader::ReadPool;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
pub(crate) use writer::is_writing_thread;
use writer::{Durability, WriteQueue};

/// An error of the store, by what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The write was not stored, because the disk is full or another program holds a lock. Ingress answers 503, and the
    /// platform delivers again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The write was not stored, and no write will be before the next start. The content of the disk is unknown, or the
    /// database is damaged.
    #[error("the store is broken: {0}")]
    Broken(String),
    /// A statement failed because of its content or the stored data. A retry does not help.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Another worker has claimed the conversation in the meantime. The caller must stop and discard its work.
    #[error("another worker has taken over this conversation")]
    Fenced,
    /// The row does not exist.
    #[error("no {0}")]
    NotFound(String),
    /// This build cannot read the row.
    #[error("a stored {what} cannot be read: {why}")]
    Unreadable {
        /// The kind of the row.
        what: &'static str,
        /// The reason, without content of the row.
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

    /// True if the same call may succeed later, here or after a restart.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Broken(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(err: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        // SQLite's message names tables and conditions, but never values of a row.
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

/// A handle to the store. Clones share it. Dropping the last one completes queued writes, writes a checkpoint and
/// unlocks the directory.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // The order of declaration is the order of dropping: readers, then the writer, which writes the checkpoint, then
    // the lock.
    reader: ReadPool,
    writer: WriteQueue,
    reporter: Reporter,
    pepper: [u8; 32],
    directory: PathBuf,
    /// True if the whole database was checked at the start.
    is_checked: bool,
    /// Ids of operations that [`Store::lease_due`] returned and that have no outcome yet. A restart forgets them on
    /// purpose.
    in_flight: Arc<Mutex<HashSet<String>>>,
    reserved_numbers: Arc<ReservedNumbers>,
    histories: Arc<HistoryCache>,
    _lock: Option<DirectoryLock>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the store in `directory`, and creates both if they are missing. Only one process can open it; a second one
    /// gets an error that names the owner.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::start(open::open(directory)?)
    }

    fn start(opened: open::OpenedStore) -> Result<Self, OpenError> {
        let reporter = Reporter::default();
        let reserved_numbers = Arc::new(ReservedNumbers::starting_at(opened.next_change));
        Ok(Self {
            inner: Arc::new(Inner {
                reader: ReadPool::start(opened.readers, reporter.clone())?,
                writer: WriteQueue::start(opened.writer, &opened.log, reporter.clone())?,
                reporter,
                pepper: opened.pepper,
                directory: opened.directory,
                is_checked: opened.is_checked,
                in_flight: Arc::default(),
                reserved_numbers,
                histories: Arc::default(),
                _lock: opened.lock,
            }),
        })
    }

    /// Returns the key for token hashes: 32 random bytes that were created with the store and never leave its
    /// directory.
    pub fn pepper(&self) -> [u8; 32] {
        self.inner.pepper
    }

    /// Runs `work` in a transaction and returns after its commit. A failed `work` is rolled back and does not affect
    /// other jobs of its group. Once queued, it runs even if the caller stops waiting.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Synced, work, |_| ()).await
    }

    /// Runs a write like [`Store::write`] without waiting for the disk. A power failure may undo it; the end of the
    /// process does not. Later writes never survive without it.
    pub(crate) async fn write_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Unsynced, work, |_| ()).await
    }

    /// Runs a write like [`Store::write_unsynced`]. It becomes durable a moment later, even without other writes.
    pub(crate) async fn write_deferred<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Deferred, work, |_| ()).await
    }

    /// Waits until all earlier deferred writes are durable.
    pub async fn wait_durable(&self) -> Result<(), StoreError> {
        self.inner.writer.wait_durable().await
    }

    /// Runs a write like [`Store::write`], and calls `after` between the commit and the answer, in commit order. This
    /// keeps caches consistent with the order of writes.
    pub(crate) async fn write_then<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.write(Durability::Synced, work, after).await
    }

    /// Runs `work` on a read-only connection, in one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.reader.read(work).await
    }
}
