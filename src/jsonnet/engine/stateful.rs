//! An engine that keeps its state from one task for the next, and begins anew after a task that failed.

use super::{Engine, EvalJob};
use crate::jsonnet::message::EngineFailure;
use std::rc::Rc;

/// An engine's state that has the values of files that are the same for every task of a batch.
pub(super) trait EngineState {
    /// A state that has evaluated nothing yet.
    fn begin() -> Self;

    /// Evaluates the exercise in a state of its own, and lets go of it.
    fn warm_up() -> Option<String>;

    /// The value of the program as canonical JSON.
    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure>;
}

/// An engine, with what it keeps.
pub(super) struct StatefulEngine<W> {
    state: Option<(W, usize)>,
}

impl<W> Default for StatefulEngine<W> {
    fn default() -> Self {
        Self { state: None }
    }
}

impl<W: EngineState> Engine for StatefulEngine<W> {
    fn prepare(&mut self, exercises: bool) {
        if exercises {
            let _value = W::warm_up();
        }
        self.state = Some((W::begin(), 0));
    }

    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure> {
        loop {
            // Taken, not borrowed: what a panic interrupts is not used again.
            let (mut warm, tasks) = self.state.take().unwrap_or_else(|| (W::begin(), 0));
            match warm.evaluate(job) {
                Ok(value) => {
                    self.state = Some((warm, tasks + 1));
                    return Ok(value);
                }
                // A failure stays in the values it passed through. Only where no other task had a part
                // in them it is this one's, and nothing of it is kept for the next.
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
