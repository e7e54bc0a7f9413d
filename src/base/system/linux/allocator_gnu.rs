//! The allocator of the GNU C library.

/// Makes the allocator map each block of at least `bytes` separately, even if blocks of that size were freed before.
#[allow(unsafe_code)]
pub fn map_large_blocks(bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call sets one number of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
    }
}
