//! Runs of pipelines, without any effect: what a run does is planned once ([`RunPlan`]), its inputs are typed
//! ([`RunInputs`]), and [`next_moves`] says which steps begin and end next. [`resolved_work`] replaces the references of
//! a step by their values. Callers do the work and keep the [`RunState`].

mod budget;
mod inputs;
mod moves;
mod plan;
mod state;
mod support;
#[cfg(test)]
mod tests;
mod values;
mod work;

pub use budget::RunBudget;
pub use inputs::{ParameterProblem, RunGroup, RunInputs, run_group, trigger_admits};
pub use moves::{RunMoves, next_moves};
pub use plan::{PlannedAgent, PlannedStep, PlannedWork, RunPlan};
pub use state::{RunState, StepState};
pub use support::{RunDoor, UnsupportedStep, check_available};
pub use work::{ResolvedWork, TaskWork, resolved_work};
