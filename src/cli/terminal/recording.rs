//! The optional recording of a terminal conversation.

use crate::base::model::{
    Attachment, ContextState, OutputNumber, RepoPath, TurnId, by_number, pluralize, short_line,
};
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::serve::host;
use crate::engine::agent::{CallLosses, CallPermission, CallSize, Journal, PaidAnswer, StepRecord};
use crate::interfaces::tool::MemoryOutputs;
use crate::state::recording::{
    self, RecordedEvent, Recorder, RecordingLoss, Redact, RestoredSession, ResumeError, SessionRecord,
    SessionState, SessionUsage,
};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A recording, if requested.
pub(super) struct TerminalRecording {
    recorder: Option<Recorder>,
    // The number of the newest turn of the conversation.
    turn: TurnId,
    // A recording that is created with the first request, so that a session without one leaves no file.
    planned: Option<PlannedRecording>,
}

/// The place of a recording that does not exist yet.
struct PlannedRecording {
    directory: PathBuf,
    name: String,
    redact: Redact,
}

/// The beginning of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum SessionStart {
    /// A new conversation.
    New,
    /// The conversation of a recording: the one with this name, or the newest.
    Resume(Option<String>),
}

impl TerminalRecording {
    /// Opens a recording below `directory`, with the session that goes on, if one does. Without a directory nothing is
    /// recorded. A new recording is created with its first request. A recording that cannot be continued is left as it
    /// is.
    pub(super) fn open(
        directory: Option<&Path>,
        start: &SessionStart,
        redactor: &Arc<Redactor>,
    ) -> Result<(Self, Option<ResumedSession>), CliError> {
        let mut opened = Self {
            recorder: None,
            turn: TurnId(0),
            planned: None,
        };
        let Some(directory) = directory else {
            return Ok((opened, None));
        };
        let host = host();
        let redactor = Arc::clone(redactor);
        let redact: Redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        match start {
            SessionStart::New => {
                // A directory that cannot be written is reported before the person types a request.
                recording::create_directory(directory).map_err(CliError::failed)?;
                opened.planned = Some(PlannedRecording {
                    directory: directory.to_owned(),
                    name: hex::encode(&(host.random)()[..16]),
                    redact,
                });
                Ok((opened, None))
            }
            SessionStart::Resume(name) => {
                let RestoredRecording {
                    name,
                    restored,
                    skipped,
                } = restored(directory, name.as_deref())?;
                let left_out = restored.loss.lines;
                let recorder = Recorder::open_after(directory, &name, redact, (host.now)(), left_out);
                opened.recorder = Some(recorder.map_err(CliError::failed)?);
                opened.turn = restored.last_turn;
                let report = skipped_lines(&skipped) + &report(&name, &restored);
                Ok((opened, Some(ResumedSession { restored, report })))
            }
        }
    }

    /// Returns the number of the newest turn of the conversation.
    pub(super) fn turn(&self) -> TurnId {
        self.turn
    }

    /// Records that the conversation was cleared. Before the first request there is nothing to clear.
    pub(super) fn record_clear(&self) -> anyhow::Result<()> {
        self.append(None, vec![RecordedEvent::Cleared {}])
    }

    /// Records that these files are about to be restored. A session that goes on after a crash in the middle of that
    /// tells the model that files may have changed.
    pub(super) fn record_undo_began(&self, files: &[RepoPath]) -> anyhow::Result<()> {
        self.append(None, vec![RecordedEvent::UndoBegan { files: names(files) }])
    }

    /// Records that these files were restored.
    pub(super) fn record_undone(&self, files: &[RepoPath]) -> anyhow::Result<()> {
        self.append(None, vec![RecordedEvent::Undone { files: names(files) }])
    }

    /// Records the request of a new turn. The first request creates the recording. The contents of attachments are not
    /// recorded.
    pub(super) fn record_request(&mut self, request: &str, attachments: &[Attachment]) -> anyhow::Result<()> {
        if let Some(planned) = &self.planned {
            let redact = Arc::clone(&planned.redact);
            let at = (host().now)();
            self.recorder = Some(Recorder::open(&planned.directory, &planned.name, redact, at)?);
            self.planned = None;
        }
        self.turn = TurnId(self.turn.0.saturating_add(1));
        let began = RecordedEvent::Began {
            user: request.to_owned(),
            attachments: attachments
                .iter()
                .map(|attachment| attachment.file().clone())
                .collect(),
            repository: None,
        };
        self.append(Some(self.turn), vec![began])
    }

