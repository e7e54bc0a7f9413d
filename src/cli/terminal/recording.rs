//! The optional recording of a terminal conversation.

use crate::base::model::Usage;
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::serve::host;
use crate::engine::agent::{CallPermission, CallSize, Journal, StepRecord};
use crate::interfaces::tool::MemoryOutputs;
use crate::state::recording::{self, RecordedEvent, Recorder, SessionRecord};
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;

/// A recording, if requested.
pub(super) struct TerminalRecording {
    recorder: Option<Recorder>,
}

impl TerminalRecording {
    /// Opens a recording below `directory`; without a directory nothing is recorded.
    pub(super) fn open(directory: Option<&Path>, redactor: &Arc<Redactor>) -> Result<Self, CliError> {
        let Some(directory) = directory else {
            return Ok(Self { recorder: None });
        };
        let redactor = Arc::clone(redactor);
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        let host = host();
        let name = hex::encode(&(host.random)()[..16]);
        let recorder = Recorder::open(directory, &name, redact, (host.now)()).map_err(CliError::failed)?;
        Ok(Self {
            recorder: Some(recorder),
        })
    }

    /// Records the request of a new turn.
    pub(super) fn record_request(&self, request: &str) -> anyhow::Result<()> {
        self.append(RecordedEvent::Began {
            user: request.to_owned(),
        })
    }

    fn append(&self, event: RecordedEvent) -> anyhow::Result<()> {
        if let Some(recorder) = &self.recorder {
            let at = (host().now)();
            recorder.append(&SessionRecord {
                at,
                turn: None,
                event,
            })?;
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

    async fn call_failed(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn answer_received(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn answer_discarded(&mut self, _usage: Usage, _model: &str) -> anyhow::Result<()> {
        // A discarded answer is not part of the conversation; its tokens are counted at the end of the turn.
        Ok(())
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.outputs.keep(record.outputs);
        for event in recording::RecordedEvent::from_step(record.step, record.model) {
            self.recording.append(event)?;
        }
        Ok(())
    }
}
