//! Files beneath a directory, and directories by descriptor number.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Flags that open a directory to find entries in it: this system has no descriptors for a location only.
pub(crate) const PATH_ONLY: OFlags = OFlags::RDONLY;
/// Bytes of a socket's path; the kernel's maximum.
const SOCKET_NAME_BYTES_MAX: usize = 103;

/// Returns `ENOSYS` always: the kernel cannot resolve a path beneath a directory. The caller walks the path itself.
pub(crate) fn open_beneath(
    _directory: BorrowedFd<'_>,
    _path: &str,
    _flags: OFlags,
    _mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Returns the path of a socket in a directory, if it is short enough for the kernel.
pub(crate) fn on_open_directory(
    directory: &Path,
    socket: &str,
) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = directory.join(socket);
    match path.as_os_str().len() <= SOCKET_NAME_BYTES_MAX {
        true => Ok((path, None)),
        false => Err(Error::new(
            ErrorKind::InvalidInput,
            "the name of the data directory is too long for a socket in it; choose a shorter one",
        )),
    }
}
