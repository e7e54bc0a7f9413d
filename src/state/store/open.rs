//! Opening of a data directory: lock, file, settings and schema. A damaged or missing database is never replaced with
//! an empty one, and existing files are checked before any change.

mod error;

pub use error::OpenError;
pub(super) use error::{database_error, directory_error};

use super::directory_lock::DirectoryLock;
use super::integrity::{IntegrityCheck, TornLog, check, find_torn_pages};
use super::last_start::{self, LastStart};
use super::{change, migration, recovery};
use crate::base::model::ChangeNumber;
use crate::crash_point;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of connections for reading.
pub(super) const READERS: usize = 2;
/// Longest wait of a statement for another program's lock.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(2);
/// Longest check of the whole database at a start, enough for some hundred megabytes. A larger database is checked
/// again in the background.
const CHECK_MAX: Duration = Duration::from_millis(200);
/// Page size of the database: half of SQLite's default.
const PAGE_BYTES: i64 = 2_048;
/// `Dryd`: marks databases of this program.
const APPLICATION_ID: i64 = 0x4472_7964;
const DATABASE: &str = "drydock.db";
const LOG: &str = "drydock.db-wal";
const INDEX: &str = "drydock.db-shm";
const PEPPER: &str = "pepper";

pub(super) struct OpenedStore {
    pub(super) writer: Connection,
    pub(super) readers: Vec<Connection>,
    pub(super) pepper: [u8; 32],
    /// The number of the next new change.
    pub(super) next_change: ChangeNumber,
    pub(super) lock: Option<DirectoryLock>,
    /// The path of the write-ahead log.
    pub(super) log: PathBuf,
    pub(super) directory: PathBuf,
    /// True if the whole database was checked and is intact.
    pub(super) is_checked: bool,
}

/// Opens a store in `directory`.
pub(super) fn open(directory: &Path) -> Result<OpenedStore, OpenError> {
    open_within(directory, CHECK_MAX)
}

/// Opens a store in `directory`, with a time limit for the check of the whole database.
pub(super) fn open_within(directory: &Path, check_max: Duration) -> Result<OpenedStore, OpenError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|err| directory_error(directory, &err))?;
    let lock = DirectoryLock::take(directory)?;
    let pepper = read_pepper(directory)?;
    let file = directory.join(DATABASE);
    if is_empty(directory, &file)? {
        match pepper {
            Some(_) => return Err(OpenError::Missing(file)),
            None => create_file(directory, &file)?,
        }
    }
    let last = LastStart::read(directory).map_err(|err| directory_error(directory, &err))?;
    check_log(directory, last.as_ref())?;
    let mut writer = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Until all checks pass: a closing connection would otherwise move its log into the database.
    let untouched = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let of_file = |err| database_error(&file, err);
    writer.set_db_config(untouched, true).map_err(of_file)?;
    if writer.is_readonly("main").unwrap_or(true) {
        return Err(OpenError::ReadOnly(file));
    }
    let schema = check_schema(&file, &writer)?;
    let is_checked = check_pages(&file, &mut writer, check_max)?;
    if schema > 0 {
        check_age(directory, &file, &writer, last.as_ref())?;
        if pepper.is_none() && is_keyed(&writer).map_err(of_file)? {
            return Err(OpenError::Pepper(directory.join(PEPPER)));
        }
    }
    writer.set_db_config(untouched, false).map_err(of_file)?;
    configure(&writer).map_err(of_file)?;
    crash_point::before("B26");
    migration::migrate(&mut writer).map_err(|err| OpenError::Migration(err.to_string()))?;
    crash_point::after("B26");
    let number = recovery::recover(&mut writer).map_err(of_file)?;
    let next_change = change::next_number(&writer).map_err(of_file)?;
    let pepper = match pepper {
        Some(pepper) => pepper,
        None => create_pepper(directory)?,
    };
    if let Err(error) = LastStart::now(number).write(directory) {
        // A lower number, or none, is safe here: it only detects less.
        tracing::warn!(%error, "this start could not be recorded; an older database would not be detected");
    }
    Ok(OpenedStore {
        writer,
        readers: readers(&file)?,
        pepper,
        next_change,
        lock: Some(lock),
        log: directory.join(LOG),
        directory: directory.to_owned(),
        is_checked,
    })
}

