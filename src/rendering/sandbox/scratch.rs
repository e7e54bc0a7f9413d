//! A temporary directory for one run of an external program. It holds copies of the files that the program may see, and
//! is removed after the run.

use super::removal::remove_directory;
use crate::base::model::RepoPath;
use std::fs::FileType;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory that other users cannot read.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
}

/// The reason why a directory cannot be used. It does not contain the path of the directory on this machine.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The disk operation failed.
    #[error("the directory to work in: {0}")]
    Disk(std::io::ErrorKind),
    /// The program left more data than allowed.
    #[error("it left more files, or larger ones, than are accepted")]
    TooMuch,
    /// The program left an entry of the wrong kind, such as a symbolic link.
    #[error("it left `{0}`, which is not a regular file")]
    NotRegularFile(String),
}

impl From<std::io::Error> for ScratchError {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error.kind())
    }
}

impl Scratch {
    /// Creates a new directory inside `place`, and creates `place` if it does not exist.
    pub fn new(place: &Path) -> Result<Self, ScratchError> {
        // The path must be absolute because the program starts in another directory.
        let place = &std::path::absolute(place)?;
        std::fs::create_dir_all(place)?;
        let directory = tempfile::Builder::new().prefix("drydock-").tempdir_in(place)?;
        let scratch = Self { directory };
        std::fs::create_dir(scratch.files())?;
        std::fs::create_dir(scratch.home())?;
        Ok(scratch)
    }

