//! Closes what a process may have inherited by accident: a descriptor this process never opened has no owner that could
//! close it.
#![allow(
    unsafe_code,
    reason = "closing a descriptor that no value of this process owns cannot be said safely"
)]

/// The last descriptor a sandbox worker keeps: standard error.
const KEPT_MAX: std::ffi::c_uint = 2;

/// Closes every descriptor but the three standard ones. Must run before the process has opened any.
pub(super) fn close_inherited() {
    // SAFETY: called before this process has opened anything, so no value owns one of these. A kernel
    // without the call closes nothing; our own descriptors are all close-on-exec anyway.
    unsafe {
        libc::syscall(libc::SYS_close_range, KEPT_MAX + 1, std::ffi::c_uint::MAX, 0);
    }
}
