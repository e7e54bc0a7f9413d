//! The bound of recursion whose depth depends on the input, and stacks that are large enough for it.

/// Levels of nesting that are parsed.
pub const DEPTH_MAX: usize = 2_000;

/// Levels for which the stack of any thread is enough.
pub(super) const SMALL_STACK_DEPTH: usize = 48;

/// Bytes of a stack that is enough for [`DEPTH_MAX`] levels of the most expensive walk, even in unoptimised builds. It
/// reserves address space only: untouched pages use no memory.
const STACK_BYTES: usize = 256 << 20;

/// Returns the levels for which half of a stack of `stack_bytes` is enough.
pub fn depth_for_stack(stack_bytes: u64) -> usize {
    let level = STACK_BYTES / DEPTH_MAX;
    let levels = usize::try_from(stack_bytes / 2).unwrap_or(usize::MAX) / level;
    levels.clamp(SMALL_STACK_DEPTH, DEPTH_MAX)
}

/// Runs work that recurses up to `depth` levels, at most [`DEPTH_MAX`], on a stack that is large enough. Returns `None`
/// if no thread could be started.
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
