//! The condition of the store. Threads that detect a problem report it, and other parts watch it. This module alone
//! decides which errors are fatal for the store.

use super::StoreError;
use rusqlite::{ErrorCode, ffi};
use std::sync::Arc;
use tokio::sync::watch;
use tracing::error;

/// System errors that leave the files unchanged: no memory, descriptor or lock, or no space for the index of the log.
const PASSING: [i32; 10] = [
    ffi::SQLITE_IOERR_NOMEM,
    ffi::SQLITE_IOERR_BLOCKED,
    ffi::SQLITE_IOERR_LOCK,
    ffi::SQLITE_IOERR_RDLOCK,
    ffi::SQLITE_IOERR_UNLOCK,
    ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
    ffi::SQLITE_IOERR_SHMOPEN,
    ffi::SQLITE_IOERR_SHMSIZE,
    ffi::SQLITE_IOERR_SHMLOCK,
    ffi::SQLITE_IOERR_SHMMAP,
];

/// The state of the store: accepting writes or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The store accepts writes.
    #[default]
    Sound,
    /// The last write failed for this reason. The next one may succeed.
    Unavailable(String),
    /// The store accepts no more writes, for this reason. Only the next start can find out what is on disk.
    Broken(String),
}

/// True for an error after which the content of the disk is unknown or the database is damaged. This process then
/// stores nothing more.
pub(super) fn is_fatal(err: &rusqlite::Error) -> bool {
    let Some(error) = err.sqlite_error() else {
        return false;
    };
    match error.code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
        ErrorCode::SystemIoFailure => !PASSING.contains(&error.extended_code),
        _ => false,
    }
}

/// A reporter of the store's condition. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reporter(Arc<watch::Sender<Condition>>);

impl Reporter {
    /// Reports a fatal error. The first reason is kept.
    pub(super) fn broken(&self, why: &str) {
        if self.set_condition(Condition::Broken(why.to_owned())) {
            error!("the store is broken: {why}");
        }
    }

    /// Reports that a whole write failed.
    pub(super) fn failed(&self, error: &StoreError) {
        match error {
            StoreError::Broken(why) => self.broken(why),
            StoreError::Unavailable(why) => {
                if self.set_condition(Condition::Unavailable(why.clone())) {
                    error!("nothing can be stored now: {why}");
                }
            }
            StoreError::Failed(why) => error!("a commit failed: {why}"),
            StoreError::Fenced | StoreError::NotFound(_) | StoreError::Unreadable { .. } => {}
        }
    }

    /// Reports that the store accepts writes again, unless it is broken.
    pub(super) fn recovered(&self) {
        self.set_condition(Condition::Sound);
    }

    pub(super) fn is_sound(&self) -> bool {
        *self.0.borrow() == Condition::Sound
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(*self.0.borrow(), Condition::Broken(_))
    }

    /// Returns the error for a write that was dropped without an answer.
    pub(super) fn why_dropped(&self) -> StoreError {
        match &*self.0.borrow() {
            Condition::Broken(why) => StoreError::Broken(why.clone()),
            Condition::Unavailable(why) => StoreError::Unavailable(why.clone()),
            Condition::Sound => StoreError::Unavailable("nothing was committed".to_owned()),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Condition> {
        self.0.subscribe()
    }

    /// Sets the condition. Returns true if it changed. A broken store stays broken.
    fn set_condition(&self, condition: Condition) -> bool {
        self.0.send_if_modified(|current| {
            let is_news = *current != condition && !matches!(current, Condition::Broken(_));
            if is_news {
                *current = condition;
            }
            is_news
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, Reporter, is_fatal};
    use crate::state::store::StoreError;
    use rusqlite::ffi;

    /// R14: a failed fsync is always fatal. A lack of space, memory or descriptors is not.
    #[test]
    fn fatal_storage_errors_are_distinguished_from_transient_ones() {
        let failure = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        for code in [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_DIR_FSYNC,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_READ,
            ffi::SQLITE_IOERR_TRUNCATE,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_CORRUPT_INDEX,
            ffi::SQLITE_NOTADB,
        ] {
            assert!(is_fatal(&failure(code)), "{code}");
            let error = StoreError::from(failure(code));
            assert!(matches!(error, StoreError::Broken(_)), "{code}: {error}");
        }
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_IOERR_NOMEM,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_IOERR_LOCK,
        ] {
            assert!(!is_fatal(&failure(code)), "{code}");
            let error = StoreError::from(failure(code));
            assert!(matches!(error, StoreError::Unavailable(_)), "{code}: {error}");
        }
    }

    #[test]
    fn a_broken_store_never_recovers_and_keeps_its_first_reason() {
        let reporter = Reporter::default();
        let seen = reporter.watch();
        reporter.failed(&StoreError::Unavailable("the disk is full".into()));
        assert_eq!(*seen.borrow(), Condition::Unavailable("the disk is full".into()));
        reporter.recovered();
        assert!(reporter.is_sound());
        reporter.broken("first");
        reporter.broken("second");
        reporter.recovered();
        assert_eq!(*seen.borrow(), Condition::Broken("first".into()));
        assert_eq!(reporter.why_dropped(), StoreError::Broken("first".into()));
    }
}
