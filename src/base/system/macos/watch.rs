//! Watches over processes, for what the system does not enforce: a process ends when its parent has ended, or when it
//! uses more memory than allowed.

use super::process::footprint_bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A watch over this process, on its own thread.
pub(super) struct Watch {
    memory_bytes_max: Arc<AtomicU64>,
}

impl Watch {
    /// Begins the watch. From now on the process ends with its parent: the end of the parent closes the pipe at
    /// standard input.
    pub(super) fn begin() -> std::io::Result<Self> {
        let memory_bytes_max = Arc::new(AtomicU64::new(u64::MAX));
        let bound = Arc::clone(&memory_bytes_max);
        let parent = getppid();
        std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                loop {
                    look(parent, &bound);
                }
            })?;
        Ok(Self { memory_bytes_max })
    }

    /// Limits the memory beyond what the process uses now.
    pub(super) fn bound_memory(&self, more_bytes_max: u64) -> std::io::Result<()> {
        let has = footprint_bytes(std::process::id()).ok_or(std::io::ErrorKind::Unsupported)?;
        self.memory_bytes_max
            .store(has.saturating_add(more_bytes_max), Ordering::Relaxed);
        Ok(())
    }
}

/// Waits for one interval or the end of the pipe, and ends the process if a limit is exceeded.
fn look(parent: Option<Pid>, memory_bytes_max: &AtomicU64) {
    let input = std::io::stdin();
    let mut pipes = [PollFd::new(&input, PollFlags::HUP)];
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()),
    };
    // If the wait fails, the loop must not spin.
    let woken = poll(&mut pipes, Some(&moment)).unwrap_or(1);
    let [pipe] = &pipes;
    let is_closed = pipe.revents().intersects(PollFlags::HUP | PollFlags::NVAL);
    if is_closed || getppid() != parent {
        end();
    }
    let bound = memory_bytes_max.load(Ordering::Relaxed);
    if footprint_bytes(std::process::id()).is_some_and(|has| has > bound) {
        // The text equals the allocator's message for the same case; the parent reads it.
        let _ = writeln!(
            std::io::stderr(),
            "memory allocation failed: the bound of {bound} bytes was reached"
        );
        std::process::abort();
    }
    if woken > 0 {
        // The pipe has input for another thread.
        std::thread::sleep(LOOK_EVERY);
    }
}

fn end() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Ends the parent of this process when the process that waits for it has ended, or when it uses too much memory.
/// Returns when the parent has ended.
pub(super) fn over_parent(process: Pid, waits_for_it: Option<Pid>, memory_bytes_max: u64) {
    let number = process.as_raw_nonzero().get().unsigned_abs();
    while getppid() == Some(process) {
        let is_forsaken = waits_for_it.is_none_or(|parent| parent_of(number) != Some(parent));
        if is_forsaken || footprint_bytes(number).is_some_and(|has| has > memory_bytes_max) {
            // The id is still valid: if the process had ended, this process would have another parent.
            let _gone = kill_process(process, Signal::KILL);
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[allow(unsafe_code, reason = "the call of the system has no safe form")]
fn parent_of(process: u32) -> Option<Pid> {
    let mut about = std::mem::MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let bytes = libc::c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let process = libc::c_int::try_from(process).ok()?;
    // SAFETY: the system writes at most as many bytes as the given size; all numbers are valid, zero included.
    let about = unsafe {
        let written = libc::proc_pidinfo(
            process,
            libc::PROC_PIDTBSDINFO,
            0,
            about.as_mut_ptr().cast(),
            bytes,
        );
        (written == bytes).then(|| about.assume_init())
    }?;
    Pid::from_raw(i32::try_from(about.pbi_ppid).ok()?)
}
