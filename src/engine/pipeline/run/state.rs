//! The state of a run.

use super::RunPlan;
use crate::base::model::{StepEnd, StepStatus};
use serde::{Deserialize, Serialize};

/// The state of a run: that of each step of its plan, in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The states of the steps.
    pub steps: Vec<StepState>,
}

/// The state of a step, with its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It has not begun.
    #[default]
    Waiting,
    /// Its work is under way.
    Running,
    /// It ended.
    Ended(StepEnd),
}

impl StepState {
    /// Creates the state of a stored step. A status that is an end without its record has no output.
    pub fn of(status: StepStatus, end: Option<StepEnd>) -> Self {
        match (status, end) {
            (StepStatus::Waiting, _) => Self::Waiting,
            (StepStatus::Running, _) => Self::Running,
            (_, Some(end)) => Self::Ended(end),
            (status, None) => Self::Ended(StepEnd {
                status,
                ..StepEnd::succeeded("")
            }),
        }
    }

    /// Returns the status.
    pub fn status(&self) -> StepStatus {
        match self {
            Self::Waiting => StepStatus::Waiting,
            Self::Running => StepStatus::Running,
            Self::Ended(end) => end.status,
        }
    }

    /// Returns the end, if the step ended.
    pub fn end(&self) -> Option<&StepEnd> {
        match self {
            Self::Waiting | Self::Running => None,
            Self::Ended(end) => Some(end),
        }
    }
}

impl RunState {
    /// Creates the state of a run that begins.
    pub fn new(plan: &RunPlan) -> Self {
        Self {
            steps: vec![StepState::Waiting; plan.steps.len()],
        }
    }

    /// Records the end of a step. A step that has ended keeps its first end.
    pub fn end(&mut self, step: usize, end: StepEnd) {
        if let Some(state) = self.steps.get_mut(step)
            && state.end().is_none()
        {
            *state = StepState::Ended(end);
        }
    }

    /// Cancels every step that has not ended.
    pub fn cancel(&mut self, why: &str) {
        for state in self.steps.iter_mut().filter(|state| state.end().is_none()) {
            *state = StepState::Ended(StepEnd::cancelled(why));
        }
    }

    pub(super) fn begin(&mut self, step: usize) {
        if let Some(state) = self.steps.get_mut(step)
            && *state == StepState::Waiting
        {
            *state = StepState::Running;
        }
    }
}
