//! The recording of a conversation: one private, append-only file of JSON lines. It is for people who want to know what
//! happened, and a session in a terminal goes on from it. The server makes no decisions from it. Therefore lines are not
//! synced to disk one by one, and a failed write does not end a turn of the server.

mod export;
mod old_traces;
mod render;
mod resume;
mod retention;
mod session_state;
mod trace;

pub use export::{ExportedRecording, export};
pub use old_traces::{prune_traces, remove_run, removed_until, traced_runs};
pub use render::render;
pub use resume::{DueNotes, RecordingLoss, RestoredSession, ResumeError, newest_first, restore};
pub use retention::{ShortenResult, shorten};
pub use session_state::{MeasuredTokens, SessionState, SessionUsage};
pub use trace::{
    CallStream, StepTrace, create_trace_directory, end_run, is_run_traced, run_directory, set_run_time,
};

use crate::base::model::{AttachedFile, Change, Step, ToolCall, TurnId, Usage, Verdict, VerdictSource};
use crate::crash_point;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of bytes that are read from the end of a recording. Older lines stay in the file.
const READ_BYTES_MAX: u64 = 64 << 20;

/// A function that removes secrets from a text before it is written.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// An error of writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The text is not a valid name of a recording.
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
    /// The turn of the event, if there is one.
    pub turn: Option<TurnId>,
    /// The event.
    #[serde(flatten)]
    pub event: RecordedEvent,
}

/// The event in a line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RecordedEvent {
    /// A person's message started a turn.
    Began {
        /// The person's message.
        user: String,
        /// The files that were attached to it, without their contents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<AttachedFile>,
        /// The configured repository whose files the turn reads. Older recordings and those of a terminal have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<String>,
    },
    /// The model answered.
    Assistant {
        /// The model, by its provider's name for it.
        model: String,
        /// The text of the answer.
        text: String,
        /// The tool calls in the answer.
        calls: Vec<ToolCall>,
        /// The token usage of the call.
        usage: Usage,
        /// The state of a session in a terminal after the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<Box<SessionState>>,
    },
    /// A tool answered.
    Result {
        /// The id of the call.
        call: String,
        /// The result text for the model.
        content: String,
        /// True if the tool failed.
        is_error: bool,
    },
    /// The answer was sent back to the model.
    SentBack {
        /// The remark for the model.
        remark: String,
    },
    /// The person's message that arrived during the turn was taken.
    Message {
        /// The message, as the model reads it.
        text: String,
    },
    /// A change was prepared.
    Change {
        /// The change and its revision, such as `CHG-42 rev 2`.
        change: String,
        /// The configured repository.
        repository: String,
        /// The base commit.
        base: String,
        /// The patch, as text.
        patch: String,
    },
    /// The turn ended with a verdict.
    Verdict {
        /// The verdict.
        verdict: Verdict,
        /// The source of the verdict.
        source: VerdictSource,
        /// A summary of the facts.
        summary: String,
    },
    /// A session in a terminal paid for an answer. What becomes of the answer is recorded later.
    Used {
        /// The usage of the session so far.
        used: SessionUsage,
    },
    /// A model summarised the earlier part of a session in a terminal.
    Summarised {
        /// The state of the session after it, with the summary and its cost.
        session: Box<SessionState>,
    },
    /// A person undid a turn of a session in a terminal, and these files are about to be restored.
    UndoBegan {
        /// The paths.
        files: Vec<String>,
    },
    /// The undo of a turn ended, and these files are restored.
    Undone {
        /// The paths; none if no file could be restored.
        files: Vec<String>,
    },
    /// A person cleared the history of the conversation.
    Cleared {},
    /// A crash had cut the last line short, and the line was removed.
    Recovered {
        /// Number of bytes in the removed line.
        lost_bytes: u64,
    },
    /// A crash had cut the last step, and the session went on without it.
    LeftOut {
        /// Number of lines of the step.
        lines: usize,
    },
    /// A line that this build cannot read. Never written.
    Unreadable {
        /// The line number, counted from the first line that was read.
        line: u64,
    },
}

