//! Files beneath a directory, and directories by descriptor number.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};

/// Flags that open an entry only as a location: it is not read, and the open does not block.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH;
/// Bytes of a socket's path; the kernel's maximum.
const SOCKET_NAME_BYTES_MAX: usize = 107;

/// Opens a path beneath a directory. The kernel resolves the path and follows no symbolic links; the error is `ENOSYS`
/// if the kernel does not support this.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, mode, resolve)
}

/// Returns a path for a socket in a directory that is short enough for the kernel. The directory descriptor must stay
/// open while the path is used.
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
