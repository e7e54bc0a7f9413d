//! The record of the last start of a data directory, beside its database: the number of that start, which the
//! database holds as well, and the run of the machine it was made in. A database that has a lower number is an older
//! one that was put in the place of the one that was used here.

use crate::system::boot;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "last-start";

/// A start of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastStart {
    /// The number of the start.
    pub(super) number: i64,
    /// The run of the machine, if the machine tells them apart.
    boot: Option<String>,
}

impl LastStart {
    /// The start of this number, now.
    pub(super) fn now(number: i64) -> Self {
        Self { number, boot: boot() }
    }

    /// The last one, if it is on record.
    pub(super) fn read(directory: &Path) -> std::io::Result<Option<Self>> {
        let text = match read(&path(directory)) {
            Ok(text) => text,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        };
        // A power failure may leave any of it: then it says nothing.
        let mut lines = text.lines();
        let number = lines.next().and_then(|line| line.parse().ok());
        let boot = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        Ok(number.map(|number| Self { number, boot }))
    }

    /// Puts it on record. Nothing is synced: what is lost by a power failure is not missed.
    pub(super) fn write(&self, directory: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path(directory))?;
        let boot = self.boot.as_deref().unwrap_or_default();
        writeln!(file, "{}\n{boot}", self.number)
    }

    /// Forgets which run of the machine the last start was in: nobody knows any more what the disk holds of it.
    pub(super) fn distrust(directory: &Path) -> std::io::Result<()> {
        match Self::read(directory)? {
            Some(last) => Self { boot: None, ..last }.write(directory),
            None => Ok(()),
        }
    }

    /// True if the machine has not started anew since: all that was written is there.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot.is_some() && self.boot == boot()
    }
}

/// Returns the path of the file that holds the record.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn read(file: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests look into their own files")]
mod tests {
    use super::{LastStart, path};

    #[test]
    fn what_a_start_leaves_is_read_and_what_a_power_failure_leaves_of_it_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let last = || LastStart::read(directory.path()).unwrap();
        assert_eq!(last(), None);
        LastStart::now(7).write(directory.path()).unwrap();
        assert_eq!(last(), Some(LastStart::now(7)));
        assert!(last().is_some_and(|last| last.is_of_this_boot()));
        LastStart::distrust(directory.path()).unwrap();
        assert!(last().is_some_and(|last| last.number == 7 && !last.is_of_this_boot()));
        std::fs::write(path(directory.path()), "7\nanother run\n").unwrap();
        assert!(last().is_some_and(|last| !last.is_of_this_boot()));
        for torn in ["", "\n", "x7\n", "\u{0}\u{0}"] {
            std::fs::write(path(directory.path()), torn).unwrap();
            assert_eq!(last(), None, "{torn:?}");
        }
        std::fs::write(path(directory.path()), "7").unwrap();
        assert!(last().is_some_and(|last| last.number == 7 && !last.is_of_this_boot()));
    }
}
