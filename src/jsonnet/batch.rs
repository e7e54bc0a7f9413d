//! Programs that are evaluated together: who takes which, and what came of each.

use super::contract::{EvalError, EvalRequest, Evaluation};
use std::iter::Enumerate;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::IntoIter;

/// Bytes of all values of one batch: they are there at the same time. What would come after is refused.
const BATCH_BYTES_MAX: u64 = 256 << 20;

type EvalResult = Result<Evaluation, EvalError>;

/// The programs of a batch.
pub(super) struct EvalBatch {
    waiting: Mutex<Enumerate<IntoIter<EvalRequest>>>,
    answers: Mutex<Vec<Option<EvalResult>>>,
    len: usize,
    bytes: AtomicU64,
}

impl EvalBatch {
    pub(super) fn new(requests: Vec<EvalRequest>) -> Self {
        let len = requests.len();
        Self {
            waiting: Mutex::new(requests.into_iter().enumerate()),
            answers: Mutex::new((0..len).map(|_| None).collect()),
            len,
            bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The next program, with its place. When the values so far are as large as they may be together,
    /// all that are left are refused.
    pub(super) fn next(&self) -> Option<(usize, EvalRequest)> {
        if self.bytes.load(Ordering::Relaxed) > BATCH_BYTES_MAX {
            self.fail(&EvalError::Output {
                bytes: BATCH_BYTES_MAX,
            });
        }
        lock(&self.waiting).next()
    }

    pub(super) fn answer(&self, place: usize, answer: EvalResult) {
        if let Ok(evaluated) = &answer {
            let bytes = evaluated.json.len() as u64;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if let Some(slot) = lock(&self.answers).get_mut(place) {
            *slot = Some(answer);
        }
    }

    /// Answers all programs that are left with an error, because none of them can be evaluated.
    pub(super) fn fail(&self, error: &EvalError) {
        let left: Vec<_> = lock(&self.waiting).by_ref().collect();
        for (place, _) in left {
            self.answer(place, Err(error.clone()));
        }
    }

    /// The answers in order. What was not evaluated was cancelled.
    pub(super) fn into_answers(self) -> Vec<EvalResult> {
        let answers = self
            .answers
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .into_iter();
        answers
            .map(|answer| answer.unwrap_or(Err(EvalError::Cancelled)))
            .collect()
    }
}

/// Locks a list, also one that a panic let go of: neither can be left half changed.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
