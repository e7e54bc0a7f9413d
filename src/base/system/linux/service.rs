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

/// Returns the names of a user and a group; `None` if one has none in the files of the system.
pub(crate) fn account_names(user: u32, group: u32) -> Option<(String, String)> {
    Some((named("/etc/passwd", user)?, named("/etc/group", group)?))
}

#[allow(clippy::disallowed_methods, reason = "the system names users in a file")]
fn named(file: &str, id: u32) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let is_it = fields.nth(1)?.parse::<u32>().is_ok_and(|found| found == id);
        is_it.then(|| name.to_owned())
    })
}

/// Returns the address of a socket that has a name and no file.
pub(crate) fn abstract_address(name: &[u8]) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

#[cfg(test)]
mod tests {
    use super::account_names;

    #[test]
    fn the_system_names_a_user_and_a_group() {
        assert_eq!(account_names(0, 0), Some(("root".to_owned(), "root".to_owned())));
        assert_eq!(account_names(u32::MAX - 7, 0), None);
    }
}
