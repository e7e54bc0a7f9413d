//! The optional recording of a terminal conversation.

use crate::base::model::{Attachment, History, Step, by_number, pluralize, short_line};
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::serve::host;
use crate::engine::agent::{CallLosses, CallPermission, CallSize, DiscardedAnswer, Journal, StepRecord};
use crate::interfaces::tool::MemoryOutputs;
use crate::state::recording::{self, RecordedEvent, Recorder, Redact, SessionRecord};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording, if requested.
pub(super) struct TerminalRecording {
    recorder: Option<Recorder>,
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
    /// Opens a recording below `directory`, with its conversation. Without a directory nothing is recorded. A new
    /// recording is created with its first request. A recording that cannot be continued is left as it is.
    pub(super) fn open(
        directory: Option<&Path>,
        start: &SessionStart,
        redactor: &Arc<Redactor>,
    ) -> Result<(Self, History, Option<String>), CliError> {
        let mut opened = Self {
            recorder: None,
            planned: None,
        };
        let Some(directory) = directory else {
            return Ok((opened, History::default(), None));
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
                Ok((opened, History::default(), None))
            }
            SessionStart::Resume(name) => {
                let RestoredSession {
                    name,
                    history,
                    absent_files,
                } = restored(directory, name.as_deref())?;
                let recorder = Recorder::open(directory, &name, redact, (host.now)());
                opened.recorder = Some(recorder.map_err(CliError::failed)?);
                let report = report(&name, &history, absent_files);
                Ok((opened, history, Some(report)))
            }
        }
    }

    /// Records that the conversation was cleared. Before the first request there is nothing to clear.
    pub(super) fn record_clear(&self) -> anyhow::Result<()> {
        self.append(vec![RecordedEvent::Cleared {}])
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
        self.append(vec![RecordedEvent::Began {
            user: request.to_owned(),
            attachments: attachments
                .iter()
                .map(|attachment| attachment.file().clone())
                .collect(),
        }])
    }

    /// Records a step.
    pub(super) fn record_step(&self, step: &Step, model: &str) -> anyhow::Result<()> {
        self.append(RecordedEvent::from_step(step, model))
    }

    fn append(&self, events: Vec<RecordedEvent>) -> anyhow::Result<()> {
        if let Some(recorder) = &self.recorder {
            let at = (host().now)();
            let records = events.into_iter().map(|event| SessionRecord {
                at,
                turn: None,
                event,
            });
            recorder.append_all(&records.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// The journal of a turn in a terminal: its recording, and the outputs of the session.
pub(super) struct TerminalJournal<'a> {
    pub(super) recording: &'a TerminalRecording,
    pub(super) outputs: &'a MemoryOutputs,
}

#[async_trait]
impl Journal for TerminalJournal<'_> {
    async fn reserve_call(&mut self, _call: CallSize) -> anyhow::Result<CallPermission> {
        // A recording has no bounds.
        Ok(CallPermission::Granted)
    }

    async fn call_failed(&mut self, _losses: &CallLosses<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    async fn answer_received(&mut self, _losses: &CallLosses<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    async fn answer_discarded(&mut self, _answer: DiscardedAnswer<'_>) -> anyhow::Result<()> {
        // A discarded answer is not part of the conversation; its tokens are counted at the end of the turn.
        Ok(())
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.outputs.keep(record.outputs);
        self.recording.record_step(record.step, record.model.reported)
    }
}

/// The conversation of a recording.
struct RestoredSession {
    name: String,
    history: History,
    /// The number of attached files, whose contents are not recorded.
    absent_files: usize,
}

/// Reads the conversation of a recording.
fn restored(directory: &Path, name: Option<&str>) -> Result<RestoredSession, CliError> {
    let newest = || {
        let found = recording::newest(directory).map_err(CliError::failed)?;
        found.ok_or_else(|| CliError::failed(format!("{} has no recorded session", directory.display())))
    };
    let name = match name {
        Some(name) => name.to_owned(),
        None => newest()?,
    };
    let records = recording::read(directory, &name).map_err(CliError::failed)?;
    let history = recording::history_of(&records)
        .map_err(|error| CliError::failed(format!("session {name} cannot be continued: {error}")))?;
    Ok(RestoredSession {
        name,
        history,
        absent_files: recording::absent_files(&records),
    })
}

/// Returns a line about a session that goes on.
fn report(name: &str, history: &History, absent_files: usize) -> String {
    let turns = pluralize(history.turns().len(), "turn", "turns");
    let absent = match absent_files {
        0 => String::new(),
        files => format!(
            "\nA recording has no contents of files: {} of this session {} no longer there. Attach again what is needed.",
            pluralize(files, "attached file", "attached files"),
            by_number(files, "is", "are")
        ),
    };
    match history.turns().last() {
        Some(last) => format!(
            "Session {name} goes on after {turns}; the last request was: {}{absent}",
            short_line(last.user(), 60)
        ),
        None => format!("Session {name} goes on; its conversation was cleared."),
    }
}
