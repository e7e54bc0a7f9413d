//! The removal of a directory that a program has written. A program can nest directories deeper than a path can name, and
//! can take away the rights of its own directories; both are removed as well.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The rights of a directory while it is removed.
const OWN_DIRECTORY: u32 = 0o700;

/// Removes a directory with everything in it. A directory of the second level is moved to the first one before it is
/// looked at, so no path grows. Symbolic links are not followed.
pub(super) fn remove_directory(top: &Path) -> std::io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let directories = remove_files(top)?;
        if directories.is_empty() {
            return std::fs::remove_dir(top);
        }
        // Each round removes a level of directories.
        for directory in directories {
            for inner in remove_files(&directory)? {
                let place = free_place(top, &mut moved);
                // The system writes into a directory that it moves.
                std::fs::set_permissions(&inner, Permissions::from_mode(OWN_DIRECTORY))?;
                std::fs::rename(inner, place)?;
            }
            std::fs::remove_dir(&directory)?;
        }
    }
}

/// Removes the files of a directory, and returns its directories.
fn remove_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::set_permissions(directory, Permissions::from_mode(OWN_DIRECTORY))?;
    let mut directories = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => directories.push(entry.path()),
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(directories)
}

/// Returns a path in a directory that no entry has.
fn free_place(top: &Path, moved: &mut u64) -> PathBuf {
    loop {
        *moved += 1;
        let place = top.join(format!("moved-{moved}"));
        if place.symlink_metadata().is_err() {
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make files")]

    use super::remove_directory;
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// T50
    #[test]
    fn a_directory_that_a_program_nested_or_closed_is_removed_and_nothing_behind_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (top, kept) = (place.path().join("top"), place.path().join("kept"));
        std::fs::create_dir(&kept).unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::create_dir(top.join("moved-1")).unwrap();
        for file in ["file", "a/file", "moved-1/file"] {
            std::fs::write(top.join(file), "x").unwrap();
        }
        symlink(&kept, top.join("a/link")).unwrap();
        // Deeper than any path: each directory is made relative to the one above it.
        let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut deepest = rustix::fs::open(&top, directory, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            mkdirat(&deepest, "nested", Mode::from_raw_mode(0o700)).unwrap();
            deepest = openat(&deepest, "nested", directory, Mode::empty()).unwrap();
        }
        for closed in ["a/b", "a"] {
            std::fs::set_permissions(top.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        remove_directory(&top).unwrap();
        assert!(!top.exists() && kept.exists());
    }
}
