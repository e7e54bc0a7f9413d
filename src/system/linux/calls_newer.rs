//! Processors that came to Linux after the older forms of system calls had been replaced.

/// The older system calls: none on this processor.
pub(super) const OLDER: &[i64] = &[];
