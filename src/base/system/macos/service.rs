//! The service manager, and the addresses of its sockets.
#![allow(unsafe_code, reason = "the names of users have no safe form")]

use crate::base::system::ServiceManager;
use std::ffi::CStr;
use std::os::unix::net::SocketAddr;

/// Returns the service manager.
pub(crate) fn service_manager() -> Option<ServiceManager> {
    Some(ServiceManager::Launchd)
}

/// Returns the names of a user and a group; `None` if one has none.
pub(crate) fn account_names(user: u32, group: u32) -> Option<(String, String)> {
    // SAFETY: each answer is null or a valid entry, whose name ends with a zero byte. It stays until the next call of the
    // same function, and its name is copied before that.
    unsafe {
        let user = libc::getpwuid(user).as_ref()?;
        let user = CStr::from_ptr(user.pw_name).to_str().ok()?.to_owned();
        let group = libc::getgrgid(group).as_ref()?;
        let group = CStr::from_ptr(group.gr_name).to_str().ok()?.to_owned();
        Some((user, group))
    }
}

/// Returns an error: this system has no sockets without a file.
pub(crate) fn abstract_address(_name: &[u8]) -> std::io::Result<SocketAddr> {
    Err(std::io::ErrorKind::Unsupported.into())
}
