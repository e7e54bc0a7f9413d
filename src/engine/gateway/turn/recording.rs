//! The recording of a running turn. No step waits for the file, and a write failure does not end the turn: the
//! recording is for people, and the store holds the authoritative data.

use super::OpenedTurn;
use crate::base::model::TurnId;
use crate::engine::gateway::parts::Parts;
use crate::state::recording::{self, Recorder, SessionError, SessionRecord};
use jiff::Timestamp;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The recording of a turn, in order.
pub(super) struct TurnRecording {
    turn: TurnId,
    now: fn() -> Timestamp,
    file: RecordingFile,
}

enum RecordingFile {
    /// The file is being opened on a blocking thread.
    Opening(JoinHandle<Result<Recorder, SessionError>>),
    Open(Recorder),
    /// The file could not be opened or written. That was logged.
    Lost,
}

impl TurnRecording {
    /// Begins to open the recording of a turn and to write the first event.
    pub(super) fn open(
        parts: &Parts,
        opened: &OpenedTurn,
        turn: TurnId,
        first: Option<recording::RecordedEvent>,
    ) -> Self {
        let session = opened.conversation.session.clone();
        let redactor = Arc::clone(&opened.workspace.guard.redactor);
        let config = Arc::clone(&parts.config);
        let (now, at) = (parts.now, (parts.now)());
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        let opening = tokio::task::spawn_blocking(move || {
            let recorder = Recorder::open(&config.data.directory, &session, redact, at)?;
            append(&recorder, turn, at, first)?;
            Ok(recorder)
        });
        Self {
            turn,
            now,
            file: RecordingFile::Opening(opening),
        }
    }

    /// Appends events after all earlier ones.
    pub(super) async fn append(&mut self, events: impl IntoIterator<Item = recording::RecordedEvent>) {
        let opened = match std::mem::replace(&mut self.file, RecordingFile::Lost) {
            RecordingFile::Opening(opening) => opening
                .await
                .map_err(anyhow::Error::from)
                .and_then(|opened| Ok(opened?)),
            RecordingFile::Open(recorder) => Ok(recorder),
            RecordingFile::Lost => return,
        };
        let written = opened.and_then(|recorder| {
            append(&recorder, self.turn, (self.now)(), events)?;
            Ok(recorder)
        });
        match written {
            Ok(recorder) => self.file = RecordingFile::Open(recorder),
            Err(error) => {
                tracing::error!(turn.id = %self.turn, error = format!("{error:#}"), "the turn is not recorded");
            }
        }
    }
}

fn append(
    recorder: &Recorder,
    turn: TurnId,
    at: Timestamp,
    events: impl IntoIterator<Item = recording::RecordedEvent>,
) -> Result<(), SessionError> {
    let turn = Some(turn);
    let mut records = events.into_iter().map(|event| SessionRecord { at, turn, event });
    records.try_for_each(|record| recorder.append(&record))
}
