//! The errors on opening a store, made of those of the system and of the database.

use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An error on opening a store. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns the directory.
    #[error(
        "`{}` is in use by {holder}; stop that process, or give this one another `data.directory`", .directory.display()
    )]
    Busy {
        /// The directory.
        directory: PathBuf,
        /// The owner: `process 4242`, or `another process`.
        holder: String,
    },
    /// The directory is read-only for this user.
    #[error(
        "`{}` is read-only for this user; make it writable, or set `data.directory` to a directory that is", .0.display()
    )]
    ReadOnly(PathBuf),
    /// The path is not a directory and cannot become one.
    #[error("`{}` cannot be used as data directory: {why}; set `data.directory` to another path", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// Other users can read the directory, including mirrors of private repositories.
    #[error("others can read `{}` (mode {mode:04o}); {advice}", .directory.display())]
    Exposed {
        /// The directory.
        directory: PathBuf,
        /// The permissions of the directory.
        mode: u32,
        /// Advice on how to restrict it.
        advice: String,
    },
    /// The database is missing, although the directory was used before.
    #[error(
        "`{}` is missing or empty, but this directory was used before; restore it from a backup, or move the directory away to start afresh", .0.display()
    )]
    Missing(PathBuf),
    /// The file is not a database of this program, or it is damaged.
    #[error("`{}` is damaged ({why}); restore it from a backup, or move the directory away to start afresh", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The damage that was found.
        why: String,
    },
    /// The newest commits are missing from the log.
    #[error(
        "`{}` was cut or changed: {} of {} pages that were committed can be read; restore the directory from a backup, or remove `{}` to continue without the rest", .log.display(), .found, .committed, .index.display()
    )]
    Torn {
        /// The log.
        log: PathBuf,
        /// The index of the log, which counts the committed pages.
        index: PathBuf,
        /// Number of readable pages in the log.
        found: u32,
        /// Number of pages of complete transactions that the last process had written.
        committed: u32,
    },
    /// An older database has replaced the one that was used here.
    #[error(
        "`{}` is older than the database that was last used here: it records {found} of {last} starts; restore the newer one, or remove `{}` to continue with this one, as after restoring a backup", .file.display(), .word.display()
    )]
    Older {
        /// The database.
        file: PathBuf,
        /// The file with the number of the last start.
        word: PathBuf,
        /// The number of starts in the database.
        found: i64,
        /// The number of the last start.
        last: i64,
    },
    /// The key for invites and recordings is missing.
    #[error(
        "`{}` is missing, and without it no invite is valid and no recording can be found; restore it from a backup, or move the directory away to start afresh", .0.display()
    )]
    Pepper(PathBuf),
    /// A newer build has migrated the database.
    #[error(
        "database is schema {found}, this build supports up to {known}; use a newer drydock, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The schema version of the file.
        found: i64,
        /// The newest version that this build supports.
        known: i64,
    },
    /// The migration of the schema failed; the schema is unchanged.
    #[error("the database could not be migrated: {0}; it was left as it was, see the release notes")]
    Migration(String),
    /// A resource is missing: space, memory, threads, random bytes or file handles. Another start may succeed.
    #[error(
        "the store could not start: {0}; check the free space of its disk and the limits of this process"
    )]
    Resources(String),
}

pub(in crate::state::store) fn directory_error(directory: &Path, err: &std::io::Error) -> OpenError {
    if is_passing(err) {
        return OpenError::Resources(err.to_string());
    }
    match err.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly(directory.to_owned())
        }
        kind => OpenError::Directory {
            directory: directory.to_owned(),
            why: match kind {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "it is not a directory".to_owned(),
                _ => err.to_string(),
            },
        },
    }
}

/// True for an error that the next start may not have: no space, memory or descriptors, or a single disk error.
fn is_passing(err: &std::io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::IO];
    matches!(
        err.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::OutOfMemory
    ) || lacks
        .iter()
        .any(|lack| err.raw_os_error() == Some(lack.raw_os_error()))
}

pub(in crate::state::store) fn database_error(file: &Path, err: rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode;
    match err.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Damaged {
            file: file.to_owned(),
            why: "it is not a database".to_owned(),
        },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
            file: file.to_owned(),
            why: "its content is malformed".to_owned(),
        },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            OpenError::ReadOnly(file.to_owned())
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy {
            directory: file.parent().unwrap_or(file).to_owned(),
            holder: "another program".to_owned(),
        },
        Some(_) | None => OpenError::Resources(err.to_string()),
    }
}
