//! Depth that the first engine counts for the functions that stand in the texts for it, and that the program does not
//! have as it was written. So many steps are counted before it begins, and given back while such a function evaluates
//! what it was given.

use jrsonnet_evaluator::stack::{
    StackDepthGuard, StackDepthLimitOverrideGuard, check_depth, limit_stack_depth,
};
use std::cell::RefCell;

/// Steps that are kept. A program whose functions of that kind nest more deeply counts the rest.
const RESERVED_STEPS: usize = 2_000;

thread_local! {
    static STEPS: RefCell<Vec<StackDepthGuard>> = const { RefCell::new(Vec::new()) };
}

/// Limits the depth of what is evaluated until the guard is dropped.
pub(super) fn limit(depth: usize) -> StackDepthLimitOverrideGuard {
    STEPS.with_borrow_mut(|steps| {
        let missing = RESERVED_STEPS.saturating_sub(steps.len());
        let _all = limit_stack_depth(missing);
        steps.extend(std::iter::repeat_with(check_depth).take(missing).flatten());
    });
    limit_stack_depth(depth)
}

/// Evaluates what one of the functions was given, as deep as if there were no function.
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
