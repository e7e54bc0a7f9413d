//! Questions about processes, and what a process does to itself.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::path::PathBuf;

/// The program that is running, even if its file was replaced since.
pub(crate) fn this_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// Bytes of memory a process uses now; `None` when it is gone.
#[allow(
    clippy::disallowed_methods,
    reason = "the system says how large a process is in a file, and the process is ours"
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

/// Turns large pages off, which the allocator asks for: a gateway that mostly waits would hold them whole. A kernel that has none refuses,
/// and that is as good.
pub(crate) fn without_large_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Names this run of the machine, if the system tells them apart.
#[allow(clippy::disallowed_methods, reason = "the system names its run in a file")]
pub(crate) fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}
