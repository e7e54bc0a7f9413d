//! A conversation restored from its recording. A recording that is damaged is refused as a whole: a history with a
//! missing part would let the model believe something that did not happen. A step that a crash cut is left out, and the
//! restored session says so.

use super::{
    MeasuredTokens, RecordedEvent, SessionError, SessionRecord, SessionState, SessionUsage, is_session,
};
use crate::base::model::{
    Assistant, ContentBlock, History, HistoryError, OutputNumber, Step, StopReason, ToolCall, ToolResult,
    TrimBoundary, TurnId, Usage, with_absent_files,
};
use std::path::Path;
use std::time::SystemTime;

/// The answer of Drydock to a request that the recorded session did not finish.
const UNFINISHED: &str = "The session ended before this request was finished.";

/// The beginning of the line of an attachment. A recording has no contents of files.
const NO_LONGER_THERE: &str = "[no longer there]";

/// The reason why a recording cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// A line cannot be read.
    #[error("line {0} of the recording cannot be read: it is damaged")]
    Unreadable(u64),
    /// A line does not follow from the lines before it.
    #[error("line {0} of the recording does not fit to the lines before it, so a part of it is missing")]
    Misplaced(u64),
    /// The calls of a step have no results, and other lines follow.
    #[error("the recording goes on after the middle of a step: {0}")]
    Unpaired(HistoryError),
    /// There is no request in the recording.
    #[error("the recording has no request")]
    Empty,
}

/// The end of a recording that a crash cut, and that a session goes on without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingLoss {
    /// The number of bytes of the last line, which is not whole.
    pub bytes: usize,
    /// The number of lines of the last step, which is not whole.
    pub lines: usize,
}

/// A conversation restored from its recording, with the state of its session.
#[derive(Debug)]
pub struct RestoredSession {
    /// The conversation. After it was cleared, it has no turns.
    pub history: History,
    /// The number of its newest turn.
    pub last_turn: TurnId,
    /// A number that no output of the conversation exceeds.
    pub last_output: OutputNumber,
    /// The bytes of its requests in a thousand tokens.
    pub measured: Option<MeasuredTokens>,
    /// The usage of the session.
    pub used: SessionUsage,
    /// True if the last request has no answer.
    pub is_unanswered: bool,
    /// The number of files that were attached to its messages, and whose contents are not recorded.
    pub absent_files: usize,
    /// The end of the recording that is not part of the conversation.
    pub loss: RecordingLoss,
    /// The notes for the model that no request has carried.
    pub due: DueNotes,
}

/// The notes for the model that are in front of the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DueNotes {
    /// True if the end of the conversation may be missing, or files may have changed since.
    pub lost: bool,
    /// True if the edits of the last turn were undone.
    pub undone: bool,
}

/// Returns the names of the recordings in a data directory, the one that was written last first. Files with other names
/// and empty files are no recordings.
pub fn newest_first(directory: &Path) -> Result<Vec<String>, SessionError> {
    let entries = match std::fs::read_dir(directory.join("sessions")) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err.into()),
    };
    let mut found: Vec<(SystemTime, String)> = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".jsonl").filter(|name| is_session(name)) else {
            continue;
        };
        let about = entry.metadata()?;
        if !about.is_file() || about.len() == 0 {
            continue;
        }
        found.push((about.modified()?, name.to_owned()));
    }
    found.sort();
    Ok(found.into_iter().rev().map(|(_, name)| name).collect())
}

