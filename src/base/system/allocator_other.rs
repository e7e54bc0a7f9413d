//! C libraries whose allocator maps each large block separately by default.

/// Does nothing.
pub fn map_large_blocks(_bytes: usize) {}
