//! The filter of system calls for confined processes. All other calls fail with "not permitted", whatever their
//! arguments.
//!
//! A sandbox worker may make the calls of a calculation that reads one pipe, writes another and ends. An external
//! program may also open files, as far as Landlock permits, and create threads. It may create neither processes nor
//! sockets.
//!
//! Calls that can name another process are allowed for the process itself only: signals, limits, and the receiver of
//! file notifications. Landlock enforces this as well, but only since Linux 6.12.

use crate::base::system::older_calls::OLDER;
use seccompiler::SeccompCmpArgLen::{self, Dword, Qword};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
use std::collections::BTreeMap;

/// The system calls a calculation needs, with the reasons.
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
    // Existing threads wait for each other and end; no thread can be created.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    // A panic or a stack overflow ends the process with a signal to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The end of a thread's stack. For another process the call only reads its set of processors, and changes nothing.
    libc::SYS_sched_getaffinity,
    // Seeds of hash tables; a clock.
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
];

/// The additional system calls an external program needs.
const ALLOWED_TO_PROGRAM: &[i64] = &[
    // Executing the program. Landlock limits which programs.
    libc::SYS_execve,
    // Files. Landlock limits which files.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_umask,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    // Waiting for its own files and threads.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_getres,
    // Creating its own threads.
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    // Identity and environment of the process.
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// Allowed commands of `fcntl`: copying a descriptor, its flags, file locks. Other commands name a process that
/// receives a signal about a file.
const FILE_CONTROLS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];
/// The request of `ioctl` that checks if a file is a terminal. The constant in `libc` has a different type on each
/// system.
const TERMINAL_SETTINGS: u64 = 0x5401;
/// The flags of `clone` that create namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The error of a filter that was not installed.
#[derive(Debug)]
pub(super) struct FilterError;

/// Installs the filter of a sandbox worker on every thread of this process, permanently.
pub(super) fn install() -> Result<(), FilterError> {
    let mut rules: Rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_tgkill, to_itself()?);
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    apply(rules, not_permitted, SeccompAction::Allow)
}

/// Installs the filter of an external program.
pub(super) fn install_for_program() -> Result<(), FilterError> {
    let allowed = [ALLOWED, ALLOWED_TO_PROGRAM, OLDER].concat();
    let mut rules: Rules = allowed.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_tgkill, to_itself()?);
    // Zero also means the process itself.
    let bounds = [vec![is(0, 0)?], to_itself()?].concat();
    rules.insert(libc::SYS_prlimit64, bounds);
    let controls = FILE_CONTROLS.iter().map(|kind| is(1, kind.unsigned_abs()));
    rules.insert(libc::SYS_fcntl, controls.collect::<Result<_, _>>()?);
    // `clone` may create a thread but not a process; `ioctl` may only ask about a terminal.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let looked_at = thread | u64::from(NAMESPACES.unsigned_abs());
    let is_thread = where_argument(0, Qword, SeccompCmpOp::MaskedEq(looked_at), thread)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    let is_question = where_argument(1, Qword, SeccompCmpOp::Eq, TERMINAL_SETTINGS)?;
    rules.insert(libc::SYS_ioctl, vec![is_question]);
    // The filter cannot inspect the arguments of `clone3`. It fails as unknown, and programs fall back to `clone`.
    rules.insert(libc::SYS_clone3, Vec::new());
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let not_known = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    // If two filters apply, the stricter one decides. The second filter prevents a third.
    apply(
        Rules::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        not_known,
    )?;
    apply(rules, not_permitted, SeccompAction::Allow)
}

/// Returns the rule that the first argument is the id of this process. The id stays the same when the process executes
/// another program.
fn to_itself() -> Result<Vec<SeccompRule>, FilterError> {
    Ok(vec![is(0, std::process::id())?])
}

/// Returns the rule that a 32-bit argument has a value. The system ignores the upper half of such an argument.
fn is(argument: u8, value: u32) -> Result<SeccompRule, FilterError> {
    where_argument(argument, Dword, SeccompCmpOp::Eq, u64::from(value))
}

fn where_argument(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, FilterError> {
    let condition = SeccompCondition::new(argument, length, operator, value);
    SeccompRule::new(vec![condition.map_err(|_| FilterError)?]).map_err(|_| FilterError)
}

fn apply(rules: Rules, otherwise: SeccompAction, matching: SeccompAction) -> Result<(), FilterError> {
    let arch = std::env::consts::ARCH.try_into().map_err(|_| FilterError)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, arch).map_err(|_| FilterError)?;
    let program: BpfProgram = filter.try_into().map_err(|_| FilterError)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|_| FilterError)
}

#[cfg(test)]
mod tests;
