//! Resolution below a directory where the kernel offers none: component by component, each directory by a descriptor of its
//! own, and no link followed. Whatever changes on disk in between, every step is taken from a directory that was reached
//! like this.

use crate::system::PATH_ONLY;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Opens what lies below a directory. `ELOOP` at a link, `EXDEV` for a path that leads out.
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

/// The target of a link.
pub(super) fn read_link(directory: BorrowedFd<'_>, path: &str) -> rustix::io::Result<Vec<u8>> {
    at_last(directory, path, |parent, name| {
        rustix::fs::readlinkat(parent, name, Vec::new()).map(std::ffi::CString::into_bytes)
    })
}

/// Does something with the last component of a path, in the directory that it lies in.
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

/// The names of a path. One that leads out is refused.
fn components(path: &str) -> rustix::io::Result<Vec<&str>> {
    if path.starts_with('/') {
        return Err(Errno::XDEV);
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // It may lead out, and nobody who asks here writes it.
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

/// `ELOOP` where there is a link: systems name the error of opening one differently.
fn link_or(err: Errno, directory: BorrowedFd<'_>, name: &str) -> Errno {
    if !matches!(err, Errno::NOTDIR | Errno::MLINK | Errno::LOOP) {
        return err;
    }
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Errno::LOOP,
        _ => err,
    }
}
