//! Where a running turn is written down: step by step in the store, then in the recording.

use super::{Assigned, Opened};
use crate::agent::Journal;
use crate::gateway::Gateway;
use crate::model::{Step, TurnId};
use crate::session::{self, Record, Recorder, SessionError};
use crate::store::{Claim, Cost, Store};
use crate::workspace::Overlay;
use anyhow::Context;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The model's final answer. It becomes durable with the end of its turn, in one commit: a crash
/// between the two would ask the model again in either case.
pub(super) struct LastStep {
    pub(super) step: Step,
    pub(super) cost: Cost,
}

/// A turn that is on record.
pub(super) struct OnRecord {
    pub(super) turn: TurnId,
    pub(super) recorder: Recorder,
}

/// A turn that is being put on record, while the model is asked: what it answers has to wait for that.
pub(super) type Beginning = oneshot::Receiver<(TurnId, Opening)>;

/// Steps go to the store first, then to the recording: a recording never holds what is not durable.
pub(super) struct TurnJournal {
    /// The final answer, once it was given; whoever ends the turn stores it.
    pub(super) last: Option<LastStep>,
    store: Store,
    claim: Claim,
    beginning: Option<Beginning>,
    begun: Option<OnRecord>,
    overlay: Arc<Overlay>,
    provider: String,
    now: fn() -> Timestamp,
}

impl TurnJournal {
    /// The journal of a turn that begins.
    pub(super) fn new(
        gateway: &Gateway,
        assigned: &Assigned,
        opened: &Opened,
        beginning: Beginning,
        provider: &str,
    ) -> Self {
        Self {
            last: None,
            store: gateway.parts.store.clone(),
            claim: assigned.claim,
            beginning: Some(beginning),
            begun: None,
            overlay: Arc::clone(&opened.overlay),
            provider: provider.to_owned(),
            now: gateway.parts.now,
        }
    }

    /// The turn, as soon as it is on record.
    pub(super) async fn on_record(&mut self) -> anyhow::Result<&OnRecord> {
        if let Some(beginning) = self.beginning.take() {
            let (turn, opening) = beginning.await?;
            let recorder = opening.await??;
            self.begun = Some(OnRecord { turn, recorder });
        }
        self.begun.as_ref().context("the turn could not be put on record")
    }
}

#[async_trait]
impl Journal for TurnJournal {
    async fn answered(&mut self) -> anyhow::Result<()> {
        self.on_record().await?;
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
        let (store, claim) = (self.store.clone(), self.claim);
        let edits = self.overlay.edits();
        let at = (self.now)();
        let OnRecord { turn, recorder } = self.on_record().await?;
        store
            .record_step(&claim, *turn, step, &cost, Some(&edits), at)
            .await?;
        for event in session::Event::of_step(step, model) {
            let turn = Some(*turn);
            recorder.append(&Record { at, turn, event })?;
        }
        Ok(())
    }
}

/// A recording that is being opened, beside whatever else a turn begins with.
pub(super) type Opening = JoinHandle<Result<Recorder, SessionError>>;

impl Gateway {
    /// Opens the recording of a conversation, on a thread that may wait for the disk, and writes down what
    /// comes first.
    pub(super) fn recorder(&self, session: &str, first: Option<Record>) -> Opening {
        let (redactor, config) = (Arc::clone(&self.parts.redactor), Arc::clone(&self.parts.config));
        let (session, at) = (session.to_owned(), (self.parts.now)());
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        tokio::task::spawn_blocking(move || {
            let recorder = Recorder::open(&config.data.directory, &session, redact, at)?;
            first.iter().try_for_each(|record| recorder.append(record))?;
            Ok(recorder)
        })
    }
}
