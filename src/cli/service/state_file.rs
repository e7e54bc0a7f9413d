//! The files of a supervisor in the data directory: the lock that it holds while it runs, and its state.

use super::supervisor::ServerEnd;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const LOCK: &str = "service.lock";
const STATE: &str = "service.json";
/// The file that becomes the state once it is complete.
const NEW_STATE: &str = "service.json.new";
const STATE_BYTES_MAX: u64 = 4_096;
/// The longest time for which a check of the lock by another command may delay its owner.
const CHECKED_WAIT_MAX: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The right to supervise the server of a data directory. It ends with the process.
#[derive(Debug)]
pub(super) struct SupervisorLock(#[allow(dead_code, reason = "the open file holds the lock")] File);

impl SupervisorLock {
    /// Takes the lock; returns `None` if another supervisor holds it.
    pub(super) fn take(data: &Path) -> std::io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options.open(data.join(LOCK))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self(file))),
                // A command may be checking the lock at this moment.
                Err(TryLockError::WouldBlock) if began.elapsed() < CHECKED_WAIT_MAX => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Returns true if a supervisor holds the lock now.
    pub(super) fn is_held(data: &Path) -> std::io::Result<bool> {
        let file = match OpenOptions::new().read(true).open(data.join(LOCK)) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The state of a supervisor. It is true only while the lock is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SupervisorState {
    /// The process id of the supervisor.
    pub(super) process: u32,
    /// The process id of the server; `None` between two starts.
    pub(super) server: Option<u32>,
    /// Number of starts of the server.
    pub(super) starts: u32,
    /// The last end of the server that nobody requested.
    pub(super) last_end: Option<ServerEnd>,
}

impl SupervisorState {
    pub(super) fn new(process: u32) -> Self {
        Self {
            process,
            server: None,
            starts: 0,
            last_end: None,
        }
    }

    /// Returns the state of the last supervisor of a data directory; `None` if there is none that can be read.
    pub(super) fn load(data: &Path) -> Option<Self> {
        let file = OpenOptions::new().read(true).open(data.join(STATE)).ok()?;
        let mut text = String::new();
        file.take(STATE_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Removes the state of an earlier supervisor. The lock must be held.
    pub(super) fn remove(data: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(data.join(STATE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Replaces the state of a data directory at once, so that no reader gets a part of it.
    pub(super) fn save(&self, data: &Path) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let new = data.join(NEW_STATE);
        let mut file = options.open(&new)?;
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        std::fs::rename(new, data.join(STATE))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{SupervisorLock, SupervisorState};

    /// STK-4
    #[test]
    fn one_supervisor_owns_a_data_directory_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let is_held = || SupervisorLock::is_held(directory.path()).unwrap();
        assert!(!is_held());
        let lock = SupervisorLock::take(directory.path()).unwrap().unwrap();
        assert!(is_held());
        assert!(SupervisorLock::take(directory.path()).unwrap().is_none());
        drop(lock);
        assert!(!is_held());
        assert!(SupervisorLock::take(directory.path()).unwrap().is_some());
    }

    #[test]
    fn the_state_of_a_supervisor_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(SupervisorState::load(directory.path()), None);
        let mut state = SupervisorState::new(7);
        state.save(directory.path()).unwrap();
        state.starts = 2;
        state.server = Some(8);
        state.save(directory.path()).unwrap();
        assert_eq!(SupervisorState::load(directory.path()), Some(state));
        SupervisorState::remove(directory.path()).unwrap();
        assert_eq!(SupervisorState::load(directory.path()), None);
        SupervisorState::remove(directory.path()).unwrap();
    }
}
