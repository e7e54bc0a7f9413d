//! The integrity check of a data directory. It runs before anything is changed, and changes nothing itself. SQLite
//! reports pages that do not fit together. The newest commits are in the write-ahead log. The index of the log holds
//! the number of their pages. The kernel keeps the index as the last process left it, until the machine restarts.

use rusqlite::{Connection, OptionalExtension};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// Maximum number of findings reported for a database.
const FINDINGS_MAX: u8 = 3;
/// SQLite steps between two checks of the time.
const STEPS: i32 = 10_000;
/// Size of the log header, in bytes. The next constant is the size of a frame header.
const LOG_HEAD: usize = 32;
const FRAME_HEAD: usize = 24;
/// Bytes of one copy of the index header. There are two copies, which are equal while no write runs.
const INDEX_HEAD: usize = 48;
/// The supported version of the index.
const INDEX_VERSION: u32 = 3_007_000;
/// The first bytes of a log with checksums over little-endian words. For big-endian words the value is one higher.
const LOG_MAGIC: u32 = 0x377f_0682;
/// Size of the largest page, in bytes.
const PAGE_BYTES_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IntegrityCheck {
    Intact,
    /// The check ended before all pages were read.
    Incomplete,
    /// The database is damaged. Holds the finding, with table and page.
    Damaged(String),
}

/// Reads the whole database for as long as `go_on` returns true.
pub(super) fn check(
    connection: &mut Connection,
    mut go_on: impl FnMut() -> bool + Send + 'static,
) -> rusqlite::Result<IntegrityCheck> {
    connection.progress_handler(STEPS, Some(move || !go_on()))?;
    let findings = findings(connection);
    connection.progress_handler(STEPS, None::<fn() -> bool>)?;
    match findings {
        Ok(findings) if findings == ["ok"] => Ok(IntegrityCheck::Intact),
        Ok(findings) => {
            let named = findings.iter().map(|finding| with_name(connection, finding));
            Ok(IntegrityCheck::Damaged(named.collect::<Vec<_>>().join("; ")))
        }
        Err(err) if err.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
            Ok(IntegrityCheck::Incomplete)
        }
        Err(err) => Err(err),
    }
}

fn findings(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({FINDINGS_MAX})"))?;
    let mut findings = Vec::new();
    for text in statement.query_map([], |row| row.get::<_, String>(0))? {
        // The first line may name only the file.
        let lines = text?;
        let lines = lines.lines().filter(|line| !line.starts_with("***"));
        findings.extend(lines.map(str::to_owned));
    }
    // An interrupted check also gives a finding, which mentions the interruption.
    let was_cut = findings.iter().any(|finding| finding.contains("interrupted"));
    match was_cut {
        true => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT),
            None,
        )),
        false => Ok(findings),
    }
}

/// Replaces the root page in a finding such as `Tree 7 page 12: ...` with the name of its table or index.
fn with_name(connection: &Connection, finding: &str) -> String {
    let root = finding
        .strip_prefix("Tree ")
        .and_then(|rest| rest.split_once(' '))
        .and_then(|(root, _)| root.parse::<i64>().ok());
    let name = root.and_then(|root| {
        let name = connection.query_row(
            "SELECT type || ' ' || name FROM sqlite_schema WHERE rootpage = ?1",
            [root],
            |row| row.get::<_, String>(0),
        );
        name.optional().ok().flatten()
    });
    match name {
        Some(name) => format!("{name}: {finding}"),
        None => finding.to_owned(),
    }
}

/// A log in which committed pages are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TornLog {
    /// Number of readable pages.
    pub(super) found: u32,
    /// Number of pages of complete transactions that the last process had written.
    pub(super) committed: u32,
}

