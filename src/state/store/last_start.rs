//! The record of the last start of a data directory, stored beside its database. It holds the number of the start,
//! which the database holds too, and the boot of the machine. If the database has a lower number, an older database has
//! replaced the newer one.

use crate::base::system::boot;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "last-start";

/// A start in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastStart {
    pub(super) number: i64,
    /// The boot id of the machine, if it has one.
    boot: Option<String>,
}

impl LastStart {
    /// Returns a start with this number during the current boot.
    pub(super) fn now(number: i64) -> Self {
        Self { number, boot: boot() }
    }

    /// Reads the record of the last start, if there is one.
    pub(super) fn read(directory: &Path) -> std::io::Result<Option<Self>> {
        let text = match read(&path(directory)) {
            Ok(text) => text,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        };
        // A power failure may leave a partial file, which counts as no record.
        let mut lines = text.lines();
        let number = lines.next().and_then(|line| line.parse().ok());
        let boot = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        Ok(number.map(|number| Self { number, boot }))
    }

    /// Writes the record. It is not synced, because it is not needed after a power failure.
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

    /// Removes the boot from the record, because the content of the disk has become unknown.
    pub(super) fn distrust(directory: &Path) -> std::io::Result<()> {
        match Self::read(directory)? {
            Some(last) => Self { boot: None, ..last }.write(directory),
            None => Ok(()),
        }
    }

    /// True if the machine has not restarted since. Then all written data is available.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot.is_some() && self.boot == boot()
    }
}

/// Returns the path of the record.
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
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
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
