//! The next moves of a run. They follow from its plan, its inputs and its state alone.

use super::budget::bounds_of_step;
use super::values::{VisibleValues, evaluated};
use super::{PlannedWork, RunInputs, RunPlan, RunState, StepState};
use crate::base::model::{RunStatus, StepEnd, StepStatus};
use crate::engine::pipeline::definition::StepOutcome;

/// The next moves of a run: ends come before beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMoves {
    /// The steps that begin. A group is among them, before its steps, and has no work of its own.
    pub begin: Vec<usize>,
    /// The steps that end without work: skipped ones, those that cannot begin, and groups whose steps ended.
    pub end: Vec<(usize, StepEnd)>,
    /// The end of the run.
    pub finish: Option<RunStatus>,
}

impl RunMoves {
    /// Returns true if nothing is to be done until a step ends.
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty() && self.end.is_empty() && self.finish.is_none()
    }

    /// Applies the moves to the state of the run.
    pub fn apply(&self, state: &mut RunState) {
        for (step, end) in &self.end {
            state.end(*step, end.clone());
        }
        for step in &self.begin {
            state.begin(*step);
        }
    }
}

/// Returns the next moves of a run. After they are applied, the answer for the new state is empty until a step ends, or
/// the run has finished. After a step was cancelled, nothing begins; the run ends when no step runs.
pub fn next_moves(plan: &RunPlan, inputs: &RunInputs, state: &RunState) -> RunMoves {
    let mut walk = Walk {
        plan,
        inputs,
        state: state.clone(),
        moves: RunMoves::default(),
    };
    if has_status(state, StepStatus::Cancelled) {
        walk.cancel_waiting();
    } else {
        walk.steps();
    }
    let is_open = |state: &StepState| state.end().is_none();
    if !walk.state.steps.iter().any(is_open) {
        walk.moves.finish = Some(outcome(&walk.state));
    }
    walk.moves
}

fn has_status(state: &RunState, status: StepStatus) -> bool {
    state.steps.iter().any(|step| step.status() == status)
}

/// Returns the end of a run whose steps all ended.
fn outcome(state: &RunState) -> RunStatus {
    if has_status(state, StepStatus::Cancelled) {
        RunStatus::Cancelled
    } else if has_status(state, StepStatus::Failed) {
        RunStatus::Failed
    } else {
        RunStatus::Succeeded
    }
}

/// The decision about a step that has not begun.
enum Decision {
    Begin,
    End(StepEnd),
}

/// The search for the next moves, with the state to which those that were found are applied.
struct Walk<'a> {
    plan: &'a RunPlan,
    inputs: &'a RunInputs,
    state: RunState,
    moves: RunMoves,
}

impl Walk<'_> {
    fn status(&self, step: usize) -> StepStatus {
        self.state
            .steps
            .get(step)
            .map_or(StepStatus::Waiting, StepState::status)
    }

    fn begin(&mut self, step: usize) {
        self.state.begin(step);
        self.moves.begin.push(step);
    }

    fn end(&mut self, step: usize, end: StepEnd) {
        self.state.end(step, end.clone());
        self.moves.end.push((step, end));
    }

    fn cancel_waiting(&mut self) {
        for step in 0..self.plan.steps.len() {
            let is_idle_group = self.is_group(step)
                && !self
                    .plan
                    .inner_steps(step)
                    .any(|inner| self.status(inner) == StepStatus::Running);
            match self.status(step) {
                StepStatus::Waiting => self.end(step, StepEnd::cancelled("the run was cancelled")),
                StepStatus::Running if is_idle_group => {
                    self.end(step, StepEnd::cancelled("the run was cancelled"));
                }
                _ => {}
            }
        }
    }

    fn is_group(&self, step: usize) -> bool {
        let planned = self.plan.steps.get(step);
        planned.is_some_and(|step| matches!(step.work, PlannedWork::Parallel))
    }

    /// Goes through the steps in order, up to the first one that has not ended.
    fn steps(&mut self) {
        let plan = self.plan;
        for (index, step) in plan.steps.iter().enumerate() {
            if step.group.is_some() || self.status(index).is_end() {
                continue;
            }
            match step.work {
                PlannedWork::Parallel => self.group(index),
                _ => self.step(index),
            }
            if !self.status(index).is_end() {
                return;
            }
        }
    }

    fn step(&mut self, step: usize) {
        if self.status(step) != StepStatus::Waiting {
            return;
        }
        match self.decision(step) {
            Decision::Begin => self.begin(step),
            Decision::End(end) => self.end(step, end),
        }
    }

    fn group(&mut self, group: usize) {
        let inner: Vec<usize> = self.plan.inner_steps(group).collect();
        if self.status(group) == StepStatus::Waiting {
            match self.decision(group) {
                Decision::Begin => self.begin(group),
                Decision::End(end) => {
                    self.end(group, end);
                    for step in inner {
                        if self.status(step) == StepStatus::Waiting {
                            self.end(step, StepEnd::skipped("its group does not run"));
                        }
                    }
                    return;
                }
            }
        }
        for step in &inner {
            self.step(*step);
        }
        if inner.iter().all(|step| self.status(*step).is_end()) {
            let failed = inner.iter().any(|step| self.status(*step) == StepStatus::Failed);
            let end = match failed {
                true => StepEnd::failed("a step of the group failed"),
                false => StepEnd::succeeded(""),
            };
            self.moves.begin.retain(|begun| *begun != group);
            self.end(group, end);
        }
    }

    fn decision(&self, step: usize) -> Decision {
        let Some(planned) = self.plan.steps.get(step) else {
            return Decision::End(StepEnd::failed("the plan has no such step"));
        };
        let values = VisibleValues::of(self.plan, self.inputs, &self.state, step);
        let skipped = match (planned.condition.on, values.has_failure()) {
            (StepOutcome::Success, true) => Some("an earlier step failed"),
            (StepOutcome::Failure, false) => Some("no earlier step failed"),
            _ => None,
        };
        if let Some(why) = skipped {
            return Decision::End(StepEnd::skipped(why));
        }
        if let Some(when) = &planned.condition.when {
            match evaluated(when, |names| values.of_condition(names)) {
                Ok(true) => {}
                Ok(false) => return Decision::End(StepEnd::skipped("its condition is false")),
                Err(why) => return Decision::End(StepEnd::failed(why)),
            }
        }
        if let PlannedWork::Agent(agent) = &planned.work
            && let Err(why) = bounds_of_step(self.plan, &self.state, step, &agent.bounds)
        {
            return Decision::End(StepEnd::failed(why));
        }
        Decision::Begin
    }
}
