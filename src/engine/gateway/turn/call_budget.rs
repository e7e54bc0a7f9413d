//! The budgets of one turn: the bounds that its model calls must keep, and the reservation of the running call.

use super::{ClaimedMessage, OpenedTurn};
use crate::base::config::Config;
use crate::base::model::{
    Attendance, BudgetBound, BudgetRefusal, BudgetScope, ModelPrice, Money, Spending, Usage,
};
use crate::engine::agent::{AnsweringModel, CallSize};
use crate::engine::gateway::parts::Parts;
use crate::state::store::{BudgetSubject, Claim, ReservationId, Store, StoreError};
use jiff::Timestamp;
use std::sync::Arc;

pub(super) struct CallBudget {
    bounds: Vec<(BudgetScope, BudgetBound)>,
    subject: BudgetSubject,
    price: Option<ModelPrice>,
    config: Arc<Config>,
    /// The reservation of the running call.
    pub(super) reservation: Option<ReservationId>,
    /// The budget that did not cover the last call.
    pub(super) refusal: Option<BudgetRefusal>,
}

impl CallBudget {
    pub(super) fn new(
        parts: &Parts,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
        (provider, model): (&str, &str),
    ) -> Self {
        let is_hook = parts.hook(assigned.inbound()).is_some();
        let attendance = match is_hook {
            true => Attendance::Unattended,
            false => Attendance::Attended,
        };
        Self {
            bounds: parts.config.budgets.bounds.of_turn(attendance),
            subject: BudgetSubject {
                inbox: assigned.work.inbox,
                conversation: assigned.claim.conversation,
                user: (!is_hook).then(|| opened.identity.user()),
            },
            price: parts.config.model_facts(provider, model).price,
            config: Arc::clone(&parts.config),
            reservation: None,
            refusal: None,
        }
    }

    /// Returns what a call did cost; `None` if the prices of the model are not known.
    pub(super) fn money(&self, model: AnsweringModel<'_>, usage: Usage) -> Option<Money> {
        let price = self.config.model_facts(model.provider, model.name).price;
        price.map(|price| price.cost(usage))
    }

    /// Reserves a call, or returns the budget that does not cover it. Without budgets nothing is stored.
    pub(super) async fn reserve(
        &mut self,
        store: &Store,
        claim: &Claim,
        call: CallSize,
        at: Timestamp,
    ) -> Result<Option<BudgetRefusal>, StoreError> {
        if self.bounds.is_empty() {
            return Ok(None);
        }
        let most = Spending::of_call_max(
            call.request_bytes,
            call.bytes_per_1000_tokens,
            call.answer_tokens_max,
            self.price.as_ref(),
        );
        let reserved = store
            .reserve_call(claim, self.subject, self.bounds.clone(), most, at)
            .await?;
        match reserved {
            Ok(reservation) => self.reservation = Some(reservation),
            Err(refusal) => self.refusal = Some(refusal),
        }
        Ok(self.refusal)
    }

    /// Returns the subject of the budgets.
    pub(super) fn subject(&self) -> BudgetSubject {
        self.subject
    }
}
