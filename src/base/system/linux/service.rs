//! The service manager, and the addresses of its sockets.

use crate::base::system::ServiceManager;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// The directory by which systemd tells that it is the first process of the system.
const BOOTED: &str = "/run/systemd/system";

/// Returns the service manager; `None` if there is none, as in a container.
pub(crate) fn service_manager() -> Option<ServiceManager> {
    Path::new(BOOTED).is_dir().then_some(ServiceManager::Systemd)
}

/// Returns the address of a socket that has a name and no file.
pub(crate) fn abstract_address(name: &[u8]) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}
