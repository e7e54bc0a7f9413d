//! Retention of recordings. Lines older than the retention time are removed, and so is a file without lines. A
//! recording that is being written is skipped and shortened later.

#![allow(clippy::disallowed_methods, reason = "recordings are files of this module")]

use super::{SessionError, path};
use crate::state::store::Prune;
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, ReadDir, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum number of recordings in one call.
const SHORTENED_MAX: usize = 2_000;
/// Divisor for rewriting: a recording is rewritten once at least one part in this many is too old. This avoids hourly
/// copies of long recordings.
const OLD_PART: u64 = 8;
/// Suffix of an unfinished copy of a recording.
const UNFINISHED: &str = ".jsonl.part";

/// The result of shortening some recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortenResult {
    /// Number of recordings that lost lines, or would lose lines.
    pub files: u64,
    /// Number of removed bytes.
    pub bytes: u64,
    /// The name of the last recording that was checked; `None` at the end of the list.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct LineTime {
    at: Timestamp,
}

/// Removes lines from before `before` from some recordings, starting with the first name after `after`.
pub fn shorten(
    directory: &Path,
    before: Timestamp,
    after: Option<&str>,
    prune: Prune,
) -> Result<ShortenResult, SessionError> {
    let Some(entries) = entries(directory)? else {
        return Ok(ShortenResult::default());
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(UNFINISHED) && prune == Prune::Remove {
            // An incomplete copy of a process that was killed. The recording itself is unchanged.
            std::fs::remove_file(entry.path())?;
        }
        let Some(session) = name.strip_suffix(".jsonl") else {
            continue;
        };
        if after.is_none_or(|after| session > after) && path(directory, session).is_ok() {
            names.insert(session.to_owned());
            if names.len() > SHORTENED_MAX {
                names.pop_last();
            }
        }
    }
    let mut shortened = ShortenResult {
        next: names.last().filter(|_| names.len() == SHORTENED_MAX).cloned(),
        ..ShortenResult::default()
    };
    for session in names {
        let bytes = shorten_one(&path(directory, &session)?, before, prune)?;
        shortened.files += u64::from(bytes > 0);
        shortened.bytes += bytes;
    }
    Ok(shortened)
}

fn entries(directory: &Path) -> Result<Option<ReadDir>, SessionError> {
    match std::fs::read_dir(directory.join("sessions")) {
        Ok(entries) => Ok(Some(entries)),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// Shortens one recording unless it is being written. Returns the number of removed bytes.
fn shorten_one(path: &Path, before: Timestamp, prune: Prune) -> Result<u64, SessionError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(0),
        Err(err) => return Err(err.into()),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(0),
        // Without a lock, a concurrent writer would go unnoticed.
        Err(TryLockError::Error(err)) => {
            return Err(SessionError::Io(format!("its file cannot be locked: {err}")));
        }
    }
    let shortened = shorten_locked(&file, path, before, prune);
    // The lock is released explicitly: a child process that is just starting may hold a copy of the file descriptor,
    // which would keep the lock.
    file.unlock()?;
    shortened
}

fn shorten_locked(
    mut file: &File,
    path: &Path,
    before: Timestamp,
    prune: Prune,
) -> Result<u64, SessionError> {
    let all = file.metadata()?.len();
    let old = old_bytes(file, before)?;
    if old.saturating_mul(OLD_PART) < all || old == 0 || prune == Prune::DryRun {
        return Ok(if old.saturating_mul(OLD_PART) < all {
            0
        } else {
            old
        });
    }
    if old == all {
        std::fs::remove_file(path)?;
        return Ok(old);
    }
    let part = path.with_extension("jsonl.part");
    let mut copy = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.seek(SeekFrom::Start(old))?;
    std::io::copy(&mut file, &mut copy)?;
    copy.sync_all()?;
    std::fs::rename(&part, path)?;
    Ok(old)
}

/// Returns the number of bytes in leading lines that are too old. An unreadable line is removed with an old line that
/// follows it; otherwise it stays.
fn old_bytes(file: &File, before: Timestamp) -> Result<u64, SessionError> {
    let mut lines = BufReader::new(file);
    let (mut looked_at, mut old) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = lines
            .by_ref()
            .take(super::READ_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(old);
        }
        looked_at += u64::try_from(bytes).unwrap_or(0);
        match serde_json::from_slice::<LineTime>(&line) {
            Ok(written) if written.at >= before => return Ok(old),
            Ok(_) if line.ends_with(b"\n") => old = looked_at,
            Ok(_) | Err(_) => {}
        }
    }
}