    /// Removes all directories in `place`, which are leftovers of killed processes. Only the sole owner of `place` may
    /// call this, before the first run: directories of active runs would be removed as well.
    pub fn clear(place: &Path) -> Result<(), ScratchError> {
        let entries = match std::fs::read_dir(place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let mut cleared = Ok(());
        for entry in entries {
            let entry = entry?;
            // A symbolic link is not a directory here, and is not followed.
            if entry.file_type()?.is_dir() {
                cleared = cleared.and(remove_directory(&entry.path()));
            }
        }
        Ok(cleared?)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the directory of the copies. Each copy lies there at its path in the repository; no copy can be written
    /// elsewhere.
    pub fn files(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    /// Returns the home directory of the program. It is empty, so the program finds no settings there.
    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Writes a file beside the copies, which the program can read. Returns its path.
    #[allow(clippy::disallowed_methods, reason = "a directory of our own, for one run")]
    pub fn put_input(&self, content: &[u8]) -> Result<PathBuf, ScratchError> {
        let place = self.directory.path().join("input");
        std::fs::write(&place, content)?;
        Ok(place)
    }

    /// Writes a file into the directory. The path cannot lead elsewhere: it contains no `..`, and no links exist in the
    /// directory before the program runs.
    #[allow(clippy::disallowed_methods, reason = "a directory of our own, for one run")]
    pub fn put(&self, path: &RepoPath, content: &[u8]) -> Result<(), ScratchError> {
        let place = self.place(path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        Ok(std::fs::write(place, content)?)
    }

    /// Reads a file of at most `bytes_max` bytes that the program left; `None` if it does not exist. Symbolic links are
    /// not followed.
    pub fn read_file(&self, path: &RepoPath, bytes_max: u64) -> Result<Option<Vec<u8>>, ScratchError> {
        read_regular_file(&self.place(path), path.as_str(), bytes_max)
    }

    /// Reads a file of at most `bytes_max` bytes that the program left in its home directory; `None` if it does not exist.
    pub fn read_home_file(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, ScratchError> {
        match self.is_home_replaced() {
            true => Err(ScratchError::NotRegularFile(name.to_owned())),
            false => read_regular_file(&self.home().join(name), name, bytes_max),
        }
    }

    /// Returns true if the home directory has at most so many entries and bytes. One that cannot be read to its end, such
    /// as directories that are nested too deeply, has more.
    pub fn is_home_within(&self, entries_max: usize, bytes_max: u64) -> bool {
        if self.is_home_replaced() {
            return false;
        }
        let (mut entries, mut bytes) = (0, 0);
        let mut waiting = vec![self.home()];
        while let Some(directory) = waiting.pop() {
            let listed = match std::fs::read_dir(directory) {
                Ok(listed) => listed,
                // The program may run, and may have removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(_) => return false,
            };
            for entry in listed {
                let Ok(entry) = entry else { return false };
                entries += 1;
                match entry.metadata() {
                    Ok(found) if found.is_dir() => waiting.push(entry.path()),
                    Ok(found) => bytes = u64::saturating_add(bytes, found.len()),
                    Err(_) => {}
                }
                if entries > entries_max || bytes > bytes_max {
                    return false;
                }
            }
        }
        true
    }

    /// Returns the bytes that are free on the disk of the directory, if the system says so.
    pub fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(self.path()).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Returns true if the home directory is something else now. A program on macOS can replace it by a link.
    fn is_home_replaced(&self) -> bool {
        std::fs::symlink_metadata(self.home()).is_ok_and(|found| !found.is_dir())
    }

    /// Returns the sorted names and kinds of the entries of a subdirectory; empty if it does not exist.
    pub fn names(
        &self,
        directory: &RepoPath,
        files_max: usize,
    ) -> Result<Vec<(String, FileType)>, ScratchError> {
        let place = self.place(directory);
        match std::fs::symlink_metadata(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
            Ok(there) if !there.is_dir() => return Err(ScratchError::NotRegularFile(directory.to_string())),
            Ok(_) => {}
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(place)? {
            let entry = entry?;
            let odd =
                |name: std::ffi::OsString| ScratchError::NotRegularFile(name.to_string_lossy().into_owned());
            names.push((entry.file_name().into_string().map_err(odd)?, entry.file_type()?));
            if names.len() > files_max {
                return Err(ScratchError::TooMuch);
            }
        }
        names.sort_by(|(first, _), (second, _)| first.cmp(second));
        Ok(names)
    }

    fn place(&self, path: &RepoPath) -> PathBuf {
        self.files().join(path.as_str())
    }
}

impl Drop for Scratch {
    /// Removes the directory. If that fails, the next start removes it.
    fn drop(&mut self) {
        let _left = remove_directory(self.directory.path());
    }
}

fn read_regular_file(place: &Path, shown: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, ScratchError> {
    let odd = || ScratchError::NotRegularFile(shown.to_owned());
    match std::fs::symlink_metadata(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(there) if !there.is_file() => return Err(odd()),
        Ok(_) => {}
    }
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_follow)
        .open(place)?;
    let mut content = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut content)?;
    match content.len() as u64 > bytes_max {
        true => Err(ScratchError::TooMuch),
        false => Ok(Some(content)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make files")]

    use super::{Scratch, ScratchError};
    use crate::base::model::RepoPath;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    #[test]
    fn scratch_files_can_be_read_back_and_are_all_removed() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(&place.path().join("made")).unwrap();
        scratch.put(&path("a/b"), b"x").unwrap();
        assert_eq!(scratch.read_file(&path("a/b"), 1).unwrap(), Some(b"x".to_vec()));
        assert_eq!(scratch.read_file(&path("a/c"), 1).unwrap(), None);
        assert!(matches!(
            scratch.read_file(&path("a/b"), 0),
            Err(ScratchError::TooMuch)
        ));
        let names: Vec<String> = scratch
            .names(&path("a"), 1)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["b"]);
        assert!(matches!(scratch.names(&path("a"), 0), Err(ScratchError::TooMuch)));
        let gone = scratch.path().to_owned();
        drop(scratch);
        assert!(!gone.exists());
    }

    /// T50
    #[test]
    fn a_link_that_a_program_leaves_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(place.path()).unwrap();
        symlink("/etc/hostname", scratch.files().join("file")).unwrap();
        symlink("/etc", scratch.files().join("directory")).unwrap();
        assert!(matches!(
            scratch.read_file(&path("file"), 1 << 20),
            Err(ScratchError::NotRegularFile(_))
        ));
        assert!(matches!(
            scratch.names(&path("directory"), 1_000),
            Err(ScratchError::NotRegularFile(_))
        ));
    }

    /// T50
    #[test]
    fn a_home_that_a_program_replaced_by_a_link_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("result"), "of somebody else").unwrap();
        let scratch = Scratch::new(place.path()).unwrap();
        std::fs::remove_dir(scratch.home()).unwrap();
        symlink(other.path(), scratch.home()).unwrap();
        assert!(matches!(
            scratch.read_home_file("result", 99),
            Err(ScratchError::NotRegularFile(_))
        ));
        assert!(!scratch.is_home_within(9, 99));
        drop(scratch);
        assert!(other.path().join("result").exists());
    }

    #[test]
    fn clearing_scratch_removes_leftovers_but_nothing_behind_a_link() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = Scratch::new(place.path()).unwrap();
        elsewhere.put(&path("kept"), b"x").unwrap();
        let own = place.path().join("own");
        assert!(Scratch::clear(&own).is_ok(), "there is no such place");
        let left = Scratch::new(&own).unwrap();
        left.put(&path("a/b"), b"x").unwrap();
        symlink(elsewhere.files(), own.join("link")).unwrap();
        symlink(elsewhere.files(), left.files().join("link")).unwrap();
        Scratch::clear(&own).unwrap();
        assert!(!left.path().exists());
        assert_eq!(
            elsewhere.read_file(&path("kept"), 1).unwrap(),
            Some(b"x".to_vec())
        );
    }

    #[test]
    fn the_home_of_a_program_is_measured_and_its_result_is_read() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(place.path()).unwrap();
        assert!(scratch.is_home_within(0, 0));
        assert_eq!(scratch.read_home_file("result", 9).unwrap(), None);
        let input = scratch.put_input(b"{}").unwrap();
        assert_eq!(std::fs::read(input).unwrap(), b"{}");
        std::fs::create_dir_all(scratch.home().join("a/b")).unwrap();
        std::fs::write(scratch.home().join("a/b/c"), "12345").unwrap();
        std::fs::write(scratch.home().join("result"), "1234").unwrap();
        for (entries_max, bytes_max, is_within) in [(4, 9, true), (3, 9, false), (4, 8, false)] {
            assert_eq!(
                scratch.is_home_within(entries_max, bytes_max),
                is_within,
                "{entries_max} {bytes_max}"
            );
        }
        assert_eq!(
            scratch.read_home_file("result", 4).unwrap(),
            Some(b"1234".to_vec())
        );
        assert!(matches!(
            scratch.read_home_file("result", 3),
            Err(ScratchError::TooMuch)
        ));
    }

    #[test]
    fn a_scratch_path_is_absolute() {
        let scratch = Scratch::new(std::path::Path::new("target/scratch")).unwrap();
        assert!(scratch.path().is_absolute());
    }
}
