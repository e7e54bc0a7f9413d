//! The budget of one request in a terminal, around the journal that records its steps: `budgets.turn_cents_max`, and those of
//! unattended turns if nobody can be asked.

use crate::base::config::{Config, ModelFacts};
use crate::base::model::{
    Attendance, BudgetBound, BudgetRefusal, BudgetScope, BudgetWarning, ContextState, Money, Spending, Usage,
};
use crate::engine::agent::{
    AnsweringModel, CallLosses, CallPermission, CallSize, Journal, PaidAnswer, StepRecord, TurnModel,
    call_cost_max,
};
use crate::interfaces::provider::LostCharge;
use async_trait::async_trait;

/// A journal of a request whose model calls stay within the budget of one request.
pub(super) struct BudgetedJournal<'a, J> {
    journal: J,
    config: &'a Config,
    bound: BudgetBound,
    /// The models that may answer a call. The most expensive one is reserved for.
    models: Vec<ModelFacts>,
    spent: Spending,
    /// The most that the running call may cost.
    reserved: Spending,
    /// The note of the running step that the budget is nearly used.
    note: BudgetNote,
}

/// The note for the model that the budget is nearly used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetNote {
    None,
    /// The results of the running step have it.
    Due,
    /// A recorded step has it.
    Given,
}

impl<'a, J> BudgetedJournal<'a, J> {
    /// Creates the journal of a request to these models.
    pub(super) fn new(
        journal: J,
        config: &'a Config,
        models: &[TurnModel<'_>],
        attendance: Attendance,
    ) -> Self {
        Self {
            journal,
            config,
            bound: config.budgets.bounds.turn_bound(attendance),
            models: models.iter().map(|model| model.facts).collect(),
            spent: Spending::default(),
            reserved: Spending::default(),
            note: BudgetNote::None,
        }
    }

    fn pay(&mut self, usage: Usage, model: AnsweringModel<'_>) {
        let price = self.config.model_facts(model.provider, model.name).price;
        self.spent = self.spent
            + Spending {
                tokens: usage.total(),
                money: price.map_or(Money::ZERO, |price| price.cost(usage)),
            };
    }

    /// Counts what a call did cost beside its answer. An answer that was lost may have cost all that was reserved.
    fn pay_losses(&mut self, losses: &CallLosses<'_>) {
        for answer in &losses.discarded {
            self.pay(answer.usage, answer.model);
        }
        if losses.lost == LostCharge::Possible {
            self.spent = self.spent + self.reserved;
        }
    }
}

#[async_trait]
impl<J: Journal> Journal for BudgetedJournal<'_, J> {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        let most = call_cost_max(&self.models, call);
        self.reserved = most;
        let (scope, bound, spent) = (BudgetScope::Turn, self.bound, self.spent);
        if let Some(refusal) = BudgetRefusal::check(scope, bound, spent, most) {
            return Ok(CallPermission::Refused(refusal.to_string()));
        }
        // A note that no step has carried is due only if the budget is still nearly used.
        if self.note == BudgetNote::Due {
            self.note = BudgetNote::None;
        }
        let permission = self.journal.reserve_call(call).await?;
        let warning = BudgetWarning::check(scope, bound, spent, most);
        Ok(match (permission, warning) {
            (CallPermission::Granted, Some(warning)) if self.note != BudgetNote::Given => {
                self.note = BudgetNote::Due;
                CallPermission::GrantedNearEnd(warning.to_string())
            }
            (permission, _) => permission,
        })
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.pay_losses(losses);
        self.journal.call_failed(losses).await
    }

    async fn answer_received(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.pay_losses(losses);
        self.pay(answer.usage, answer.model);
        self.journal.answer_received(answer, losses).await
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.journal.answer_discarded(answer).await
    }

    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        self.pay_losses(losses);
        self.pay(answer.usage, answer.model);
        self.journal.record_summary(answer, losses, context).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        let has_note = self.note == BudgetNote::Due && !record.step.results().is_empty();
        self.journal.record_step(record).await?;
        if has_note {
            self.note = BudgetNote::Given;
        }
        Ok(())
    }
}