/// Restores the conversation of a recording. `cut` is what a crash left of its last line; empty if that is whole.
pub fn restore(records: &[SessionRecord], cut: &[u8]) -> Result<RestoredSession, ResumeError> {
    let is_cleared = |record: &SessionRecord| matches!(record.event, RecordedEvent::Cleared {});
    let mut since_clear = records.iter().rev().take_while(|record| !is_cleared(record));
    let state = since_clear.find_map(|record| state_of(&record.event));
    let state = state.cloned().unwrap_or_default();
    let mut restored = RestoredHistory::new(&state);
    for (line, record) in (1..).zip(records) {
        restored.add(line, record.turn, &record.event)?;
    }
    let last = records.last().map(|record| &record.event);
    if may_be_remark(cut) && matches!(last, Some(RecordedEvent::Assistant { .. })) {
        restored.leave_out_unmarked_answer();
    }
    let lines = restored.finish_last_step(u64::try_from(records.len()).unwrap_or(u64::MAX))?;
    let due = DueNotes {
        lost: restored.due.lost || restored.is_undoing || lines > 0 || !cut.is_empty(),
        ..restored.due
    };
    // A turn whose edits are gone is not continued.
    let is_unanswered = restored.history.is_open() && !due.undone;
    restored.history.close(UNFINISHED);
    if restored.history.turns().is_empty() && !records.iter().any(is_cleared) {
        return Err(ResumeError::Empty);
    }
    Ok(RestoredSession {
        history: restored.history,
        last_turn: restored.last_turn,
        last_output: OutputNumber(i64::try_from(restored.results).unwrap_or(i64::MAX))
            .max(state.last_output()),
        measured: state.measured().cloned(),
        used: restored.used,
        is_unanswered,
        absent_files: absent_files(records),
        loss: RecordingLoss {
            bytes: cut.len(),
            lines,
        },
        due: DueNotes {
            // The tools of a step may have edited files before the step was recorded.
            lost: due.lost || is_unanswered,
            ..due
        },
    })
}

/// True if what is left of a line may be the beginning of a remark with which an answer was sent back.
fn may_be_remark(cut: &[u8]) -> bool {
    let cut = String::from_utf8_lossy(cut);
    let remark = r#""event":"sent_back""#;
    match cut.split_once(r#""event":"#) {
        Some((_, word)) => remark
            .strip_prefix(r#""event":"#)
            .is_some_and(|whole| word.starts_with(whole) || whole.starts_with(word)),
        None => !cut.is_empty(),
    }
}

/// Returns the number of files that were attached to the messages of the conversation, and whose contents are not recorded.
fn absent_files(records: &[SessionRecord]) -> usize {
    records.iter().fold(0, |count, record| match &record.event {
        RecordedEvent::Began { attachments, .. } => count + attachments.len(),
        RecordedEvent::Cleared {} => 0,
        _ => count,
    })
}

/// Returns the state of the session that is recorded with an answer or a summary.
fn state_of(event: &RecordedEvent) -> Option<&SessionState> {
    match event {
        RecordedEvent::Assistant { session, .. } => session.as_deref(),
        RecordedEvent::Summarised { session } => Some(session),
        _ => None,
    }
}

struct RestoredHistory<'r> {
    history: History,
    step: Option<RestoredStep>,
    boundary: TrimBoundary,
    summary: Option<&'r str>,
    last_turn: TurnId,
    /// True while the steps of the last turn are left out.
    is_left_out: bool,
    results: usize,
    used: SessionUsage,
    due: DueNotes,
    /// True after the beginning of an undo whose end is not recorded.
    is_undoing: bool,
    /// The line of the last removal of a line that a crash cut.
    recovered_at: Option<u64>,
}

/// The last answer, with the results of its calls, the remark and the person's messages so far.
struct RestoredStep {
    assistant: Assistant,
    /// The number of lines that follow the one of the answer. Old recordings do not have it.
    lines_recorded: Option<usize>,
    results: Vec<ToolResult>,
    remark: Option<String>,
    messages: Vec<String>,
    /// True if the answer was perhaps sent back, and the remark is lost.
    may_be_sent_back: bool,
}

impl RestoredStep {
    /// Returns true for an answer without calls of an old recording, which does not say how many lines follow.
    fn is_unmarked_answer(&self) -> bool {
        self.lines_recorded.is_none() && self.lines() == 0 && self.assistant.calls().next().is_none()
    }

