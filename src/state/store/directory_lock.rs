//! Ownership of a data directory: a lock on a file in it, which names the owning process.

use super::open::{OpenError, directory_error};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const LOCK: &str = "drydock.lock";
/// The time for which an ended process may leave its lock to child processes that were just starting.
const INHERITED_LOCK_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest time for which a check by another command may delay the owner.
const CHECKED_WAIT_MAX: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A starting child process briefly holds a copy of the file and its lock. Closing only this descriptor would
        // leave the directory locked for that time.
        let _ = self.0.unlock();
    }
}

impl DirectoryLock {
    /// Locks a directory that no running process owns. A command may be checking the lock at this moment, and if the owner
    /// was killed, a starting child process may still hold it; this waits for both.
    pub(super) fn take(directory: &Path) -> Result<Self, OpenError> {
        Self::take_waiting(directory, || std::thread::sleep(RETRY_INTERVAL))
    }

    fn take_waiting(directory: &Path, mut wait: impl FnMut()) -> Result<Self, OpenError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(LOCK))
            .map_err(|err| directory_error(directory, &err))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(err)) => return Err(directory_error(directory, &err)),
            }
            let holder = holder(&mut file);
            let has_ended = holder.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
            let wait_max = match has_ended {
                true => INHERITED_LOCK_WAIT_MAX,
                false => CHECKED_WAIT_MAX,
            };
            if began.elapsed() > wait_max {
                return Err(OpenError::Busy {
                    directory: directory.to_owned(),
                    holder: holder.map_or_else(
                        || "another process".to_owned(),
                        |pid| format!("process {}", pid.as_raw_nonzero()),
                    ),
                });
            }
            wait();
        }
        // The process id is for a process that finds the directory in use. The lock does not depend on it.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|err| directory_error(directory, &err))?;
        Ok(Self(file))
    }
}

/// Returns the process that owns a data directory now: 0 if it did not write its id, and `None` if no process owns the
/// directory.
pub fn directory_owner(directory: &Path) -> std::io::Result<Option<u32>> {
    let mut file = match OpenOptions::new().read(true).open(directory.join(LOCK)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| None),
        Err(TryLockError::WouldBlock) => {
            let holder = holder(&mut file).map_or(0, |pid| pid.as_raw_nonzero().get());
            Ok(Some(u32::try_from(holder).unwrap_or_default()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the process that last wrote its id.
fn holder(file: &mut File) -> Option<Pid> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(20).read_to_string(&mut text).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::{DirectoryLock, LOCK, directory_owner};
    use crate::state::store::Store;
    use crate::state::store::open::OpenError;
    use std::path::Path;

    #[test]
    fn a_second_owner_is_refused_with_the_id_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(directory_owner(directory.path()).unwrap(), None);
        let store = Store::open(directory.path()).unwrap();
        let owner = directory_owner(directory.path()).unwrap();
        assert_eq!(owner, Some(std::process::id()));
        let refused = Store::open(directory.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Busy { .. }));
        let text = refused.to_string();
        assert!(
            text.contains(&format!(
                "in use by process {}; stop that process",
                std::process::id()
            )),
            "{text}"
        );
        drop(store);
        assert_eq!(directory_owner(directory.path()).unwrap(), None);
        assert!(Store::open(directory.path()).is_ok());
    }

    /// A starting child process holds copies of all files until its program begins.
    #[test]
    fn a_directory_is_free_when_its_owner_lets_go_whatever_is_started_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(directory.path()).unwrap();
        let copied = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(Store::open(directory.path()).is_ok());
        drop(copied);
    }

    /// R3
    #[test]
    fn what_a_killed_owner_was_about_to_start_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let left = left_by_an_ended_process(directory.path());
        let mut waited = 0;
        let taken = DirectoryLock::take_waiting(directory.path(), || {
            waited += 1;
            left.unlock().unwrap();
        });
        assert!(taken.is_ok() && waited == 1);
    }

    /// A container restarts with the process ids that it had before.
    #[test]
    fn a_check_of_the_lock_delays_its_owner_and_no_more() {
        for recorded in [String::new(), format!("{}\n", std::process::id())] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(LOCK), recorded).unwrap();
            let check = std::fs::File::open(directory.path().join(LOCK)).unwrap();
            check.try_lock_shared().unwrap();
            let mut waited = 0;
            let taken = DirectoryLock::take_waiting(directory.path(), || {
                waited += 1;
                check.unlock().unwrap();
            });
            assert!(taken.is_ok() && waited == 1);
        }
    }

    fn left_by_an_ended_process(directory: &Path) -> std::fs::File {
        let file = std::fs::File::create(directory.join(LOCK)).unwrap();
        // Larger than any process id on Linux.
        std::fs::write(directory.join(LOCK), format!("{}\n", 1 << 30)).unwrap();
        file.try_lock().unwrap();
        file
    }
}