impl RecordedEvent {
    /// Converts a model call and its tool results to events.
    pub fn from_step(step: &Step, model: &str) -> Vec<Self> {
        let assistant = step.assistant();
        let answer = Self::Assistant {
            model: model.to_owned(),
            text: assistant.text(),
            calls: assistant.calls().cloned().collect(),
            usage: assistant.usage,
            session: None,
        };
        let results = step.results().iter().map(|result| Self::Result {
            call: result.call.clone(),
            content: result.content.clone(),
            is_error: result.is_error,
        });
        let sent_back = step.remark().map(|remark| Self::SentBack {
            remark: remark.to_owned(),
        });
        let messages = step.messages().iter();
        let messages = messages.map(|text| Self::Message { text: text.clone() });
        let answers = std::iter::once(answer).chain(results).chain(sent_back);
        answers.chain(messages).collect()
    }

    /// Converts a step of a session in a terminal to events, with the state of the session after it.
    pub fn from_session_step(step: &Step, model: &str, state: SessionState) -> Vec<Self> {
        let mut events = Self::from_step(step, model);
        if let Some(Self::Assistant { session, .. }) = events.first_mut() {
            *session = Some(Box::new(state));
        }
        events
    }

    /// Converts a prepared change to an event.
    pub fn from_change(change: &Change) -> Self {
        Self::Change {
            change: change.to_string(),
            repository: change.repository.clone(),
            base: change.base.clone(),
            patch: String::from_utf8_lossy(&change.patch).into_owned(),
        }
    }
}

/// A writer that appends to one recording.
pub struct Recorder {
    // Each line is one write. Lines of one conversation are written one after the other.
    file: Mutex<File>,
    redact: Redact,
}

impl Recorder {
    /// Opens the recording `sessions/<session>.jsonl` in the data directory and creates it with mode 0600 if it is
    /// missing. If a crash cut the last line short, that line is removed and the removal is recorded.
    pub fn open(
        directory: &Path,
        session: &str,
        redact: Redact,
        at: Timestamp,
    ) -> Result<Self, SessionError> {
        Self::open_after(directory, session, redact, at, 0)
    }

    /// Opens a recording to append to it, like [`Recorder::open`], after a session that left out so many lines of its last
    /// step. Both facts are one write.
    pub fn open_after(
        directory: &Path,
        session: &str,
        redact: Redact,
        at: Timestamp,
        left_out: usize,
    ) -> Result<Self, SessionError> {
        let path = path(directory, session)?;
        create_directory(directory)?;
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
        let recovered = (lost_bytes > 0).then_some(RecordedEvent::Recovered { lost_bytes });
        let left_out = (left_out > 0).then_some(RecordedEvent::LeftOut { lines: left_out });
        let events = recovered.into_iter().chain(left_out);
        let records: Vec<SessionRecord> = events
            .map(|event| SessionRecord {
                at,
                turn: None,
                event,
            })
            .collect();
        if !records.is_empty() {
            recorder.append_all(&records)?;
        }
        Ok(recorder)
    }

    /// Appends one line. Every text in it is redacted first.
    pub fn append(&self, record: &SessionRecord) -> Result<(), SessionError> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Appends several lines with one write, so that the end of the process leaves all of them or none.
    pub fn append_all(&self, records: &[SessionRecord]) -> Result<(), SessionError> {
        let mut line = String::new();
        for record in records {
            line.push_str(&redacted_line(record, &self.redact)?);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, rest) = line.as_bytes().split_at(crash_point::written_first(line.len()));
        file.write_all(first)?;
        crash_point::before("B21");
        file.write_all(rest)?;
        crash_point::after("B21");
        Ok(())
    }
}

/// Creates the directory of the recordings in a data directory, for this user only.
pub fn create_directory(directory: &Path) -> Result<(), SessionError> {
    let sessions = directory.join("sessions");
    DirBuilder::new().recursive(true).mode(0o700).create(sessions)?;
    Ok(())
}

/// Reads the events of a recording, oldest first, from its newest 64 MiB.
pub fn read(directory: &Path, session: &str) -> Result<Vec<SessionRecord>, SessionError> {
    Ok(read_lines(directory, session)?.0)
}

