//! The peak memory of the sandbox workers, measured from outside.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A watch over the child processes of this process.
pub(crate) struct WorkerMemoryWatch {
    stop: Arc<AtomicBool>,
    largest_kib: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl WorkerMemoryWatch {
    pub(crate) fn start() -> Self {
        let (stop, largest_kib) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, largest) = (Arc::clone(&stop), Arc::clone(&largest_kib));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for child in children().into_iter().filter(|child| is_worker(*child)) {
                    // The high-water mark only grows, so sampling misses at most the growth just before the end of the
                    // process.
                    let kib = super::kib(&format!("/proc/{child}/status"), "VmHWM");
                    largest.fetch_max(kib, Ordering::Relaxed);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        });
        Self {
            stop,
            largest_kib,
            thread,
        }
    }

    /// Stops the watch. Returns the largest peak of all workers, in MiB.
    pub(crate) fn largest_mib(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.largest_kib.load(Ordering::Relaxed) as f64 / 1_024.0
    }
}

/// Returns true if a process runs the worker program. Before `exec`, its memory is still that of this process.
fn is_worker(child: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{child}/exe"));
    program.is_ok_and(|program| program == std::path::Path::new(env!("CARGO_BIN_EXE_drydock")))
}

fn children() -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    found
}
