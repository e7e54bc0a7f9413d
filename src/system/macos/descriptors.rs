//! Closes what a process may have inherited by accident.
#![allow(
    unsafe_code,
    reason = "closing a descriptor that no value of this process owns cannot be said safely"
)]

use rustix::process::{Resource, getrlimit};

/// The last descriptor a sandbox worker keeps: standard error.
const KEPT_MAX: libc::c_int = 2;
/// Descriptors that are closed where there is no limit.
const CLOSED_MAX: u64 = 65_536;

/// Closes every descriptor but the three standard ones. Must run before the process has opened any.
pub(super) fn close_inherited() {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(CLOSED_MAX);
    let end = libc::c_int::try_from(limit.min(CLOSED_MAX)).unwrap_or(libc::c_int::MAX);
    for descriptor in KEPT_MAX + 1..end {
        // SAFETY: called before this process has opened anything, so no value owns one of these.
        unsafe {
            libc::close(descriptor);
        }
    }
}
