//! Where a running turn is written down: step by step in the store, then in the recording.

use super::{Assigned, Opened};
use crate::agent::Journal;
use crate::gateway::Gateway;
use crate::model::{Step, TurnId};
use crate::session::{self, Record, Recorder, SessionError};
use crate::store::{Claim, Cost, Store};
use crate::workspace::Overlay;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The model's final answer. It becomes durable with the end of its turn, in one commit: a crash
/// between the two would ask the model again in either case.
pub(super) struct LastStep {
    pub(super) step: Step,
    pub(super) cost: Cost,
}

/// Steps go to the store first, then to the recording: a recording never holds what is not durable.
pub(super) struct TurnJournal {
    /// The final answer, once it was given; whoever ends the turn stores it.
    pub(super) last: Option<LastStep>,
    store: Store,
    claim: Claim,
    turn: TurnId,
    overlay: Arc<Overlay>,
    pub(super) recorder: Recorder,
    provider: String,
    now: fn() -> Timestamp,
}

#[async_trait]
impl Journal for TurnJournal {
    async fn model_call(&mut self, step: u32) -> anyhow::Result<()> {
        // The first call is covered by the turn's own row; each later one by the step before it.
        tracing::debug!(turn.id = %self.turn, step, "model call");
        Ok(())
    }

    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()> {
        let usage = step.assistant().usage;
        let cost = Cost {
            provider: self.provider.clone(),
            model: model.to_owned(),
            usage,
        };
        if step.is_final() {
            let step = step.clone();
            self.last = Some(LastStep { step, cost });
            return Ok(());
        }
        let edits = self.overlay.edits();
        let at = (self.now)();
        self.store
            .record_step(&self.claim, self.turn, step, &cost, Some(&edits), at)
            .await?;
        for event in session::Event::of_step(step, model) {
            self.recorder.append(&Record {
                at,
                turn: Some(self.turn),
                event,
            })?;
        }
        Ok(())
    }
}

/// A recording that is being opened, beside whatever else a turn begins with.
pub(super) type Opening = JoinHandle<Result<Recorder, SessionError>>;

impl Gateway {
    /// The journal of a turn; what the person said is recorded with it.
    pub(super) async fn journal(
        &self,
        assigned: &Assigned,
        turn: TurnId,
        opened: &Opened,
        recording: Opening,
        provider: &str,
    ) -> anyhow::Result<TurnJournal> {
        let recorder = recording.await??;
        recorder.append(&Record {
            at: (self.parts.now)(),
            turn: Some(turn),
            event: session::Event::Began {
                user: opened.user_text.clone(),
            },
        })?;
        Ok(TurnJournal {
            last: None,
            store: self.parts.store.clone(),
            claim: assigned.claim,
            turn,
            overlay: Arc::clone(&opened.overlay),
            recorder,
            provider: provider.to_owned(),
            now: self.parts.now,
        })
    }

    /// Opens the recording of a conversation, on a thread that may wait for the disk.
    pub(super) fn recorder(&self, session: &str) -> Opening {
        let (redactor, config) = (Arc::clone(&self.parts.redactor), Arc::clone(&self.parts.config));
        let (session, at) = (session.to_owned(), (self.parts.now)());
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        tokio::task::spawn_blocking(move || Recorder::open(&config.data.directory, &session, redact, at))
    }
}
