//! The optional recording of a terminal conversation.

use crate::base::model::{History, Step, pluralize, short_line};
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::serve::host;
use crate::engine::agent::{CallLosses, CallPermission, CallSize, DiscardedAnswer, Journal, StepRecord};
use crate::interfaces::tool::MemoryOutputs;
use crate::state::recording::{self, RecordedEvent, Recorder, SessionRecord};
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;

/// A recording, if requested.
pub(super) struct TerminalRecording {
    recorder: Option<Recorder>,
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
    /// Opens a recording below `directory`, with its conversation. Without a directory nothing is recorded. A recording
    /// that cannot be continued is left as it is.
    pub(super) fn open(
        directory: Option<&Path>,
        start: &SessionStart,
        redactor: &Arc<Redactor>,
    ) -> Result<(Self, History, Option<String>), CliError> {
        let Some(directory) = directory else {
            return Ok((Self { recorder: None }, History::default(), None));
        };
        let host = host();
        let (name, history, resumed) = match start {
            SessionStart::New => (hex::encode(&(host.random)()[..16]), History::default(), None),
            SessionStart::Resume(name) => {
                let (name, history) = restored(directory, name.as_deref())?;
                let report = report(&name, &history);
                (name, history, Some(report))
            }
        };
        let redactor = Arc::clone(redactor);
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        let recorder = Recorder::open(directory, &name, redact, (host.now)()).map_err(CliError::failed)?;
        let recorder = Some(recorder);
        Ok((Self { recorder }, history, resumed))
    }

    /// Records that the conversation was cleared.
    pub(super) fn record_clear(&self) -> anyhow::Result<()> {
        self.append(vec![RecordedEvent::Cleared {}])
    }

    /// Records the request of a new turn.
    pub(super) fn record_request(&self, request: &str) -> anyhow::Result<()> {
        self.append(vec![RecordedEvent::Began {
            user: request.to_owned(),
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

/// Reads the conversation of a recording.
fn restored(directory: &Path, name: Option<&str>) -> Result<(String, History), CliError> {
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
    Ok((name, history))
}

/// Returns a line about a session that goes on.
fn report(name: &str, history: &History) -> String {
    let turns = pluralize(history.turns().len(), "turn", "turns");
    let last = history.turns().last().map_or("", |turn| turn.user());
    format!(
        "Session {name} goes on after {turns}; the last request was: {}",
        short_line(last, 60)
    )
}
