//! The recording of a conversation: one file of JSON lines, private and only ever appended to. It is
//! for people who want to know what happened; nothing is ever decided from it, so it is not synced to
//! disk line by line, and a write that fails does not end a turn.

mod retention;

pub use retention::{ShortenResult, shorten};

use crate::crash_point;
use crate::model::{Change, Step, ToolCall, TurnId, Usage, Verdict, VerdictSource};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest bytes of a recording that are read; older lines stay in the file.
const READ_BYTES_MAX: u64 = 64 << 20;
/// Lines of one text that are shown.
const SHOWN_LINES_MAX: usize = 40;

/// Takes secrets out of a text before it is written.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// An error of writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The text is not the name of a recording.
    #[error("`{0}` is not a session; a session is 32 hex digits")]
    Name(String),
    /// The recording does not exist.
    #[error("there is no recording of session `{0}`")]
    Missing(String),
    /// The file could not be read or written.
    #[error("the recording could not be read or written: {0}")]
    Io(String),
}

impl From<std::io::Error> for SessionError {
    fn from(err: std::io::Error) -> Self {
        Self::Io(err.to_string())
    }
}

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The time of the event.
    pub at: Timestamp,
    /// The turn it belongs to, where it was in one.
    pub turn: Option<TurnId>,
    /// The event.
    #[serde(flatten)]
    pub event: RecordedEvent,
}

/// The event that a line records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RecordedEvent {
    /// A person said something and a turn began.
    Began {
        /// The words of the person.
        user: String,
    },
    /// The model answered.
    Assistant {
        /// The model that did, as its provider names it.
        model: String,
        /// The words of the answer.
        text: String,
        /// The tools it called.
        calls: Vec<ToolCall>,
        /// The tokens of the call.
        usage: Usage,
    },
    /// A tool answered.
    Result {
        /// The id of the call.
        call: String,
        /// The text that the model reads.
        content: String,
        /// True when it failed.
        is_error: bool,
    },
    /// The answer was sent back to the model.
    SentBack {
        /// The text that the model reads.
        remark: String,
    },
    /// A change was prepared.
    Change {
        /// `CHG-42 rev 2`.
        change: String,
        /// The configured repository.
        repository: String,
        /// The base commit.
        base: String,
        /// The patch, as text.
        patch: String,
    },
    /// The turn ended.
    Verdict {
        /// The verdict.
        verdict: Verdict,
        /// The source of the verdict.
        source: VerdictSource,
        /// The facts, in words.
        summary: String,
    },
    /// The last line was cut short by a crash, and taken away.
    Recovered {
        /// Number of bytes of the line.
        lost_bytes: u64,
    },
    /// A line that says nothing this build can read. Never written.
    Unreadable {
        /// The number of the line, counted from the first that was read.
        line: u64,
    },
}

impl RecordedEvent {
    /// A model call and the results of its tools, as the lines they become.
    pub fn from_step(step: &Step, model: &str) -> Vec<Self> {
        let assistant = step.assistant();
        let answer = Self::Assistant {
            model: model.to_owned(),
            text: assistant.text(),
            calls: assistant.calls().cloned().collect(),
            usage: assistant.usage,
        };
        let results = step.results().iter().map(|result| Self::Result {
            call: result.call.clone(),
            content: result.content.clone(),
            is_error: result.is_error,
        });
        let sent_back = step.remark().map(|remark| Self::SentBack {
            remark: remark.to_owned(),
        });
        std::iter::once(answer).chain(results).chain(sent_back).collect()
    }

    /// A prepared change.
    pub fn from_change(change: &Change) -> Self {
        Self::Change {
            change: change.to_string(),
            repository: change.repository.clone(),
            base: change.base.clone(),
            patch: String::from_utf8_lossy(&change.patch).into_owned(),
        }
    }
}

/// Appends to one recording.
pub struct Recorder {
    // A line is one write, and lines of one conversation come one after the other.
    file: Mutex<File>,
    redact: Redact,
}

impl Recorder {
    /// Opens the recording `sessions/<session>.jsonl` in the data directory, creating it with mode
    /// 0600. A last line that a crash cut short is taken away, and the recording says so.
    pub fn open(
        directory: &Path,
        session: &str,
        redact: Redact,
        at: Timestamp,
    ) -> Result<Self, SessionError> {
        let path = path(directory, session)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory.join("sessions"))?;
        let mut file = open_shared(&path)?;
        let lost_bytes = torn_bytes(&mut file)?;
        if lost_bytes > 0 {
            let whole = file.metadata()?.len().saturating_sub(lost_bytes);
            file.set_len(whole)?;
        }
        let recorder = Self {
            file: Mutex::new(file),
            redact,
        };
        if lost_bytes > 0 {
            recorder.append(&SessionRecord {
                at,
                turn: None,
                event: RecordedEvent::Recovered { lost_bytes },
            })?;
        }
        Ok(recorder)
    }

    /// Appends one line. Every text in it is redacted first.
    pub fn append(&self, record: &SessionRecord) -> Result<(), SessionError> {
        let invalid = |err: serde_json::Error| SessionError::Io(err.to_string());
        let mut value = serde_json::to_value(record).map_err(invalid)?;
        redact(&mut value, &self.redact);
        let mut line = serde_json::to_string(&value).map_err(invalid)?;
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, rest) = line.as_bytes().split_at(crash_point::written_first(line.len()));
        file.write_all(first)?;
        crash_point::before("B21");
        file.write_all(rest)?;
        crash_point::after("B21");
        Ok(())
    }
}