    fn append(&self, turn: Option<TurnId>, events: Vec<RecordedEvent>) -> anyhow::Result<()> {
        if let Some(recorder) = &self.recorder {
            let at = (host().now)();
            let records = events.into_iter().map(|event| SessionRecord { at, turn, event });
            recorder.append_all(&records.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// The journal of a turn in a terminal: its recording, and the outputs of the session.
pub(super) struct TerminalJournal<'a> {
    pub(super) recording: &'a TerminalRecording,
    pub(super) outputs: &'a MemoryOutputs,
    /// The number of the newest output.
    pub(super) last_output: OutputNumber,
    /// The default model, whose tokens are counted.
    pub(super) model: &'a str,
    /// The usage of the session so far.
    pub(super) used: &'a Mutex<SessionUsage>,
}

impl TerminalJournal<'_> {
    fn used(&self) -> SessionUsage {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what the session used, before anything else happens with the answer that it paid for.
    fn record_used(&self) -> anyhow::Result<()> {
        let used = vec![RecordedEvent::Used { used: self.used() }];
        self.recording.append(Some(self.recording.turn), used)
    }

    /// Returns the numbers of a state: the newest output, and the usage of the session so far.
    fn numbers(&self) -> (OutputNumber, SessionUsage) {
        (self.last_output, self.used())
    }
}

fn names(files: &[RepoPath]) -> Vec<String> {
    files.iter().map(|file| file.as_str().to_owned()).collect()
}

#[async_trait]
impl Journal for TerminalJournal<'_> {
    async fn reserve_call(&mut self, _call: CallSize) -> anyhow::Result<CallPermission> {
        // A recording has no bounds.
        Ok(CallPermission::Granted)
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        match losses.discarded.is_empty() {
            true => Ok(()),
            false => self.record_used(),
        }
    }

    async fn answer_received(
        &mut self,
        _answer: PaidAnswer<'_>,
        _losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.record_used()
    }

    async fn answer_discarded(&mut self, _answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        // Its cost was recorded when it arrived.
        Ok(())
    }

    async fn record_summary(
        &mut self,
        _answer: PaidAnswer<'_>,
        _losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        let session = Box::new(SessionState::of_context(context, self.model, self.numbers()));
        let summarised = vec![RecordedEvent::Summarised { session }];
        self.recording.append(Some(self.recording.turn), summarised)
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.outputs.keep(record.outputs);
        if let Some(newest) = record.outputs.last() {
            self.last_output = newest.number;
        }
        let state = SessionState::new(record.step, &record.context, self.model, self.numbers());
        let events = RecordedEvent::from_session_step(record.step, record.model.reported, state);
        self.recording.append(Some(self.recording.turn), events)
    }
}

/// A session that goes on.
pub(super) struct ResumedSession {
    /// The conversation, with the state of its session.
    pub(super) restored: RestoredSession,
    /// The lines for the person about it.
    pub(super) report: String,
}

/// The conversation of a recording that goes on.
struct RestoredRecording {
    name: String,
    restored: RestoredSession,
    /// The newer recordings that have no request.
    skipped: Vec<String>,
}

/// Reads the conversation of a recording: the one with this name, or the newest that has a request.
fn restored(directory: &Path, name: Option<&str>) -> Result<RestoredRecording, CliError> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => recording::newest_first(directory).map_err(CliError::failed)?,
    };
    let mut skipped = Vec::new();
    for found in names {
        let (records, cut) = recording::read_whole_lines(directory, &found).map_err(CliError::failed)?;
        match recording::restore(&records, &cut) {
            Ok(restored) => {
                return Ok(RestoredRecording {
                    name: found,
                    restored,
                    skipped,
                });
            }
            Err(ResumeError::Empty) if name.is_none() => skipped.push(found),
            Err(error) => {
                let failed = format!("session {found} cannot be continued: {error}");
                return Err(CliError::failed(failed));
            }
        }
    }
    let none = format!("{} has no recorded session", directory.display());
    Err(CliError::failed(skipped_lines(&skipped) + &none))
}

/// Returns a line about each recording that is skipped.
fn skipped_lines(skipped: &[String]) -> String {
    let lines = skipped.iter();
    lines
        .map(|name| format!("Session {name} is skipped: it ended before its first request was recorded.\n"))
        .collect()
}

/// Returns the lines about a session that goes on.
fn report(name: &str, restored: &RestoredSession) -> String {
    let turns = pluralize(restored.history.turns().len(), "turn", "turns");
    let mut report = match restored.history.turns().last() {
        Some(last) => format!(
            "Session {name} goes on after {turns}; the last request was: {}",
            short_line(last.user(), 60)
        ),
        None => format!("Session {name} goes on; its conversation was cleared."),
    };
    if let files @ 1.. = restored.absent_files {
        report.push_str(&format!(
            "\nA recording has no contents of files: {} of this session {} no longer there. Attach again what is needed.",
            pluralize(files, "attached file", "attached files"),
            by_number(files, "is", "are")
        ));
    }
    report.push_str(&match restored.loss {
        RecordingLoss { bytes: 0, lines: 0 } => String::new(),
        RecordingLoss { bytes, lines: 0 } => format!(
            "\nA crash cut the last line of the recording: {} are lost.",
            pluralize(bytes, "byte", "bytes")
        ),
        RecordingLoss { .. } => {
            "\nA crash cut the last step of the recording, so the model does not know it. Its edits may be in the files."
                .to_owned()
        }
    });
    if restored.is_unanswered {
        report.push_str("\nThe last request has no answer; /retry continues it.");
    }
    report
}
