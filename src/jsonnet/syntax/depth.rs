//! Recursion that input decides the depth of is bounded, and where it may go deep, it gets a stack
//! of its own that is large enough.

/// Levels of nesting that are read.
pub const DEPTH_MAX: usize = 2_000;

/// Levels that any thread has stack for.
pub(super) const SMALL_STACK_DEPTH: usize = 48;

/// The size of a stack that is enough for [`DEPTH_MAX`] levels of the most expensive walk, also without optimisation. It is address space:
/// pages that are never touched cost nothing.
const STACK_BYTES: usize = 256 << 20;

/// Levels that half of a stack of so many bytes is enough for.
pub fn depth_for_stack(stack_bytes: u64) -> usize {
    let level = STACK_BYTES / DEPTH_MAX;
    let levels = usize::try_from(stack_bytes / 2).unwrap_or(usize::MAX) / level;
    levels.clamp(SMALL_STACK_DEPTH, DEPTH_MAX)
}

/// Runs work that recurses as deep as `depth`, at most [`DEPTH_MAX`], where there is stack for it.
/// `None` means that no thread could be had.
pub fn with_stack_for<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    if depth <= SMALL_STACK_DEPTH {
        return Some(work());
    }
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .ok()?
            .join()
            .ok()
    })
}