    /// Returns the number of lines after the one of the answer.
    fn lines(&self) -> usize {
        self.results.len() + usize::from(self.remark.is_some()) + self.messages.len()
    }

    /// Returns true if lines are missing at its end.
    fn is_cut(&self) -> bool {
        match self.lines_recorded {
            Some(lines) => self.lines() < lines,
            None => self.may_be_sent_back || self.results.len() < self.assistant.calls().count(),
        }
    }

    fn finish(mut self) -> Result<Step, HistoryError> {
        // The answer to a question is recorded later than the results of the other calls of its step.
        let ids: Vec<&str> = self.assistant.calls().map(|call| call.id.as_str()).collect();
        self.results
            .sort_by_key(|result| ids.iter().position(|id| *id == result.call));
        let step = Step::new(self.assistant, self.results)?;
        let step = match self.remark {
            Some(remark) => step.with_remark(remark)?,
            None => step,
        };
        Ok(step.with_messages(self.messages))
    }
}

impl<'r> RestoredHistory<'r> {
    fn new(state: &'r SessionState) -> Self {
        let mut restored = Self {
            history: History::default(),
            step: None,
            boundary: state.boundary(),
            summary: state.summary(),
            last_turn: TurnId(0),
            is_left_out: false,
            results: 0,
            used: SessionUsage::default(),
            due: DueNotes::default(),
            is_undoing: false,
            recovered_at: None,
        };
        restored.begin_history();
        restored
    }

    fn begin_history(&mut self) {
        self.history = History::with_boundary(self.boundary);
        self.is_left_out = false;
        if let Some(summary) = self.summary {
            self.history.begin_summary(summary.into());
        }
    }

