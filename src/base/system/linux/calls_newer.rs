//! Processors without the older forms of system calls: Linux supports them only with the newer forms.

/// The older system calls: none on this processor.
pub(super) const OLDER: &[i64] = &[];
