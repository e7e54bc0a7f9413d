//! Path resolution below a directory without kernel support. Each component is opened relative to the descriptor of
//! its parent, and no link is followed. Concurrent changes on disk cannot lead outside, because every step starts
//! from a directory that was reached in this way.

use crate::base::system::PATH_ONLY;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Opens an entry below a directory. Fails with `ELOOP` at a link, and with `EXDEV` for a path that leads out.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    at_last(directory, path, |parent, name| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(parent, name, flags, mode);
        opened.map_err(|err| link_or(err, parent, name))
    })
}

/// Returns the metadata of the entry at a path, without following it.
pub(super) fn stat(directory: BorrowedFd<'_>, path: &str) -> rustix::io::Result<Stat> {
    at_last(directory, path, |parent, name| {
        rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
    })
}

/// Returns the target of a link.
pub(super) fn read_link(directory: BorrowedFd<'_>, path: &str) -> rustix::io::Result<Vec<u8>> {
    at_last(directory, path, |parent, name| {
        rustix::fs::readlinkat(parent, name, Vec::new()).map(std::ffi::CString::into_bytes)
    })
}

/// Runs an operation on the last component of a path in its parent directory.
fn at_last<T>(
    directory: BorrowedFd<'_>,
    path: &str,
    act: impl FnOnce(BorrowedFd<'_>, &str) -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let mut components = components(path)?;
    let last = components.pop().unwrap_or(".");
    let mut reached: Option<OwnedFd> = None;
    for name in components {
        let here = reached.as_ref().map_or(directory, AsFd::as_fd);
        reached = Some(enter(here, name)?);
    }
    act(reached.as_ref().map_or(directory, AsFd::as_fd), last)
}

/// Returns the components of a path. Refuses a path that leads out.
fn components(path: &str) -> rustix::io::Result<Vec<&str>> {
    if path.starts_with('/') {
        return Err(Errno::XDEV);
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // It may lead out, and no caller uses it.
            ".." => return Err(Errno::XDEV),
            name => names.push(name),
        }
    }
    Ok(names)
}

fn enter(directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = PATH_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entered = rustix::fs::openat(directory, name, flags, Mode::empty());
    entered.map_err(|err| link_or(err, directory, name))
}

/// Returns `ELOOP` if the entry is a link. Systems report different errors when a link is opened.
fn link_or(err: Errno, directory: BorrowedFd<'_>, name: &str) -> Errno {
    if !matches!(err, Errno::NOTDIR | Errno::MLINK | Errno::LOOP) {
        return err;
    }
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Errno::LOOP,
        _ => err,
    }
}
