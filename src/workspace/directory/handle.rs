//! File operations below one directory handle. The kernel resolves every path beneath it and follows
//! no symlink, so nothing outside can be reached, whatever changes on disk in between.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names tried for a temporary file.
const TEMPORARY_NAMES_MAX: u32 = 16;

/// What there is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A regular file, its permission bits and its size.
    File {
        permissions: u32,
        bytes: u64,
    },
    Directory,
    Symlink,
    /// A pipe, device or socket.
    Other,
}

/// A directory, opened once.
#[derive(Debug)]
pub(super) struct Handle {
    root: OwnedFd,
}

impl Handle {
    /// Opens the directory and tries what it depends on; `ENOSYS` when the kernel cannot do it.
    pub(super) fn open(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = Self {
            root: rustix::fs::open(path, flags, Mode::empty())?,
        };
        beneath(
            handle.root.as_fd(),
            ".",
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        )?;
        Ok(handle)
    }

    /// What there is at `path`, without following it; `None` when there is nothing.
    pub(super) fn node(&self, path: &str) -> rustix::io::Result<Option<Node>> {
        match beneath(
            self.root.as_fd(),
            path,
            OFlags::PATH | OFlags::NOFOLLOW,
            Mode::empty(),
        ) {
            Ok(file) => rustix::fs::fstat(&file).map(|stat| Some(node_of(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The target of the symlink at `path`.
    pub(super) fn target(&self, path: &str) -> rustix::io::Result<Vec<u8>> {
        let link = beneath(
            self.root.as_fd(),
            path,
            OFlags::PATH | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        rustix::fs::readlinkat(&link, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// The bytes of a regular file, at most `bytes_max`; `None` when it has more or is none. It never
    /// waits for a pipe or a device.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = File::from(beneath(self.root.as_fd(), path, flags, Mode::empty())?);
        let Node::File { bytes, .. } = node_of(&rustix::fs::fstat(&file)?) else {
            return Ok(None);
        };
        if bytes > bytes_max {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
        // The file may grow while it is read.
        file.take(bytes_max + 1).read_to_end(&mut content)?;
        Ok((content.len() as u64 <= bytes_max).then_some(content))
    }

    /// Replaces or creates the file at `path`, all or nothing, and creates the directories it lies in.
    /// What is there is replaced, never written through.
    pub(super) fn write(&self, path: &str, content: &[u8], permissions: Option<u32>) -> std::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.create_directories(parents)?;
        let (temporary, mut file) = create_temporary(parent.as_fd())?;
        let written = file
            .write_all(content)
            .and_then(|()| match permissions {
                Some(bits) => Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(bits & 0o777))?),
                None => Ok(()),
            })
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(rustix::fs::renameat(&parent, temporary.as_str(), &parent, name)?));
        if written.is_err() {
            // The first error is the one to report; a file left over is harmless.
            let _ = rustix::fs::unlinkat(&parent, temporary.as_str(), AtFlags::empty());
        }
        written
    }

    /// Creates a symlink where nothing is, and the directories it lies in.
    pub(super) fn link(&self, path: &str, target: &[u8]) -> rustix::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.create_directories(parents)?;
        rustix::fs::symlinkat(target, &parent, name)
    }

    /// Removes the file or symlink at `path`.
    pub(super) fn delete(&self, path: &str) -> rustix::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or((".", path));
        let parent = beneath(
            self.root.as_fd(),
            parents,
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        )?;
        rustix::fs::unlinkat(&parent, name, AtFlags::empty())
    }

    /// Removes the directories a path lies in, as far as nothing is in them.
    pub(super) fn prune(&self, path: &str) {
        let mut path = path;
        while let Some((directory, _)) = path.rsplit_once('/') {
            let (parents, name) = directory.rsplit_once('/').unwrap_or((".", directory));
            let open = OFlags::PATH | OFlags::DIRECTORY;
            let Ok(parent) = beneath(self.root.as_fd(), parents, open, Mode::empty()) else {
                return;
            };
            // The kernel removes no directory that holds anything.
            if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            path = directory;
        }
    }

    fn create_directories(&self, parents: &str) -> rustix::io::Result<OwnedFd> {
        let open = OFlags::PATH | OFlags::DIRECTORY;
        let mut directory = beneath(self.root.as_fd(), ".", open, Mode::empty())?;
        for name in parents.split('/').filter(|name| !name.is_empty()) {
            directory = match beneath(directory.as_fd(), name, open, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(err) => return Err(err),
                    }
                    beneath(directory.as_fd(), name, open, Mode::empty())?
                }
                other => other?,
            };
        }
        Ok(directory)
    }
}

fn beneath(directory: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, mode, resolve)
}

fn create_temporary(directory: BorrowedFd<'_>) -> rustix::io::Result<(String, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    for _ in 0..TEMPORARY_NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".drydock-{}-{number}.tmp", std::process::id());
        match beneath(directory, &name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((name, File::from(file))),
            Err(Errno::EXIST) => {}
            Err(err) => return Err(err),
        }
    }
    Err(Errno::EXIST)
}

fn node_of(stat: &Stat) -> Node {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Node::File {
            permissions: stat.st_mode & 0o777,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        },
        FileType::Directory => Node::Directory,
        FileType::Symlink => Node::Symlink,
        _ => Node::Other,
    }
}
