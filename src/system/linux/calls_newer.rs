//! Processors that came to Linux after the older forms of system calls had been replaced.

/// There are none.
pub(super) const OLDER: &[i64] = &[];
