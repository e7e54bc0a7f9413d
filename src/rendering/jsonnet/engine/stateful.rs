//! An engine that keeps its state for the next task, and starts with a new state after a failed task.

use super::{Engine, EvalJob};
use crate::rendering::jsonnet::message::EngineFailure;
use std::rc::Rc;

/// An engine's state with the values of files that are the same for every task of a batch.
pub(super) trait EngineState {
    /// Creates an empty state.
    fn begin() -> Self;

    /// Evaluates the warm-up program in a separate state, and drops that state.
    fn warm_up() -> Option<String>;

    /// Returns the value of the program as canonical JSON.
    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure>;
}

/// An engine and the state it keeps.
pub(super) struct StatefulEngine<W> {
    state: Option<(W, usize)>,
}

impl<W> Default for StatefulEngine<W> {
    fn default() -> Self {
        Self { state: None }
    }
}

impl<W: EngineState> Engine for StatefulEngine<W> {
    fn warm_up(&self) {
        let _value = W::warm_up();
    }

    fn prepare(&mut self) {
        self.state = Some((W::begin(), 0));
    }

    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure> {
        loop {
            // The state is moved out, so that a state interrupted by a panic is not used again.
            let (mut warm, tasks) = self.state.take().unwrap_or_else(|| (W::begin(), 0));
            match warm.evaluate(job) {
                Ok(value) => {
                    self.state = Some((warm, tasks + 1));
                    return Ok(value);
                }
                // A failure stays in the values that it reached. If no other task contributed to them, the failure
                // belongs to this task, and the state is not kept.
                Err(failure) => {
                    std::mem::forget(warm);
                    if tasks == 0 {
                        return Err(failure);
                    }
                    let _cause = job.take_cause();
                }
            }
        }
    }
}
