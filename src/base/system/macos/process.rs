//! Properties of processes, and settings that a process applies to itself.
#![allow(unsafe_code, reason = "these calls of the system have no safe form")]

use std::mem::MaybeUninit;
use std::path::PathBuf;

/// Returns the path of the running program. This system cannot start a file that has been replaced.
pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "drydock".into())
}

/// Returns true: this system does not tell without a further right.
pub(crate) fn may_be_supervisor(_process: u32) -> bool {
    true
}

/// Returns the bytes of memory a process uses now; `None` if it has ended.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    usage(process).map(|usage| usage.ri_resident_size)
}

/// Returns the number of threads of a process; `None` if it has ended.
pub(crate) fn thread_count(process: u32) -> Option<u64> {
    let process = libc::c_int::try_from(process).ok()?;
    let bytes = libc::c_int::try_from(size_of::<libc::proc_taskinfo>()).ok()?;
    let mut about = MaybeUninit::<libc::proc_taskinfo>::zeroed();
    // SAFETY: the system writes at most as many bytes as the given size; all numbers are valid, zero included.
    let about = unsafe {
        let written = libc::proc_pidinfo(
            process,
            libc::PROC_PIDTASKINFO,
            0,
            about.as_mut_ptr().cast(),
            bytes,
        );
        (written == bytes).then(|| about.assume_init())
    }?;
    u64::try_from(about.pti_threadnum).ok()
}

/// Returns the bytes of memory that would be free without the process.
pub(super) fn footprint_bytes(process: u32) -> Option<u64> {
    usage(process).map(|usage| usage.ri_phys_footprint)
}

fn usage(process: u32) -> Option<libc::rusage_info_v0> {
    let process = libc::c_int::try_from(process).ok()?;
    let mut usage = MaybeUninit::<libc::rusage_info_v0>::zeroed();
    // SAFETY: the system writes at most the size of this kind of answer, and there is room for it; all numbers are
    // valid, zero included.
    unsafe {
        let asked = libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V0, usage.as_mut_ptr().cast());
        (asked == 0).then(|| usage.assume_init())
    }
}

/// Keeps other processes of this user from reading the memory of this one: no debugger may attach.
pub(crate) fn close_to_others() -> std::io::Result<()> {
    // SAFETY: the request passes no memory.
    match unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, std::ptr::null_mut(), 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Does nothing: the system uses large pages only for processes that request them.
pub(crate) fn without_large_pages() {}

/// Returns the id of the current boot, if the system provides one.
pub(crate) fn boot() -> Option<String> {
    let mut name = [0_u8; 64];
    let mut bytes = name.len();
    // SAFETY: the system writes at most as many bytes as there is room for, and reports the count.
    let asked = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            name.as_mut_ptr().cast(),
            &raw mut bytes,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = std::str::from_utf8(name.get(..bytes)?)
        .ok()?
        .trim_end_matches('\0');
    (asked == 0 && !text.is_empty()).then(|| text.to_owned())
}
