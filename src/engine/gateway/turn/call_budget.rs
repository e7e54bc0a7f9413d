//! The budgets of one turn: the bounds that its model calls must keep, and the reservation of the running call.

use super::{ClaimedMessage, OpenedTurn};
use crate::base::config::{Config, ModelFacts};
use crate::base::model::{
    Attendance, BudgetBound, BudgetRefusal, BudgetScope, BudgetScopes, BudgetWarning, Budgets, Inbound,
    Money, Usage,
};
use crate::engine::agent::{AnsweringModel, CallPermission, CallSize, TurnModel, call_cost_max};
use crate::engine::gateway::parts::{Parts, agent_step};
use crate::state::store::{BudgetSubject, Claim, ReservationId, Store, StoreError};
use jiff::Timestamp;
use std::sync::Arc;

pub(super) struct CallBudget {
    bounds: Vec<(BudgetScope, BudgetBound)>,
    subject: BudgetSubject,
    /// The models that may answer a call. The most expensive one is reserved for.
    models: Vec<ModelFacts>,
    config: Arc<Config>,
    /// The reservation of the running call.
    pub(super) reservation: Option<ReservationId>,
    /// The budgets of which the model is told with the results of the running call.
    pub(super) tells: BudgetScopes,
    /// The budget that did not cover the last call.
    pub(super) refusal: Option<BudgetRefusal>,
}

/// Returns the bounds that a turn must keep. An agent step of a pipeline may have a bound of money of its own.
fn bounds(budgets: &Budgets, attendance: Attendance, inbound: &Inbound) -> Vec<(BudgetScope, BudgetBound)> {
    let cents = agent_step(inbound).map_or(0, |work| work.bounds.max_cents);
    let own = BudgetBound {
        tokens_max: None,
        money_max: (cents > 0).then(|| Money::from_cents(cents)),
    };
    let budgets = Budgets {
        turn: budgets.turn.tightened(own),
        ..*budgets
    };
    budgets.of_turn(attendance)
}

impl CallBudget {
    pub(super) fn new(
        parts: &Parts,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
        models: &[TurnModel<'_>],
    ) -> Self {
        let attendance = match parts.is_event(assigned.inbound()) {
            true => Attendance::Unattended,
            false => Attendance::Attended,
        };
        let is_person = opened.identity.sender().platform.chat().is_some();
        Self {
            bounds: bounds(&parts.config.budgets.bounds, attendance, assigned.inbound()),
            subject: BudgetSubject {
                inbox: assigned.work.inbox,
                conversation: assigned.claim.conversation,
                // A service has no budget of a day.
                user: is_person.then(|| opened.identity.user()),
            },
            models: models.iter().map(|model| model.facts).collect(),
            config: Arc::clone(&parts.config),
            reservation: None,
            tells: BudgetScopes::default(),
            refusal: None,
        }
    }

    /// Returns what a call did cost; `None` if the prices of the model are not known.
    pub(super) fn money(&self, model: AnsweringModel<'_>, usage: Usage) -> Option<Money> {
        let price = self.config.model_facts(model.provider, model.name).price;
        price.map(|price| price.cost(usage))
    }

    /// Reserves a call, unless a budget does not cover it. Without budgets nothing is stored.
    pub(super) async fn reserve(
        &mut self,
        store: &Store,
        claim: &Claim,
        call: CallSize,
        at: Timestamp,
    ) -> Result<CallPermission, StoreError> {
        self.refusal = None;
        self.tells = BudgetScopes::default();
        if self.bounds.is_empty() {
            return Ok(CallPermission::Granted);
        }
        let most = call_cost_max(&self.models, call);
        let reserved = store
            .reserve_call(claim, self.subject, self.bounds.clone(), most, at)
            .await?;
        Ok(match reserved {
            Ok(reserved) => {
                self.reservation = Some(reserved.id);
                let warnings = reserved.warnings.iter();
                self.tells = warnings.clone().map(BudgetWarning::scope).collect();
                let notes: Vec<String> = warnings.map(BudgetWarning::to_string).collect();
                match notes.is_empty() {
                    true => CallPermission::Granted,
                    false => CallPermission::GrantedNearEnd(notes.join(" ")),
                }
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                CallPermission::Refused(refusal.to_string())
            }
        })
    }

    /// Returns the subject of the budgets.
    pub(super) fn subject(&self) -> BudgetSubject {
        self.subject
    }
}

#[cfg(test)]
mod tests {
    use super::bounds;
    use crate::base::model::Sender;
    use crate::base::model::{Attendance, BudgetBound, BudgetScope, Budgets, Money};
    use crate::base::redact::Redactor;
    use crate::engine::gateway::agent_step::{message, testing::work};

    #[test]
    fn a_bound_of_a_step_narrows_the_budget_of_one_request() {
        let of = |server: Option<u64>, max_cents: u64| {
            let money = |cents: u64| BudgetBound {
                tokens_max: None,
                money_max: Some(Money::from_cents(cents)),
            };
            let budgets = Budgets {
                unattended_turn: server.map(money).unwrap_or_default(),
                person_day: money(900),
                ..Budgets::default()
            };
            let mut work = work();
            work.bounds.max_cents = max_cents;
            let message = message(&Sender::of_hook("ci"), work, &Redactor::new([]));
            let bounds = bounds(&budgets, Attendance::Unattended, &message);
            let of_turn = bounds.iter().find(|(scope, _)| *scope == BudgetScope::Turn);
            assert!(bounds.contains(&(BudgetScope::PersonDay, money(900))));
            of_turn.and_then(|(_, bound)| bound.money_max)
        };
        assert_eq!(of(None, 0), None);
        assert_eq!(of(None, 5), Some(Money::from_cents(5)));
        assert_eq!(of(Some(7), 0), Some(Money::from_cents(7)));
        assert_eq!(of(Some(7), 5), Some(Money::from_cents(5)));
        assert_eq!(of(Some(7), 9), Some(Money::from_cents(7)));
    }
}
