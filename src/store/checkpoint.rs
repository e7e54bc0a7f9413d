//! Moves what was committed from the log into the database, on a thread of its own: nobody's commit
//! waits for that.

use super::OpenError;
use rusqlite::Connection;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tracing::error;

/// Works the writer does before the log is looked at again.
pub(super) const WORKS_BETWEEN: usize = 128;

/// The thread, and how it is woken. Dropping it lets it finish.
pub(super) struct Checkpoints {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(connection: Connection) -> Result<Self, OpenError> {
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&connection, &woken))
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self {
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Has the log moved soon.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            // It was woken already.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the store's checkpoint thread panicked");
        }
    }
}

fn run(connection: &Connection, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        // It moves what it can without waiting for anybody; what it cannot stays in the log.
        let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(err) = moved {
            error!("the log could not be moved into the database: {err}");
        }
    }
}
