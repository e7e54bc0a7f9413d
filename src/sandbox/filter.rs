//! The system calls that are left to an inmate: those of a calculation that reads one pipe, writes
//! another and ends. Everything else fails with "not permitted", whatever its arguments.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What a calculation needs, and why.
const ALLOWED: &[i64] = &[
    // The task and its answer; standard error for the reason of a crash.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads that exist wait for each other and end; none can be made.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    // A panic or a stack overflow ends the process by a signal to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Where a thread's stack ends.
    libc::SYS_sched_getaffinity,
    // Seeds of hash tables; a clock.
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
];

/// Why there is no filter.
#[derive(Debug)]
pub(super) struct NotInstalled;

/// Installs the filter on every thread of this process, for good.
pub(super) fn install() -> Result<(), NotInstalled> {
    let rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().map_err(|_| NotInstalled)?;
    let filter =
        SeccompFilter::new(rules, not_permitted, SeccompAction::Allow, arch).map_err(|_| NotInstalled)?;
    let program: BpfProgram = filter.try_into().map_err(|_| NotInstalled)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|_| NotInstalled)
}
