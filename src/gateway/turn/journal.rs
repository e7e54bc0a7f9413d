//! The journal of a running turn: step by step in the store, then in the recording.

use super::recording::Recording;
use super::{Assigned, Opened};
use crate::agent::Journal;
use crate::crash_point;
use crate::gateway::Gateway;
use crate::model::{Step, TurnId, Usage};
use crate::session;
use crate::store::{Claim, Cost, Store};
use crate::workspace::Overlay;
use anyhow::Context;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The model's final answer. It becomes durable with the end of its turn, in one commit: a crash
/// between the two would ask the model again in either case.
pub(super) struct LastStep {
    pub(super) step: Step,
    pub(super) cost: Cost,
}

/// A turn that is on record.
pub(super) struct OnRecord {
    pub(super) turn: TurnId,
    pub(super) recording: Recording,
}

/// A turn that is being put on record, while the model is asked: what it answers has to wait for that.
pub(super) type Beginning = oneshot::Receiver<OnRecord>;

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

    fn cost(&self, usage: Usage, model: &str) -> Cost {
        Cost {
            provider: self.provider.clone(),
            model: model.to_owned(),
            usage,
        }
    }

    /// The turn, as soon as it is on record.
    pub(super) async fn on_record(&mut self) -> anyhow::Result<&mut OnRecord> {
        if let Some(beginning) = self.beginning.take() {
            self.begun = Some(beginning.await?);
        }
        self.begun.as_mut().context("the turn could not be put on record")
    }
}

#[async_trait]
impl Journal for TurnJournal {
    async fn answered(&mut self) -> anyhow::Result<()> {
        self.on_record().await?;
        Ok(())
    }

    async fn thrown_away(&mut self, usage: Usage, model: &str) -> anyhow::Result<()> {
        let (store, claim, at) = (self.store.clone(), self.claim, (self.now)());
        let cost = self.cost(usage, model);
        let OnRecord { turn, .. } = self.on_record().await?;
        store.record_cost(&claim, *turn, &cost, at).await?;
        Ok(())
    }

    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()> {
        let cost = self.cost(step.assistant().usage, model);
        if step.is_final() {
            let step = step.clone();
            self.last = Some(LastStep { step, cost });
            return Ok(());
        }
        let (store, claim) = (self.store.clone(), self.claim);
        let edits = self.overlay.edits();
        let at = (self.now)();
        let OnRecord { turn, recording } = self.on_record().await?;
        crash_point::before("B17");
        store
            .record_step(&claim, *turn, step, &cost, Some(&edits), at)
            .await?;
        crash_point::after("B17");
        recording.append(session::Event::of_step(step, model)).await;
        Ok(())
    }
}