/// Opens a separate read-only connection to the database of an open store.
pub(super) fn connect_to_read(directory: &Path) -> Result<Connection, OpenError> {
    connect(&directory.join(DATABASE), OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Returns the path of the database file.
pub(super) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Opens a connection that leaves no trace, even while another process uses the database. Returns `None` if there is no
/// database. A normal reader of an existing log would create its index, which the next start would trust.
pub(super) fn connect_without_trace(directory: &Path) -> Result<Option<Connection>, OpenError> {
    let file = directory.join(DATABASE);
    let is_there = |name: &str| directory.join(name).exists();
    let how = match (is_there(DATABASE), is_there(LOG), is_there(INDEX)) {
        (true, true, true) => "readonly_shm=1",
        (true, false, _) => "immutable=1",
        // Without an index, the committed part of the log is unknown.
        (false, _, _) | (true, true, false) => return Ok(None),
    };
    let uri = format!("file:{}?{how}", escaped(&file));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = connect(Path::new(&uri), flags)?;
    let untouched = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection
        .set_db_config(untouched, true)
        .map_err(|err| database_error(&file, err))?;
    let schema = check_schema(&file, &connection)?;
    Ok((schema > 0).then_some(connection))
}

/// Escapes a path for use in a URI.
fn escaped(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let escaped = bytes.map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

fn readers(file: &Path) -> Result<Vec<Connection>, OpenError> {
    let reader = |_| {
        let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let open = || {
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            // SQLite opens the log with the first read. If that fails, the start fails and not a later read.
            connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))
        };
        open().map_err(|err| database_error(file, err))?;
        Ok(connection)
    };
    (0..READERS).map(reader).collect()
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
pub(super) fn read_pepper(directory: &Path) -> Result<Option<[u8; 32]>, OpenError> {
    let file = directory.join(PEPPER);
    match std::fs::read(&file) {
        Ok(bytes) => bytes.try_into().map(Some).map_err(|_| OpenError::Damaged {
            file,
            why: "it does not have 32 bytes".to_owned(),
        }),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(directory_error(directory, &err)),
    }
}

// The pepper is written last when a store is created. If it exists, there was a complete database.
#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn create_pepper(directory: &Path) -> Result<[u8; 32], OpenError> {
    let mut pepper = [0; 32];
    getrandom::fill(&mut pepper).map_err(|err| OpenError::Resources(err.to_string()))?;
    let write = || -> std::io::Result<()> {
        let part = directory.join("pepper.part");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)?;
        file.write_all(&pepper)?;
        file.sync_all()?;
        std::fs::rename(&part, directory.join(PEPPER))?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|err| directory_error(directory, &err))?;
    Ok(pepper)
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn is_empty(directory: &Path, file: &Path) -> Result<bool, OpenError> {
    match std::fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => Err(OpenError::Damaged {
            file: file.to_owned(),
            why: "it is not a file".to_owned(),
        }),
        Ok(metadata) => Ok(metadata.len() == 0),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(true),
        Err(err) => Err(directory_error(directory, &err)),
    }
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn create_file(directory: &Path, file: &Path) -> Result<(), OpenError> {
    // SQLite gives its WAL the mode of this file.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file)
        .and_then(|_| File::open(directory)?.sync_all())
        .map_err(|err| directory_error(directory, &err))
}

fn connect(file: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    super::allocation::use_mimalloc();
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(file, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_MAX)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.set_prepared_statement_cache_capacity(128);
        // Plans must not depend on bound values. Otherwise SQLite plans a cached statement again when a value changes
        // that it had used for a plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    };
    open().map_err(|err| database_error(file, err))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    // Applies only to a new file. A commit writes every page it touches: about twelve for a message, whatever their
    // size.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // On macOS, a normal sync leaves data in the disk's cache. On other systems these settings change nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // Savepoints keep copies of changed pages in temporary storage. They are dropped with the job.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |row| row.get::<_, i64>(0))?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)
}

/// Checks that the last process's commits are in the log, if the machine has not restarted.
fn check_log(directory: &Path, last: Option<&LastStart>) -> Result<(), OpenError> {
    if !last.is_some_and(LastStart::is_of_this_boot) {
        return Ok(());
    }
    let (log, index) = (directory.join(LOG), directory.join(INDEX));
    match find_torn_pages(&log, &index).map_err(|err| directory_error(directory, &err))? {
        Some(TornLog { found, committed }) => Err(OpenError::Torn {
            log,
            index,
            found,
            committed,
        }),
        None => Ok(()),
    }
}

/// Checks the pages of the database within a time limit. Returns true if all were checked.
fn check_pages(file: &Path, connection: &mut Connection, time_max: Duration) -> Result<bool, OpenError> {
    let began = Instant::now();
    let checked = check(connection, move || began.elapsed() < time_max);
    match checked.map_err(|err| database_error(file, err))? {
        IntegrityCheck::Intact => Ok(true),
        IntegrityCheck::Incomplete => Ok(false),
        IntegrityCheck::Damaged(why) => Err(OpenError::Damaged {
            file: file.to_owned(),
            why,
        }),
    }
}

/// Checks that the database is not older than the last start.
fn check_age(
    directory: &Path,
    file: &Path,
    connection: &Connection,
    last: Option<&LastStart>,
) -> Result<(), OpenError> {
    let found = recovery::starts(connection).map_err(|err| database_error(file, err))?;
    match last {
        Some(last) if found < last.number => Err(OpenError::Older {
            file: file.to_owned(),
            word: last_start::path(directory),
            found,
            last: last.number,
        }),
        Some(_) | None => Ok(()),
    }
}

/// True if any stored data depends on the pepper.
fn is_keyed(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM invite) OR EXISTS (SELECT 1 FROM conversation)";
    connection.query_row(sql, [], |row| row.get(0))
}

// Checks the schema before anything is written, so that a foreign file stays unchanged. Returns the schema version.
fn check_schema(file: &Path, connection: &Connection) -> Result<i64, OpenError> {
    let read = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(|err| database_error(file, err))
    };
    if read("SELECT COUNT(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if read("PRAGMA application_id")? != APPLICATION_ID {
        return Err(OpenError::Damaged {
            file: file.to_owned(),
            why: "it is the database of another program".to_owned(),
        });
    }
    if read("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'refinery_schema_history'")? == 0 {
        return Ok(0);
    }
    let found = read("SELECT COALESCE(MAX(version), 0) FROM refinery_schema_history")?;
    let known = migration::newest();
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
mod tests;
