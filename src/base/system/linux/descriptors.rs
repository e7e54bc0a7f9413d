//! Closing of inherited descriptors. A descriptor that this process did not open has no owner that could close it.
#![allow(
    unsafe_code,
    reason = "no safe function closes a descriptor without an owner in this process"
)]

/// The last descriptor that stays open: standard error.
const KEPT_MAX: std::ffi::c_uint = 2;

/// Closes all descriptors except the three standard ones. Must run before the process opens any.
pub(super) fn close_inherited() {
    // SAFETY: called before this process has opened anything, so no value owns one of these descriptors. A kernel
    // without this call closes nothing; our own descriptors are all close-on-exec anyway.
    unsafe {
        libc::syscall(libc::SYS_close_range, KEPT_MAX + 1, std::ffi::c_uint::MAX, 0);
    }
}
