//! The journal of a running turn. Each step is written to the store, then to the recording.

use super::call_budget::CallBudget;
use super::messages::MessageComposer;
use super::question::QuestionComposer;
use super::recording::TurnRecording;
use super::steering::Steering;
use super::{ClaimedMessage, OpenedTurn};
use crate::base::model::{BudgetRefusal, BudgetScopes, ContextState, PersonMessage, Step, TurnId, Usage};
use crate::crash_point;
use crate::engine::agent::{
    AnsweringModel, CallLosses, CallPermission, CallSize, Journal, PaidAnswer, QuestionRecord,
    SteeringMessage, StepRecord, TakeResult, TurnModel,
};
use crate::engine::gateway::parts::Parts;
use crate::interfaces::provider::LostCharge;
use crate::state::recording;
use crate::state::store::{BudgetSubject, Claim, Cost, FileEdits, StepEffects, Store, TakeOutcome};
use crate::state::workspace::Overlay;
use anyhow::Context;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The model's final answer. It is committed together with the end of its turn. With two commits, a crash between them
/// would call the model again anyway.
pub(super) struct LastStep {
    pub(super) step: Step,
    pub(super) cost: Cost,
}

/// A turn that is stored.
pub(super) struct RecordedTurn {
    pub(super) turn: TurnId,
    pub(super) recording: TurnRecording,
}

/// A receiver for the stored turn. The model is called while the turn is being stored; its answer waits for that.
pub(super) type TurnStartReceiver = oneshot::Receiver<RecordedTurn>;

/// A journal of steps. Steps go to the store first, so that the recording never holds more than the store.
pub(super) struct TurnJournal {
    /// The final answer. The code that ends the turn stores it.
    pub(super) last: Option<LastStep>,
    /// The composer that composes questions, if the person can be asked.
    pub(super) composer: Option<QuestionComposer>,
    /// The composer of messages to other people, if the turn may send some.
    pub(super) messages: Option<MessageComposer>,
    store: Store,
    claim: Claim,
    start: Option<TurnStartReceiver>,
    recorded: Option<RecordedTurn>,
    overlay: Arc<Overlay>,
    // The edits that the last recorded step stored; none before the first.
    recorded_edits: Option<FileEdits>,
    budget: CallBudget,
    steering: Option<Steering>,
    now: fn() -> Timestamp,
}

impl TurnJournal {
    pub(super) fn new(
        parts: &Parts,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
        beginning: TurnStartReceiver,
        steering: Option<Steering>,
        models: &[TurnModel<'_>],
    ) -> Self {
        Self {
            last: None,
            composer: None,
            messages: None,
            store: parts.store.clone(),
            claim: assigned.claim,
            start: Some(beginning),
            recorded: None,
            overlay: Arc::clone(&opened.overlay),
            recorded_edits: None,
            budget: CallBudget::new(parts, assigned, opened, models),
            steering,
            now: parts.now,
        }
    }

    /// Returns the cost of an answer. It replaces the reservation of its call.
    fn cost(&mut self, usage: Usage, model: AnsweringModel<'_>) -> Cost {
        Cost {
            reservation: self.budget.reservation.take(),
            ..self.side_cost(usage, model)
        }
    }

    /// Returns the cost of an answer, beside which the reservation of its call stays.
    fn side_cost(&self, usage: Usage, model: AnsweringModel<'_>) -> Cost {
        Cost {
            provider: model.provider.to_owned(),
            model: model.reported.to_owned(),
            usage,
            money: self.budget.money(model, usage),
            reservation: None,
            told: BudgetScopes::default(),
        }
    }

    /// Returns the cost of the answer of a step, like [`Self::cost`].
    fn step_cost(&mut self, step: &Step, model: AnsweringModel<'_>) -> Cost {
        Cost {
            told: self.told_with(step),
            ..self.cost(step.assistant().usage, model)
        }
    }

    /// Returns the budgets of which a step tells the model. The note is one of the results.
    fn told_with(&self, step: &Step) -> BudgetScopes {
        match step.results().is_empty() {
            true => BudgetScopes::default(),
            false => self.budget.tells,
        }
    }

    /// Returns what is stored together with a step. Edits that the step before it stored are not stored again: packages
    /// may have very many files.
    fn effects(&self, record: &StepRecord<'_>, edits: &FileEdits) -> StepEffects {
        let is_recorded = self.recorded_edits.as_ref() == Some(edits);
        StepEffects {
            edits: (!is_recorded).then(|| edits.clone()),
            outputs: record.outputs.to_vec(),
            context: record.context.clone(),
        }
    }

    /// Leaves the reservation of the call if answers were lost: nobody knows what they did cost. Nothing ends it then,
    /// so it counts in full, like that of a call whose process ended.
    fn keep_lost(&mut self, lost: LostCharge) {
        if lost == LostCharge::Possible {
            self.budget.reservation = None;
        }
    }

    /// Returns the budget that ended the turn, and whose it is.
    pub(super) fn budget_refusal(&self) -> Option<(BudgetSubject, BudgetRefusal)> {
        Some((self.budget.subject(), self.budget.refusal?))
    }

    async fn record_cost(&mut self, cost: Cost) -> anyhow::Result<()> {
        let (store, claim, at) = (self.store.clone(), self.claim, (self.now)());
        let RecordedTurn { turn, .. } = self.wait_recorded().await?;
        store.record_cost(&claim, *turn, &cost, at).await?;
        Ok(())
    }

    /// Records what a call did cost beside its answer. The reservation stays until the call itself is recorded.
    async fn record_losses(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        for answer in &losses.discarded {
            let cost = self.side_cost(answer.usage, answer.model);
            self.record_cost(cost).await?;
        }
        self.keep_lost(losses.lost);
        Ok(())
    }

    /// Waits until the turn is stored, and returns it.
    pub(super) async fn wait_recorded(&mut self) -> anyhow::Result<&mut RecordedTurn> {
        if let Some(beginning) = self.start.take() {
            self.recorded = Some(beginning.await?);
        }
        self.recorded.as_mut().context("the turn could not be recorded")
    }
}

#[async_trait]
impl Journal for TurnJournal {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        let at = (self.now)();
        Ok(self.budget.reserve(&self.store, &self.claim, call, at).await?)
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.record_losses(losses).await?;
        if let Some(reservation) = self.budget.reservation.take() {
            self.store.release_call(&self.claim, reservation).await?;
        }
        Ok(())
    }

