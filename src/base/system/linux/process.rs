//! Properties of processes, and settings that a process applies to itself.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::path::PathBuf;

/// Returns the path of the running program, even if its file has been replaced.
pub(crate) fn this_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// Returns the bytes of memory a process uses now; `None` if it has ended.
#[allow(
    clippy::disallowed_methods,
    reason = "the system reports the size of a process in a file, and the process belongs to Drydock"
)]
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = size.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1_024))
}

/// Keeps other processes of this user from reading the memory and the environment of this one.
pub(crate) fn close_to_others() -> std::io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Disables huge pages for this process. The allocator requests them, and a gateway that mostly waits would keep whole
/// ones. A kernel without huge pages returns an error, which has the same effect.
pub(crate) fn without_large_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns the id of the current boot, if the system provides one.
#[allow(clippy::disallowed_methods, reason = "the system names its run in a file")]
pub(crate) fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}
