//! A recording as a file for its person: the newest lines as they are stored, in a bounded number of bytes.

use super::{Redact, SessionError, SessionRecord, newest_lines, redacted_line};
use std::path::Path;

/// The newest lines of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRecording {
    /// The events, oldest first.
    pub records: Vec<SessionRecord>,
    /// The events as JSON lines, without secrets.
    pub lines: String,
    /// True if older lines do not fit.
    pub is_cut: bool,
}

/// Returns the newest lines of a recording, in at most so many bytes. A line that a crash cut is left out.
pub fn export(
    directory: &Path,
    session: &str,
    redact: &Redact,
    bytes_max: usize,
) -> Result<ExportedRecording, SessionError> {
    let read_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let newest = newest_lines(directory, session, read_max)?;
    let mut records = newest.records;
    if !newest.cut.is_empty() {
        records.pop();
    }
    // Redaction can make a line longer.
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for record in records.iter().rev() {
        let line = redacted_line(record, redact)?;
        if line.len() > bytes_max - bytes {
            break;
        }
        bytes += line.len();
        lines.push(line);
    }
    let left_out = records.len() - lines.len();
    lines.reverse();
    Ok(ExportedRecording {
        records: records.split_off(left_out),
        lines: lines.concat(),
        is_cut: newest.is_cut || left_out > 0,
    })
}
