//! Properties of processes, and settings that a process applies to itself.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Returns the path of the running program, even if its file has been replaced.
pub(crate) fn this_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// Returns false if a process is certainly no supervisor of Drydock: it has ended, or it runs another program.
#[allow(
    clippy::disallowed_methods,
    reason = "the system names the program of a process in files"
)]
pub(crate) fn may_be_supervisor(process: u32) -> bool {
    let is_named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("drydock")
    };
    match std::fs::read_link(format!("/proc/{process}/exe")) {
        Ok(program) => is_named(&program) || std::env::current_exe().is_ok_and(|own| own == program),
        // Drydock closes its processes to others, so the system may hide the program. It shows the arguments.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).nth(1) == Some(b"supervise".as_slice())
        }
        Err(_) => !Path::new("/proc/self").exists(),
    }
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

#[cfg(test)]
mod tests {
    use super::may_be_supervisor;

    #[test]
    fn a_process_that_ended_is_no_supervisor() {
        assert!(may_be_supervisor(std::process::id()));
        // Larger than any process id on Linux.
        assert!(!may_be_supervisor(1 << 30));
    }
}