/// Compares a log with its index. Returns `None` if the index gives no number, or no higher one than the log has.
pub(super) fn find_torn_pages(log: &Path, index: &Path) -> std::io::Result<Option<TornLog>> {
    let Some(committed) = committed(index)?.filter(|committed| *committed > 0) else {
        return Ok(None);
    };
    let found = readable(log, committed)?;
    Ok((found < committed).then_some(TornLog { found, committed }))
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn open(file: &Path) -> std::io::Result<Option<BufReader<File>>> {
    match File::open(file) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// Fills the buffer. Returns false at the end of the file.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(err) => Err(err),
    }
}

/// Returns the number of pages of complete transactions according to the index.
fn committed(index: &Path) -> std::io::Result<Option<u32>> {
    let mut head = [0; 2 * INDEX_HEAD];
    let Some(mut file) = open(index)? else {
        return Ok(None);
    };
    if !fill(&mut file, &mut head)? {
        return Ok(None);
    }
    let (one, other) = head.split_at(INDEX_HEAD);
    // Fields have the byte order of the machine, because the index never leaves it.
    let word = |at: usize| Some(u32::from_ne_bytes(one.get(at..at + 4)?.try_into().ok()?));
    let is_valid = one == other && word(0) == Some(INDEX_VERSION) && one.get(12) == Some(&1);
    Ok(word(16).filter(|_| is_valid))
}

/// Counts the readable pages of complete transactions, up to the first damaged frame. Reads at most `frames_max`
/// frames.
fn readable(log: &Path, frames_max: u32) -> std::io::Result<u32> {
    let mut head = [0; LOG_HEAD];
    let Some(mut file) = open(log)? else { return Ok(0) };
    if !fill(&mut file, &mut head)? {
        return Ok(0);
    }
    let Some(mut sums) = LogChecksums::from_head(&head) else {
        return Ok(0);
    };
    let salts = head.get(16..24);
    let mut frame = vec![0; FRAME_HEAD + sums.page_bytes];
    let mut whole = 0;
    for number in 1..=frames_max {
        if !fill(&mut file, &mut frame)? || frame.get(8..16) != salts {
            break;
        }
        sums.add(frame.get(..8).unwrap_or_default());
        sums.add(frame.get(FRAME_HEAD..).unwrap_or_default());
        if !sums.matches(frame.get(16..24)) {
            break;
        }
        // The last page of a transaction holds the size of the database.
        if word(&frame, 4) != Some(0) {
            whole = number;
        }
    }
    Ok(whole)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The running checksums of a log.
struct LogChecksums {
    is_big_endian: bool,
    page_bytes: usize,
    sums: (u32, u32),
}

impl LogChecksums {
    /// Returns the checksums after the header of a log; `None` if the bytes are not a valid header.
    fn from_head(head: &[u8; LOG_HEAD]) -> Option<Self> {
        let is_big_endian = match word(head, 0)?.checked_sub(LOG_MAGIC)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let page_bytes = usize::try_from(word(head, 8)?).ok()?;
        if !page_bytes.is_power_of_two() || !(512..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return None;
        }
        let mut sums = Self {
            is_big_endian,
            page_bytes,
            sums: (0, 0),
        };
        sums.add(head.get(..24)?);
        sums.matches(head.get(24..32)).then_some(sums)
    }

    fn add(&mut self, bytes: &[u8]) {
        let read = match self.is_big_endian {
            true => u32::from_be_bytes,
            false => u32::from_le_bytes,
        };
        let (mut one, mut two) = self.sums;
        for words in bytes.chunks_exact(8) {
            let &[a, b, c, d, e, f, g, h] = words else {
                continue;
            };
            one = one.wrapping_add(read([a, b, c, d])).wrapping_add(two);
            two = two.wrapping_add(read([e, f, g, h])).wrapping_add(one);
        }
        self.sums = (one, two);
    }

    fn matches(&self, stored: Option<&[u8]>) -> bool {
        let stored = stored.unwrap_or_default();
        (word(stored, 0), word(stored, 4)) == (Some(self.sums.0), Some(self.sums.1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
mod tests;
