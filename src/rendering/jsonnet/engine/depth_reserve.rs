//! Reserved depth for the functions that rewritten sources contain. The first engine counts these calls, although the
//! original program does not have them. The reserve is counted before the program begins, and one step is released
//! while such a function evaluates its arguments.

use jrsonnet_evaluator::stack::{
    StackDepthGuard, StackDepthLimitOverrideGuard, check_depth, limit_stack_depth,
};
use std::cell::RefCell;

/// Reserved steps. If such functions nest more deeply, the program counts the further steps.
const RESERVED_STEPS: usize = 2_000;

thread_local! {
    static STEPS: RefCell<Vec<StackDepthGuard>> = const { RefCell::new(Vec::new()) };
}

/// Limits the evaluation depth until the guard is dropped.
pub(super) fn limit(depth: usize) -> StackDepthLimitOverrideGuard {
    STEPS.with_borrow_mut(|steps| {
        let missing = RESERVED_STEPS.saturating_sub(steps.len());
        let _all = limit_stack_depth(missing);
        steps.extend(std::iter::repeat_with(check_depth).take(missing).flatten());
    });
    limit_stack_depth(depth)
}

/// Evaluates the argument of such a function as if the function call did not count.
pub(super) fn with_reserved_step<T>(evaluate: impl FnOnce() -> T) -> T {
    let step = STEPS.with_borrow_mut(Vec::pop);
    let is_spare = step.is_some();
    drop(step);
    let value = evaluate();
    if is_spare && let Ok(step) = check_depth() {
        STEPS.with_borrow_mut(|steps| steps.push(step));
    }
    value
}
