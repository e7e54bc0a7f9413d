//! Programs that are evaluated together: the queue of programs, and the result of each.

use super::contract::{EvalError, EvalRequest, Evaluation};
use std::iter::Enumerate;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::IntoIter;

/// Bytes of all values of one batch, which are in memory at the same time. Programs beyond that are refused.
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

    /// Returns the next program and its index. If the values so far have reached their total limit, all remaining
    /// programs are refused.
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

    /// Answers all remaining programs with an error, because none of them can be evaluated.
    pub(super) fn fail(&self, error: &EvalError) {
        let left: Vec<_> = lock(&self.waiting).by_ref().collect();
        for (place, _) in left {
            self.answer(place, Err(error.clone()));
        }
    }

    /// Returns the answers in order. Programs without an answer count as cancelled.
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

/// Locks a list even if a panic poisoned the lock: no operation leaves these lists half changed.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
