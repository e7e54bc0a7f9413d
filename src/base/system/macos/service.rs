//! The service manager, and the addresses of its sockets.

use crate::base::system::ServiceManager;
use std::os::unix::net::SocketAddr;

/// Returns the service manager.
pub(crate) fn service_manager() -> Option<ServiceManager> {
    Some(ServiceManager::Launchd)
}

/// Returns an error: this system has no sockets without a file.
pub(crate) fn abstract_address(_name: &[u8]) -> std::io::Result<SocketAddr> {
    Err(std::io::ErrorKind::Unsupported.into())
}
