//! Files below a directory, and directories by the number of a handle.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};

/// Opens something as a place only: it is not read, and nothing waits for it.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH;
/// Bytes of a socket's name; the kernel takes no longer one.
const SOCKET_NAME_BYTES_MAX: usize = 107;

/// Opens what lies below a directory. The kernel resolves the path and follows no link; `ENOSYS` if it cannot.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, mode, resolve)
}

/// A name for a socket in a directory that is short enough for the kernel. The handle must live as long as the name is
/// used.
pub(crate) fn on_open_directory(
    directory: &Path,
    socket: &str,
) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = directory.join(socket);
    if path.as_os_str().len() <= SOCKET_NAME_BYTES_MAX {
        return Ok((path, None));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(directory, flags, Mode::empty())?;
    let name = format!("/proc/self/fd/{}/{socket}", handle.as_raw_fd());
    Ok((PathBuf::from(name), Some(handle)))
}