/// Reads the events of a recording without a last line that a crash cut. Returns what is left of that line as well.
pub fn read_whole_lines(
    directory: &Path,
    session: &str,
) -> Result<(Vec<SessionRecord>, Vec<u8>), SessionError> {
    let (mut records, cut) = read_lines(directory, session)?;
    if !cut.is_empty() {
        records.pop();
    }
    Ok((records, cut))
}

/// Reads the events of a recording, and the bytes after its last line end.
fn read_lines(directory: &Path, session: &str) -> Result<(Vec<SessionRecord>, Vec<u8>), SessionError> {
    let newest = newest_lines(directory, session, READ_BYTES_MAX)?;
    Ok((newest.records, newest.cut))
}

/// The events at the end of a recording.
struct NewestLines {
    /// The events, oldest first.
    records: Vec<SessionRecord>,
    /// The bytes after the last line end, which are the last event.
    cut: Vec<u8>,
    /// True if there are older lines.
    is_cut: bool,
}

/// Reads the events in the newest bytes of a recording.
#[allow(clippy::disallowed_methods, reason = "recordings are files of this module")]
fn newest_lines(directory: &Path, session: &str, bytes_max: u64) -> Result<NewestLines, SessionError> {
    let mut file = File::open(path(directory, session)?).map_err(|err| match err.kind() {
        std::io::ErrorKind::NotFound => SessionError::Missing(session.to_owned()),
        _ => SessionError::from(err),
    })?;
    let skipped = file.metadata()?.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(skipped))?;
    let mut lines = BufReader::new(file.take(bytes_max));
    let mut line = Vec::new();
    if skipped > 0 {
        // The first line is probably incomplete.
        lines.read_until(b'\n', &mut line)?;
    }
    let mut records: Vec<SessionRecord> = Vec::new();
    for number in 1.. {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let unreadable = || SessionRecord {
            at: records.last().map_or(Timestamp::UNIX_EPOCH, |record| record.at),
            turn: None,
            event: RecordedEvent::Unreadable { line: number },
        };
        let record = serde_json::from_slice(&line).unwrap_or_else(|_| unreadable());
        records.push(record);
        if !line.ends_with(b"\n") {
            return Ok(NewestLines {
                records,
                cut: line,
                is_cut: skipped > 0,
            });
        }
    }
    Ok(NewestLines {
        records,
        cut: Vec::new(),
        is_cut: skipped > 0,
    })
}

/// Returns the line of an event. Every text in it is redacted.
fn redacted_line(record: &SessionRecord, redact: &Redact) -> Result<String, SessionError> {
    let invalid = |err: serde_json::Error| SessionError::Io(err.to_string());
    let mut value = serde_json::to_value(record).map_err(invalid)?;
    session_state::remove_blocks_with_secrets(&mut value, redact);
    redact_value(&mut value, redact);
    let mut line = serde_json::to_string(&value).map_err(invalid)?;
    line.push('\n');
    Ok(line)
}

/// Maximum number of attempts to open a recording that is being shortened.
const OPENED_MAX: usize = 10;

/// Opens a recording with a lock that prevents shortening.
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
            // Without file locks, recordings are not shortened either.
            Err(_) => return Ok(file),
        }
        // While this call waited for the lock, the file may have been replaced.
        match std::fs::metadata(path) {
            Ok(there) if there.ino() == file.metadata()?.ino() => return Ok(file),
            Ok(_) => {}
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => return Err(err.into()),
        }
    }
    Err(SessionError::Io("it is shortened again and again".to_owned()))
}

/// Returns true if a text is the name of a recording: 32 hex digits.
fn is_session(name: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 32 && name.bytes().all(is_hex)
}

fn path(directory: &Path, session: &str) -> Result<PathBuf, SessionError> {
    if !is_session(session) {
        return Err(SessionError::Name(session.chars().take(40).collect()));
    }
    Ok(directory.join("sessions").join(format!("{session}.jsonl")))
}

/// Returns the number of bytes after the last line end.
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

/// Removes the secrets of every text in a value.
pub fn redact_value(value: &mut Value, with: &Redact) {
    match value {
        Value::String(text) => *text = with(text),
        Value::Array(values) => values.iter_mut().for_each(|value| redact_value(value, with)),
        Value::Object(fields) => fields.values_mut().for_each(|value| redact_value(value, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
mod tests;