    async fn answer_received(
        &mut self,
        _answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        // The reservation of the call counts until the answer is recorded with its step.
        self.wait_recorded().await?;
        self.record_losses(losses).await
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        let cost = self.cost(answer.usage, answer.model);
        self.record_cost(cost).await
    }

    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        self.record_losses(losses).await?;
        let cost = self.cost(answer.usage, answer.model);
        let (store, claim, at) = (self.store.clone(), self.claim, (self.now)());
        let RecordedTurn { turn, .. } = self.wait_recorded().await?;
        store.record_summary(&claim, *turn, &cost, context, at).await?;
        Ok(())
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        let (step, model) = (record.step, record.model);
        let cost = self.step_cost(step, model);
        if step.is_final() {
            let step = step.clone();
            self.last = Some(LastStep { step, cost });
            return Ok(());
        }
        let (store, claim) = (self.store.clone(), self.claim);
        let edits = self.overlay.edits();
        let effects = self.effects(&record, &edits);
        let at = (self.now)();
        let RecordedTurn { turn, recording } = self.wait_recorded().await?;
        crash_point::before("B17");
        store.record_step(&claim, *turn, step, &cost, effects, at).await?;
        crash_point::after("B17");
        recording
            .append(recording::RecordedEvent::from_step(step, model.reported))
            .await;
        self.recorded_edits = Some(edits);
        Ok(())
    }

    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        match &mut self.steering {
            Some(steering) => steering.waiting().await,
            None => Ok(Vec::new()),
        }
    }

    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        let Some(steering) = &self.steering else {
            return Ok(TakeResult::Left);
        };
        let (step, model) = (record.step, record.model);
        let taken = steering.taken(messages);
        // The reservation stays until the cost is stored.
        let cost = Cost {
            reservation: self.budget.reservation,
            told: self.told_with(step),
            ..self.side_cost(step.assistant().usage, model)
        };
        let (store, claim) = (self.store.clone(), self.claim);
        let edits = self.overlay.edits();
        let effects = self.effects(&record, &edits);
        let at = (self.now)();
        let RecordedTurn { turn, recording } = self.wait_recorded().await?;
        let outcome = store
            .record_step_taking(&claim, *turn, step, &cost, effects, taken, at)
            .await?;
        let TakeOutcome::Taken { waited } = outcome else {
            return Ok(TakeResult::Left);
        };
        recording
            .append(recording::RecordedEvent::from_step(step, model.reported))
            .await;
        self.recorded_edits = Some(edits);
        self.budget.reservation = None;
        if let Some(steering) = &mut self.steering {
            steering.show_taken(&waited).await;
        }
        Ok(TakeResult::Taken)
    }

    async fn record_question(
        &mut self,
        record: StepRecord<'_>,
        question: QuestionRecord<'_>,
    ) -> anyhow::Result<()> {
        let (step, model) = (record.step, record.model);
        let cost = self.step_cost(step, model);
        let (store, claim, at) = (self.store.clone(), self.claim, (self.now)());
        let edits = self.overlay.edits();
        let effects = self.effects(&record, &edits);
        let composer = self.composer.take().context("nobody can be asked in this turn")?;
        let known = self.steering.as_ref().map(Steering::known);
        let RecordedTurn { turn, recording } = self.wait_recorded().await?;
        let asked = composer.compose(*turn, question, known);
        store
            .record_question(&claim, *turn, (step, &cost), effects, asked, at)
            .await?;
        // The result of the call that asks is recorded when it is known.
        let events = recording::RecordedEvent::from_step(step, model.reported).into_iter();
        let known = |event: &recording::RecordedEvent| !matches!(event, recording::RecordedEvent::Result { call, .. } if call == question.call);
        recording.append(events.filter(known)).await;
        Ok(())
    }

    async fn record_step_sending(
        &mut self,
        record: StepRecord<'_>,
        messages: &[PersonMessage],
    ) -> anyhow::Result<Step> {
        let (step, model) = (record.step, record.model);
        let composer = self.messages.as_ref().context("this turn may send no messages")?;
        let (step, composed) = composer.compose(step.clone(), messages).await?;
        let messages = (composed, composer.sending_check());
        let cost = self.step_cost(&step, model);
        let (store, claim, at) = (self.store.clone(), self.claim, (self.now)());
        let edits = self.overlay.edits();
        let effects = self.effects(&record, &edits);
        let RecordedTurn { turn, recording } = self.wait_recorded().await?;
        crash_point::before("B17");
        let sent = store
            .record_step_sending(&claim, *turn, (&step, &cost), effects, messages, at)
            .await?;
        crash_point::after("B17");
        recording
            .append(recording::RecordedEvent::from_step(&sent, model.reported))
            .await;
        self.recorded_edits = Some(edits);
        if let Some(composer) = &self.messages {
            composer.wake();
        }
        Ok(sent)
    }
}
