//! The bounds of a run, and what is left of them for a step.

use super::{PlannedWork, RunPlan, RunState};
use crate::base::config::PipelineSettings;
use crate::base::model::{AgentBounds, Money, StepSpending, seconds};
use crate::engine::pipeline::EffectiveBudget;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The bounds of a run, all steps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBudget {
    /// The number of model calls.
    pub max_steps: u32,
    /// The number of tokens; 0 means no bound.
    pub max_tokens: u64,
    /// US cents; 0 means no bound.
    pub max_cents: u64,
    /// The time from the start to the end.
    #[serde(with = "seconds")]
    pub timeout: Duration,
}

impl RunBudget {
    pub(super) fn of(effective: &EffectiveBudget) -> Self {
        Self {
            max_steps: effective.max_steps.value,
            max_tokens: effective.max_tokens.value,
            max_cents: effective.max_cents.value,
            timeout: effective.timeout.value.duration(),
        }
    }

    /// Returns these bounds, each reduced to that of the operator.
    #[must_use]
    pub fn within(self, operator: &PipelineSettings) -> Self {
        Self {
            max_steps: self.max_steps.min(operator.run_steps_max),
            max_tokens: smaller_of(self.max_tokens, operator.run_tokens_max),
            max_cents: smaller_of(self.max_cents, operator.run_cents_max),
            timeout: self.timeout.min(operator.run_time_max),
        }
    }
}

/// Returns the limits of an agent step that begins now: its own ones, and its share of what is left of the budget. The
/// agent steps of a group share it, because they run at the same time. The error is the reason if nothing is left.
pub(super) fn bounds_of_step(
    plan: &RunPlan,
    state: &RunState,
    step: usize,
    own: &AgentBounds,
) -> Result<AgentBounds, String> {
    let budget = &plan.budget;
    let spent = spent_before(plan, state, step);
    let share = Share::of(plan, step);
    let mut bounds = own.clone();
    bounds.timeout = bounds.timeout.min(budget.timeout);
    let calls = share.part(u64::from(budget.max_steps.saturating_sub(spent.calls)));
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    if calls == 0 {
        return Err(used_up("model calls", "max_steps", budget.max_steps));
    }
    bounds.max_steps = bounds.max_steps.min(calls);
    if budget.max_tokens > 0 {
        let tokens = share.part(budget.max_tokens.saturating_sub(spent.tokens));
        if tokens == 0 {
            return Err(used_up("tokens", "max_tokens", budget.max_tokens));
        }
        bounds.max_tokens = smaller_bound(bounds.max_tokens, tokens);
    }
    if budget.max_cents > 0 {
        let cents = share.part(whole_cents_left(budget.max_cents, spent.cost));
        if cents == 0 {
            return Err(used_up("US cents", "max_cents", budget.max_cents));
        }
        bounds.max_cents = smaller_bound(bounds.max_cents, cents);
    }
    Ok(bounds)
}

fn used_up(unit: &str, key: &str, most: impl std::fmt::Display) -> String {
    format!("too few of the {most} {unit} of the run are left for this step; raise {key} of its budget")
}

/// Returns the smaller of two bounds, where 0 means none.
fn smaller_of(own: u64, other: u64) -> u64 {
    match other {
        0 => own,
        other => smaller_bound(own, other),
    }
}

/// Returns the smaller of two bounds, where 0 of the first means none.
fn smaller_bound(own: u64, left: u64) -> u64 {
    match own {
        0 => left,
        own => own.min(left),
    }
}

fn whole_cents_left(max_cents: u64, cost: Money) -> u64 {
    let left = Money::from_cents(max_cents).saturating_sub(cost);
    left.nano_dollars() / Money::from_cents(1).nano_dollars()
}

/// Returns what the steps before a step have used; those of its own group do not count.
fn spent_before(plan: &RunPlan, state: &RunState, step: usize) -> StepSpending {
    let first = plan.steps.get(step).and_then(|step| step.group).unwrap_or(step);
    let ends = state.steps.iter().take(first).filter_map(|state| state.end());
    ends.map(|end| end.spent).sum()
}

/// The part of what is left that a step may use.
#[derive(Clone, Copy)]
struct Share {
    /// The number of agent steps that share.
    of: u64,
    /// The position of the step among them.
    position: u64,
}

impl Share {
    fn of(plan: &RunPlan, step: usize) -> Self {
        let alone = Self { of: 1, position: 0 };
        let Some(group) = plan.steps.get(step).and_then(|step| step.group) else {
            return alone;
        };
        let is_agent = |index: &usize| {
            let step = plan.steps.get(*index);
            step.is_some_and(|step| matches!(step.work, PlannedWork::Agent(_)))
        };
        plan.inner_steps(group)
            .filter(is_agent)
            .fold(Self { of: 0, position: 0 }, |share, index| Self {
                of: share.of + 1,
                position: share.position + u64::from(index < step),
            })
    }

    /// Returns the part of an amount; the first steps get what cannot be divided.
    fn part(self, left: u64) -> u64 {
        let of = self.of.max(1);
        left / of + u64::from(self.position < left % of)
    }
}
