//! File operations below one directory handle. The kernel resolves every path beneath it and follows no symlink, so
//! nothing outside can be reached even if the disk changes concurrently. Without kernel support, each path is
//! walked by descriptors, with the same result.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod folding;
mod leftover;
mod walk;

use crate::base::system::{self, PATH_ONLY};
use crate::state::workspace::spelling::{NameListing, join};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dev, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of names tried for a temporary file.
const TEMPORARY_NAMES_MAX: u32 = 16;
/// Permission bits to read, write and execute, without setuid, setgid and sticky.
const ACCESS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// The kind of entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskEntry {
    /// A regular file with its permission bits and its size.
    File {
        permissions: Mode,
        bytes: u64,
    },
    Directory,
    Symlink,
    /// A pipe, device or socket.
    Other,
}

/// The identity of a directory and the time of the last change to its names.
pub(super) struct Stamp(Stat);

impl Stamp {
    /// True for the same directory with unchanged names.
    pub(super) fn is_same(&self, Self(other): &Self) -> bool {
        let Self(this) = self;
        (this.st_dev, this.st_ino) == (other.st_dev, other.st_ino)
            && (this.st_mtime, this.st_mtime_nsec) == (other.st_mtime, other.st_mtime_nsec)
            && (this.st_ctime, this.st_ctime_nsec) == (other.st_ctime, other.st_ctime_nsec)
    }
}

impl std::fmt::Debug for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stamp").finish_non_exhaustive()
    }
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Handle {
    root: OwnedFd,
    resolution: PathResolution,
}

/// The way a path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathResolution {
    /// The kernel resolves the whole path in one call.
    Kernel,
    /// This program resolves one component after the other.
    Walk,
    /// This program resolves the path like a file system that accepts several spellings of a name.
    #[cfg(test)]
    Folding,
}

impl Handle {
    /// Opens the directory. The kernel resolves paths below it if it can.
    pub(super) fn open(path: &Path) -> rustix::io::Result<Self> {
        let kernel = Self::open_with(PathResolution::Kernel, path)?;
        match kernel.beneath(".", PATH_ONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(_) => Ok(kernel),
            // The kernel lacks the call, or a system call filter blocks it.
            Err(Errno::NOSYS | Errno::PERM) => Self::open_with(PathResolution::Walk, path),
            Err(err) => Err(err),
        }
    }

