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
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    let kibibytes = status_number(process, "VmRSS:")?;
    Some(kibibytes.saturating_mul(1_024))
}

/// Returns the number of threads of a process; `None` if it has ended.
pub(crate) fn thread_count(process: u32) -> Option<u64> {
    status_number(process, "Threads:")
}

#[allow(
    clippy::disallowed_methods,
    reason = "the system reports the size of a process in a file, and the process belongs to Drydock"
)]
fn status_number(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix(name))?;
    number.split_ascii_whitespace().next()?.parse().ok()
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
    use super::{may_be_supervisor, resident_bytes, thread_count};

    #[test]
    fn a_process_that_ended_is_no_supervisor() {
        assert!(may_be_supervisor(std::process::id()));
        // Larger than any process id on Linux.
        assert!(!may_be_supervisor(1 << 30));
    }

    #[test]
    fn a_process_has_a_size_and_threads_until_it_has_ended() {
        let this = std::process::id();
        assert!(resident_bytes(this).is_some_and(|bytes| bytes > 0));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        assert!(thread_count(this).is_some_and(|count| count > 1));
        drop(release);
        assert!(other.join().is_ok());
        assert_eq!((resident_bytes(1 << 30), thread_count(1 << 30)), (None, None));
    }
}