/// The records of a session, oldest first: the newest 64 MiB of them.
#[allow(clippy::disallowed_methods, reason = "recordings are files of this module")]
pub fn read(directory: &Path, session: &str) -> Result<Vec<SessionRecord>, SessionError> {
    let mut file = File::open(path(directory, session)?).map_err(|err| match err.kind() {
        std::io::ErrorKind::NotFound => SessionError::Missing(session.to_owned()),
        _ => SessionError::from(err),
    })?;
    let skipped = file.metadata()?.len().saturating_sub(READ_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped))?;
    let mut lines = BufReader::new(file.take(READ_BYTES_MAX)).split(b'\n');
    if skipped > 0 {
        // Most likely the second half of a line.
        lines.next().transpose()?;
    }
    let mut records: Vec<SessionRecord> = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let unreadable = || SessionRecord {
            at: records.last().map_or(Timestamp::UNIX_EPOCH, |record| record.at),
            turn: None,
            event: RecordedEvent::Unreadable { line: number },
        };
        let record = serde_json::from_slice(&line?).unwrap_or_else(|_| unreadable());
        records.push(record);
    }
    Ok(records)
}

/// A recording as plain text for a terminal. Control characters are shown, not obeyed.
pub fn render(records: &[SessionRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let _ = match record.turn {
            Some(turn) => write!(text, "{:.0}  turn {turn}  ", record.at),
            None => write!(text, "{:.0}  ", record.at),
        };
        render_event(&mut text, &record.event);
    }
    text
}

fn render_event(text: &mut String, event: &RecordedEvent) {
    match event {
        RecordedEvent::Began { user } => block(text, "user", user),
        RecordedEvent::Assistant {
            model,
            text: words,
            calls,
            usage,
        } => {
            let cached = usage.cache_read.saturating_add(usage.cache_write);
            let tokens = format!("{} in, {} out, {cached} cached", usage.input, usage.output);
            block(text, &format!("{model} ({tokens})"), words);
            for call in calls {
                block(
                    text,
                    &format!("    call {} {}", call.id, call.name),
                    &call.arguments,
                );
            }
        }
        RecordedEvent::Result {
            call,
            content,
            is_error,
        } => {
            let outcome = if *is_error { "failed" } else { "ok" };
            block(text, &format!("result {call} {outcome}"), content);
        }
        RecordedEvent::SentBack { remark } => block(text, "sent back to the model", remark),
        RecordedEvent::Change {
            change,
            repository,
            base,
            patch,
        } => block(text, &format!("{change} of {repository} at {base}"), patch),
        RecordedEvent::Verdict {
            verdict,
            source,
            summary,
        } => block(
            text,
            &format!("verdict {verdict:?} ({source:?})").to_lowercase(),
            summary,
        ),
        RecordedEvent::Recovered { lost_bytes } => {
            let head = format!("a crash cut the last line short; {lost_bytes} bytes were lost");
            block(text, &head, "");
        }
        RecordedEvent::Unreadable { line } => block(text, &format!("line {line} cannot be read"), ""),
    }
}

/// A head line and an indented body.
fn block(text: &mut String, head: &str, body: &str) {
    push_visible(text, head);
    text.push('\n');
    let lines = body.lines().count();
    for line in body.lines().take(SHOWN_LINES_MAX) {
        text.push_str("    ");
        push_visible(text, line);
        text.push('\n');
    }
    if let Some(more @ 1..) = lines.checked_sub(SHOWN_LINES_MAX) {
        let _ = writeln!(text, "    ... {more} more lines");
    }
}

// Direction marks are left out of a terminal for the same reason as escape sequences: they can make
// a line look like another one.
fn push_visible(text: &mut String, line: &str) {
    for character in line.chars() {
        match character {
            '\t' => text.push('\t'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => text.extend(character.escape_unicode()),
            _ if character.is_control() => text.extend(character.escape_default()),
            _ => text.push(character),
        }
    }
}

/// Times a recording is opened again because it was shortened meanwhile.
const OPENED_MAX: usize = 10;

/// Opens a recording so that it is not shortened while it is open.
fn open_shared(path: &Path) -> Result<File, SessionError> {
    for _ in 0..OPENED_MAX {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        match file.lock_shared() {
            Ok(()) => {}
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => continue,
            // Where files cannot be locked, none is shortened either.
            Err(_) => return Ok(file),
        }
        // Whoever waited for the lock may hold a file that has another in its place.
        match std::fs::metadata(path) {
            Ok(there) if there.ino() == file.metadata()?.ino() => return Ok(file),
            Ok(_) => {}
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => return Err(err.into()),
        }
    }
    Err(SessionError::Io("it is shortened again and again".to_owned()))
}

fn path(directory: &Path, session: &str) -> Result<PathBuf, SessionError> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if session.len() != 32 || !session.bytes().all(is_hex) {
        return Err(SessionError::Name(session.chars().take(40).collect()));
    }
    Ok(directory.join("sessions").join(format!("{session}.jsonl")))
}

/// Bytes after the last line end.
fn torn_bytes(file: &mut File) -> std::io::Result<u64> {
    const CHUNK: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        Read::by_ref(file).take(end - start).read_to_end(&mut chunk)?;
        if let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') {
            let whole = start + u64::try_from(last).unwrap_or(u64::MAX) + 1;
            return Ok(length.saturating_sub(whole));
        }
        end = start;
    }
    Ok(length)
}

fn redact(value: &mut Value, with: &Redact) {
    match value {
        Value::String(text) => *text = with(text),
        Value::Array(values) => values.iter_mut().for_each(|value| redact(value, with)),
        Value::Object(fields) => fields.values_mut().for_each(|value| redact(value, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests look into their own files")]
mod tests;
