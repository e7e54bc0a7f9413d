//! The budget of one request in a terminal, `budgets.turn_cents_max`, around the journal that records its steps.

use crate::base::config::Config;
use crate::base::model::{BudgetBound, BudgetRefusal, BudgetScope, ModelPrice, Money, Spending, Usage};
use crate::engine::agent::{CallPermission, CallSize, Journal, StepRecord};
use async_trait::async_trait;

/// A journal of a request whose model calls stay within the budget of one request.
pub(super) struct BudgetedJournal<J> {
    journal: J,
    bound: BudgetBound,
    price: Option<ModelPrice>,
    spent: Spending,
}

impl<J> BudgetedJournal<J> {
    /// Creates the journal of a request to a model, which is named without its provider.
    pub(super) fn new(journal: J, config: &Config, (provider, model): (&str, &str)) -> Self {
        Self {
            journal,
            bound: config.budgets.bounds.turn,
            price: config.model_facts(provider, model).price,
            spent: Spending::default(),
        }
    }

    fn pay(&mut self, usage: Usage) {
        let money = self.price.map_or(Money::ZERO, |price| price.cost(usage));
        self.spent = self.spent
            + Spending {
                tokens: usage.total(),
                money,
            };
    }
}

#[async_trait]
impl<J: Journal> Journal for BudgetedJournal<J> {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        let most = Spending::of_call_max(
            call.request_bytes,
            call.bytes_per_1000_tokens,
            call.answer_tokens_max,
            self.price.as_ref(),
        );
        Ok(
            match BudgetRefusal::check(BudgetScope::Turn, self.bound, self.spent, most) {
                Some(refusal) => CallPermission::Refused(refusal.to_string()),
                None => self.journal.reserve_call(call).await?,
            },
        )
    }

    async fn call_failed(&mut self) -> anyhow::Result<()> {
        self.journal.call_failed().await
    }

    async fn answer_received(&mut self) -> anyhow::Result<()> {
        self.journal.answer_received().await
    }

    async fn answer_discarded(&mut self, usage: Usage, model: &str) -> anyhow::Result<()> {
        self.pay(usage);
        self.journal.answer_discarded(usage, model).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.pay(record.step.assistant().usage);
        self.journal.record_step(record).await
    }
}
