//! The memory that the allocator of the program, mimalloc, keeps after it was freed.

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set, mi_option_t};

/// The option for the milliseconds before mimalloc returns freed memory to the system, `mi_option_purge_delay` in its
/// header.
const PURGE_DELAY: mi_option_t = 15;
/// The delay that applies unless it is configured. The processes of the sandbox start with another delay.
const PURGE_DELAY_DEFAULT: i64 = 10;

/// Makes the allocator return freed memory to the system at once, and returns what this thread has freed. Otherwise a thread
/// keeps freed memory until it allocates again. A start, which allocates again and again, is faster without it.
#[allow(unsafe_code)]
pub(crate) fn release_freed_memory() {
    // SAFETY: the calls read and set one number of the allocator, and collect what this thread has freed.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT {
            mi_option_set(PURGE_DELAY, 0);
            mi_collect(true);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]
    use super::{PURGE_DELAY, PURGE_DELAY_DEFAULT, release_freed_memory};
    use libmimalloc_sys::mi_option_get;

    fn purge_delay() -> i64 {
        // SAFETY: the call only reads a number.
        unsafe { mi_option_get(PURGE_DELAY) }
    }

    /// Only this option has the default 10 among its neighbours, so the test detects a header with another order.
    #[test]
    fn freed_memory_returns_to_the_system_without_delay() {
        assert_eq!(purge_delay(), PURGE_DELAY_DEFAULT);
        release_freed_memory();
        assert_eq!(purge_delay(), 0);
    }
}
