//! The recording of a conversation in the terminal: none, unless it is asked for.

use crate::agent::Journal;
use crate::cli::Failure;
use crate::cli::serve::world;
use crate::model::{Step, Usage};
use crate::redact::Redactor;
use crate::session::{self, Event, Record, Recorder};
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;

/// A recording, if one is wanted.
pub(super) struct Recording {
    recorder: Option<Recorder>,
}

impl Recording {
    /// Opens a recording below `directory`; without one nothing is kept.
    pub(super) fn open(directory: Option<&Path>, redactor: &Arc<Redactor>) -> Result<Self, Failure> {
        let Some(directory) = directory else {
            return Ok(Self { recorder: None });
        };
        let redactor = Arc::clone(redactor);
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        let world = world();
        let name: String = (world.random)()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let recorder = Recorder::open(directory, &name, redact, (world.now)()).map_err(Failure::failed)?;
        Ok(Self {
            recorder: Some(recorder),
        })
    }

    /// A turn begins.
    pub(super) fn began(&self, request: &str) -> anyhow::Result<()> {
        self.append(Event::Began {
            user: request.to_owned(),
        })
    }

    fn append(&self, event: Event) -> anyhow::Result<()> {
        if let Some(recorder) = &self.recorder {
            let at = (world().now)();
            recorder.append(&Record {
                at,
                turn: None,
                event,
            })?;
        }
        Ok(())
    }
}

#[async_trait]
impl Journal for &Recording {
    async fn answered(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn thrown_away(&mut self, _usage: Usage, _model: &str) -> anyhow::Result<()> {
        // It is no part of the conversation, and the end of the turn counts it.
        Ok(())
    }

    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()> {
        for event in session::Event::of_step(step, model) {
            self.append(event)?;
        }
        Ok(())
    }
}