    fn add(&mut self, line: u64, turn: Option<TurnId>, event: &RecordedEvent) -> Result<(), ResumeError> {
        let misplaced = |_| ResumeError::Misplaced(line);
        match event {
            RecordedEvent::Began {
                user, attachments, ..
            } => {
                self.finish_step(line)?;
                self.history.close(UNFINISHED);
                self.carry_notes();
                // Old recordings have no numbers.
                let turn = turn.unwrap_or(TurnId(self.last_turn.0.saturating_add(1)));
                self.last_turn = self.last_turn.max(turn);
                self.is_left_out = self.boundary.dropped >= Some(turn);
                if self.is_left_out {
                    return Ok(());
                }
                let user = with_absent_files(user, NO_LONGER_THERE, attachments);
                self.history.begin_stored(turn, user).map_err(misplaced)
            }
            RecordedEvent::Assistant {
                text,
                calls,
                usage,
                session,
                ..
            } => {
                self.finish_step(line)?;
                self.carry_notes();
                match session {
                    Some(state) => self.used = state.used(),
                    None => self.used.add(*usage, None),
                }
                let raw = session.as_ref().and_then(|state| state.own_blocks());
                self.step = Some(RestoredStep {
                    assistant: Assistant {
                        raw,
                        ..assistant(text, calls, *usage)
                    },
                    lines_recorded: session.as_ref().map(|state| state.lines()),
                    results: Vec::new(),
                    remark: None,
                    messages: Vec::new(),
                    may_be_sent_back: false,
                });
                match text.is_empty() && calls.is_empty() {
                    true => Err(ResumeError::Misplaced(line)),
                    false => Ok(()),
                }
            }
            RecordedEvent::Result {
                call,
                content,
                is_error,
            } => {
                let step = self.step.as_mut();
                let step = step.filter(|step| step.messages.is_empty() && step.remark.is_none());
                let step = step.ok_or(ResumeError::Misplaced(line))?;
                step.results.push(ToolResult {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
                self.results += 1;
                Ok(())
            }
            RecordedEvent::SentBack { remark } => {
                let step = self.step.as_mut();
                let step = step.filter(|step| step.lines() == 0 && step.assistant.calls().next().is_none());
                let step = step.ok_or(ResumeError::Misplaced(line))?;
                step.remark = Some(remark.clone());
                Ok(())
            }
            RecordedEvent::Message { text } => {
                let step = self.step.as_mut().ok_or(ResumeError::Misplaced(line))?;
                step.messages.push(text.clone());
                Ok(())
            }
            RecordedEvent::Cleared {} => {
                self.finish_step(line)?;
                self.begin_history();
                self.carry_notes();
                Ok(())
            }
            RecordedEvent::Used { used } => {
                self.used = *used;
                Ok(())
            }
            RecordedEvent::Summarised { session } => {
                self.used = session.used();
                Ok(())
            }
            RecordedEvent::UndoBegan { .. } => {
                self.is_undoing = true;
                Ok(())
            }
            RecordedEvent::Undone { files } => {
                self.is_undoing = false;
                self.due.undone |= !files.is_empty();
                Ok(())
            }
            RecordedEvent::Change { .. } | RecordedEvent::Verdict { .. } => Ok(()),
            RecordedEvent::Recovered { .. } => {
                self.due.lost = true;
                // The next line says whether an old answer was left out.
                self.recovered_at = Some(line);
                match self.step.as_ref().is_some_and(RestoredStep::is_unmarked_answer) {
                    true => Ok(()),
                    false => self.finish_last_step(line).map(|_| ()),
                }
            }
            RecordedEvent::LeftOut { .. } => {
                self.due.lost = true;
                if self.recovered_at.is_some_and(|recovered| recovered + 1 == line) {
                    self.leave_out_unmarked_answer();
                }
                self.finish_last_step(line).map(|_| ())
            }
            RecordedEvent::Unreadable { line } => Err(ResumeError::Unreadable(*line)),
        }
    }

    /// Forgets the notes that a request has carried, or that are about a conversation that was cleared.
    fn carry_notes(&mut self) {
        self.due = DueNotes::default();
        self.is_undoing = false;
    }

    /// Marks the last answer as cut, if it is not recorded whether it was sent back. Old recordings have each line of a
    /// step in a write of its own.
    fn leave_out_unmarked_answer(&mut self) {
        if let Some(step) = self.step.as_mut().filter(|step| step.is_unmarked_answer()) {
            step.may_be_sent_back = true;
        }
    }

    /// Adds the last step, before the line of another one.
    fn finish_step(&mut self, line: u64) -> Result<(), ResumeError> {
        let Some(step) = self.step.take() else {
            return Ok(());
        };
        if step.lines_recorded.is_some_and(|lines| step.lines() != lines) {
            return Err(ResumeError::Misplaced(line));
        }
        let step = step.finish().map_err(ResumeError::Unpaired)?;
        if self.is_left_out {
            return Ok(());
        }
        let step = match self.boundary.is_trimmed(self.last_turn) {
            true => step.trimmed(),
            false => step,
        };
        self.history.push(step).map_err(ResumeError::Unpaired)
    }

    /// Adds the last step before the place where a crash may have cut the recording. Returns the number of lines of a
    /// step that is left out, because it is not whole.
    fn finish_last_step(&mut self, line: u64) -> Result<usize, ResumeError> {
        match self.step.take_if(|step| step.is_cut()) {
            Some(step) => Ok(step.lines() + 1),
            None => self.finish_step(line).map(|()| 0),
        }
    }
}

fn assistant(text: &str, calls: &[ToolCall], usage: Usage) -> Assistant {
    let text = (!text.is_empty()).then(|| ContentBlock::Text {
        text: text.to_owned(),
    });
    let calls_of = calls.iter().cloned().map(ContentBlock::Call);
    Assistant {
        blocks: text.into_iter().chain(calls_of).collect(),
        raw: None,
        stop: match calls.is_empty() {
            true => StopReason::EndTurn,
            false => StopReason::ToolUse,
        },
        usage,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
