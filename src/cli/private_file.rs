//! A file in the directory of this user that only this user can read. It is replaced at once, and one process at a time
//! changes it.

use super::CliError;
use super::global::personal_directory;
use crate::base::model::Secret;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serializer};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The maximum size of the file in bytes. A larger one was not written by this program.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The mode of the file.
const FILE_MODE: u32 = 0o600;
/// The mode of its directory, if this program creates it.
const DIRECTORY_MODE: u32 = 0o700;

/// The place of the file.
pub(super) struct PrivateFile {
    directory: PathBuf,
    name: &'static str,
    // The words for the content, for messages, such as `the logins`.
    content: &'static str,
}

impl PrivateFile {
    /// Returns the file of the user who runs this program.
    pub(super) fn of_this_user(name: &'static str, content: &'static str) -> Result<Self, CliError> {
        let directory = personal_directory().ok_or_else(|| {
            let what = content.trim_start_matches("the ");
            CliError::failed(format!(
                "there is no place for {what}: neither XDG_CONFIG_HOME nor HOME is set"
            ))
        })?;
        Ok(Self::within(directory, name, content))
    }

    /// Returns the file in a directory.
    pub(super) fn within(directory: PathBuf, name: &'static str, content: &'static str) -> Self {
        Self {
            directory,
            name,
            content,
        }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// Reads the file; `None` if there is none. A symbolic link and a file that others can read are refused.
    pub(super) fn read(&self) -> Result<Option<Zeroizing<String>>, CliError> {
        let failed = |error: std::io::Error| self.failed(&error);
        // `NONBLOCK`: opening a pipe must not wait for a writer.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(self.path())
        {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(self.unusable("it is a symbolic link; put the file itself there"));
            }
            Err(error) => return Err(failed(error)),
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(self.unusable("it is not a regular file"));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            let (content, path) = (self.content, self.path());
            let shown = path.display();
            return Err(CliError::failed(format!(
                "others can read or write {content} in {shown}; run `chmod 600 {shown}`, and log in again if somebody \
                 may have read it"
            )));
        }
        let mut text = Zeroizing::new(String::new());
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Ok(Some(text))
    }

    /// Replaces the text by that which `change` returns for it. What another process stores at the same time is kept.
    #[allow(
        clippy::disallowed_methods,
        reason = "the private files of a user belong to the shell"
    )]
    pub(super) fn update(
        &self,
        change: impl FnOnce(Option<&str>) -> Result<Zeroizing<String>, CliError>,
    ) -> Result<(), CliError> {
        let failed = |error: std::io::Error| self.failed(&error);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&self.directory)
            .map_err(failed)?;
        // The lock ends with this handle.
        let directory = File::open(&self.directory).map_err(failed)?;
        flock(&directory, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let before = self.read()?;
        let text = change(before.as_ref().map(|text| text.as_str()))?;
        let written = self.directory.join(format!("{}.new", self.name));
        replace(&written, &self.path(), text.as_bytes()).map_err(failed)?;
        directory.sync_all().map_err(failed)
    }

    /// Returns the error about a file with another content.
    pub(super) fn not_ours(&self) -> CliError {
        CliError::failed(format!(
            "{} was not written by this program; remove it, and log in again",
            self.path().display()
        ))
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        self.unusable(error)
    }

    fn unusable(&self, why: impl std::fmt::Display) -> CliError {
        let (content, path) = (self.content, self.path());
        CliError::failed(format!("{content} in {} cannot be used: {why}", path.display()))
    }
}

/// Replaces a file at once by one that only this user can read.
fn replace(temporary: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    match std::fs::remove_file(temporary) {
        // A process that was killed may have left it.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)
}

/// Writes a secret, for the content of such a file.
pub(super) fn exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// Reads a secret, from the content of such a file.
pub(super) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make files")]
    use super::PrivateFile;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use zeroize::Zeroizing;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn refused<T>(result: Result<T, crate::cli::CliError>) -> String {
        result.map(drop).unwrap_err().message
    }

    #[test]
    fn a_private_file_is_readable_by_its_user_only_and_replaced_at_once() {
        let home = tempfile::tempdir().unwrap();
        let file = PrivateFile::within(home.path().join("a/drydock"), "auth.toml", "the keys");
        assert!(file.read().unwrap().is_none());
        // A process that was killed has left the new text, which is not used.
        std::fs::create_dir_all(home.path().join("a/drydock")).unwrap();
        std::fs::write(home.path().join("a/drydock/auth.toml.new"), "half").unwrap();
        for (before, after) in [(None, "one"), (Some("one"), "two")] {
            let change = |text: Option<&str>| {
                assert_eq!(text, before);
                Ok(Zeroizing::new(after.to_owned()))
            };
            file.update(change).unwrap();
            assert_eq!(file.read().unwrap().unwrap().as_str(), after);
            assert_eq!(mode(&file.path()), 0o600);
        }
        let failed = file.update(|_| Err(crate::cli::CliError::failed("no")));
        assert_eq!(refused(failed), "no");
        assert_eq!(file.read().unwrap().unwrap().as_str(), "two");
        let names = std::fs::read_dir(home.path().join("a/drydock")).unwrap();
        assert_eq!(names.count(), 1);
        let other = PrivateFile::within(home.path().join("b/drydock"), "auth.toml", "the keys");
        other.update(|_| Ok(Zeroizing::new("one".to_owned()))).unwrap();
        assert_eq!(mode(&home.path().join("b/drydock")), 0o700);
    }

    #[test]
    fn a_private_file_that_others_can_read_or_that_is_a_link_is_neither_read_nor_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = PrivateFile::within(home.path().to_owned(), "auth.toml", "the keys");
        let target = home.path().join("target");
        std::fs::write(&target, "theirs").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&target, file.path()).unwrap();
        let update = || refused(file.update(|_| Ok(Zeroizing::new("ours".to_owned()))));
        for why in [refused(file.read()), update()] {
            assert!(
                why.ends_with("cannot be used: it is a symbolic link; put the file itself there"),
                "{why}"
            );
        }
        assert!(file.path().is_symlink());
        std::fs::remove_file(file.path()).unwrap();
        for shared in [0o640, 0o604, 0o620] {
            std::fs::write(file.path(), "mine").unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(shared)).unwrap();
            for why in [refused(file.read()), update()] {
                assert!(why.starts_with("others can read or write the keys in "), "{why}");
            }
            assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "mine");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "theirs");
    }
}