    /// Opens the directory with a given path resolution.
    pub(super) fn open_with(way: PathResolution, path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self {
            root,
            resolution: way,
        })
    }

    /// Returns the kind of entry at `path` without following it, or `None` if there is nothing.
    pub(super) fn entry(&self, path: &str) -> rustix::io::Result<Option<DiskEntry>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some(disk_entry(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(err) => Err(err),
        }
    }

    fn stat(&self, path: &str) -> rustix::io::Result<Stat> {
        match self.resolution {
            PathResolution::Kernel => self
                .beneath(path, PATH_ONLY | OFlags::NOFOLLOW, Mode::empty())
                .and_then(rustix::fs::fstat),
            PathResolution::Walk => walk::stat(self.root.as_fd(), path),
            #[cfg(test)]
            PathResolution::Folding => {
                walk::stat(self.root.as_fd(), &folding::find_folded(self.root.as_fd(), path))
            }
        }
    }

    /// Returns the target of the symlink at `path`.
    pub(super) fn target(&self, path: &str) -> rustix::io::Result<Vec<u8>> {
        match self.resolution {
            PathResolution::Kernel => {
                let link = self.beneath(path, PATH_ONLY | OFlags::NOFOLLOW, Mode::empty())?;
                rustix::fs::readlinkat(&link, "", Vec::new()).map(std::ffi::CString::into_bytes)
            }
            PathResolution::Walk => walk::read_link(self.root.as_fd(), path),
            #[cfg(test)]
            PathResolution::Folding => {
                walk::read_link(self.root.as_fd(), &folding::find_folded(self.root.as_fd(), path))
            }
        }
    }

    /// Returns the device and inode number of the entry at `path` without following it, or `None` if there is
    /// nothing.
    pub(super) fn identity(&self, path: &str) -> rustix::io::Result<Option<(Dev, u64)>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Returns a stamp of a directory that changes whenever a name in it changes. The root is `""`.
    pub(super) fn stamp(&self, directory: &str) -> rustix::io::Result<Stamp> {
        let stat = self.stat(if directory.is_empty() { "." } else { directory })?;
        Ok(Stamp(stat))
    }

    /// Returns the names in a directory, except those that are not UTF-8. The root is `""`.
    pub(super) fn list(&self, directory: &str) -> rustix::io::Result<Vec<String>> {
        let entries = self.entries(directory)?;
        Ok(entries.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the names in a directory and whether each one is a directory.
    pub(super) fn entries(&self, directory: &str) -> rustix::io::Result<Vec<(String, bool)>> {
        let named = if directory.is_empty() { "." } else { directory };
        let opened = self.beneath(named, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                let is_directory = match entry.file_type() {
                    FileType::Unknown => self.entry(&join(directory, name))? == Some(DiskEntry::Directory),
                    kind => kind == FileType::Directory,
                };
                entries.push((name.to_owned(), is_directory));
            }
        }
        Ok(entries)
    }

    /// Reads a regular file of at most `bytes_max` bytes. Returns `None` for a larger file or another kind of
    /// entry. Never blocks on a pipe or a device.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = File::from(self.beneath(path, flags, Mode::empty())?);
        let DiskEntry::File { bytes, .. } = disk_entry(&rustix::fs::fstat(&file)?) else {
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

    /// Creates or replaces the file at `path` atomically, and creates its parent directories. An existing file is
    /// replaced, never written in place.
    pub(super) fn write(&self, path: &str, content: &[u8], permissions: Option<Mode>) -> std::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.create_directories(parents)?;
        let (temporary, mut file) = self.create_temporary(parent.as_fd())?;
        let written = file
            .write_all(content)
            .and_then(|()| match permissions {
                Some(bits) => Ok(rustix::fs::fchmod(&file, bits & ACCESS)?),
                None => Ok(()),
            })
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(rustix::fs::renameat(&parent, temporary.as_str(), &parent, name)?));
        if written.is_err() {
            // The first error is the one to report. A leftover file is harmless.
            let _ = rustix::fs::unlinkat(&parent, temporary.as_str(), AtFlags::empty());
        }
        written
    }

    /// Creates a symlink at an unused path, and its parent directories.
    pub(super) fn link(&self, path: &str, target: &[u8]) -> rustix::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.create_directories(parents)?;
        rustix::fs::symlinkat(target, &parent, name)
    }

    /// Removes the file or symlink at `path`.
    pub(super) fn delete(&self, path: &str) -> rustix::io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or((".", path));
        let parent = self.beneath(parents, PATH_ONLY | OFlags::DIRECTORY, Mode::empty())?;
        rustix::fs::unlinkat(&parent, name, AtFlags::empty())
    }

    /// Removes the empty parent directories of a path.
    pub(super) fn prune(&self, path: &str) {
        let mut path = path;
        while let Some((directory, _)) = path.rsplit_once('/') {
            let (parents, name) = directory.rsplit_once('/').unwrap_or((".", directory));
            let Ok(parent) = self.beneath(parents, PATH_ONLY | OFlags::DIRECTORY, Mode::empty()) else {
                return;
            };
            // The kernel refuses to remove a directory that is not empty.
            if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            path = directory;
        }
    }

    fn create_directories(&self, parents: &str) -> rustix::io::Result<OwnedFd> {
        let open = PATH_ONLY | OFlags::DIRECTORY;
        let mut directory = self.beneath(".", open, Mode::empty())?;
        for name in parents.split('/').filter(|name| !name.is_empty()) {
            directory = match self.below(directory.as_fd(), name, open, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&directory, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(err) => return Err(err),
                    }
                    self.below(directory.as_fd(), name, open, Mode::empty())?
                }
                other => other?,
            };
        }
        Ok(directory)
    }

    fn create_temporary(&self, directory: BorrowedFd<'_>) -> rustix::io::Result<(String, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..TEMPORARY_NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = leftover::temporary_name(number);
            match self.below(
                directory,
                &name,
                flags,
                ACCESS & !(Mode::XUSR | Mode::XGRP | Mode::XOTH),
            ) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(err) => return Err(err),
            }
        }
        Err(Errno::EXIST)
    }

    fn beneath(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        self.below(self.root.as_fd(), path, flags, mode)
    }

    fn below(
        &self,
        directory: BorrowedFd<'_>,
        path: &str,
        flags: OFlags,
        mode: Mode,
    ) -> rustix::io::Result<OwnedFd> {
        match self.resolution {
            PathResolution::Kernel => system::open_beneath(directory, path, flags, mode),
            PathResolution::Walk => walk::open(directory, path, flags, mode),
            #[cfg(test)]
            PathResolution::Folding => {
                walk::open(directory, &folding::find_folded(directory, path), flags, mode)
            }
        }
    }
}

impl NameListing for Handle {
    fn has(&self, path: &str) -> bool {
        // An entry that cannot be examined counts as present, which refuses a write.
        self.entry(path).map_or(true, |node| node.is_some())
    }

    fn names(&self, directory: &str) -> Option<Vec<String>> {
        match self.list(directory) {
            Ok(names) => Some(names),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

fn disk_entry(stat: &Stat) -> DiskEntry {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => DiskEntry::File {
            permissions: Mode::from_raw_mode(stat.st_mode) & ACCESS,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        },
        FileType::Directory => DiskEntry::Directory,
        FileType::Symlink => DiskEntry::Symlink,
        _ => DiskEntry::Other,
    }
}
