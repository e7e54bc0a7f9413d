//! An engine that keeps its state from one task for the next, and begins anew after a task that failed.

use super::{Engine, Job};
use crate::jsonnet::message::Failure;
use std::rc::Rc;

/// An engine's state that has the values of files that are the same for every task of a batch.
pub(super) trait Warm {
    /// A state that has evaluated nothing yet.
    fn begin() -> Self;

    /// Evaluates the exercise in a state of its own, and lets go of it.
    fn exercise() -> Option<String>;

    /// The value of the program as canonical JSON.
    fn evaluate(&mut self, job: &Rc<Job>) -> Result<String, Failure>;
}

/// An engine, with what it keeps.
pub(super) struct Kept<W> {
    warm: Option<(W, usize)>,
}

impl<W> Default for Kept<W> {
    fn default() -> Self {
        Self { warm: None }
    }
}

impl<W: Warm> Engine for Kept<W> {
    fn prepare(&mut self, exercises: bool) {
        if exercises {
            let _value = W::exercise();
        }
        self.warm = Some((W::begin(), 0));
    }

    fn evaluate(&mut self, job: &Rc<Job>) -> Result<String, Failure> {
        loop {
            // Taken, not borrowed: what a panic interrupts is not used again.
            let (mut warm, tasks) = self.warm.take().unwrap_or_else(|| (W::begin(), 0));
            match warm.evaluate(job) {
                Ok(value) => {
                    self.warm = Some((warm, tasks + 1));
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
