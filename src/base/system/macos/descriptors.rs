//! Closing of inherited descriptors.
#![allow(
    unsafe_code,
    reason = "no safe function closes a descriptor without an owner in this process"
)]

use rustix::process::{Resource, getrlimit};

/// The last descriptor that stays open: standard error.
const KEPT_MAX: libc::c_int = 2;
/// Descriptors that are closed if the system reports no limit.
const CLOSED_MAX: u64 = 65_536;

/// Closes all descriptors except the three standard ones. Must run before the process opens any.
pub(super) fn close_inherited() {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(CLOSED_MAX);
    let end = libc::c_int::try_from(limit.min(CLOSED_MAX)).unwrap_or(libc::c_int::MAX);
    for descriptor in KEPT_MAX + 1..end {
        // SAFETY: called before this process has opened anything, so no value owns one of these descriptors.
        unsafe {
            libc::close(descriptor);
        }
    }
}
